// Lets a CLI on another machine use Emacs.
//
//   node relay.mjs CONFIG      is an MCP server on stdin and stdout
//
// gemini-companion, a package for Emacs, has written this file and CONFIG, and has announced them to
// the CLI, which starts this program.  It passes messages on to the MCP server in Emacs, by HTTP over
// the socket of the keeper, and hides from the CLI that this connection breaks: messages wait, the
// session is taken up again, or begun anew with the diffs that are still open.  CONFIG is an object:
//
//   socket   where the keeper is
//   roots    the directories that are open in Emacs
//
// It is written again, or removed, when the connection or Emacs has changed.
//
// Emacs does not ask this machine for files.  This program tells it what each file that has a diff
// contains, when the file is written, and what the ignore files say.
//
// Nothing but JSON-RPC is written, since a CLI shows what its servers say to stderr.

import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { open, readFile, stat } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';

// In bytes.  Emacs takes messages of 64 MB; what it sends may have more, since JSON is longer than text.
const MAX_MESSAGE = 64 << 20;
const MAX_LINE = 128 << 20;
const MAX_WAITING = 192 << 20;
const MAX_RULES = 32 << 10;
const MAX_CONFIG = 1 << 20;
const MAX_CALLS = 64;
// How often a message is sent that takes too long.
const MAX_SLOW = 3;
const MAX_DIRECTORIES = 64;

// In milliseconds.  The CLI makes its user wait until the session begins or a diff is closed, and
// takes a diff for failed if that was not opened in ten minutes.
const HELLO_PATIENCE = 5000;
const DIFF_PATIENCE = 3000;
// The outcome of a diff that Emacs does not have any more is on its way, by the stream.
const OUTCOME_PATIENCE = 2000;
const CONTEXT_PATIENCE = 5000;
const READ_PATIENCE = 10000;
const LAST_WORDS = 1000;
const PARENT_PATIENCE = 1000;
const FIRST_PAUSE = 200;
const LAST_PAUSE = 5000;
const MAX_PAUSE = 60000;
// Emacs says something every 15 s, and closes connections that are idle for 30 s.
const MAX_SILENCE = 40000;
const MAX_IDLE = 20000;
const POLL_FILES = 200;
const POLL_RULES = 1000;
// Emacs has room for only so many ignore files, and may have forgotten some that it needs again.
const TELL_RULES_AGAIN = 300000;
// The CLI writes a file soon after the decision; some first want all changes of a turn decided.
const WATCH_AFTER = 10000;

// Where the CLI works.
const here = workingDirectory();

function workingDirectory() {
  try {
    return process.cwd();
  } catch {
    return '/'; // it has been removed
  }
}

// A pause that can be cut short.
class Rest {
  for(time) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, time);
      this.end = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  end() {}
}

