#!/usr/bin/env node
// A stand-in for LLxprt Code, which cannot be had everywhere: it does what version 0.11 does to
// find an editor and to talk to it, and nothing else.
//
// It connects when it starts, and again at each "connect".  One command per line of stdin:
//
//   {"id": 1, "command": "openDiff", "filePath": "/a.txt", "newContent": "text\n"}
//
// What it has to say it appends to the file that LLXPRT_TEST_OUTPUT names, or else writes to stdout,
// in lines like these:
//
//   {"status": "connected", "ide": "Emacs", "process": 123, "within": 40}
//   {"context": {...}}
//   {"id": 1, "result": {...}}
//
// Unlike the program it looks for the editor in its own container.

import { execFileSync } from 'node:child_process';
import { appendFileSync, readFileSync, readdirSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, join, relative, isAbsolute } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from 'sdk-1.32.2/client/index.js';
import { StreamableHTTPClientTransport } from 'sdk-1.32.2/client/streamableHttp.js';
import { z } from 'zod';

const CONTEXT_TIME = 5_000;
const SHELLS = ['zsh', 'bash', 'sh', 'tcsh', 'csh', 'ksh', 'fish', 'dash'];

function say(line) {
  const text = JSON.stringify(line) + '\n';
  const output = process.env.LLXPRT_TEST_OUTPUT;
  if (output) appendFileSync(output, text);
  else process.stdout.write(text);
}

// ---- Finding the editor

function processInfo(pid) {
  try {
    const text = execFileSync('ps', ['-o', 'ppid=,command=', '-p', String(pid)],
                              { encoding: 'utf8' }).trim();
    const [, parent, command] = /^(\d+)\s*(.*)$/s.exec(text);
    return { parent: Number(parent), name: basename(command.split(' ')[0]) };
  } catch {
    return { parent: 0, name: '' };
  }
}

// The grandparent of the nearest shell, or the topmost process.
function editorProcess() {
  let pid = process.pid;
  for (let depth = 0; depth < 32; depth++) {
    const { parent, name } = processInfo(pid);
    if (SHELLS.includes(name)) {
      const above = processInfo(parent).parent;
      return above > 1 ? above : parent;
    }
    if (parent <= 1) break;
    pid = parent;
  }
  return pid;
}

// The first file in the directory that has the number of the process.
function discover(pid) {
  try {
    const directory = join(tmpdir(), 'llxprt', 'ide');
    const name = readdirSync(directory).find(
      (it) => it.startsWith(`llxprt-ide-server-${pid}-`) && it.endsWith('.json'));
    return name ? JSON.parse(readFileSync(join(directory, name), 'utf8')) : {};
  } catch {
    return {};
  }
}

// Without a name in the file there are only two editors, which a terminal of theirs tells.
function editorName({ ideInfo }) {
  if (ideInfo?.name && ideInfo?.displayName) return ideInfo.displayName;
  return { vscode: 'VS Code', sublime: 'Sublime Text' }[process.env.TERM_PROGRAM];
}

const real = (path) => {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
};

function isInWorkspace(roots) {
  return roots.split(delimiter).some((root) => {
    const path = relative(real(root), real(process.cwd()));
    return !path.startsWith('..') && !isAbsolute(path);
  });
}

// ---- The connection

const notification = (method, params) =>
  z.object({ jsonrpc: z.literal('2.0'), method: z.literal(method), params });

const Context = notification('ide/contextUpdate', z.object({
  workspaceState: z.object({
    openFiles: z.array(z.object({
      path: z.string(),
      timestamp: z.number(),
      isActive: z.boolean().optional(),
      selectedText: z.string().optional(),
      cursor: z.object({ line: z.number(), character: z.number() }).optional(),
    })).optional(),
    isTrusted: z.boolean().optional(),
  }).optional(),
}));
const Accepted = notification('ide/diffAccepted',
                              z.object({ filePath: z.string(), content: z.string() }));
const Rejected = notification('ide/diffRejected', z.object({ filePath: z.string() }));

let client;
const waiting = new Map();

function settle(filePath, result) {
  waiting.get(filePath)?.(result);
  waiting.delete(filePath);
}

async function establish(port, token) {
  const own = new Client({ name: 'streamable-http-client', version: '1.0.0' });
  let received;
  const context = new Promise((resolve) => { received = resolve; });
  own.setNotificationHandler(Context, ({ params }) => {
    say({ context: params });
    received(true);
  });
  own.setNotificationHandler(Accepted, ({ params: { filePath, content } }) =>
    settle(filePath, { status: 'accepted', content }));
  own.setNotificationHandler(Rejected, ({ params: { filePath } }) =>
    settle(filePath, { status: 'rejected' }));
  // Any error disconnects it for good.
  own.onerror = (error) => { if (client === own) lose(`error: ${error.message}`); };
  own.onclose = () => { if (client === own) lose('closed'); };
  await own.connect(new StreamableHTTPClientTransport(
    new URL(`http://127.0.0.1:${port}/mcp`),
    { requestInit: { headers: token ? { Authorization: `Bearer ${token}` } : {} } }));
  client = own;
  await own.ping();
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(resolve, CONTEXT_TIME, false); });
  const inTime = await Promise.race([context, late]);
  clearTimeout(timer);
  if (!inTime) throw new Error('no context in time');
}

function lose(reason) {
  client = undefined;
  say({ status: 'disconnected', reason });
}

async function connect(token) {
  const begun = Date.now();
  const pid = editorProcess();
  const file = discover(pid);
  const ide = editorName(file);
  if (!ide) return lose('not supported');
  const roots = file.workspacePath ?? process.env.LLXPRT_CODE_IDE_WORKSPACE_PATH;
  if (!roots || !isInWorkspace(roots)) return lose('directory mismatch');
  token ??= file.authToken ?? process.env.LLXPRT_CODE_IDE_AUTH_TOKEN;
  let reason = 'no port';
  for (const port of [file.port, process.env.LLXPRT_CODE_IDE_SERVER_PORT].filter(Boolean)) {
    try {
      await establish(port, token);
      say({ status: 'connected', ide, process: pid, within: Date.now() - begun });
      return;
    } catch (error) {
      reason = error.message;
      const failed = client;
      client = undefined;
      await failed?.close();
    }
  }
  lose(reason);
}

// ---- What its user and its model do

async function closeDiff(filePath) {
  const result = await client.callTool(
    { name: 'closeDiff', arguments: { filePath, suppressNotification: true } });
  return JSON.parse(result.content[0].text).content;
}

const commands = {
  connect: async ({ token }) => {
    const old = client;
    client = undefined;
    await old?.close();
    await connect(token);
  },
  // Ends with what the user decided.
  openDiff: ({ filePath, newContent }) => new Promise((resolve, reject) => {
    waiting.set(filePath, resolve);
    client.callTool({ name: 'openDiff', arguments: { filePath, newContent } }).catch(reject);
  }),
  // The user says yes or no in the program.
  resolve: async ({ filePath, outcome }) => {
    const content = await closeDiff(filePath);
    settle(filePath, outcome === 'accepted' ? { status: 'accepted', content }
                                            : { status: 'rejected' });
  },
};

async function answer({ id, command, ...args }) {
  try {
    say({ id, result: await commands[command](args) ?? {} });
  } catch (error) {
    say({ id, error: error.message });
  }
}

const lines = createInterface({ input: process.stdin });
await connect();
for await (const line of lines) {
  if (line.trim()) answer(JSON.parse(line));
}
process.exit(0);
