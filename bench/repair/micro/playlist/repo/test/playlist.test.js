import assert from "node:assert/strict";
import test from "node:test";

import { clock, Playlist } from "../src/playlist.js";

const list = () =>
  new Playlist([
    { id: "a", title: "Dawn", seconds: 200, plays: 9 },
    { id: "b", title: "Noon", seconds: 180, plays: 12 },
    { id: "c", title: "Dusk", seconds: 65, plays: 3 },
  ]);

test("tracks are kept in order", () => {
  assert.deepEqual(list().ids, ["a", "b", "c"]);
});

test("an id is taken once", () => {
  assert.throws(() => list().add({ id: "a", seconds: 1 }), /there already/);
});

test("a removed track is gone", () => {
  const one = list();
  assert.equal(one.remove("b"), true);
  assert.equal(one.remove("b"), false);
  assert.deepEqual(one.ids, ["a", "c"]);
});

test("the most played track comes first", () => {
  assert.deepEqual(list().top(2), ["b", "a"]);
});

test("a play can change who is first", () => {
  const one = list();
  for (let n = 0; n < 4; n += 1) one.played("a");
  assert.deepEqual(one.top(1), ["a"]);
});

test("lengths add up", () => {
  assert.equal(list().seconds, 445);
});

test("a length is told as on a clock", () => {
  assert.equal(clock(65), "1:05");
  assert.equal(clock(3725), "1:02:05");
});
