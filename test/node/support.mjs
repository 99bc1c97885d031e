// What the tests of the programs for Node share: a process that speaks JSON in lines, and waiting.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';

const SOURCES = new URL('../../src/', import.meta.url);
// In milliseconds.  What takes longer will not come.
const PATIENCE = 10000;

// A directory for the test T, removed at its end.
export async function directoryFor(t) {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'gc-node-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

// Copies the program NAME into DIRECTORY, with other values for some of its CONSTANTS.
export async function copyProgram(name, directory, constants = {}) {
  let text = await readFile(new URL(name, SOURCES), 'utf8');
  for (const [constant, value] of Object.entries(constants)) {
    const pattern = new RegExp(`^const ${constant} = .*;$`, 'm');
    if (!pattern.test(text)) throw new Error(`${name} has no constant ${constant}`);
    text = text.replace(pattern, () => `const ${constant} = ${value};`);
  }
  const file = path.join(directory, name);
  await writeFile(file, text);
  return file;
}

// What waits until something is so, looks again at each change.
export class Changes {
  #waiting = new Set();

  changed() {
    for (const check of this.#waiting) check();
  }

  // What CONDITION returns as soon as that is true; WHAT is waited for.
  until(what, condition) {
    return new Promise((resolve, reject) => {
      const end = (settle, value) => {
        clearTimeout(timer);
        this.#waiting.delete(check);
        settle(value);
      };
      const check = () => {
        const value = condition();
        if (value) end(resolve, value);
      };
      const timer = setTimeout(() => end(reject, new Error(`${what} did not come`)), PATIENCE);
      this.#waiting.add(check);
      check();
    });
  }
}

// A program whose standard input and output are lines of JSON.
export class Program {
  // All that it has said.
  lines = [];
  stderr = '';

  constructor(t, command, { changes = new Changes(), ...options } = {}) {
    this.changes = changes;
    this.process = spawn(command[0], command.slice(1), { stdio: 'pipe', ...options });
    this.ended = once(this.process, 'close').then(([status]) => status);
    this.process.stdin.on('error', () => {}); // it has ended
    let rest = '';
    this.process.stdout.setEncoding('utf8').on('data', (text) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop();
      for (const line of lines) this.take(JSON.parse(line));
      changes.changed();
    });
    this.process.stderr.setEncoding('utf8').on('data', (text) => { this.stderr += text; });
    t.after(() => {
      // What it has started ends with its input.
      this.process.stdin.destroy();
      this.process.kill('SIGKILL');
      return this.ended;
    });
  }

  take(line) {
    this.lines.push(line);
  }

  send(message) {
    this.process.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  request(id, method, params) {
    this.send({ id, method, ...(params && { params }) });
  }

  call(id, name, args) {
    this.request(id, 'tools/call', { name, arguments: args });
  }

  answers(id) {
    return this.lines.filter((line) => line.id === id && !line.method);
  }

  answer(id) {
    return this.changes.until(`the answer to ${id}`, () => this.answers(id)[0]);
  }
}
