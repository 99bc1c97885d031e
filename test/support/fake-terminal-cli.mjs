// A stand-in for Gemini CLI 0.61.0 with its screen, for a terminal of Emacs.
//
//   node fake-terminal-cli.mjs LOG
//
// Connects to the companion that the environment names.  The prompt "write a.txt b.txt" begins a turn that
// proposes a change of each of these files, one after the other, and writes what is accepted.  A line that is sent to
// the socket LOG.socket is submitted like a prompt that was typed.  All of this is done in the order of the CLI's own code (`IdeClient', `resolveConfirmation'), with its gaps:
//
// - the next openDiff is sent when the one before has an outcome, even if nobody waits for that any more;
// - ^C ends the turn, but closes no diff;
// - the question is on screen even if openDiff cannot be sent yet, and an answer there waits for its outcome.
//
// Otherwise the question comes when openDiff was answered: nobody reads it faster.
//
// Each line of LOG is an object with an "event":
//
//   ready                          the companion has answered
//   key KEY                        a key was read, or a character
//   turn NUMBER                    a turn has begun
//   asks TAG PATH                  the question is on screen
//   sent TAG                       openDiff was sent
//   outcome TAG WHAT               of openDiff: "accepted" or "rejected"
//   written TAG PATH TEXT          the file was written
//   unclosed PATH TEXT             closeDiff has failed
//   given-up TAG                   nobody waits for its outcome any more
//   end NUMBER HOW TIME            a turn has ended: "done", "no" or "^C"
//   state FREE WAITS HOLDS         what holds now: no turn runs; the tags that are asked about, and whose openDiff
//                                  has no outcome
//   fault TEXT                     the companion did something unexpected
//
// TAG is the first line of the proposed text.

import { appendFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { resolve as resolvePath } from 'node:path';
import { createInterface } from 'node:readline';

const log = process.argv[2];
const url = `http://127.0.0.1:${process.env.GEMINI_CLI_IDE_SERVER_PORT}/mcp`;
const say = (event, more) => appendFileSync(log, JSON.stringify({ event, ...more }) + '\n');
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

//// The companion

let session;
let last = 0;

const headers = (accept) => ({
  Authorization: `Bearer ${process.env.GEMINI_CLI_IDE_AUTH_TOKEN}`,
  Accept: accept,
  ...(session && { 'mcp-session-id': session, 'mcp-protocol-version': '2025-06-18' }),
});

async function* messages(response) {
  if (/^application\/json/.test(response.headers.get('content-type'))) {
    yield await response.json();
    return;
  }
  let pending = '';
  for await (const bytes of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (pending + bytes).split(/\r?\n/);
    pending = lines.pop();
    for (const line of lines) if (/^data: *\S/.test(line)) yield JSON.parse(line.slice(5));
  }
}

async function post(message) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...headers('application/json, text/event-stream'), 'Content-Type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  });
  session ??= response.headers.get('mcp-session-id');
  if (!message.method || message.id === undefined) return response.text();
  for await (const answer of messages(response)) {
    if (answer.id === message.id) {
      if (answer.error) throw new Error(answer.error.message);
      return answer.result;
    }
  }
  throw new Error(`no answer to ${message.method}`);
}

const call = (name, args) =>
  post({ id: ++last, method: 'tools/call', params: { name, arguments: args } });

async function listen() {
  const response = await fetch(url, { headers: headers('text/event-stream') });
  for await (const { id, method, params } of messages(response)) {
    if (method === 'ping') post({ id, result: {} });
    const resolve = /^ide\/diff/.test(method) && resolvers.get(params.filePath);
    if (resolve) {
      resolvers.delete(params.filePath);
      resolve({
        status: method === 'ide/diffAccepted' ? 'accepted' : 'rejected',
        content: params.content,
      });
    }
  }
}

// As in `IdeClient'.
const resolvers = new Map();
let mutex = Promise.resolve();
let holder;

