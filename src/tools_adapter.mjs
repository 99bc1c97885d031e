// Lets a CLI use the tools of Emacs.
//
//   node emacs-tools.mjs WORD...         is an MCP server on stdin and stdout
//   node emacs-tools.mjs WORD... hook=EVENT cli=PID   is a hook of the CLI that is the process PID
//
// The words, each KEY=VALUE, tell where the CLI looks for its editor: directory and file, as PID and
// PORT stand for numbers; home, a variable, and default, without which the directory is a temporary
// one; port and process, variables.  EVENT is one of start, end, prompt, done, asks, edit, edited
// and ran, whatever the CLI calls it.  gemini-companion, a package for Emacs, has written
// this file into an extension of the CLI, and writes it again when it differs
// from what the package contains.
//
// Emacs may start, end or restart while the CLI runs, so it is looked for before
// each request, by the files with which it announces itself to the CLI.  These
// also have the token; nothing else is secret here.  If Emacs is on another machine,
// they name a configuration for the relay in its stead, and that a socket.  Nothing but
// JSON-RPC is written, since a CLI shows what its servers say to stderr.

import {
  closeSync, constants, existsSync, fstatSync, openSync, readFileSync, readdirSync, realpathSync, watch,
} from 'node:fs';
import { lstat, open, readFile, readdir, stat } from 'node:fs/promises';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';

const MAX_LINE = 16 << 20;
const MAX_ANSWER = 16 << 20;
const MAX_HOOK_INPUT = 64 << 20;
const MAX_FILE = 1 << 20;
const MAX_REQUESTS = 64;
// In characters, of a prompt or a question.
const MAX_TEXT = 10000;

// In milliseconds.  Emacs takes 20 s at most for a call.
const CALL_PATIENCE = 25000;
// The CLI's user waits for a hook.  Emacs answers at once but for an edit: while checkers are at work,
// it answers after 10 s at most; an Emacs that does nothing at all keeps nobody waiting for so long.
const EVENT_PATIENCE = 2000;
const HOOK_PATIENCE = 12000;
const SIGN_AFTER = 1000;
const SIGN_PATIENCE = 2000;
const CONNECT_PATIENCE = 2000;
const CLIENT_PATIENCE = 1000;
// The CLI makes its user wait until it has the lists.
const LIST_PATIENCE = 3000;
const LIST_AGE = 2000;
const DEBOUNCE = 200;
const WATCH_AGAIN = 5000;
const LOOK_AGAIN = 30000;

const REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

// ---- Finding Emacs

// What the words say about the CLI.
function describe(given) {
  const number = { PID: '(?<pid>\\d+)', PORT: '\\d+' };
  const pattern = given.file.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replace(/PID|PORT/g, (word) => number[word]);
  return {
    cli: Number(given.cli) || process.ppid,
    directory: () => path.join(given.home ? home(given) : os.tmpdir(), given.directory),
    file: new RegExp(`^${pattern}$`),
    port: given.port,
    process: (content, { groups }) => (groups ? Number(groups.pid) : content.ppid),
    // The CLI prefers the process that it takes for its editor.
    rank: ({ pid, time }) => [pid === Number(process.env[given.process]), isAlive(pid),
      pattern.includes('pid') ? pid : time],
  };
}

function home({ home: variable, default: usual }) {
  const directory = process.env[variable] || usual;
  return path.resolve(directory.replace(/^~(?=[/\\]|$)/, () => os.homedir()));
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}

// The Emacsen that have DIRECTORY open, first the one to which the CLI is connected: another one may have
// started since, which the CLI would now prefer.
async function findEmacs(agent, directory) {
  const found = await findAnnounced(agent, directory);
  if (found.length < 2) return found;
  const mine = await Promise.any(found.map((one) => checkClient(agent, directory, one))).catch(() => {});
  return mine ? [mine, ...found.filter((one) => one !== mine)] : found;
}

// Fulfilled, with EMACS, only if the CLI is connected to it.
async function checkClient(agent, directory, emacs) {
  const params = { name: 'hasClient', arguments: { process: agent.cli } };
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
  const { content, isError } = await post(emacs, directory, message, CLIENT_PATIENCE);
  if (isError || content?.[0]?.text !== 'yes') throw new Error('it is not');
  return emacs;
}