// The value of PROMISE, or undefined after TIME.
function within(time, promise) {
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(resolve, time); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// ---- Streams

// The lines of STREAM, as text; undefined for one that is too long, whose end TAIL is called with.
async function* lines(stream, tail = () => {}) {
  let parts = [];
  let size = 0;
  for await (const chunk of stream) {
    let start = 0;
    for (let end; (end = chunk.indexOf(10, start)) >= 0; start = end + 1) {
      size += end - start;
      parts.push(chunk.subarray(start, end));
      if (size > MAX_LINE) tail(Buffer.concat(parts).toString());
      yield size > MAX_LINE ? undefined : Buffer.concat(parts).toString();
      parts = [];
      size = 0;
    }
    size += chunk.length - start;
    // Of one that is too long only the end is kept.
    if (size > MAX_LINE) parts = parts.slice(-1);
    parts.push(chunk.subarray(start));
  }
}

// The server-sent events of STREAM.
async function* events(stream) {
  let id;
  let data = [];
  for await (const line of lines(stream)) {
    if (line === undefined) continue;
    const text = line.endsWith('\r') ? line.slice(0, -1) : line;
    if (text === '') {
      if (data.length) yield { id, message: parse(data.join('\n')) };
      data = [];
    } else if (text.startsWith('data:')) {
      data.push(text.slice(5));
    } else if (text.startsWith('id:')) {
      id = text.slice(3).trim();
    }
  }
}

const isEventStream = ({ headers }) =>
  Boolean(headers['content-type']?.startsWith('text/event-stream'));

async function textOf(stream) {
  const chunks = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > MAX_LINE) throw new Error('far too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

// ---- Files

const missing = (error) => ['ENOENT', 'ENOTDIR'].includes(error.code);

// What changes with each write of FILE; null without such a file.
async function stampOf(file) {
  try {
    const found = await stat(file, { bigint: true });
    return {
      text: `${found.mtimeNs} ${found.size} ${found.ino}`,
      modified: Number(found.mtimeNs / 1000000000n),
      size: Number(found.size),
      isRegular: found.isFile(),
    };
  } catch (error) {
    if (missing(error)) return null;
    throw error;
  }
}

// The bytes of FILE.  Nothing else than a regular file is opened: that could wait, or do something.
async function bytesOf(file, limit) {
  const found = await stat(file);
  if (!found.isFile()) throw new Error('it is not a regular file');
  // It may have become a pipe, which would wait for its other end.
  const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const opened = await handle.stat();
    if (!opened.isFile()) throw new Error('it is not a regular file');
    if (opened.size > limit) throw new Error('it is too large');
    return await handle.readFile();
  } finally {
    await handle.close().catch(() => {});
  }
}

// The text of BYTES, or undefined if they are not UTF-8.
function utf8(bytes) {
  const text = bytes.toString();
  return Buffer.from(text).equals(bytes) ? text : undefined;
}

function unreadable(reason, stamp) {
  return {
    current: { unreadable: reason },
    stamp: stamp?.text ?? null,
    modified: stamp?.modified ?? null,
  };
}

const TOO_LARGE = { unreadable: 'it is too large' };

// What FILE contains, as Emacs is told it.
async function snapshot(file) {
  const taken = await within(READ_PATIENCE, snapshotNow(file).catch(
    (error) => unreadable(error.code ?? error.message)));
  return taken ?? unreadable('it cannot be read in time');
}

async function snapshotNow(file) {
  let stamp = await stampOf(file);
  for (let tries = 0; tries < 5; tries++) {
    if (!stamp) return { current: null, stamp: null, modified: null };
    const bytes = await bytesOf(file, MAX_MESSAGE).catch((error) => error);
    const after = await stampOf(file);
    if (after?.text === stamp.text) return described(bytes, stamp);
    stamp = after;
  }
  return unreadable('it is being written', stamp);
}

function described(bytes, stamp) {
  if (bytes instanceof Error) return unreadable(bytes.code ?? bytes.message, stamp);
  const text = utf8(bytes);
  const current = text === undefined ? { base64: bytes.toString('base64') } : { text };
  return { current, stamp: stamp.text, modified: stamp.modified };
}

// ---- The process of the CLI

// Whose user sits in another program, as in an editor, and decides there.
const ACP = ['--acp', '--experimental-acp'];
const SHELL = /^-?(ba|da|a|k|mk|z|fi)?sh$/;

// The id of the CLI that has started this program, and its arguments, as far as they are known.
async function findCli() {
  const found = await within(PARENT_PATIENCE, findCliNow().catch(() => undefined));
  return found ?? { id: process.ppid, args: [] };
}

async function findCliNow() {
  const { args, parent } = await processWith(process.ppid);
  const isShell = SHELL.test(path.basename(args[0] ?? ''));
  return isShell ? { ...await processWith(parent), id: parent } : { args, id: process.ppid };
}

// The arguments of the process ID, and the id of its parent.
async function processWith(id) {
  if (process.platform !== 'linux') return processByPs(id);
  const [args, status] = await Promise.all(
    ['cmdline', 'status'].map((it) => readFile(`/proc/${id}/${it}`, 'utf8')));
  return { parent: Number(/^PPid:\s*(\d+)/m.exec(status)[1]), args: args.split('\0') };
}

async function processByPs(id) {
  const { stdout } = await promisify(execFile)(
    'ps', ['-o', 'ppid=', '-o', 'args=', '-p', String(id)], { timeout: PARENT_PATIENCE });
  const [parent, ...args] = stdout.trim().split(/\s+/);
  return { parent: Number(parent), args };
}

// ---- Emacs

// The session has ended.
class Gone extends Error {}

class Refused extends Error {
  constructor(response, text = '') {
    super(parse(text)?.error?.message ?? `Emacs answered with HTTP status ${response.statusCode}`);
    this.wait = 1000 * Number(response.headers['retry-after']) || 0;
  }
}

// The connection to Emacs.  USER is told of what happens:
//   greeted(ANSWER)    a session has begun
//   connected(IS-NEW)  messages can be sent, perhaps in a new session
//   hear(MESSAGE)      Emacs has said this
//   disconnected()     no messages can be sent any more
class Link {
  constructor(file, user) {
    this.file = file;
    this.user = user;
    this.config = undefined;
    this.configStamp = undefined;
    this.agent = undefined;
    // The request that begins a session.
    this.hello = undefined;
    // Its id, revision and last event, or undefined.
    this.session = undefined;
    this.isUp = false;
    // Why there is no session.
    this.fault = undefined;
    this.rest = new Rest();
    this.isEnded = false;
    this.isChecking = false;
    this.cli = findCli();
    this.isHeard = new Promise((resolve) => { this.setHeard = resolve; });
  }

  start(hello) {
    this.hello = hello;
    setInterval(() => this.checkConfig(), POLL_RULES).unref();
    this.run();
  }

  // Connects, again and again.
  async run() {
    this.pause = FIRST_PAUSE;
    while (!this.isEnded) {
      let wait = 0;
      try {
        await this.readConfig();
        if (!this.session) await this.begin();
        // Before, the CLI would miss what it is told.
        await this.isHeard;
        await this.listen();
      } catch (error) {
        if (error instanceof Gone) this.session = undefined;
        this.fault = error.message;
        wait = error.wait ?? 0;
      }
      await this.rest.for(Math.max(this.pause, Math.min(wait, MAX_PAUSE)));
      this.pause = Math.min(2 * this.pause, LAST_PAUSE);
    }
  }

  // The file system may hang.
  async readConfig() {
    const found = await within(READ_PATIENCE, this.configNow());
    if (!found) throw new Error('its configuration cannot be read in time');
    const { stamp, config } = found;
    if (typeof config?.socket !== 'string') throw new Error('its configuration is damaged');
    const before = this.config;
    this.config = config;
    this.configStamp = stamp.text;
    if (config.socket !== before?.socket) this.drop();
  }

  async configNow() {
    const stamp = await stampOf(this.file);
    if (!stamp) throw new Error('it is not connected to this machine');
    return { stamp, config: parse((await bytesOf(this.file, MAX_CONFIG)).toString()) };
  }

  // After a cut, the old connection may seem to live for hours.
  async checkConfig() {
    if (this.isChecking) return;
    this.isChecking = true;
    try {
      const stamp = await within(READ_PATIENCE, stampOf(this.file));
      if (stamp && stamp.text !== this.configStamp) await this.readConfig();
    } catch {
      // There is none, or `run' will say what is wrong with it.
    } finally {
      this.isChecking = false;
    }
  }

  // Ends all requests; `run' connects again.
  drop() {
    this.isUp = false;
    this.agent?.destroy();
    this.agent = new http.Agent({ keepAlive: true, maxFreeSockets: 2, timeout: MAX_IDLE });
    this.pause = FIRST_PAUSE;
    this.rest.end();
  }

  async begin() {
    const { id: cli, args } = await this.cli;
    const response = await this.exchange('POST', this.hello, {
      'Gemini-Companion-Directory': encodeURIComponent(here),
      'Gemini-Companion-Process': cli,
      ...(args.some((it) => ACP.includes(it)) && { 'Gemini-Companion-Front': 'own' }),
    });
    const text = await textOf(response);
    if (response.statusCode !== 200) throw new Refused(response, text);
    const answer = parse(text);
    const id = response.headers['mcp-session-id'];
    if (!answer?.result || !id) throw new Refused(response, text);
    // The first event has the number 1.  Without a number, Emacs would take all for received.
    this.session = { id, revision: answer.result.protocolVersion, last: '0', isNew: true };
    this.user.greeted(answer);
  }

  // Passes on what Emacs says, as long as the connection lasts.
  async listen() {
    const { session } = this;
    if (session.isNew) {
      await this.expect(202, await this.exchange(
        'POST', JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })));
    }
    const stream = await this.exchange('GET', undefined, { 'Last-Event-ID': session.last });
    if (stream.statusCode !== 200) await this.expect(200, stream);
    this.pause = FIRST_PAUSE;
    this.isUp = true;
    this.user.connected(session.isNew);
    session.isNew = false;
    try {
      for await (const { id, message } of events(stream)) {
        if (message) this.user.hear(message);
        if (id) session.last = id;
      }
    } finally {
      this.isUp = false;
      this.user.disconnected();
    }
  }

  async expect(status, response) {
    const text = await textOf(response);
    if (response.statusCode === 404) throw new Gone('the session has ended');
    if (response.statusCode !== status) throw new Refused(response, text);
  }

  // The response to a request, when it begins.
  exchange(method, body, headers = {}) {
    return new Promise((resolve, reject) => {
      const request = http.request({
        socketPath: this.config.socket,
        path: '/mcp',
        method,
        agent: this.agent,
        headers: {
          Host: 'localhost',
          Accept: method === 'POST' ? 'application/json, text/event-stream' : 'text/event-stream',
          ...(body !== undefined && {
            'Content-Type': 'application/json',
            'Content-Length': Buffer.byteLength(body),
          }),
          ...(this.session && {
            'Mcp-Session-Id': this.session.id,
            'MCP-Protocol-Version': this.session.revision,
          }),
          ...headers,
        },
      });
      request.setTimeout(MAX_SILENCE, () => request.destroy(new Error('it does not answer')));
      request.on('error', (error) => {
        error.isStale = request.reusedSocket;
        reject(error);
      });
      request.on('response', resolve);
      request.end(body);
    });
  }

  // The answer in RESPONSE; undefined if it has none.
  async answerIn(response) {
    if (!isEventStream(response)) return parse(await textOf(response));
    for await (const { message } of events(response)) {
      if (message && !message.method) return message;
      if (message) this.user.hear(message);
    }
    return undefined;
  }

  // Takes leave of Emacs.
  async end() {
    this.isEnded = true;
    if (!this.session) return;
    (await this.exchange('DELETE')).resume();
  }
}

