// A client of the Model Context Protocol goes through all that we serve.
//
// The first line of stdin says with which client and where:
//
//   {"package": "sdk-1.23.0", "url": "http://127.0.0.1:1234/mcp", "token": "...",
//    "directory": "/the/project"}
//
// "mode": "auto" lets a client of version 2 ask for revisions without sessions first.  Each line
// of stdout tells of one check, or what the user of Emacs is to do next:
//
//   {"check": "ping", "ok": true}
//   {"need": "accept", "filePath": "/the/project/a.txt", "newContent": "..."}
//
// to which any line on stdin answers that it is done.  The first check that fails is the last.

import diagnostics from 'node:diagnostics_channel';
import { isDeepStrictEqual } from 'node:util';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const DEADLINE = 20_000;

// What a client tells its console would mix with our lines.
for (const name of ['debug', 'log', 'info', 'warn']) console[name] = console.error;

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const job = JSON.parse((await input.next()).value);
const endpoint = new URL(job.url);

async function need(what, details) {
  say({ need: what, ...details });
  await input.next();
}

// ---- What goes over the wire, whatever the client makes of it

const gets = [];
let session;
let revision;

const realFetch = globalThis.fetch;
globalThis.fetch = async (url, init) => {
  const response = await realFetch(url, init);
  session = response.headers.get('mcp-session-id') ?? session;
  if (init.method === 'GET') {
    gets.push({ status: response.status, end: endOf(response.clone()) });
  } else if (response.ok && String(init.body).includes('"method":"initialize"')) {
    revision = /"protocolVersion" *: *"(.*?)"/.exec(await response.clone().text())?.[1];
  }
  return response;
};

async function endOf(response) {
  try {
    for await (const _ of response.body ?? []);
    return 'ended';
  } catch (error) {
    return `cut: ${error}`;
  }
}

const sockets = [];
diagnostics.channel('net.client.socket').subscribe(({ socket }) => sockets.push(socket));

const openConnections = () => sockets.filter((it) => !it.destroyed).length;

// ---- The client

const describe = (error) => [error, error?.cause].filter(Boolean).join(': ');

// Any error makes Gemini CLI disconnect for good.
const errors = [];
let closing = false;
process.on('unhandledRejection', (error) => errors.push(`unhandled: ${describe(error)}`));

// A client that reconnects without reason shall do it at once, to be seen.
const reconnection = {
  initialReconnectionDelay: 1,
  maxReconnectionDelay: 1,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 2,
};

async function load(name) {
  if (!name.startsWith('sdk-')) return import(name);
  return {
    ...await import(`${name}/client/index.js`),
    ...await import(`${name}/client/streamableHttp.js`),
  };
}

const { Client, StreamableHTTPClientTransport } = await load(job.package);
const client = new Client(
  { name: 'gemini-companion-matrix', version: '1.0.0' },
  job.mode ? { versionNegotiation: { mode: job.mode } } : {});
const transport = new StreamableHTTPClientTransport(endpoint, {
  requestInit: { headers: { Authorization: `Bearer ${job.token}` } },
  reconnectionOptions: reconnection,
});

client.onerror = (error) => {
  if (!closing) errors.push(describe(error));
};

const received = [];
const listeners = new Set();
client.fallbackNotificationHandler = async ({ method, params }) => {
  received.push({ method, params });
  for (const listener of listeners) listener();
};

// Resolves with the value of PROMISE, but not later than the deadline.
function soon(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), DEADLINE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Resolves once a notification of METHOD was received whose params satisfy GOOD.
function receives(method, good) {
  let examine;
  const found = new Promise((resolve) => {
    examine = () => received.some((it) => it.method === method && good(it.params)) && resolve();
    listeners.add(examine);
    examine();
  });
  return soon(method, found).finally(() => listeners.delete(examine));
}

// ---- Checks

function expect(condition, reason) {
  if (!condition) throw new Error(reason);
}

function same(actual, wanted) {
  expect(isDeepStrictEqual(actual, wanted),
         `${JSON.stringify(actual)} is not ${JSON.stringify(wanted)}`);
}

// A check may return figures, which are printed with it.
async function check(name, body) {
  try {
    const details = await body();
    same(errors, []);
    say({ check: name, ok: true, ...details });
  } catch (error) {
    say({ check: name, ok: false, reason: describe(error), errors, received });
    process.exit(1);
  }
}

const call = (name, args) => client.callTool({ name, arguments: args });

const outcomes = [];