// The Emacsen that have DIRECTORY open, the one that the CLI prefers first.
async function findAnnounced(agent, directory) {
  const where = agent.directory();
  if (!await isOurs(where) || !await isOurs(path.dirname(where))) return [];
  const names = await readdir(where).catch(() => []);
  const found = await Promise.all(
    names.map((name) => agent.file.exec(name)).filter(Boolean).map(
      (match) => announced(agent, path.join(where, match[0]), match)));
  const rank = (one) => [
    String(one.port) === process.env[agent.port], ...agent.rank(one)];
  return found
    .filter((one) => one && contains(one.roots, directory))
    .map((one) => ({ one, rank: rank(one) }))
    .sort((a, b) => b.rank.map((it, index) => it - a.rank[index])
      .find((it) => it) || 0)
    .map(({ one }) => one);
}

// Whether no other user could put a link to some file of this one into DIRECTORY.
async function isOurs(directory) {
  const owner = (await lstat(directory).catch(() => undefined))?.uid;
  return !process.getuid || [0, process.getuid()].includes(owner);
}

// What FILE says about an Emacs, or undefined if it is not to be trusted.
async function announced(agent, file, match) {
  const { content, time } = await read(file);
  const { workspacePath: roots, ideInfo, stdio } = content ?? {};
  if (ideInfo?.name !== 'emacs' || typeof roots !== 'string') return;
  const way = stdio ? await wayBySocket(stdio) : wayByPort(content);
  return way && { ...way, roots, time, pid: agent.process(content, match) };
}

function wayByPort({ port, authToken: token }) {
  const isValid = Number.isInteger(port) && port > 0 && port < 65536
    && typeof token === 'string' && /^[!-~]+$/.test(token);
  return isValid ? { port, token } : undefined;
}

// On another machine than Emacs: where the relay that a CLI starts would connect.
async function wayBySocket({ args }) {
  const configuration = args?.at?.(-1);
  if (typeof configuration !== 'string') return;
  const { socket } = (await read(configuration)).content ?? {};
  return typeof socket === 'string' && path.isAbsolute(socket) ? { socket } : undefined;
}

// The content of FILE, JSON, and when it was written; nothing if it is not a file of the same user.
async function read(file) {
  let handle;
  try {
    // It may be a pipe, which would wait for its other end.
    handle = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const found = await handle.stat();
    if (!found.isFile() || found.size > MAX_FILE) return {};
    if (process.getuid && found.uid !== process.getuid()) return {};
    return { content: JSON.parse(await handle.readFile('utf8')), time: found.mtimeMs };
  } catch {
    return {};
  } finally {
    await handle?.close().catch(() => {});
  }
}

function contains(roots, directory) {
  const here = real(directory);
  return roots.split(path.delimiter).filter(Boolean).some((root) => {
    const below = path.relative(real(root), here);
    return below.split(path.sep)[0] !== '..' && !path.isAbsolute(below);
  });
}

function real(name) {
  try {
    return realpathSync(name);
  } catch {
    return path.resolve(name);
  }
}

const isSame = (one, other) =>
  ['port', 'token', 'socket'].every((it) => one?.[it] === other?.[it]);

// ---- Asking it

// Emacs has not been asked, or has refused to be, so another one, or the same, can be asked: what it
// has begun must not be done twice.
class Unreachable extends Error {}

class NoEmacs extends Error {}

// The result of METHOD with PARAMS in the Emacs that has DIRECTORY open.
async function ask(agent, directory, method, params, { patience, signal } = {}) {
  const deadline = Date.now() + patience;
  const message = { jsonrpc: '2.0', id: 1, method, params };
  let failed;
  for (;;) {
    const found = await findEmacs(agent, directory);
    const emacs = found.find((it) => failed && !isSame(it, failed)) ?? found[0];
    if (!emacs) throw new NoEmacs();
    try {
      return await post(emacs, directory, message, deadline - Date.now(), signal);
    } catch (error) {
      if (failed || signal?.aborted || !(error instanceof Unreachable)) throw error;
      failed = emacs;
    }
  }
}