// ---- Messages to Emacs

// A message on its way.  BODY returns its text, or undefined if it is needed no more; DONE takes the
// answer.  LATE is called once if Emacs cannot be reached for the time PATIENCE, for the CLI does not
// wait so long; the message is sent all the same.
class Call {
  static last = 0;

  constructor({ id, bytes = 0, body, done = () => {}, patience, late }) {
    this.order = ++Call.last;
    Object.assign(this, { id, bytes, body, done, patience, late });
    // Whether Emacs may know of it.
    this.isSent = false;
    // How often it has taken too long.
    this.slow = 0;
    this.notBefore = 0;
    this.timer = undefined;
    this.isOver = false;
  }

  wait() {
    if (!this.patience || this.timer) return;
    this.timer = setTimeout(() => {
      this.patience = undefined;
      this.late();
    }, this.patience);
  }

  stopWaiting() {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}

// Sends calls in their order, one after the other: each when the answer to the one before begins.
class Lane {
  constructor(link) {
    this.link = link;
    this.calls = [];
    this.rest = new Rest();
    this.isBusy = false;
  }

  add(call) {
    if (call.isOver || this.calls.includes(call)) return;
    const index = this.calls.findIndex((it) => it.order > call.order);
    this.calls.splice(index < 0 ? this.calls.length : index, 0, call);
    call.wait();
    this.run();
  }

