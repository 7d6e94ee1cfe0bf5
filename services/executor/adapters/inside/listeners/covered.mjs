// Loaded into every process of Node's test runner: which lines each test executes, as V8 counts them. One JSON object a line goes
// to a file of this process in the folder that AUTOPATCH_COVERED names; the reporter reads it. The tests could write there too:
// lines only say where a fault is looked for first. Nothing here may fail a test, whatever the test does to Node's own modules.
import { appendFileSync, readFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const append = appendFileSync;
const read = readFileSync;
const folder = process.env.AUTOPATCH_COVERED;
const root = process.cwd();
const own = 'file://' + root + '/';
const CLASS = new Set(['<instance_members_initializer>', '<static_initializer>']); // their range is the whole class
const texts = new Map();

function text(url) {
  if (!texts.has(url)) texts.set(url, read(fileURLToPath(url), 'utf8'));
  return texts.get(url);
}

// a line has run when any of its words has: of a function in one line the first word is the module's, of `} else if` the last branch's
function executed({ url, functions }) {
  const source = text(url);
  const counts = new Uint8Array(source.length);
  for (const { functionName, ranges } of functions) {
    if (CLASS.has(functionName)) continue;
    for (const { startOffset, endOffset, count } of ranges) counts.fill(count > 0 ? 1 : 0, startOffset, endOffset); // inner ones come later
  }
  const lines = new Set();
  let line = 1;
  for (let at = 0; at < source.length; at += 1) {
    if (source[at] === '\n') line += 1;
    else if (counts[at] && /[\w$]/.test(source[at])) lines.add(line);
  }
  return lines;
}

if (folder && process.env.NODE_TEST_CONTEXT) { // not in the runner itself
  delete process.env.AUTOPATCH_COVERED; // nor in what a test starts
  const { afterEach, beforeEach } = await import('node:test');
  const session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  const file = relative(root, process.argv[1]);
  const open = []; // a test, and in it the one that it began
  const take = () => {
    let taken = [];
    session.post('Profiler.takePreciseCoverage', (error, said) => { taken = error ? [] : said.result; });
    const ran = taken.filter(({ url, functions }) => url.startsWith(own) && !url.includes('/node_modules/')
      && functions.some(({ ranges }) => ranges.some(({ count }) => count > 0)));
    for (const script of open.length ? ran : []) {
      try {
        const path = relative(root, fileURLToPath(script.url));
        for (const line of executed(script)) for (const test of open) (test.lines[path] ||= new Set()).add(line);
      } catch { /* it is on no disk, or no longer */ }
    }
  };
  beforeEach((test) => {
    take();
    open.push({ name: String(test?.name), lines: {} });
  });
  afterEach((test) => {
    take();
    const at = open.findLastIndex(({ name }) => name === String(test?.name));
    for (const { name, lines } of at < 0 ? [] : open.splice(at, 1)) {
      const told = Object.fromEntries(Object.entries(lines).map(([path, ran]) => [path, [...ran]]));
      try {
        append(folder + '/' + process.pid, JSON.stringify({ file, name, lines: told }) + '\n');
      } catch { /* the folder is gone */ }
    }
  });
}
