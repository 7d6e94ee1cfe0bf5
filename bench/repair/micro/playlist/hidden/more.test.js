import assert from "node:assert/strict";
import test from "node:test";

import { Playlist } from "../src/playlist.js";

const many = (plays) => new Playlist(plays.map((n, at) => ({ id: at, seconds: 1, plays: n })));

test("all tracks can be ranked", () => {
  assert.deepEqual(many([5, 100, 20, 9]).top(4), [1, 2, 3, 0]);
});

test("equal ones stay in the order of the list", () => {
  assert.deepEqual(many([2, 7, 2, 7]).top(4), [1, 3, 0, 2]);
});

test("ranking leaves the list as it is", () => {
  const one = many([1, 2, 3]);
  one.top();
  assert.deepEqual(one.ids, [0, 1, 2]);
});

test("a short list is ranked whole", () => {
  assert.deepEqual(many([1]).top(), [0]);
  assert.deepEqual(many([]).top(), []);
});