  remove(call) {
    call.isOver = true;
    call.stopWaiting();
    this.take(call);
  }

  take(call) {
    this.calls = this.calls.filter((it) => it !== call);
  }

  async run() {
    if (this.isBusy) return;
    this.isBusy = true;
    let pause = FIRST_PAUSE;
    while (this.link.isUp && this.calls.length) {
      const early = this.calls[0].notBefore - Date.now();
      if (early > 0) await this.rest.for(early);
      if (!this.link.isUp || !this.calls.length) break;
      const wait = await this.send(this.calls[0]);
      if (wait === undefined) {
        pause = FIRST_PAUSE;
      } else {
        await this.rest.for(Math.max(wait, pause));
        pause = Math.min(2 * pause, LAST_PAUSE);
      }
    }
    this.isBusy = false;
  }

  // The connection has been made again.
  restart() {
    this.rest.end();
    this.run();
  }

  // Sends CALL.  Returns how long to wait at least before trying again, or undefined.
  async send(call) {
    let body;
    try {
      body = await call.body();
    } catch (error) {
      call.done({ error: { code: -32603, message: error.message } });
    }
    if (this.calls[0] !== call) return undefined;
    if (body === undefined) return this.remove(call);
    // The connection may have broken meanwhile, and the session with it.
    if (!this.link.isUp) return 0;
    const { isSent } = call;
    call.isSent = true;
    let response;
    try {
      response = await this.link.exchange('POST', body);
    } catch (error) {
      if (error.syscall === 'connect') call.isSent = isSent;
      // Emacs had closed an idle connection.
      return error.isStale ? undefined : 0;
    }
    return this.judge(call, response);
  }

  judge(call, response) {
    const { statusCode: status } = response;
    if (status === 404 || status === 401 || status === 403) {
      // The stream says the same when it is opened again.
      response.resume();
      this.link.drop();
      return 0;
    }
    // A message that is too large for a slow connection must not keep back the others for ever.
    const isSlow = status === 408 && ++call.slow < MAX_SLOW;
    if (isSlow || status === 429 || status >= 500) {
      response.resume();
      return Math.min(new Refused(response).wait, MAX_PAUSE);
    }
    this.take(call);
    this.finish(call, response);
    return undefined;
  }

