// A relay with a CLI and an Emacs that are played, for tests.

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { FakeEmacs } from './fake-emacs.mjs';
import { Program, copyProgram, directoryFor } from './support.mjs';

// So that tests need not wait: the relay pauses for so many milliseconds.
const QUICK = {
  FIRST_PAUSE: 10, LAST_PAUSE: 100, POLL_FILES: 20, POLL_RULES: 20, OUTCOME_PATIENCE: 200,
};

// What Gemini CLI does with the answers and notifications of its companion.
export class Cli extends Program {
  // What the first sign of a decision was: { status, content }.
  decided = undefined;

  async begin() {
    this.request(0, 'initialize', {
      protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'cli', version: '1' },
    });
    const answer = await this.answer(0);
    this.send({ method: 'notifications/initialized' });
    return answer;
  }

  take(line) {
    super.take(line);
    if (line.method === 'ide/diffAccepted') this.decide('accepted', line.params.content);
    if (line.method === 'ide/diffRejected') this.decide('rejected');
  }

  decide(status, content) {
    this.decided ??= { status, content };
    this.changes.changed();
  }

  outcomes() {
    return this.lines.filter((line) => line.method?.startsWith('ide/diff'));
  }

  propose(id, file, content) {
    this.call(id, 'openDiff', { filePath: file, newContent: content });
  }

  // Decides what is proposed, as its user has answered in its terminal.
  async resolve(id, file, status) {
    this.call(id, 'closeDiff', { filePath: file, suppressNotification: true });
    const { result } = await this.answer(id);
    const { content } = result?.isError || !result ? {} : JSON.parse(result.content[0].text);
    this.decide(status, status === 'accepted' ? content ?? undefined : undefined);
  }
}

export async function configure(directory, emacs, more = {}) {
  const file = path.join(directory, 'config.json');
  await writeFile(file, JSON.stringify({
    socket: emacs.socket, roots: [], ...more,
  }));
  return file;
}

// An Emacs that listens, and a function that starts a CLI with a relay to it.
export async function stage(t, { roots = [], constants = {} } = {}) {
  const directory = await directoryFor(t);
  const emacs = new FakeEmacs(t, path.join(directory, 's'));
  await emacs.listen();
  const config = await configure(directory, emacs, { roots });
  const relay = await copyProgram('relay.mjs', directory, { ...QUICK, ...constants });
  const start = ({ before = [], options = [], env = {}, ...more } = {}) => new Cli(
    t, [...before, process.execPath, ...options, relay, config],
    { changes: emacs, cwd: directory, env: { PATH: process.env.PATH, ...env }, ...more });
  return { directory, emacs, config, relay, start };
}