async function post(emacs, directory, message, patience, signal) {
  const body = JSON.stringify(message);
  const { status, text } = await (emacs.socket
    ? exchange({ socketPath: emacs.socket }, byDirectory(directory), body, patience, signal)
    : reach(emacs.port, byToken(emacs.token), body, patience, signal));
  if (status === 401) throw new Unreachable('it does not know the token in its file');
  if (status === 404) throw new Unreachable('its gemini-companion is too old for this');
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error(`it answered with HTTP status ${status}`);
  }
  if (answer?.error) throw new RpcError(answer.error.code, answer.error.message);
  if (status !== 200 || !answer?.result) throw new Error(`it answered with HTTP status ${status}`);
  return answer.result;
}

const byToken = (token) => ({ Authorization: `Bearer ${token}` });

// On another machine Emacs cannot see where its clients work.
const byDirectory = (directory) => (
  { 'Gemini-Companion-Directory': encodeURIComponent(directory) });

// Where Emacs was found before.
let lastHost;

// Where Emacs may be, as the CLI sees it; the last one is this machine.
function hosts() {
  const isContainer = ['/.dockerenv', '/run/.containerenv'].some((it) => existsSync(it));
  // There, a port of the container leads to the editor.
  const isForwarded = ['SSH_CONNECTION', 'VSCODE_REMOTE_CONTAINERS_SESSION', 'REMOTE_CONTAINERS']
    .some((it) => process.env[it]);
  const here = '127.0.0.1';
  return isContainer && !isForwarded ? ['host.docker.internal', here] : [here];
}

// The response from the first of the hosts where something listens.
async function reach(port, headers, body, patience, signal) {
  const deadline = Date.now() + patience;
  // To look up a name that does not exist may take long.
  const all = hosts().sort((one, other) => (other === lastHost) - (one === lastHost));
  for (const host of all) {
    try {
      const response = await exchange(
        { host, port }, headers, body, deadline - Date.now(), signal);
      lastHost = host;
      return response;
    } catch (error) {
      if (host === all.at(-1) || !(error instanceof Unreachable)) throw error;
    }
  }
}

// WHERE is a host and a port, or a socket.
function exchange(where, more, body, patience, signal) {
  return new Promise((resolve, reject) => {
    const request = http.request({
      ...where,
      path: '/mcp/tools',
      method: 'POST',
      // An agent of its own: the common one may use a proxy.
      agent: false,
      signal,
      headers: {
        ...more,
        'Accept': 'application/json, text/event-stream',
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
      },
    });
    let isConnected = false;
    const timer = setTimeout(
      () => end(new Error(`it did not answer for ${Math.round(patience / 1000)} s`)),
      Math.max(0, patience));
    // A host that is switched off says nothing.
    const connecting = setTimeout(
      () => end(new Unreachable(`nobody answers at ${where.host ?? where.socketPath}`)),
      CONNECT_PATIENCE);
    const end = (error) => {
      clearTimeout(timer);
      clearTimeout(connecting);
      request.destroy();
      reject(error);
    };
    request.on('socket', (socket) => socket.once('connect', () => {
      isConnected = true;
      clearTimeout(connecting);
    }));
    request.on('error', (error) => end(isConnected ? error : unreachable(error)));
    request.on('response', (response) => {
      readAll(response, MAX_ANSWER).then((text) => {
        clearTimeout(timer);
        resolve({ status: response.statusCode, text });
      }, end);
    });
    request.end(body);
  });
}

// Where a name stands for several addresses, the message may be empty.
const unreachable = ({ message, code }) => new Unreachable(message || code);

// ---- The MCP server

class RpcError extends Error {
  constructor(code, message) {
    super(String(message));
    this.code = Number.isInteger(code) ? code : -32603;
  }
}

class Server {
  constructor(agent) {
    this.agent = agent;
    this.directory = process.cwd();
    // Requests without an answer, by their ids.
    this.pending = new Map();
    // What the CLI knows or was told to ask for, as JSON; undefined if it has not asked.
    this.told = undefined;
    // The tools to tell, a promise, and since when it is fulfilled.
    this.listing = undefined;
    // The last of the requests for them, and the Emacs that they are from.
    this.fetched = Promise.resolve();
    this.emacs = undefined;
    this.timer = undefined;
  }