  async finish(call, response) {
    try {
      // Emacs is at work on it.  Any other answer may still stop halfway, with the connection.
      if (isEventStream(response)) call.stopWaiting();
      const answer = await this.answerIn(response);
      if (!answer && call.id !== undefined && !call.isOver) throw new Error('no answer');
      call.stopWaiting();
      call.isOver = true;
      call.done(answer);
    } catch {
      // The connection broke.  What comes after it must not overtake it.
      call.notBefore = Date.now() + FIRST_PAUSE;
      this.add(call);
    }
  }

  async answerIn(response) {
    if (response.statusCode < 400) return this.link.answerIn(response);
    const { message } = new Refused(response, await textOf(response));
    return { error: { code: -32603, message } };
  }
}

// ---- What Emacs is told

const request = (name, args) => JSON.stringify({
  jsonrpc: '2.0', id: 'gemini-companion', method: 'tools/call', params: { name, arguments: args },
});

// Tells Emacs when a file is written that has a diff, or had one a moment ago.
class Watch {
  constructor(link, lane) {
    this.link = link;
    this.lane = lane;
    // By name: the stamp that Emacs knows, the last one, how long it is watched, and whether Emacs
    // has refused to hear what it contains.
    this.files = new Map();
    this.timer = undefined;
    this.looking = undefined;
  }

  // Emacs has been told STAMP of FILE.
  add(file, stamp) {
    this.files.set(file, {
      told: stamp, last: stamp, until: Infinity, call: undefined, isRefused: false,
    });
    this.timer ??= setInterval(() => this.look(), POLL_FILES).unref();
  }

  // There is no diff of FILE any more.
  release(file) {
    const known = this.files.get(file);
    if (known) known.until = Date.now() + WATCH_AFTER;
  }

  look() {
    this.looking ??= this.lookNow().finally(() => { this.looking = undefined; });
    return this.looking;
  }

  async lookNow() {
    const isAwaited = [...this.files.values()].some((it) => it.until === Infinity);
    for (const [file, known] of this.files) {
      if (isAwaited || !this.link.isUp) known.until = Math.max(known.until, Date.now() + WATCH_AFTER);
      if (Date.now() > known.until && !known.call) this.files.delete(file);
      else await this.check(file, known);
    }
    if (this.files.size) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  async check(file, known) {
    const now = await within(
      READ_PATIENCE, stampOf(file).then((it) => it?.text ?? null, () => undefined));
    // What changes from one look to the next is still being written.
    if (now !== undefined && now !== known.told && now === known.last) this.tell(file, known);
    known.last = now;
  }

  tell(file, known) {
    if (known.call) return;
    known.call = new Call({
      id: 'file',
      body: () => this.written(file, known),
      done: ({ result, error } = {}) => {
        known.call = undefined;
        // Emacs has no room for it now, or is to be told less.
        if (result?.isError || (error && !known.isRefused)) known.told = undefined;
        known.isRefused = Boolean(error);
      },
    });
    this.lane.add(known.call);
  }

  // The message that FILE was written.
  async written(file, known) {
    const taken = await snapshot(file);
    known.told = taken.stamp;
    const whole = request('fileWritten', { filePath: file, ...taken });
    if (!known.isRefused && Buffer.byteLength(whole) <= MAX_MESSAGE) return whole;
    return request('fileWritten', { filePath: file, ...taken, current: TOO_LARGE });
  }

  // What Emacs has not been told yet, before the end.
  async lastWords() {
    if (!this.link.isUp) return;
    for (const [file, known] of this.files) {
      const now = await stampOf(file);
      if ((now?.text ?? null) === known.told) continue;
      (await this.link.exchange('POST', await this.written(file, known))).resume();
    }
  }
}

// Tells Emacs what the ignore files say.
class Rules {
  constructor(link, lane) {
    this.link = link;
    this.lane = lane;
    // What Emacs knows of each directory, and the stamp by which it is known; since when.
    this.told = new Map();
    this.since = 0;
    this.isLooking = false;
  }

  // In a new session Emacs may know nothing.
  restart() {
    this.forget();
    this.timer ??= setInterval(() => this.look(), POLL_RULES).unref();
    this.look();
  }

  forget() {
    this.told = new Map();
    this.since = Date.now();
  }

