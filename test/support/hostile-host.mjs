// A host whose root has read our config, and does with it whatever is not expected.
//
//   node hostile-host.mjs CONFIG SECONDS
//
// Says "begun" on stdout when the first of its requests was answered, and in the end, as JSON, how many
// answers had which status.

import { readFileSync } from 'node:fs';
import { request } from 'node:http';

const [file, seconds] = process.argv.slice(2);
const config = JSON.parse(readFileSync(file, 'utf8'));
const end = Date.now() + 1000 * Number(seconds);
const statuses = {};
let begun = false;

function post(body, session, headers = {}) {
  return new Promise((resolve) => {
    const sent = request({
      socketPath: config.socket,
      path: '/mcp',
      method: 'POST',
      headers: {
        Host: 'localhost',
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        ...(session ? { 'Mcp-Session-Id': session } : {}),
        ...headers,
      },
    }, (response) => {
      statuses[response.statusCode] = (statuses[response.statusCode] ?? 0) + 1;
      response.on('error', () => resolve({})).resume().on('end', () => resolve(response));
      if (!begun) process.stdout.write('begun\n');
      begun = true;
    });
    sent.on('error', () => {
      statuses.failed = (statuses.failed ?? 0) + 1;
      resolve({});
    });
    sent.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
}

let id = 0;
const call = (name, args) => ({ jsonrpc: '2.0', id: ++id, method: 'tools/call', params: { name, arguments: args } });

async function begin(directory) {
  const response = await post({
    jsonrpc: '2.0', id: ++id, method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'stdio-client', version: '0.61.0' } },
  }, undefined, { 'Gemini-Companion-Directory': encodeURIComponent(directory) });
  const session = response.headers?.['mcp-session-id'];
  if (session) await post({ jsonrpc: '2.0', method: 'notifications/initialized' }, session);
  return session;
}

const text = 'a line that is proposed, and another one\n'.repeat(5000);
const names = [
  'relative', '', '/', '//', '/..', '/a/../../etc/passwd', '/ssh:build:/etc/passwd', '/ssh:direct-far|sudo:root@far:/etc/shadow',
  '/sudo::/etc/passwd', '/:/quoted', '/tmp/a\0b', '/tmp/new\nline', '/tmp/\u202ename', `/tmp/${'n'.repeat(5000)}`, '/~/a', '/$HOME/a',
  '/tmp/*.txt', '/dev/zero', '/proc/self/mem', '/tmp/a.el.gz', '/tmp/x.tar', '/tmp/.dir-locals.el', '/tmp/%s%n', '/tmp/\ud800',
];
const stamps = [null, '', '1', 'x'.repeat(100000), 7, {}];
const currents = [
  null, { text }, { text: 'one\n' }, { base64: 'AAAA' }, { base64: '!' }, { unreadable: 'no' }, { unreadable: 'x'.repeat(100000) }, 'text', 7, {},
  { text: '\0'.repeat(1000) }, { text: '\ud800' },
];
const pick = (list) => list[Math.floor(Math.random() * list.length)];

async function attack() {
  let session;
  while (Date.now() < end) {
    session ??= await begin(pick(['/', '/home', '/tmp/\u0007', '%%', 'x'.repeat(10000), '/ssh:far:/']));
    const filePath = Math.random() < 0.5 ? pick(names) : `/tmp/flood/${Math.floor(Math.random() * 50)}.txt`;
    const modified = pick([null, 0, -1, 1e15, 1700000000, 'x']);
    const order = Math.random();
    const body = order < 0.5
      ? call('openDiff', { filePath, newContent: pick([text, 'two\n', '']), current: pick(currents), stamp: pick(stamps), modified,
                           proposal: Math.random() < 0.8 ? `p${id}` : pick(['same', 7, null, 'x'.repeat(1000)]) })
      : order < 0.7 ? call('fileWritten', { filePath, current: pick(currents), stamp: pick(stamps), modified })
      : order < 0.8 ? call('ignoreRules', { directory: pick(names), text: pick(['*\n', '['.repeat(30000), null, '**/'.repeat(10000)]) })
      : order < 0.9 ? call('closeDiff', { filePath })
      : pick([call('acceptDiff', { filePath }), call('getActiveFile', {}), call('no such', {}), '{', '[]', { jsonrpc: '2.0', id: ++id, method: 'tools/list' }]);
    const response = await post(body, session);
    if (response.statusCode === 404 || Math.random() < 0.01) session = undefined;
  }
}

await Promise.all(Array.from({ length: 8 }, attack));
process.stdout.write(JSON.stringify(statuses) + '\n');
process.exit();
