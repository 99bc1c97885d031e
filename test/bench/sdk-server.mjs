// An MCP server on the official SDK, to compare with: as the companion of VS Code is made, with the
// version of the SDK that it is made with.
//
// It prints its port and its token, and serves as long as its parent lives.  Unlike that companion
// it has a server for each session: in the one that all sessions share there, answers go to the
// client that connected last.  It also ends sessions by DELETE, as the load does.
//
// The SDK is that of the end-to-end tests, and so is Express, which the SDK itself depends on.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const load = createRequire(new URL('../e2e/sdk/package.json', import.meta.url));
const sdk = 'sdk-1.23.0';
const express = load('express');
const { z } = load('zod/v3'); // that companion's
const { McpServer } = load(`${sdk}/server/mcp.js`);
const { StreamableHTTPServerTransport } = load(`${sdk}/server/streamableHttp.js`);
const { isInitializeRequest } = load(`${sdk}/types.js`);

const KEEP_ALIVE = 60_000;
const token = randomUUID();
const transports = new Map();
let port;

// ---- MCP

const kinds = { string: z.string, boolean: z.boolean };

// The SDK wants schemas as zod's, and makes JSON of them for each client that asks.
function shape({ properties, required = [] }) {
  const entries = Object.entries(properties).map(([name, { type, description }]) => {
    const kind = kinds[type]().describe(description);
    return [name, required.includes(name) ? kind : kind.optional()];
  });
  return Object.fromEntries(entries);
}

const { tools } = JSON.parse(readFileSync(new URL('tools.json', import.meta.url), 'utf8'));
const offers = tools.map(({ name, description, inputSchema }) => (
  { name, config: { description, inputSchema: shape(inputSchema) } }
));

function createServer() {
  const server = new McpServer({ name: 'sdk-server', version: '1' },
                               { capabilities: { logging: {} } });
  for (const { name, config } of offers) {
    server.registerTool(name, config, async () => ({ content: [] }));
  }
  return server;
}

async function openSession() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => transports.set(id, transport),
  });
  const ping = () => transport.send({ jsonrpc: '2.0', method: 'ping' }).catch(() => {});
  const keepAlive = setInterval(ping, KEEP_ALIVE);
  transport.onclose = () => {
    clearInterval(keepAlive);
    transports.delete(transport.sessionId);
  };
  await createServer().connect(transport);
  return transport;
}

// ---- HTTP

function guard(request, response, next) {
  const { host, origin, authorization } = request.headers;
  if (origin || ![`localhost:${port}`, `127.0.0.1:${port}`].includes(host)) {
    response.status(403).end();
  } else if (authorization !== `Bearer ${token}`) {
    response.status(401).end();
  } else {
    next();
  }
}

async function serve(request, response) {
  const session = request.headers['mcp-session-id'];
  const opens = !session && request.method === 'POST' && isInitializeRequest(request.body);
  const transport = opens ? await openSession() : transports.get(session);
  if (transport) {
    await transport.handleRequest(request, response, request.body);
  } else {
    response.status(404).end();
  }
}

const app = express();
app.use(express.json({ limit: '10mb' }));
app.use(guard);
app.all('/mcp', serve);

const listener = app.listen(0, '127.0.0.1', () => {
  ({ port } = listener.address());
  console.log(`${port} ${token}`);
});

const parent = process.ppid;
setInterval(() => {
  if (process.ppid !== parent) process.exit();
}, 1000);