  async run() {
    watchDirectory(this.agent.directory(), () => this.look());
    for await (const line of lines(process.stdin)) this.take(line);
    process.exit(0);
  }

  send(message) {
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  refuse(code, message, id = null) {
    this.send({ id, error: { code, message } });
  }

  take(line) {
    if (line === undefined) return this.refuse(-32600, 'This line is too long');
    if (!line.trim()) return;
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return this.refuse(-32700, 'This is not JSON');
    }
    if (typeof message !== 'object' || !message || Array.isArray(message)) {
      return this.refuse(-32600, 'This is not a message');
    }
    const { id, method, params } = message;
    if (typeof method !== 'string') return; // a response, but nothing was asked
    if (id === undefined) return this.notice(method, params);
    if (typeof id !== 'string' && typeof id !== 'number') {
      return this.refuse(-32600, 'The id is neither a string nor a number');
    }
    // Whoever asks twice gets one answer.
    if (this.pending.has(id)) return;
    if (this.pending.size >= MAX_REQUESTS) {
      return this.refuse(-32000, `There are ${MAX_REQUESTS} requests without an answer`, id);
    }
    this.serve(id, method, params);
  }

  notice(method, params) {
    if (method !== 'notifications/cancelled') return;
    const controller = this.pending.get(params?.requestId);
    this.pending.delete(params?.requestId);
    controller?.abort();
  }

  async serve(id, method, params) {
    const controller = new AbortController();
    this.pending.set(id, controller);
    let answer;
    try {
      answer = { result: await this.result(method, params, controller.signal) };
    } catch (error) {
      answer = { error: { code: error.code ?? -32603, message: error.message } };
    }
    // One that was cancelled gets none; its id may be in use again.
    if (this.pending.get(id) !== controller) return;
    this.pending.delete(id);
    this.send({ id, ...answer });
  }

  async result(method, params, signal) {
    switch (method) {
      case 'initialize': return hello(params);
      case 'ping': return {};
      case 'tools/list': return { tools: await this.tools() };
      case 'tools/call': return this.call(params, signal);
      case 'prompts/list': return { prompts: (await this.tools()).length ? [] : [HELP] };
      case 'prompts/get': return this.help(params);
      default: throw new RpcError(-32601, `There is no method ${method.slice(0, 100)}`);
    }
  }

  // ---- Calls

  async call(params, signal) {
    if (typeof params?.name !== 'string') throw new RpcError(-32602, 'Which tool?');
    const { name, arguments: given } = params;
    try {
      return await ask(this.agent, this.directory, 'tools/call', { name, arguments: given },
        { patience: CALL_PATIENCE, signal });
    } catch (error) {
      if (error instanceof RpcError) throw error;
      this.look(true);
      return { content: [{ type: 'text', text: this.explain(error) }], isError: true };
    }
  }

  explain(error) {
    return error instanceof NoEmacs
      ? `No Emacs has ${this.directory} open.  Go on without this tool, and tell the user: `
        + 'visit a file of it in Emacs, with M-x gemini-companion-mode turned on; if Emacs is on '
        + 'another machine, connect to this one with M-x gemini-companion-connect there.'
      : `Emacs could not be asked: ${error.message}.  Go on without this tool; if that `
        + 'happens again, tell the user to type M-x gemini-companion-doctor in Emacs.';
  }

  // ---- Lists

  // The CLI asks for prompts and for tools, and complains of a server that has neither.  So
  // both answers are about the same tools, and without tools there is a prompt.
  async tools() {
    if (!this.listing || Date.now() - this.listing.time > LIST_AGE) {
      this.listing = { tools: this.hurry(this.fetch()) };
    }
    const { listing } = this;
    const tools = await listing.tools;
    listing.time ??= Date.now();
    this.told = JSON.stringify(tools);
    return tools;
  }

  // One after the other, so that a late failure does not hide what came after it.
  fetch() {
    this.fetched = this.fetched.then(() => this.fetchNow());
    return this.fetched;
  }

