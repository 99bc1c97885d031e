// A stand-in for the model: the part of the Gemini API that the CLI calls.
//
//   node model.mjs REQUESTS.jsonl [SCRIPT.json]
//
// Listens on 127.0.0.1, says where in its first line on stdout
// ({"event": "listening", "port": N}), and answers each streamed request for
// content with the next turn of its script.  A turn is {"text": "..."},
// {"functionCall": {"name": "...", "args": {...}}} or an array of those.  The
// script is an array of turns; more turns come as JSON lines on stdin, which
// ends the process when it is closed.  The line "forget" takes all turns back.
// Without turns left the model says "Done.".
//
// Each request body goes to REQUESTS.jsonl as one line, and is announced on
// stdout once it is there, so that a test can wait for it and then read what
// the model received.

import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const [record, script] = process.argv.slice(2);
const turns = script ? JSON.parse(readFileSync(script, 'utf8')) : [];
let count = 0;

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

function candidate(parts) {
  return {
    candidates: [
      { index: 0, content: { role: 'model', parts }, finishReason: 'STOP' },
    ],
    usageMetadata: {
      promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2,
    },
    modelVersion: 'stand-in',
  };
}

const replies = {
  streamGenerateContent(response) {
    const turn = turns.shift() ?? { text: 'Done.' };
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.end(`data: ${JSON.stringify(candidate([turn].flat()))}\r\n\r\n`);
  },

  // The CLI asks these beside the conversation; they take no turn.
  generateContent(response) {
    json(response, candidate([{ text: '{}' }]));
  },

  countTokens(response) {
    json(response, { totalTokens: 1 });
  },
};

function json(response, value, status = 200) {
  response.writeHead(status, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify(value));
}

async function handle(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const method = /:(\w+)(\?|$)/.exec(request.url)?.[1];
  if (!Object.hasOwn(replies, method ?? '')) {
    return json(response, { error: { code: 404, message: request.url } }, 404);
  }
  const body = JSON.parse(Buffer.concat(chunks).toString('utf8') || 'null');
  count += 1;
  const bytes = Buffer.concat(chunks).length;
  appendFileSync(record, JSON.stringify({ method, bytes, body }) + '\n');
  say({ event: 'request', method, count });
  replies[method](response);
}

writeFileSync(record, '');
const server = createServer((request, response) => {
  handle(request, response).catch((error) => json(
    response, { error: { code: 500, message: String(error) } }, 500));
});
server.listen(0, '127.0.0.1', () => {
  say({ event: 'listening', port: server.address().port });
});

for await (const line of createInterface({ input: process.stdin })) {
  if (!line.trim()) continue;
  const turn = JSON.parse(line);
  if (turn === 'forget') {
    turns.length = 0;
    count = 0;
    writeFileSync(record, '');
    say({ event: 'forgot' });
  } else {
    turns.push(turn);
  }
}
process.exit(0);