  directories() {
    const roots = this.link.config.roots;
    return [...new Set(Array.isArray(roots) ? roots : [])]
      .filter((it) => typeof it === 'string' && path.isAbsolute(it))
      .slice(0, MAX_DIRECTORIES);
  }

  async look() {
    if (this.isLooking) return;
    this.isLooking = true;
    const isOld = Date.now() - this.since > TELL_RULES_AGAIN;
    // Nothing piles up while Emacs is away.
    if (isOld && this.link.isUp && !this.lane.calls.length) this.forget();
    const { told } = this;
    await Promise.all(this.directories().map((it) => this.check(told, it))).catch(() => {});
    this.isLooking = false;
    if (told !== this.told) this.look();
  }

  async check(told, directory) {
    const file = path.join(directory, '.geminiignore');
    const stamp = await within(
      READ_PATIENCE, stampOf(file).then((it) => it?.text ?? '', (error) => error.code)) ?? 'late';
    const before = told.get(directory);
    if (before?.stamp === stamp) return;
    const rules = stamp ? await rulesIn(file) : { text: null };
    const json = request('ignoreRules', { directory, ...rules });
    told.set(directory, { stamp, json });
    if (before?.json !== json) this.lane.add(new Call({ id: 'rules', body: () => json }));
  }
}

async function rulesIn(file) {
  try {
    const bytes = await within(READ_PATIENCE, bytesOf(file, MAX_RULES));
    if (!bytes) return { text: null, reason: 'it cannot be read in time' };
    const text = utf8(bytes);
    return text === undefined ? { text: null, reason: 'it is not UTF-8' } : { text };
  } catch (error) {
    return { text: null, ...(!missing(error) && { reason: error.code ?? error.message }) };
  }
}

// ---- The CLI

// What the CLI takes for "no edits".
const NO_EDITS = { result: { content: [{ type: 'text', text: '{"content":null}' }] } };
const SHOWN = { result: { content: [] } };
const NO_CONTEXT = {
  jsonrpc: '2.0', method: 'ide/contextUpdate', params: { workspaceState: { openFiles: [] } },
};

// Whether Emacs has no diff of the file of DIFF.
const isUnknown = (diff) => !diff.call.isSent && !diff.isNext;

const failed = (answer) => answer?.error || answer?.result?.isError;

class Relay {
  constructor(config) {
    this.link = new Link(config, this);
    this.lane = new Lane(this.link);
    // So that the CLI need not wait for the ignore files of all roots.
    this.quietLane = new Lane(this.link);
    this.watch = new Watch(this.link, this.lane);
    this.rules = new Rules(this.link, this.quietLane);
    // Requests of the CLI without an answer, by their ids as JSON.
    this.pending = new Map();
    // The diffs of which the CLI awaits an outcome, by their files.
    this.diffs = new Map();
    this.greet = undefined;
    // A timer, until the CLI forgets what the user looks at.
    this.forgetting = undefined;
    this.isEnding = false;
  }

  async run() {
    for (const signal of ['SIGHUP', 'SIGINT']) process.on(signal, () => {});
    process.on('SIGTERM', () => this.end());
    process.on('SIGTSTP', () => this.suspended().catch(() => {}));
    process.stdout.on('error', () => this.end());
    for await (const line of lines(process.stdin, (end) => this.refuseLine(end))) {
      if (line?.trim()) this.take(line);
    }
    this.end();
  }

  // The CLI has suspended itself and its programs.  If it is the first in its terminal, the system does
  // not stop it, and it waits for a shell to continue it, which is not there.
  async suspended() {
    const { id } = await this.link.cli;
    const status = await readFile(`/proc/${id}/stat`, 'utf8').catch(() => '');
    const [, , , session] = status.slice(status.lastIndexOf(')') + 2).split(' ');
    if (Number(session) === id) process.kill(id, 'SIGCONT');
    else process.kill(process.pid, 'SIGSTOP');
  }

  async end(status = 0) {
    if (this.isEnding) return;
    this.isEnding = true;
    setTimeout(() => process.exit(status), LAST_WORDS);
    await this.watch.lastWords().catch(() => {});
    await this.link.end().catch(() => {});
    process.exit(status);
  }

  send(message) {
    if (!this.isEnding) process.stdout.write(`${JSON.stringify(message)}\n`);
  }

  // ---- From the CLI

