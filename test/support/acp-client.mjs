// An editor that speaks ACP with a CLI, as agent-shell and Zed do.
//
//   node acp-client.mjs COMMAND ARGUMENT...
//
// Starts the CLI by this command, and a session in the working directory.  Each line of the input is an
// object {"prompt": TEXT, "answer": KIND}: a prompt, and how its user answers each question, by the kind
// of an option of ACP ("allow_once", "allow_always", "reject_once").  Each line of the output is an object
// with an "event":
//
//   ready            the session has begun
//   asks TITLE       the CLI has asked, and was answered
//   done REASON      the prompt has ended
//   ended            the CLI has ended

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const say = (event, more) => process.stdout.write(JSON.stringify({ event, ...more }) + '\n');

const [command, ...args] = process.argv.slice(2);
const cli = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
const answers = new Map();
let last = 0;
let kind;

const send = (message) => cli.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');

function request(method, params) {
  const id = ++last;
  send({ id, method, params });
  return new Promise((resolve, reject) => answers.set(id, { resolve, reject }));
}

function take({ id, method, params, result, error }) {
  if (method === 'session/request_permission') {
    const option = params.options.find((it) => it.kind === kind) ?? params.options[0];
    say('asks', { title: params.toolCall?.title, kinds: params.options.map((it) => it.kind) });
    send({ id, result: { outcome: { outcome: 'selected', optionId: option.optionId } } });
  } else if (method && id !== undefined) {
    send({ id, error: { code: -32601, message: 'Method not found' } });
  } else if (!method && answers.has(id)) {
    const { resolve, reject } = answers.get(id);
    answers.delete(id);
    if (error) reject(new Error(error.message));
    else resolve(result);
  }
}

createInterface({ input: cli.stdout }).on('line', (line) => {
  try {
    take(JSON.parse(line));
  } catch {
    // What is not a message is for a human reader.
  }
});
cli.on('exit', () => {
  say('ended');
  process.exit(0);
});

await request('initialize', {
  protocolVersion: 1,
  clientCapabilities: { fs: { readTextFile: false, writeTextFile: false } },
});
const { sessionId } = await request('session/new', { cwd: process.cwd(), mcpServers: [] });
say('ready');

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  kind = asked.answer;
  const { stopReason } = await request('session/prompt', {
    sessionId, prompt: [{ type: 'text', text: asked.prompt }],
  });
  say('done', { reason: stopReason });
}
cli.kill();