function openDiff(change) {
  const before = mutex;
  let release;
  mutex = new Promise((done) => { release = done; });
  let opened;
  change.opened = new Promise((done) => { opened = done; });
  const outcome = before.then(() => new Promise((resolve, reject) => {
    holder = change.tag;
    say('sent', { tag: change.tag });
    resolvers.set(change.path, resolve);
    call('openDiff', { filePath: change.path, newContent: change.text }).then((result) => {
      if (result.isError) reject(new Error(result.content[0].text));
    }).catch(reject).finally(opened);
    show();
  }));
  outcome.then(({ status }) => say('outcome', { tag: change.tag, what: status }),
               (error) => say('fault', { text: `openDiff: ${error.message}` })).finally(() => {
    holder = undefined;
    release();
  });
  return outcome;
}

async function resolveDiff(path, status) {
  const resolve = resolvers.get(path);
  const result = await call('closeDiff', { filePath: path, suppressNotification: true });
  if (result.isError) say('unclosed', { path, text: result.content[0].text });
  const content = result.isError ? undefined : JSON.parse(result.content[0].text).content ?? undefined;
  if (resolve) {
    resolve({ status, content });
    resolvers.delete(path);
  }
}

//// Turns

let turn; // that runs
let turns = 0;

async function run(names) {
  const mine = turn = { number: ++turns, asks: undefined, queued: [] };
  const aborted = new Promise((done) => { mine.abort = () => { mine.over = true; done('aborted'); }; });
  say('turn', { number: mine.number });
  show();
  await Promise.race([pause(100), aborted]);
  const changes = names.map((name, n) => {
    const tag = `cli${mine.number}-${n + 1}`;
    const lines = Array.from({ length: 19 }, (_, k) => `line ${k + 2}${k % 4 === n % 4 ? ' changed' : ''}`);
    return { tag, name, path: resolvePath(name), text: [tag, ...lines, ''].join('\n') };
  });
  for (const [n, change] of changes.entries()) {
    if (mine.over) return;
    mine.queued = changes.slice(n + 1);
    const answered = new Promise((done) => { mine.answer = done; });
    const ide = openDiff(change);
    ide.catch(() => {});
    await Promise.race([change.opened, pause(300), aborted]);
    if (holder === change.tag) await Promise.race([change.opened, aborted]);
    if (mine.over) return;
    mine.asks = change;
    say('asks', { tag: change.tag, path: change.path });
    show();
    const answer = await Promise.race([answered, ide.then(({ status }) => status), aborted]);
    const outcome = answer === 'aborted' ? answer : await Promise.race([ide, aborted]);
    if (outcome === 'aborted') return;
    mine.asks = undefined;
    if (answer !== 'accepted') return finish(mine, 'no', '  ℹ Request cancelled.');
    const text = outcome.content || change.text;
    writeFileSync(change.path, text);
    say('written', { tag: change.tag, path: change.path, text });
    show(`  ✓  WriteFile  ${change.name} → Accepted`);
    await Promise.race([pause(30), aborted]);
  }
  if (!mine.over) finish(mine, 'done', '✦ Done');
}

function finish(mine, how, line) {
  say('end', { number: mine.number, how, time: Date.now() });
  mine.over = true;
  turn = undefined;
  show(line);
}

function abort() {
  const mine = turn;
  if (mine.asks) say('given-up', { tag: mine.asks.tag });
  mine.abort();
  finish(mine, '^C', mine.asks && `  -  WriteFile  ${mine.asks.name} → Rejected`);
}

//// The screen

let typed = '';
let hint = false; // whether to say that another ^C would end the CLI
let height = 0; // of what is below the lines that stay

function box(lines) {
  const width = process.stdout.columns - 3;
  const fit = (line) => line.slice(0, width - 4).padEnd(width - 4);
  return [`╭${'─'.repeat(width - 2)}╮`, ...lines.map((line) => `│ ${fit(line)} │`), `╰${'─'.repeat(width - 2)}╯`, ''];
}

