// relay.mjs, with a played Emacs.  Its messages and reviews are also tested in test/lisp.

import assert from 'node:assert/strict';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { FakeEmacs } from './fake-emacs.mjs';
import { configure, stage } from './relay-cli.mjs';

const preload = (source) => ['--import', `data:text/javascript,${encodeURIComponent(source)}`];

// ---- File systems that hang

// Each fourth time, nobody learns what the configuration is.
const HANGING = preload(`
  import files from 'node:fs/promises';
  import { syncBuiltinESMExports } from 'node:module';
  const { stat } = files;
  let count = 0;
  files.stat = (file, ...rest) => (file.endsWith('config.json') && count++ % 4 === 0
    ? new Promise(() => {}) : stat(file, ...rest));
  syncBuiltinESMExports();
`);

test('a file system that hangs stops nothing for ever', async (t) => {
  const { directory, emacs, start } = await stage(t, { constants: { READ_PATIENCE: 20 } });
  const cli = start({ options: HANGING });
  assert.ok((await cli.begin()).result);
  await emacs.until('the stream', () => [...emacs.sessions.values()].some((it) => it.stream));
  // A new configuration is noticed, too.
  const other = new FakeEmacs(t, path.join(directory, 't'));
  await other.listen();
  const apart = path.join(directory, 'apart');
  await mkdir(apart);
  const next = await configure(apart, other);
  await rename(next, path.join(directory, 'config.json'));
  await other.until('a session', () => other.of('initialize').length);
});

// ---- The end

const FAILING = preload(`
  process.on('SIGUSR2', () => {
    if (process.env.TEST_REJECT) Promise.reject(new Error('a fault'));
    else throw new Error('a fault');
  });
`);

for (const env of [{}, { TEST_REJECT: '1' }]) {
  const what = env.TEST_REJECT ? 'a promise that nobody looks after' : 'an error';
  test(`after ${what}, the relay takes leave`, async (t) => {
    const { directory, emacs, start } = await stage(t);
    const cli = start({ options: FAILING, env });
    await cli.begin();
    const file = path.join(directory, 'file.txt');
    cli.propose(1, file, 'text');
    await cli.answer(1);
    await writeFile(file, 'text');
    cli.process.kill('SIGUSR2');
    assert.equal(await cli.ended, 1);
    assert.equal(emacs.of('DELETE').length, 1);
    assert.equal(emacs.files.get(file)?.text, 'text');
    assert.equal(cli.stderr, '');
  });
}

test('an Emacs that does not answer delays the end for a moment only', async (t) => {
  const { emacs, start } = await stage(t, { constants: { LAST_WORDS: 100 } });
  const cli = start({ options: FAILING });
  await cli.begin();
  await emacs.until('the stream', () => [...emacs.sessions.values()].some((it) => it.stream));
  emacs.isSilent = true;
  cli.process.kill('SIGUSR2');
  assert.equal(await cli.ended, 1);
});

// ---- A CLI that suspends itself

// As Gemini CLI does it after ^Z, twice.
const SUSPENDING = `
  const [program, ...args] = process.argv.slice(1);
  require('node:child_process').spawn(program, args, { stdio: 'inherit' })
    .on('exit', () => process.exit());
  process.on('SIGCONT', () => console.log('{"method":"continued"}'));
  process.on('SIGUSR2', () => process.kill(0, 'SIGTSTP'));
`;

test('the first program in a terminal goes on after it has suspended itself', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const { emacs, start } = await stage(t);
  const cli = start({ before: [process.execPath, '-e', SUSPENDING], detached: true });
  await cli.begin();
  cli.process.kill('SIGUSR2');
  await emacs.until('a signal', () => cli.lines.some((it) => it.method === 'continued'));
  cli.request(1, 'ping');
  await cli.answer(1);
});

// ---- Ignore files

test('ignore files are told again, as Emacs may have forgotten them', async (t) => {
  const { directory, emacs, start } = await stage(t, {
    constants: { TELL_RULES_AGAIN: 50 },
  });
  await writeFile(path.join(directory, '.geminiignore'), 'secret\n');
  await configure(directory, emacs, { roots: [directory] });
  const cli = start();
  await cli.begin();
  await emacs.until('the ignore file', () => emacs.rules.length >= 3);
  assert.deepEqual(emacs.rules[2], { directory, text: 'secret\n' });
});

// ---- Closing a diff

test('an answer that stops halfway keeps the CLI waiting for a moment only', async (t) => {
  const { directory, emacs, start } = await stage(t, { constants: { DIFF_PATIENCE: 200 } });
  const cli = start();
  await cli.begin();
  const file = path.join(directory, 'file.txt');
  cli.propose(1, file, 'text');
  await cli.answer(1);
  emacs.cut = (what) => (what === 'closeDiff' ? 'halt' : undefined);
  cli.call(2, 'closeDiff', { filePath: file, suppressNotification: true });
  assert.equal((await cli.answer(2)).result.content[0].text, '{"content":null}');
});

// ---- Whose user sits in another program

// Starts what comes after its own options.
const LAUNCHER = `
  import { spawn } from 'node:child_process';
  const [program, ...args] = process.argv.slice(2).filter(
    (it) => !/^--(acp|experimental-acp|acp-x|prompt)$/.test(it));
  spawn(program, args, { stdio: 'inherit' }).on('exit', (status) => process.exit(status));
`;

const SHELL = ['sh', '-c', '"$0" "$@"; exit $?'];

const elsewhere = preload("Object.defineProperty(process, 'platform', { value: 'darwin' });");

for (const [system, options] of [['Linux', []], ['another system', elsewhere]]) {
  test(`which process the CLI is, and whether it speaks ACP, is known on ${system}`, async (t) => {
    const { directory, emacs, start } = await stage(t);
    const launcher = path.join(directory, 'cli.mjs');
    await writeFile(launcher, LAUNCHER);
    const cli = (...args) => [process.execPath, launcher, ...args];
    const cases = [
      [cli('--acp'), 'own'],
      [cli('--prompt', '--experimental-acp'), 'own'],
      [[...cli('--acp'), ...SHELL], 'own'],
      [cli('--prompt'), undefined],
      [cli('--acp-x'), undefined],
      [[...cli('--prompt'), ...SHELL], undefined],
      // The program in which somebody has started another CLI.
      [[...cli('--acp'), ...cli()], undefined],
    ];
    for (const [before, front] of cases) {
      emacs.requests = [];
      const one = start({ before, options });
      await one.begin();
      const [{ headers }] = emacs.of('initialize');
      assert.equal(headers['gemini-companion-front'], front, before.slice(2).join(' '));
      const isNested = before.indexOf(launcher) !== before.lastIndexOf(launcher);
      const isFirst = headers['gemini-companion-process'] === String(one.process.pid);
      assert.equal(isFirst, !isNested, before.slice(2).join(' '));
    }
  });
}
