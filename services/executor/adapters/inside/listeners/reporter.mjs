// Node's test events, one JSON object a line, each with the token that standard input gave: test files run in other processes
// and do not know it.
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';

const token = readFileSync(0, 'utf8');
const root = process.cwd();
const MOST = 64 * 1024 * 1024; // bytes that are read of one process
const TOLD = 8 * 1024 * 1024; // bytes of lines that are told
const STACK = /at (?:(.+?) \()?(?:file:\/\/)?([^()\s][^()]*?):(\d+):\d+\)?$/;

function frames(stack) {
  const found = [];
  for (const line of String(stack || '').split('\n')) {
    const match = STACK.exec(line.trim());
    if (match && match[2].startsWith(root + '/')) {
      found.push({ path: relative(root, match[2]), line: Number(match[3]), function: match[1] || '' });
    }
  }
  return found.reverse();
}

function shown(value) {
  return typeof value === 'string' ? JSON.stringify(value) : inspect(value, { breakLength: Infinity });
}

// of a test in an ES module it is a URL
function path(file) {
  return relative(root, file.startsWith('file:') ? fileURLToPath(file) : file);
}

function told(kind, data, names) {
  const file = data.file ? path(data.file) : '';
  const error = data.details && data.details.error;
  const cause = (error && error.cause) || error;
  const whole = data.name === data.file || path(data.name) === file || data.name === file;
  if (whole && (kind === 'pass' || (error && error.failureType === 'subtestsFailed'))) return null;
  if (data.details && data.details.type === 'suite' && !(error && error.failureType !== 'subtestsFailed')) return null;
  const skipped = data.skip !== undefined || (data.todo !== undefined && kind === 'fail');
  const said = {
    id: whole ? file || String(data.name) : [file, ...names].filter(Boolean).join(' > '),
    outcome: skipped ? 'skipped' : kind === 'pass' ? 'passed' : whole ? 'error' : 'failed',
    seconds: ((data.details && data.details.duration_ms) || 0) / 1000,
  };
  if (error) {
    said.message = String((cause && cause.message) || cause);
    if (cause && typeof cause === 'object') {
      said.frames = frames(cause.stack);
      if ('expected' in cause && 'actual' in cause) Object.assign(said, { expected: shown(cause.expected), actual: shown(cause.actual) });
    }
  }
  return said;
}

function tried(work, otherwise) {
  try {
    return work();
  } catch {
    return otherwise;
  }
}

// what the tests' processes wrote; what a test did to it tells nothing
function* written() {
  const folder = process.env.AUTOPATCH_COVERED;
  for (const entry of folder ? tried(() => readdirSync(folder), []) : []) {
    const path = join(folder, entry);
    const text = tried(() => (statSync(path).size > MOST ? '' : readFileSync(path, 'utf8')), '');
    for (const line of text.split('\n')) yield tried(() => JSON.parse(line), null) || {};
  }
}

// lines by the ids of the tests that were told, those that failed first: of two in a file that have one name each gets the lines of both
function* covered(ids, failed) {
  const found = new Map();
  for (const { file, name, lines } of written()) {
    for (const id of ids.get(file + ' > ' + name) || []) {
      if (!found.has(id)) found.set(id, {});
      for (const [path, ran] of Object.entries(lines || {})) {
        const all = new Set([...(found.get(id)[path] || []), ...[ran].flat().filter(Number.isInteger)]);
        found.get(id)[path] = [...all].sort((one, other) => one - other);
      }
    }
  }
  let room = TOLD;
  for (const [test, lines] of [...found].sort(([one], [other]) => failed.has(other) - failed.has(one))) {
    const said = JSON.stringify({ covered: { test, lines } });
    room -= said.length;
    if (room > 0) yield said;
  }
}

export default async function* reporter(source) {
  const above = new Map();
  const ids = new Map();
  const failed = new Set();
  for await (const { type, data } of source) {
    const key = data.file || '';
    if (!above.has(key)) above.set(key, []);
    const names = above.get(key);
    if (type === 'test:start') {
      names.length = data.nesting;
      names[data.nesting] = data.name;
    }
    if (type === 'test:pass' || type === 'test:fail') {
      const said = told(type.slice(5), data, [...names.slice(0, data.nesting), data.name]);
      if (!said) continue;
      const short = (data.file ? path(data.file) : '') + ' > ' + data.name;
      ids.set(short, [...(ids.get(short) || []), said.id]);
      if (said.outcome !== 'passed') failed.add(said.id);
      yield token + ' ' + JSON.stringify(said) + '\n';
    }
  }
  for (const said of covered(ids, failed)) yield token + ' ' + said + '\n';
}
