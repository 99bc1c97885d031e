// A client on a host, without a user and a model: starts the relay as Gemini CLI does, and proposes changes.
//
//   node far-client.mjs DISCOVERY-FILE
//
// Says "ready" on stdout when it is connected.  For each line "BYTES FILE" on stdin it proposes a text of BYTES
// for FILE, and prints, each with times in microseconds since 1970,
//
//   answered SENT TOOK     openDiff was answered
//   decided AT             the user's decision has arrived
//   written AT             what the user has accepted is in the file

import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const { command, args } = JSON.parse(readFileSync(process.argv[2], 'utf8')).stdio;
const relay = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });

const now = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const say = (...words) => process.stdout.write(words.join(' ') + '\n');
const send = (message) => relay.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');

const answers = new Map();
const proposals = new Map();
let last = 0;

function call(method, params, answered) {
  answers.set(++last, answered);
  send({ id: last, method, params });
}

createInterface({ input: relay.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  if (message.id !== undefined && message.method === undefined) {
    answers.get(message.id)?.(message);
    answers.delete(message.id);
  } else if (message.method === 'ping') {
    send({ id: message.id, result: {} });
  } else if (/^ide\/diff/.test(message.method)) {
    const { filePath, content } = message.params;
    say('decided', now());
    if (message.method === 'ide/diffAccepted') {
      writeFileSync(filePath, content || proposals.get(filePath));
      say('written', now());
    }
  }
});
relay.on('exit', () => process.exit(1));

call('initialize', {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 'stdio-client', version: '0.61.0' },
}, () => {
  send({ method: 'notifications/initialized' });
  call('tools/list', {}, () => say('ready'));
});

createInterface({ input: process.stdin }).on('line', (line) => {
  const [, bytes, filePath] = /^(\d+) (.*)$/.exec(line);
  const lines = readFileSync(filePath, 'utf8').slice(0, Number(bytes)).split('\n');
  // Five lines differ.
  for (let n = 0; n < 5; n++) lines[Math.floor(n * lines.length / 5)] = `another line ${now()}`;
  const newContent = lines.join('\n');
  proposals.set(filePath, newContent);
  const sent = now();
  call('tools/call', { name: 'openDiff', arguments: { filePath, newContent } },
       () => say('answered', sent, now() - sent));
}).on('close', () => relay.kill());