  take(line) {
    const message = parse(line);
    if (!message || typeof message !== 'object') return;
    const { id, method, params } = message;
    if (method === undefined || id === undefined) this.pass(message, line);
    else if (this.pending.has(JSON.stringify(id))) return; // Whoever asks twice gets one answer.
    else if (method === 'ping') this.send({ jsonrpc: '2.0', id, result: {} });
    else if (method === 'initialize') this.initialize(id, line);
    else if (!this.link.hello) this.refuse(id, 'There is no session yet');
    else if (this.isFull(line)) this.refuse(id, 'Too many requests wait for Emacs');
    else if (method !== 'tools/call') this.call(id, line);
    else if (!isDiff(params)) this.call(id, line);
    else if (params.name === 'openDiff') this.openDiff(message, line.length);
    else this.closeDiff(message, line);
  }

  // The id of a line that is too long is at its end, as the CLI writes it.
  refuseLine(end) {
    const [, id] = /"id":(\d+|"[^"\\]*")\}\s*$/.exec(end.slice(-300)) ?? [];
    if (id) this.refuse(JSON.parse(id), 'This message is too long');
  }

  refuse(id, message) {
    this.send({ jsonrpc: '2.0', id, error: { code: -32603, message } });
  }

  isFull(line) {
    const kept = [...this.lane.calls, ...[...this.diffs.values()].map((diff) => diff.call)];
    const bytes = [...new Set(kept)].reduce((sum, call) => sum + call.bytes, line.length);
    return this.pending.size >= MAX_CALLS || this.diffs.size >= MAX_CALLS || bytes > MAX_WAITING;
  }

  // A notification, or an answer to Emacs.
  pass(message, line) {
    if (message.method === 'notifications/initialized') return this.link.setHeard();
    if (message.method === 'notifications/cancelled') return this.cancel(message, line);
    if (!this.isFull(line)) this.lane.add(new Call({ bytes: line.length, body: () => line }));
  }

  initialize(id, line) {
    if (this.link.hello) return this.refuse(id, 'There is a session already');
    const late = () => this.answer(call, { error: { code: -32603, message: this.why() } });
    const call = new Call({ id, patience: HELLO_PATIENCE, late });
    this.pending.set(JSON.stringify(id), call);
    call.wait();
    this.greet = (answer) => {
      call.stopWaiting();
      this.answer(call, answer);
    };
    this.link.start(line);
  }

  why() {
    return `Emacs cannot be reached: ${this.link.fault ?? 'it does not answer'}.  In Emacs, `
      + 'M-x gemini-companion-connect connects it to this machine';
  }

  // Adds a call for the request ID.
  call(id, line, more = {}) {
    const call = new Call({
      id, bytes: line.length, body: () => line, done: (answer) => this.answer(call, answer), ...more,
    });
    this.pending.set(JSON.stringify(id), call);
    this.lane.add(call);
    return call;
  }

  // Answers the request of CALL, unless that is done.
  answer(call, answer) {
    const key = JSON.stringify(call.id);
    if (this.pending.get(key) !== call) return;
    this.pending.delete(key);
    const { result, error } = answer ?? { error: { code: -32603, message: 'No answer' } };
    this.send({ jsonrpc: '2.0', id: call.id, ...(error ? { error } : { result }) });
  }

  // A cancelled request gets no answer: the CLI would take the connection for broken.
  cancel({ params }, line) {
    const key = JSON.stringify(params?.requestId);
    const call = this.pending.get(key);
    if (!call) return;
    this.pending.delete(key);
    const diff = [...this.diffs.values()].find((it) => it.call === call);
    if (diff) this.withdraw(diff);
    const { isSent } = call;
    this.lane.remove(call);
    if (isSent) this.lane.add(new Call({ bytes: line.length, body: () => line }));
  }

  // ---- Diffs

  openDiff(message, bytes) {
    const { filePath: file } = message.params.arguments;
    const older = this.diffs.get(file);
    if (older) {
      this.lane.remove(older.call);
      this.answer(older.call, SHOWN);
    }
    const diff = { file, proposal: `${process.pid}-${process.hrtime.bigint()}` };
    // Whether Emacs may have an older one.
    diff.isNext = Boolean(older?.call.isSent || older?.isNext);
    diff.settled = new Promise((resolve) => { diff.settle = resolve; });
    this.diffs.set(file, diff);
    diff.call = this.call(message.id, '', {
      bytes,
      patience: DIFF_PATIENCE,
      late: () => this.answer(diff.call, SHOWN),
      body: () => this.proposalOf(diff, message),
      done: (answer) => this.opened(diff, answer),
    });
  }