async function receivesOutcome(method, params) {
  outcomes.push({ method, params });
  await receives(method, (it) => isDeepStrictEqual(it, params));
}

async function opensReview(filePath, newContent) {
  const { content, isError, ...rest } = await call('openDiff', { filePath, newContent });
  same({ content, isError: isError ?? false }, { content: [], isError: false });
  same(Object.keys(rest).filter((it) => it !== '_meta' && it !== 'resultType'), []);
}

async function failsAsResult(name, args) {
  const result = await call(name, args);
  same(result.isError, true);
  same(result.content.map((it) => it.type), ['text']);
  expect(result.content[0].text, 'there is no reason');
}

async function isRefused(name) {
  const error = await call(name, {}).then(() => null, (it) => it);
  expect(error, `${name} was called`);
  same(error.code, -32602);
}

const listed = async () => (await client.listTools()).tools.map((it) => it.name);

const a = join(job.directory, 'a.txt');
const neverOpened = join(job.directory, 'never-opened.txt');
const b = join(job.directory, 'b.txt');

await check('connect', async () => {
  await soon('the connection', client.connect(transport));
  same(client.getServerVersion().name, 'gemini-companion');
  expect(client.getServerCapabilities().tools, 'no tools');
  return { revision };
});

await check('list tools', async () => {
  const names = await listed();
  for (const name of ['openDiff', 'closeDiff']) expect(names.includes(name), `no ${name}`);
});

await check('ping', () => client.ping());

const activeFile = ({ openFiles }) => openFiles?.find((it) => it.isActive);

await check('context is received', () => receives(
  'ide/contextUpdate', ({ workspaceState }) => activeFile(workspaceState)?.path === a));

await check('context follows the user', async () => {
  await need('next-line');
  await receives('ide/contextUpdate',
                 ({ workspaceState }) => activeFile(workspaceState)?.cursor?.line === 2);
});

await check('accept', async () => {
  const newContent = 'one\nzwei \u00e4 \u{1d54f} "\\"\nthree\n';
  await opensReview(a, newContent);
  await need('accept', { filePath: a, newContent });
  await receivesOutcome('ide/diffAccepted', { filePath: a, content: newContent });
});

await check('reject', async () => {
  const newContent = 'a new file\n';
  await opensReview(b, newContent);
  await need('reject', { filePath: b, newContent });
  await receivesOutcome('ide/diffRejected', { filePath: b });
});

async function closesReview(newContent, args) {
  await opensReview(a, newContent);
  await need('show', { filePath: a, newContent });
  const { content, isError } = await call('closeDiff', { filePath: a, ...args });
  same(isError ?? false, false);
  same(content.map((it) => it.type), ['text']);
  same(JSON.parse(content[0].text), { content: newContent });
}

await check('close', async () => {
  await closesReview('closed\n', {});
  await receivesOutcome('ide/diffRejected', { filePath: a });
});

await check('close silently', () =>
  closesReview('closed silently\n', { suppressNotification: true }));

await check('result with isError', async () => {
  await failsAsResult('openDiff', { filePath: 'relative.txt', newContent: '' });
  await failsAsResult('closeDiff', { filePath: neverOpened });
});

await check('unknown tool', () => isRefused('noSuchTool'));

await check('40 calls', async () => {
  const calls = [
    listed,
    () => client.ping(),
    () => failsAsResult('closeDiff', { filePath: neverOpened }),
    () => isRefused('noSuchTool'),
  ];
  for (let n = 0; n < 40; n++) await calls[n % calls.length]();
  const connections = openConnections();
  same(gets.map((it) => it.status), [200]);
  // One has the stream, one the calls, and what came at once when it connected had its own.
  expect(connections <= 4, `${connections} connections are open`);
  return { gets: gets.length, connections };
});

await check('every outcome once', () => {
  same(received.filter((it) => it.method !== 'ide/contextUpdate'), outcomes);
});

await check('end of the session', async () => {
  // The client must not reconnect before it is closed.
  reconnection.initialReconnectionDelay = reconnection.maxReconnectionDelay = 2 * DEADLINE;
  await transport.terminateSession();
  same(await soon('the end of the stream', gets[0].end), 'ended');
  same(gets.length, 1);
});

await check('close the client', async () => {
  closing = true;
  await soon('the client to close', client.close());
});

await check('the session is gone', async () => {
  const response = await realFetch(endpoint, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${job.token}`,
      Accept: 'application/json, text/event-stream',
      'Content-Type': 'application/json',
      'Mcp-Session-Id': session,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  });
  same(response.status, 404);
});

say({ done: true });
process.exit(0);