  async fetchNow() {
    let tools;
    let isFailed = false;
    try {
      this.emacs = (await findEmacs(this.agent, this.directory))[0];
      ({ tools } = await ask(this.agent, this.directory, 'tools/list', {},
        { patience: CALL_PATIENCE }));
    } catch (error) {
      const isGone = error instanceof NoEmacs || error instanceof Unreachable;
      tools = isGone ? [] : this.known();
      isFailed = true;
    }
    if (!Array.isArray(tools)) tools = [];
    clearTimeout(this.timer);
    // It is announced, but something is wrong with it, or with its server.
    if (this.emacs && (isFailed || !tools.length)) {
      this.timer = setTimeout(() => this.look(isFailed), LOOK_AGAIN);
    }
    return tools;
  }

  known() {
    return this.told ? JSON.parse(this.told) : [];
  }

  // If FETCHED takes too long, what the CLI knows already holds until then.
  hurry(fetched) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        resolve(this.known());
        fetched.then((tools) => this.announce(tools));
      }, LIST_PATIENCE);
      fetched.then((tools) => {
        clearTimeout(timer);
        resolve(tools);
      });
    });
  }

  // Something has happened by which Emacs may have come, gone or changed.  With FAILED, a call
  // of it has failed.
  async look(failed = false) {
    if (this.told === undefined) return;
    const before = this.emacs;
    const [emacs] = await findEmacs(this.agent, this.directory);
    const isChanged = failed || this.told === '[]' || !emacs || !isSame(emacs, before);
    if (isChanged) this.announce(await this.fetch());
  }

  announce(tools) {
    const now = JSON.stringify(tools);
    if (now === this.told) return;
    this.told = now;
    this.listing = { time: Date.now(), tools: Promise.resolve(tools) };
    this.send({ method: 'notifications/tools/list_changed' });
    this.send({ method: 'notifications/prompts/list_changed' });
  }

  help(params) {
    if (params?.name !== HELP.name) throw new RpcError(-32602, 'There is no such prompt');
    const text = `Tell me this, and do nothing else: no Emacs has ${this.directory} open.  To use `
      + 'its tools here, visit a file of this directory in Emacs, with M-x gemini-companion-mode '
      + 'turned on; if Emacs is on another machine, type M-x gemini-companion-connect there.';
    return { messages: [{ role: 'user', content: { type: 'text', text } }] };
  }
}

const HELP = { name: 'emacs-help', description: 'Why there are no tools of Emacs, and what to do' };

function hello(params) {
  const wanted = params?.protocolVersion;
  return {
    protocolVersion: REVISIONS.includes(wanted) ? wanted : REVISIONS[0],
    capabilities: { tools: { listChanged: true }, prompts: { listChanged: true } },
    serverInfo: { name: 'emacs', title: 'Emacs', version: '1' },
  };
}

// The lines of STREAM; undefined for one that is too long.
async function* lines(stream) {
  let parts = [];
  let size = 0;
  for await (const chunk of stream) {
    let start = 0;
    for (let end; (end = chunk.indexOf(10, start)) >= 0; start = end + 1) {
      parts.push(chunk.subarray(start, end));
      size += end - start;
      yield size > MAX_LINE ? undefined : Buffer.concat(parts).toString();
      parts = [];
      size = 0;
    }
    size += chunk.length - start;
    if (size > MAX_LINE) parts = [];
    else parts.push(chunk.subarray(start));
  }
}

// Calls CHANGED when something in DIRECTORY has changed, which need not exist.
function watchDirectory(directory, changed) {
  let watcher;
  let timer;
  const soon = (delay) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      begin();
      changed();
    }, delay).unref();
  };
  const begin = () => {
    watcher?.close();
    let target = directory;
    while (!existsSync(target) && path.dirname(target) !== target) target = path.dirname(target);
    const [missing] = path.relative(target, directory).split(path.sep);
    try {
      watcher = watch(target, { persistent: false }, (_event, name) => {
        // Above it, much else happens.
        if (!missing || !name || name === missing || name === path.basename(target)) {
          soon(DEBOUNCE);
        }
      });
      watcher.on('error', () => soon(WATCH_AGAIN));
      // It may have been made in the meantime.
      if (missing && existsSync(path.join(target, missing))) soon(0);
    } catch {
      soon(WATCH_AGAIN);
    }
  };
  begin();
}

