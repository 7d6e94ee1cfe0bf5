// Loaded into every process of Node's test runner: which lines each test executes, as V8 counts them. One JSON object a line goes
// to a file of this process in the folder that AUTOPATCH_COVERED names; the reporter reads it. The tests could write there too:
// lines only say where a fault is looked for first.
import { appendFileSync, readFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { relative } from 'node:path';
import { afterEach, beforeEach } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = process.cwd();
const OWN = 'file://' + root + '/';
const CLASS = new Set(['<instance_members_initializer>', '<static_initializer>']); // their range is the whole class
const starts = new Map();

// where each line that says anything begins, [line, offset]
function begun(url) {
  if (!starts.has(url)) {
    const found = [];
    let offset = 0;
    for (const [index, text] of readFileSync(fileURLToPath(url), 'utf8').split('\n').entries()) {
      if (/[\w$]/.test(text)) found.push([index + 1, offset + text.search(/\S/)]);
      offset += text.length + 1;
    }
    starts.set(url, found);
  }
  return starts.get(url);
}

function executed({ url, functions }) {
  const counts = new Map();
  for (const { functionName, ranges } of functions) {
    if (CLASS.has(functionName)) continue;
    for (const { startOffset, endOffset, count } of ranges) { // inner ones come later
      for (const [line, at] of begun(url)) if (at >= startOffset && at < endOffset) counts.set(line, count);
    }
  }
  return [...counts].filter(([, count]) => count > 0).map(([line]) => line);
}

if (process.env.NODE_TEST_CONTEXT) { // not in the runner itself
  const session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  const take = () => {
    let taken = [];
    session.post('Profiler.takePreciseCoverage', (error, said) => { taken = error ? [] : said.result; });
    return taken.filter(({ url }) => url.startsWith(OWN) && !url.includes('/node_modules/'));
  };
  const file = relative(root, process.argv[1]);
  beforeEach(take);
  afterEach(({ name }) => {
    const lines = {};
    for (const script of take()) {
      const ran = executed(script);
      if (ran.length) lines[relative(root, fileURLToPath(script.url))] = ran;
    }
    appendFileSync(process.env.AUTOPATCH_COVERED + '/' + process.pid, JSON.stringify({ file, name, lines }) + '\n');
  });
}
