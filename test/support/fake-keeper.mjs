// Stands in for the keeper on a host, for tests of connections.  It announces nothing.
//
//   node fake-keeper.mjs   in its home:
//     told       gets each message of Emacs, a line each, and "ended"
//     messages   what it says before it is ready, an object of JSON on each line, if the file exists
//     go         a FIFO that it reads before it is ready, if that exists
//     settings   what is in the one file that CLIs have here
//     unreadable   if it exists, that cannot be read
//     mute       if it exists, nobody is told what is in that file

import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const TEXT = 4;
const PING = 5;
const file = (name) => join(homedir(), name);

function send(kind, text) {
  const data = Buffer.from(text);
  const header = Buffer.alloc(9);
  header[0] = kind;
  header.writeUInt32BE(data.length, 5);
  process.stdout.write(Buffer.concat([header, data]));
}

const say = (message) => send(TEXT, JSON.stringify(message));

function hear(text) {
  appendFileSync(file('told'), `${text}\n`);
  const { do: order, id, text: content } = JSON.parse(text);
  if (order === 'write') writeFileSync(file('settings'), content);
  if (order !== 'announce') {
    if (id && !existsSync(file('mute'))) say({ say: 'file', id, ...inFile() });
    return;
  }
  if (existsSync(file('messages'))) {
    for (const line of readFileSync(file('messages'), 'utf8').trim().split('\n')) send(TEXT, line);
  }
  if (existsSync(file('go'))) readFileSync(file('go'));
  say({ say: 'ready', pid: process.pid, host: 'far', slot: 1 });
}

function inFile() {
  const name = '~/settings.json';
  if (existsSync(file('unreadable'))) return { name, error: 'it is too large' };
  const text = existsSync(file('settings')) ? readFileSync(file('settings'), 'utf8') : null;
  return { name, text };
}

let bytes = Buffer.alloc(0);
process.stdin.on('data', (chunk) => {
  bytes = Buffer.concat([bytes, chunk]);
  while (bytes.length >= 9) {
    const end = 9 + (bytes[0] === TEXT ? bytes.readUInt32BE(5) : 0);
    if (bytes.length < end) return;
    if (bytes[0] === TEXT) hear(bytes.subarray(9, end).toString());
    else send(PING, '');
    bytes = bytes.subarray(end);
  }
});
process.stdin.on('end', () => appendFileSync(file('told'), 'ended\n'));

process.stdout.write('gemini-companion: frames\n');
say({ say: 'home', home: homedir() });
