#!/usr/bin/env node
// Has the user of Emacs edit the file that is the last argument, and ends when the user is done.
//
// gemini-companion, a package for Emacs, has written this program where Emacs, or its keeper on
// another machine, listens to a socket.  A CLI takes it for an editor, $VISUAL.  It sends a line of
// JSON, {terminal, name, text}, and gets one: the text as the user has edited it, or null if that
// stays as it is.  If the file cannot take that, it sends {failure}, a message.

import { readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';

const SOCKET = '@SOCKET@';

// The CLI lets the user see what is printed.
function fail(text) {
  console.error(text);
  process.exit(1);
}

process.on('uncaughtException', ({ message }) => fail(message));

const file = path.resolve(process.argv.at(-1));
const bytes = readFileSync(file);
const text = bytes.toString();
if (!Buffer.from(text).equals(bytes)) fail(`${file} is not text in UTF-8, so Emacs cannot edit it here`);
// Without the terminal for input, as when a model has run Git, the user has pressed no key.
const terminal = process.stdin.isTTY ? process.env.GEMINI_COMPANION_TERMINAL : undefined;
const order = JSON.stringify({ terminal, name: path.basename(file), text });

let answer = '';
const emacs = net.createConnection(SOCKET, () => emacs.write(`${order}\n`));
emacs.setEncoding('utf8');
emacs.on('data', (data) => { answer += data; });
emacs.on('error', () => {}); // `close' follows
emacs.on('close', () => {
  if (!answer.endsWith('\n')) fail('Emacs cannot be reached, or this is too long for the connection to it');
  const edited = JSON.parse(answer);
  if (edited === null) return;
  try {
    writeFileSync(file, edited);
  } catch ({ message }) {
    try { // the disk may be full: there is room again for what was there
      writeFileSync(file, bytes);
    } catch {
      // It never began to write.
    }
    // The CLI clears the screen, so that Emacs must say it.
    const again = net.createConnection(SOCKET, () => {
      again.end(`${JSON.stringify({ failure: message })}\n`, () => fail(message));
    }).on('error', () => fail(message));
  }
});