// ---- Hooks

async function hook(agent, { hook: event, cli }) {
  const input = JSON.parse(await readAll(process.stdin, MAX_HOOK_INPUT));
  const told = event === 'edited' ? editOf(input) : toldOf(event, input);
  if (!told) return;
  told.session = String(input.session_id);
  if (cli) told.process = Number(cli);
  const text = event === 'edited'
    ? await noteEdit(agent, input.cwd, { ...told, ...await writtenAt(told) })
    : await call(agent, input.cwd, 'noteEvent',
      { event, directory: input.cwd, ...told, ...terminal() }, EVENT_PATIENCE);
  if (!text) return;
  await new Promise((resolve) => {
    process.stdout.write(JSON.stringify(output(event, input.hook_event_name, text)), resolve);
  });
}

// The terminal in which Emacs has started the CLI on another machine.
function terminal() {
  const { GEMINI_COMPANION_TERMINAL: name } = process.env;
  return name ? { terminal: name } : {};
}

// When FILE was written, if it has the text AFTER and nothing else, for an Emacs that cannot look.
async function writtenAt({ path: file, after: text }) {
  try {
    const stats = await stat(file);
    if (text === undefined || !stats.isFile() || stats.size !== Buffer.byteLength(text)) return {};
    const isSame = await readFile(file, 'utf8') === text;
    const isQuiet = (await stat(file)).mtimeMs === stats.mtimeMs;
    return isSame && isQuiet ? { modified: Math.floor(stats.mtimeMs / 1000) } : {};
  } catch {
    return {};
  }
}

// What the CLI is told: TEXT, which is what Emacs has answered.
function output(event, hookEventName, text) {
  if (event === 'edit') return { decision: 'ask', systemMessage: text };
  if (event !== 'prompt') return { hookSpecificOutput: { hookEventName, additionalContext: text } };
  // The first line is for the user.
  const [, systemMessage, additionalContext] = /^(.*)\n([^]*)$/.exec(text);
  return { systemMessage, hookSpecificOutput: { hookEventName, additionalContext } };
}

async function call(agent, directory, name, args, patience) {
  const { content, isError } = await ask(
    agent, directory, 'tools/call', { name, arguments: args }, { patience });
  return isError ? '' : (content ?? []).map((it) => it.text ?? '').join('\n').trim();
}

async function noteEdit(agent, cwd, edit) {
  const noted = call(agent, cwd, 'noteEdit', edit, HOOK_PATIENCE);
  const isLate = await Promise.race([noted.then(() => false), after(SIGN_AFTER, true)]);
  // Emacs may be waiting for its checkers, or be blocked.  If no tool has edited anything, it answers at
  // once, in Lisp.
  if (isLate) {
    const sign = ask(agent, cwd, 'tools/call',
      { name: 'noteEdit', arguments: { path: cwd, tool: '' } },
      { patience: SIGN_PATIENCE });
    const isAlive = await Promise.race([
      noted.then(() => true), sign.then(({ isError }) => !isError)]);
    if (!isAlive) return '';
  }
  return noted;
}

// From this line on, the prompt of Gemini CLI has the whole texts of the files that it mentions.
const REFERENCED = '\n--- Content from referenced files ---';

// What Emacs is told of an event, undefined for nothing: neither what the model has said nor texts of
// files.
function toldOf(event, { cwd, source, reason, tool_input: asked, ...input }) {
  switch (event) {
    case 'start': return { text: source };
    case 'end': return { text: reason };
    case 'prompt': return promptOf(input);
    case 'asks': return questionOf(input);
    case 'edit': return typeof asked?.file_path === 'string' && !hasDenial(cwd)
      ? { path: path.resolve(cwd, asked.file_path) } : undefined;
    default: return {};
  }
}

