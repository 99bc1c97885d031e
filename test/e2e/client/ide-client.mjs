// The IDE client that ships with Gemini CLI, driven by JSON lines.
//
// One command per line on stdin, one answer or event per line on stdout:
//
//   {"id": 1, "command": "connect"}
//   {"id": 1, "ok": true, "result": {"status": "connected", ...}}
//   {"event": "context", "context": {...}}
//
// Further events: "status" when the client's connection changes, "answered"
// when the companion has answered a request, "log" for what the CLI logs.
//
// Nothing here knows the protocol: connecting, discovery, checks of what
// arrives and the handling of diffs are all the CLI's own `IdeClient', taken
// from the pinned package.  The working directory decides the workspace and
// TMPDIR where discovery files are looked for, as in the CLI.

import { readdir } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { format } from 'node:util';

const bundle = new URL('./node_modules/@google/gemini-cli/bundle/',
                       import.meta.url);

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

// What the bundle tells its console would mix with the answers.
for (const level of ['debug', 'log', 'info', 'warn', 'error']) {
  console[level] = (...args) => say({ event: 'log', level, text: format(...args) });
}

// The package exports no library, but its bundle holds the CLI's core as
// ES modules whose names end in a hash of their content.
async function loadCore() {
  const names = (await readdir(bundle)).sort();
  for (const name of names.filter((it) => /^core-[A-Z0-9]+\.js$/.test(it))) {
    const core = await import(new URL(name, bundle));
    if (core.IdeClient && core.ideContextStore) return core;
  }
  throw new Error('no IdeClient in the bundle of @google/gemini-cli');
}

const core = await loadCore();
core.ideContextStore.subscribe(
  (context) => say({ event: 'context', context: context ?? null }));

let client;

function status() {
  return {
    ...client?.getConnectionStatus(),
    ide: client?.getDetectedIdeDisplayName() ?? null,
    diffing: client?.isDiffingEnabled() ?? false,
    tools: client?.availableTools ?? [],
  };
}

// `openDiff' below ends with the outcome, and says nothing of the answer to its
// request, which comes before.
function reportAnswers(mcp) {
  const request = mcp.request.bind(mcp);
  mcp.request = async (message, ...rest) => {
    const response = await request(message, ...rest);
    say({ event: 'answered', request: message.params?.name ?? message.method });
    return response;
  };
}

const commands = {
  async connect() {
    // As in the CLI, an instance looks for companions when it is made; a
    // client that found none is of no use any more.
    if (!client?.getCurrentIde()) {
      core.IdeClient.instancePromise = null;
      client = await core.IdeClient.getInstance();
      client.addStatusChangeListener((state) => say({ event: 'status', ...state }));
    }
    await client.connect({ logToConsole: false });
    if (client.client) reportAnswers(client.client);
    return status();
  },

  // Be a client that starts in this directory with this environment, and knows nothing yet.
  async begin({ directory, environment }) {
    await client?.disconnect();
    client = undefined;
    core.ideContextStore.clear();
    for (const name of Object.keys(process.env)) delete process.env[name];
    Object.assign(process.env, environment);
    process.chdir(directory);
    core.IdeClient.instancePromise = null;
    return {};
  },

  // What a CLI takes that starts in this directory with this environment.
  async find(place) {
    await commands.begin(place);
    const found = await core.IdeClient.getInstance();
    return {
      process: found.ideProcessInfo.pid,
      ide: found.getDetectedIdeDisplayName() ?? null,
    };
  },

  async listTools() {
    await client.discoverTools();
    return client.availableTools;
  },

  // Answers when the outcome is known, however long the user takes.
  openDiff({ filePath, newContent }) {
    return client.openDiff(filePath, newContent);
  },

  async closeDiff({ filePath, suppressNotification }) {
    const content = await client.closeDiff(filePath, { suppressNotification });
    return { content: content ?? null };
  },

  async resolveDiffFromCli({ filePath, outcome }) {
    await client.resolveDiffFromCli(filePath, outcome);
    return {};
  },

  async context() {
    return core.ideContextStore.get() ?? null;
  },

  async status() {
    return status();
  },

  async disconnect() {
    await client?.disconnect();
    return {};
  },
};

async function answer({ id, command, ...args }) {
  try {
    if (!Object.hasOwn(commands, command)) {
      throw new Error(`no such command: ${command}`);
    }
    say({ id, ok: true, result: await commands[command](args) });
  } catch (error) {
    say({ id, ok: false, error: error?.message ?? String(error) });
  }
}

// Like the CLI's, this client's openDiff rejects one promise of its own that
// nobody looks at when a review cannot be opened.
process.on('unhandledRejection', () => {});

say({ event: 'ready' });
for await (const line of createInterface({ input: process.stdin })) {
  if (!line.trim()) continue;
  const request = JSON.parse(line);
  if (request.command === 'quit') break;
  answer(request);
}
process.exit(0);