function question({ asks, queued }) {
  const left = queued.length + 1;
  const width = process.stdout.columns - 7;
  const title = `? WriteFile  Writing to ${asks.name}`;
  return [
    ...queued.map(({ name }) => `  o  WriteFile  Writing to ${name}`),
    ...box([
      left > 1 ? title.padEnd(width - 6) + `1 of ${left}` : title,
      'Apply this change?', '',
      '● 1. Allow once', '  2. Allow for this session', '  3. No, suggest changes (esc)',
    ]),
  ];
}

function composer() {
  const line = '─'.repeat(process.stdout.columns - 1);
  return [
    ...(turn ? [' ⠏ Thinking... (esc to cancel, 1s)'] : hint ? ['Press Ctrl+C again to exit.'] : []),
    line, ` > ${typed || '  Type your message or @path/to/file'}`, line, ' workspace (/directory)',
  ];
}

// Draw the screen, with LINE above it, and log the state.
function show(line) {
  const below = turn?.asks ? question(turn) : composer();
  const up = height > 1 ? `\x1b[${height - 1}A` : '';
  height = below.length;
  const lines = [...(line ? [line] : []), ...below];
  process.stdout.write(`${up}\r\x1b[J${lines.join('\r\n')}`);
  const state = { free: !turn, waits: turn?.asks?.tag ?? null, holds: holder ?? null };
  if (JSON.stringify(state) !== show.last) say('state', state);
  show.last = JSON.stringify(state);
}

process.stdout.on('resize', () => {
  height = 0;
  process.stdout.write('\x1b[2J\x1b[H');
  show();
});

//// Keys

async function answer(status) {
  const { asks, answer: done } = turn;
  try {
    await resolveDiff(asks.path, status);
  } catch (error) {
    say('fault', { text: `closeDiff: ${error.message}` });
  }
  done(status);
}

function submit() {
  const [verb, ...names] = typed.trim().split(/\s+/);
  const line = `> ${typed}`;
  typed = '';
  show(line);
  if (verb === 'write' && names.length > 0) run(names);
}

function press(key) {
  say('key', { key });
  if (key === '^C') {
    if (turn) abort();
    hint = true;
    typed = '';
  } else if (turn?.asks) {
    if (key === 'Enter') answer('accepted');
    if (key === 'Escape') answer('rejected');
    return;
  } else {
    hint = false;
    if (key === 'Enter' && !turn) submit();
    else if (key === 'Escape' && turn) finish(turn, 'no', '  ℹ Request cancelled.');
    else if (key === '^U') typed = '';
    else if (key.length === 1) typed += key;
  }
  show();
}

const names = { '\x03': '^C', '\r': 'Enter', '\x1b': 'Escape', '\x1b\x1b': 'Escape', '\x15': '^U' };

process.stdin.setRawMode(true);
process.stdin.setEncoding('utf8');
process.stdin.on('data', (data) => {
  for (const key of data.match(/\x1b\[[0-9;?]*[~A-Za-z]|\x1b\x1b|\x1b[^\x1b]|[^]/gu)) {
    if (names[key] || /^[ -~]$/.test(key)) press(names[key] ?? key);
  }
});
process.on('SIGINT', () => press('^C'));

createServer((socket) => createInterface({ input: socket }).on('line', (line) => {
  if (turn) return;
  typed = line;
  submit();
})).listen(`${log}.socket`);

process.stdout.write('\x1b[?2004h');
await post({
  id: ++last,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'streamable-http-client', version: '0.61.0' } },
});
await post({ method: 'notifications/initialized' });
listen().catch((error) => say('fault', { text: `the event stream: ${error.message}` }));
await post({ id: ++last, method: 'tools/list', params: {} });
say('ready');
show();