const DENIAL = /^[^#\n]*\bdecision["']?\s*=\s*["']+deny/m;

// Whether a policy denies anything: to ask about an edit that is denied would overrule that.
function hasDenial(cwd) {
  const system = { darwin: '/Library/Application Support/GeminiCli', win32: 'C:\\ProgramData\\gemini-cli' };
  return [
    path.resolve(process.argv[1], '../../../policies'), // this program is in an extension of the user
    path.join(cwd, '.gemini/policies'),
    path.join(system[process.platform] ?? '/etc/gemini-cli', 'policies'),
  ].some((directory) => {
    try {
      return readdirSync(directory).some((name) => name.endsWith('.toml')
        && isDenial(path.join(directory, name)));
    } catch (error) {
      return error.code !== 'ENOENT';
    }
  });
}

// Whether the policy FILE denies anything, or may do so: it may be no file, or one without end.
function isDenial(file) {
  let descriptor;
  try {
    // It may be a pipe, which would wait for its other end.
    descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const found = fstatSync(descriptor);
    return !found.isFile() || found.size > MAX_FILE
      || DENIAL.test(readFileSync(descriptor, 'utf8'));
  } catch (error) {
    return error.code !== 'ENOENT';
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

// If a model says nothing once a tool has run, Gemini CLI itself tells it to go on.  Qwen Code says again
// what follows from a prompt, with an empty one.
function promptOf({ prompt, submitted_prompt: submitted = prompt }) {
  if (/^\[System: You /.test(submitted)) return { event: 'ran' };
  return submitted ? { text: brief(String(submitted).split(REFERENCED)[0]) } : undefined;
}

function questionOf({ notification_type: type, message, details }) {
  if (type === 'idle_prompt' || type === 'auth_success') return;
  const text = brief(details?.command ?? details?.title ?? message);
  if (details?.type === 'edit') return { text, path: details.filePath };
  // Qwen Code names only the tool.
  return / use (edit|write_file|notebook_edit)$/.test(message) ? { text, path: '' } : { text };
}

// Not half of a character.
const brief = (text) => Buffer.from(String(text).slice(0, MAX_TEXT)).toString();

const after = (time, value) =>
  new Promise((resolve) => { setTimeout(resolve, time, value).unref(); });

async function readAll(stream, limit) {
  const chunks = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > limit) throw new Error('what it says is far too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

// The arguments of noteEdit for the input of a hook, or undefined if nothing was edited.
// Without "before" the file was new, or, if "after" is missing, too, nothing is known.
function editOf({ cwd, tool_name: tool, tool_input: asked, tool_response: done }) {
  const named = asked?.file_path ?? asked?.notebook_path;
  if (!path.isAbsolute(cwd) || done?.error || typeof named !== 'string') return;
  const shown = done?.returnDisplay;
  const file = typeof shown?.filePath === 'string' ? shown.filePath : named;
  const edit = { path: path.resolve(cwd, file), tool: String(tool) };
  const texts = {};
  if (typeof shown?.newContent === 'string') {
    texts.after = shown.newContent;
    if (typeof shown.originalContent === 'string' && !isNew(shown, done)) {
      texts.before = shown.originalContent;
    }
  } else if (asked.old_string === '' && typeof asked.new_string === 'string') {
    // Gemini CLI shows only that it has created the file.
    texts.after = asked.new_string;
  }
  const isSmall = JSON.stringify(texts).length < MAX_LINE;
  return isSmall ? { ...edit, ...texts } : edit;
}

// Qwen Code says so only in words.
function isNew({ isNewFile, originalContent }, { llmContent }) {
  return isNewFile ?? (originalContent === ''
    && /^(Successfully created|Created new file)/.test(llmContent));
}

// ---- Start

process.removeAllListeners('warning');
process.stdout.on('error', () => process.exit(0));
process.on('uncaughtException', () => process.exit(0));

const words = Object.fromEntries(process.argv.slice(2).map((word) => word.split(/=(.*)/s)));
const agent = describe(words);
if (words.hook) {
  setTimeout(() => process.exit(0), words.hook === 'edited' ? HOOK_PATIENCE : 2 * EVENT_PATIENCE);
  hook(agent, words).catch(() => {}).finally(() => process.exit(0));
} else {
  new Server(agent).run();
}