  // The message that opens DIFF, with what its file contains now.
  async proposalOf(diff, { params, ...message }) {
    const taken = await snapshot(diff.file);
    if (this.diffs.get(diff.file) !== diff) return undefined;
    const body = (current) => JSON.stringify({
      ...message,
      params: {
        ...params,
        arguments: { ...params.arguments, ...taken, current, proposal: diff.proposal },
      },
    });
    this.watch.add(diff.file, taken.stamp);
    const whole = body(taken.current);
    return Buffer.byteLength(whole) <= MAX_MESSAGE ? whole : body(TOO_LARGE);
  }

  opened(diff, answer) {
    // If the CLI takes it for shown, its user can still decide there.
    const isAwaited = this.pending.get(JSON.stringify(diff.call.id)) === diff.call;
    this.answer(diff.call, answer);
    if (failed(answer) && isAwaited) this.forget(diff);
  }

  // DIFF has an outcome, or needs none.  The CLI gets an answer to its request all the same: after ten
  // minutes without one, it would take the next diff of the file for failed.
  forget(diff) {
    diff.settle();
    this.answer(diff.call, SHOWN);
    if (this.diffs.get(diff.file) !== diff) return;
    this.diffs.delete(diff.file);
    this.watch.release(diff.file);
  }

  // The CLI awaits no outcome of DIFF any more, and does not say so.
  withdraw(diff) {
    this.forget(diff);
    if (isUnknown(diff)) return;
    const body = request('closeDiff', { filePath: diff.file, suppressNotification: true });
    this.lane.add(new Call({ id: 'close', body: () => body }));
  }

  closeDiff({ id, params }, line) {
    const { filePath: file, suppressNotification: isSilent } = params.arguments;
    const diff = this.diffs.get(file);
    if (diff && isUnknown(diff)) return this.retract(diff, id);
    if (diff) diff.isClosing = true;
    const call = this.call(id, line, {
      patience: DIFF_PATIENCE,
      late: () => {
        if (diff) this.forget(diff);
        this.answer(call, NO_EDITS);
      },
      done: (answer) => this.closed(call, diff, isSilent, answer),
    });
  }

  // Emacs has not heard of DIFF, and need not; ID is the request to close it.
  retract(diff, id) {
    this.lane.remove(diff.call);
    this.forget(diff);
    this.send({ jsonrpc: '2.0', id, ...NO_EDITS });
  }

  // If the user has decided at the same moment, the CLI must hear that first: it would take its own
  // proposal otherwise, without the user's edits.
  async closed(call, diff, isSilent, answer) {
    if (diff && failed(answer)) await within(OUTCOME_PATIENCE, diff.settled);
    // Unless it is silent, the notification that the diff was rejected is still to come.
    if (diff && (isSilent || failed(answer))) this.forget(diff);
    this.answer(call, answer);
  }

  // ---- From Emacs

  greeted(answer) {
    this.greet(answer);
  }

  // The user may have disconnected, or closed the laptop.
  disconnected() {
    this.forgetting ??= setTimeout(() => this.send(NO_CONTEXT), CONTEXT_PATIENCE);
  }

  // Emacs tells what the user looks at when its stream begins.
  connected(isNew) {
    clearTimeout(this.forgetting);
    this.forgetting = undefined;
    if (isNew) this.repeat();
    this.lane.restart();
    this.quietLane.restart();
  }

  // In a new session: Emacs has been started again, or has forgotten the old one.
  repeat() {
    this.rules.restart();
    for (const diff of [...this.diffs.values()]) {
      if (diff.isClosing) {
        this.forget(diff);
      } else {
        diff.call.isSent = false;
        diff.isNext = false;
        diff.call.isOver = false;
        this.lane.add(diff.call);
      }
    }
  }

  hear(message) {
    if (message.method?.startsWith?.('ide/diff')) this.decided(message);
    else if (message.method) this.send(message);
  }

  // An outcome of an older proposal of the file, or the same once more, would be taken for the one
  // that the CLI awaits.
  decided({ params, ...message }) {
    const { _meta: meta, ...outcome } = params ?? {};
    const diff = this.diffs.get(outcome.filePath);
    if (!diff || meta?.proposal !== diff.proposal) return;
    this.send({ ...message, params: outcome });
    this.lane.remove(diff.call);
    this.forget(diff);
  }
}

function isDiff(params) {
  return ['openDiff', 'closeDiff'].includes(params?.name)
    && typeof params.arguments?.filePath === 'string' && path.isAbsolute(params.arguments.filePath);
}

// ---- Start

process.removeAllListeners('warning');
const relay = new Relay(process.argv[2]);
process.on('uncaughtException', () => relay.end(1));
process.on('unhandledRejection', () => relay.end(1));
relay.run();
