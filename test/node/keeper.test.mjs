// keeper.sh, in a shell, in a home of its own.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  chmod, lstat, mkdir, readFile, readdir, symlink, utimes, writeFile,
} from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Changes, directoryFor } from './support.mjs';

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

async function script({ emacs = 'e1', hash = '0123' } = {}) {
  const text = await readFile(new URL('../../src/keeper.sh', import.meta.url), 'utf8');
  const config = JSON.stringify({ host: '127.0.0.1:9', token: 'secret' });
  const values = {
    RELAY: quoted('relay\n'), HASH: quoted(hash), ID: quoted('laptop_me'), EMACS: quoted(emacs),
    WORKSPACE: quoted('"/src"'), ROOTS: quoted('["/src"]'),
    AGENTS: `agent gemini ${quoted(config)} gemini-ide-server-PID-PORT.json temporary gemini/ide`,
  };
  return text.replace(/@([A-Z]+)@/g, (_all, name) => values[name]);
}

class Keeper extends Changes {
  output = '';

  constructor(t, home, text, before = '') {
    super();
    this.process = spawn('sh', [], {
      cwd: '/', stdio: 'pipe',
      env: { PATH: process.env.PATH, HOME: home, TMPDIR: path.join(home, 'tmp') },
    });
    this.ended = new Promise((resolve) => { this.process.on('close', resolve); });
    this.process.stdout.on('data', (bytes) => {
      this.output += bytes;
      this.changed();
    });
    this.process.stdin.write(before + text);
    t.after(() => this.end());
  }

  said(word) {
    return this.until(`${word} of ${this.output}`, () => new RegExp(
      `^gemini-companion: ${word} (.*)$`, 'm').exec(this.output)?.[1]);
  }

  async announce() {
    await this.said('socket');
    this.process.stdin.write('forwarded\n');
    return this.said('ready');
  }

  end() {
    this.process.stdin.end();
    return this.ended;
  }
}

async function stage(t) {
  const home = await directoryFor(t);
  const cache = path.join(home, '.cache', 'gemini-companion');
  await mkdir(path.join(home, 'tmp'));
  await mkdir(cache, { recursive: true });
  return { home, cache };
}

const modeOf = async (file) => ((await lstat(file)).mode & 0o777).toString(8);

test('nobody else can write where Emacs is announced', async (t) => {
  const { home } = await stage(t);
  const outer = path.join(home, 'tmp', 'gemini');
  const inner = path.join(outer, 'ide');
  await mkdir(inner, { recursive: true });
  for (const directory of [outer, inner, path.dirname(outer)]) await chmod(directory, 0o777);
  await new Keeper(t, home, await script()).announce();
  for (const directory of [outer, inner]) assert.equal(await modeOf(directory), '755');
  // That is for all programs.
  assert.equal(await modeOf(path.dirname(outer)), '777');
});

test('relays that were not used for 30 days are removed', async (t) => {
  const { home, cache } = await stage(t);
  const days = (number) => new Date(Date.now() - number * 24 * 3600 * 1000);
  const ages = {
    'relay-0123.mjs': 40, 'relay-old.mjs': 40, 'relay-new.mjs': 20, 'other-old.mjs': 40,
  };
  for (const [name, age] of Object.entries(ages)) {
    const file = path.join(cache, name);
    await writeFile(file, 'text');
    await utimes(file, days(age), days(age));
  }
  await symlink(path.join(home, 'tmp'), path.join(cache, 'relay-link.mjs'));
  await new Keeper(t, home, await script()).announce();
  const left = (await readdir(cache)).filter((it) => it.endsWith('.mjs')).sort();
  assert.deepEqual(left,
    ['other-old.mjs', 'relay-0123.mjs', 'relay-link.mjs', 'relay-new.mjs']);
  const { mtime } = await lstat(path.join(cache, 'relay-0123.mjs'));
  assert.ok(mtime > days(1), 'the one in use does not look so');
});

// A process id that is in use nowhere, and a name that `choose_slot' does not take.
const DEAD = '99999999';
const machine = () => `${os.hostname().replace(/[^A-Za-z0-9._]/g, '_')}.lock`;

test('keepers that find a dead one have different configurations', async (t) => {
  const { home, cache } = await stage(t);
  await symlink(DEAD, path.join(cache, machine()));
  const keepers = [];
  for (const number of [1, 2, 3, 4, 5, 6]) {
    keepers.push(new Keeper(t, home, await script({ emacs: `e${number}` })));
  }
  const slots = await Promise.all(keepers.map(async (it) => (await it.announce()).split(' ')[2]));
  assert.deepEqual(slots.sort(), ['1', '2', '3', '4', '5', '6']);
  assert.deepEqual((await readdir(cache)).filter((it) => it.includes('.lock')), []);
});

test('the lock of one that lives is never removed, whoever has just looked', async (t) => {
  const { home, cache } = await stage(t);
  const lock = path.join(cache, machine());
  const owner = String(process.pid);
  await symlink(owner, lock);
  // It has seen the lock of a dead one, which was replaced since.
  const text = (await script()).replace('main; exit', () => `lock=${quoted(lock)}
remove_lock ${DEAD}
printf 'gemini-companion: lock %s\\n' "$(readlink "$lock")"
exit`);
  assert.equal(await new Keeper(t, home, text).said('lock'), owner);
});

test('one that was killed while it removed a lock hinders no other', async (t) => {
  const { home, cache } = await stage(t);
  await symlink(DEAD, path.join(cache, machine()));
  await symlink(DEAD, path.join(cache, `${machine()}.${DEAD}`));
  await new Keeper(t, home, await script()).announce();
  assert.deepEqual((await readdir(cache)).filter((it) => it.includes('.lock')), []);
});
