// bootstrap.sh and keeper.mjs, in a shell, in a home of its own; the test is Emacs.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import {
  chmod, lstat, mkdir, mkdtemp, readFile, readdir, readlink, realpath, rm, symlink, utimes, writeFile,
} from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Changes, copyProgram, directoryFor } from './support.mjs';

const [OPEN, DATA, CLOSE, CREDIT, TEXT, PING] = [0, 1, 2, 3, 4, 5];
const WINDOW = 1 << 20;
const MAX_DATA = 64 << 10;
const GEMINI = {
  name: 'gemini', file: 'gemini-ide-server-PID-PORT.json', directory: ['temporary', 'gemini/ide'],
};
const QWEN = { name: 'qwen', file: 'PORT.lock', directory: ['home', 'QWEN_HOME', '~/.qwen', 'ide'] };
const RELAY = "relay 'x'\n\\n $HOME `a`\n\n";

async function script(t, constants) {
  const copy = await copyProgram('keeper.mjs', await directoryFor(t), constants);
  const keeper = await readFile(copy, 'utf8');
  const bootstrap = await readFile(new URL('../../src/bootstrap.sh', import.meta.url), 'utf8');
  return bootstrap.replace('@KEEPER@', () => `'${keeper.replaceAll("'", "'\\''")}'`);
}

function frame(kind, channel, length, data = Buffer.alloc(0)) {
  const header = Buffer.alloc(9);
  header[0] = kind;
  header.writeUInt32BE(channel, 1);
  header.writeUInt32BE(length, 5);
  return Buffer.concat([header, data]);
}

class Keeper extends Changes {
  // What came before the first frame, and then, in order.
  output = '';
  frames = [];
  bytes = Buffer.alloc(0);
  hasFrames = false;

  static async start(t, home, { environment = {}, constants, shell = ['sh'], before = '' } = {}) {
    return new Keeper(t, home, before + await script(t, constants), shell, environment);
  }

  constructor(t, home, text, shell, environment) {
    super();
    this.process = spawn(shell[0], shell.slice(1), {
      cwd: '/', stdio: 'pipe',
      env: { PATH: process.env.PATH, HOME: home, TMPDIR: path.join(home, 'tmp'), ...environment },
    });
    this.home = home;
    this.ended = new Promise((resolve) => { this.process.on('close', resolve); });
    this.process.stdin.on('error', () => {}); // it has ended
    this.process.stdout.on('data', (bytes) => this.take(bytes));
    this.process.stdin.write(text);
    t.after(() => this.end());
  }

  take(bytes) {
    this.bytes = Buffer.concat([this.bytes, bytes]);
    if (!this.hasFrames) this.takeLines();
    while (this.hasFrames && this.bytes.length >= 9) {
      const [kind, channel, length] = [this.bytes[0], this.bytes.readUInt32BE(1), this.bytes.readUInt32BE(5)];
      const end = 9 + ([OPEN, DATA, TEXT].includes(kind) ? length : 0);
      if (this.bytes.length < end) break;
      this.frames.push({ kind, channel, length, data: this.bytes.subarray(9, end) });
      this.bytes = this.bytes.subarray(end);
    }
    this.changed();
  }

  takeLines() {
    const mark = 'gemini-companion: frames\n';
    const end = this.bytes.indexOf(mark);
    this.output = this.bytes.toString();
    if (end < 0) return;
    this.output = this.bytes.subarray(0, end).toString();
    this.bytes = this.bytes.subarray(end + mark.length);
    this.hasFrames = true;
  }

  send(kind, channel, data) {
    this.process.stdin.write(frame(kind, channel, data.length, data));
  }

  tell(message) {
    this.send(TEXT, 0, Buffer.from(JSON.stringify(message)));
  }

  get messages() {
    return this.frames.filter((it) => it.kind === TEXT).map((it) => JSON.parse(it.data));
  }

  said(word) {
    return this.until(`${word} of ${this.output}`,
      () => this.messages.find((it) => it.say === word));
  }

  async announce({ emacs = 'e1', slot = null, agents = [GEMINI], hash = '0123', roots = ['/src'], ...more } = {}) {
    await this.said('home');
    this.tell({ do: 'announce', relay: RELAY, editor: "'@SOCKET@'", hash, id: 'laptop_me', emacs, slot, roots, agents, ...more });
    this.ready = await this.said('ready');
    return this;
  }

  configuration(name = 'gemini') {
    return path.join(this.home, '.cache', 'gemini-companion',
      `${machine()}-laptop_me-${this.ready.slot}-${name}.json`);
  }

  async read(file) {
    return JSON.parse(await readFile(file, 'utf8'));
  }

  async socket(name) {
    return (await this.read(this.configuration(name))).socket;
  }

  // That of the program for texts.
  async edits() {
    return (await this.read(this.configuration())).sockets.at(-1);
  }

  get discovery() {
    const { pid } = this.ready;
    return path.join(this.home, 'tmp', 'gemini', 'ide', `gemini-ide-server-${pid}-${pid + 100000}.json`);
  }

  // What it has written for one agent.
  async files() {
    const { sockets } = await this.read(this.configuration());
    const relay = path.join(path.dirname(this.configuration()), 'relay-0123.mjs');
    return [relay, this.ready.editor, this.configuration(), ...sockets, this.discovery].sort();
  }

  // A client, and the frame by which Emacs is told of it.
  async connect(name) {
    const client = net.connect(await this.socket(name));
    client.on('error', () => {});
    const before = this.frames.length;
    const open = await this.until('a client', () => this.frames.slice(before).find((it) => it.kind === OPEN));
    return { client, open, channel: open.channel };
  }

  received(channel) {
    return Buffer.concat(this.frames.filter((it) => it.kind === DATA && it.channel === channel)
      .map((it) => it.data));
  }

  find(kind, channel) {
    return this.frames.find((it) => it.kind === kind && it.channel === channel);
  }

  end() {
    this.process.stdin.end();
    return this.ended;
  }
}

// A home whose name is short enough for sockets, wherever the tests have their temporary files.
async function stage(t, name = '') {
  const directory = await mkdtemp('/tmp/gc-');
  t.after(() => rm(directory, { recursive: true, force: true }));
  const home = path.join(directory, name);
  const cache = path.join(home, '.cache', 'gemini-companion');
  await mkdir(path.join(home, 'tmp'), { recursive: true });
  await mkdir(cache, { recursive: true });
  return { home, cache };
}

const machine = () => os.hostname().replace(/[^A-Za-z0-9._]/g, '_');
const modeOf = async (file) => ((await lstat(file)).mode & 0o777).toString(8);

// The files below DIRECTORY, and their modes.
async function filesIn(directory) {
  const names = await readdir(directory, { recursive: true, withFileTypes: true });
  return names.filter((it) => !it.isDirectory()).map((it) => path.join(it.parentPath ?? it.path, it.name)).sort();
}

// A process id that is in use nowhere.
const DEAD = '99999999';

// ---- Announcing

const SHELLS = [['sh'], ['dash'], ['bash'], ['bash', '--posix'], ['busybox', 'sh'], ['ksh'], ['zsh']]
  .filter(([name]) => spawnSync(name, ['-c', 'exit 0']).status === 0 || name === 'busybox')
  .filter(([name]) => !spawnSync(name).error);

for (const shell of SHELLS) {
  test(`Emacs is announced as long as the connection lasts, by ${shell.join(' ')}`, async (t) => {
    const { home, cache } = await stage(t, "ö \"it's\" [a] {b} *&;#!(c)");
    await mkdir(path.join(home, '.qwen'));
    const keeper = await Keeper.start(t, home, { shell });
    await keeper.announce({ agents: [GEMINI, QWEN], roots: ["/src/it's ä", '/b'] });
    assert.equal(keeper.output, '\ngemini-companion: shell\n');
    assert.deepEqual(await keeper.said('home'), { say: 'home', home });
    const { pid, host, slot } = keeper.ready;
    assert.deepEqual([pid, host, slot], [keeper.process.pid, os.hostname(), 1]);
    const relay = path.join(cache, 'relay-0123.mjs');
    const discoveries = { gemini: keeper.discovery, qwen: path.join(home, '.qwen', 'ide', `${pid + 100000}.lock`) };
    const { sockets } = await keeper.read(keeper.configuration());
    const left = [relay, await keeper.edits()];
    for (const [name, discovery] of Object.entries(discoveries)) {
      const socket = await keeper.socket(name);
      const configuration = keeper.configuration(name);
      assert.equal(path.dirname(socket), cache);
      assert.deepEqual(await keeper.read(configuration),
        { socket, sockets, keeper: pid, emacs: 'e1', roots: ["/src/it's ä", '/b'] });
      const { command } = (await keeper.read(discovery)).stdio;
      assert.ok(path.isAbsolute(command));
      assert.deepEqual(await keeper.read(discovery), {
        workspacePath: "/src/it's ä:/b",
        ppid: pid,
        ideInfo: { name: 'emacs', displayName: 'Emacs' },
        stdio: { command, args: [relay, configuration] },
      });
      left.push(socket, configuration, discovery);
    }
    const { editor } = keeper.ready;
    assert.deepEqual(await filesIn(home), [...left, editor].sort());
    assert.equal(await readFile(relay, 'utf8'), RELAY);
    // Others can read none of it.
    for (const file of left) assert.equal(await modeOf(file), '600', file);
    assert.equal(await modeOf(editor), '700');
    assert.equal(await modeOf(cache), '700');
    const common = path.join('/tmp/gemini/ide', path.basename(keeper.discovery));
    assert.ok(existsSync(common));
    assert.equal(await keeper.end(), 0);
    assert.deepEqual(await filesIn(home), [relay]);
    assert.ok(!existsSync(common));
  });
}

test('a signal ends it in order', async (t) => {
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) {
    const { home, cache } = await stage(t);
    const keeper = await (await Keeper.start(t, home)).announce();
    keeper.process.kill(signal);
    assert.equal(await keeper.ended, 0);
    assert.deepEqual(await filesIn(home), [path.join(cache, 'relay-0123.mjs')]);
  }
});

test('a part of the script does nothing', async (t) => {
  const text = await script(t);
  for (const length of [text.length / 2, text.length - 20]) {
    const { home } = await stage(t);
    const keeper = new Keeper(t, home, text.slice(0, length), ['sh'], {});
    await keeper.end();
    assert.equal(keeper.output, '');
    assert.deepEqual(await filesIn(home), []);
  }
});

test('what a shell prints at its start is no frame', async (t) => {
  const { home } = await stage(t);
  const keeper = await Keeper.start(t, home, { before: 'echo welcome\n' });
  await keeper.announce();
  assert.equal(keeper.output, 'welcome\n\ngemini-companion: shell\n');
});

test('nothing is announced before Emacs says so', async (t) => {
  const { home } = await stage(t);
  const keeper = await Keeper.start(t, home);
  await keeper.said('home');
  keeper.tell({ do: 'roots', roots: ['/b'] });
  await keeper.end();
  assert.deepEqual(await filesIn(home), []);
});

test('other roots are announced', async (t) => {
  const { home } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce();
  keeper.tell({ do: 'roots', roots: ['/a', '/b'] });
  keeper.process.stdin.write(frame(PING, 0, 0));
  await keeper.until('an answer', () => keeper.find(PING, 0));
  assert.deepEqual((await keeper.read(keeper.configuration())).roots, ['/a', '/b']);
  assert.equal((await keeper.read(keeper.discovery)).workspacePath, '/a:/b');
});

test('where a root that is a link leads is told', async (t) => {
  const { home } = await stage(t);
  const link = path.join(home, 'link');
  await symlink(home, link);
  const keeper = await (await Keeper.start(t, home)).announce({ roots: [link] });
  assert.deepEqual(await keeper.said('root'), { say: 'root', root: await realpath(home) });
  keeper.tell({ do: 'roots', roots: [link, await realpath(home), '/not-there'] });
  keeper.process.stdin.write(frame(PING, 0, 0));
  await keeper.until('an answer', () => keeper.find(PING, 0));
  assert.equal(keeper.messages.filter(({ say }) => say === 'root').length, 1);
});

test('other roots that cannot be announced end nothing', async (t) => {
  const { home } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce();
  // As on a full disk.
  await rm(keeper.discovery);
  await mkdir(keeper.discovery);
  keeper.tell({ do: 'roots', roots: ['/b'] });
  assert.match((await keeper.said('warning')).text, /cannot be written: is the disk full/);
  keeper.process.stdin.write(frame(PING, 0, 0));
  await keeper.until('an answer', () => keeper.find(PING, 0));
});

test('Qwen Code is announced where it is used', async (t) => {
  const { home } = await stage(t);
  const agents = [GEMINI, QWEN];
  const locks = async (name) => (await readdir(path.join(home, name, 'ide'))).length;
  const first = await (await Keeper.start(t, home)).announce({ agents });
  assert.ok(!existsSync(path.join(home, '.qwen')) && !existsSync(first.configuration('qwen')));
  for (const name of ['own', 'linked']) await mkdir(path.join(home, name));
  await symlink('linked', path.join(home, '.qwen'));
  await (await Keeper.start(t, home)).announce({ agents, emacs: 'e2' });
  assert.equal(await locks('linked'), 1);
  for (const [count, QWEN_HOME] of [[1, path.join(home, 'own')], [2, '~/own']]) {
    const keeper = await Keeper.start(t, home, { environment: { QWEN_HOME } });
    await keeper.announce({ agents, emacs: QWEN_HOME });
    assert.equal(await locks('own'), count);
  }
});

test('in a sandbox, Node is what it has, and nothing else is announced', async (t) => {
  const { home } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce({ sandbox: true });
  const { stdio } = await keeper.read(keeper.discovery);
  assert.equal(stdio.command, 'node');
  const others = await readdir('/tmp/gemini/ide').catch(() => []);
  assert.deepEqual(others.filter((it) => it.includes(`-${keeper.ready.pid}-`)), []);
});

test('nobody else can write where Emacs is announced', async (t) => {
  const { home } = await stage(t);
  const outer = path.join(home, 'tmp', 'gemini');
  const inner = path.join(outer, 'ide');
  await mkdir(inner, { recursive: true });
  for (const directory of [outer, inner, path.dirname(outer)]) await chmod(directory, 0o777);
  await (await Keeper.start(t, home)).announce();
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
  await (await Keeper.start(t, home)).announce();
  const left = (await readdir(cache)).filter((it) => /^(relay|other)-/.test(it)).sort();
  assert.deepEqual(left,
    ['other-old.mjs', 'relay-0123.mjs', 'relay-link.mjs', 'relay-new.mjs']);
  const { mtime } = await lstat(path.join(cache, 'relay-0123.mjs'));
  assert.ok(mtime > days(1), 'the one in use does not look so');
});

// ---- Slots

test('another Emacs has another configuration', async (t) => {
  const { home } = await stage(t);
  const one = await (await Keeper.start(t, home)).announce();
  const other = await (await Keeper.start(t, home)).announce({ emacs: 'e2' });
  assert.deepEqual([one.ready.slot, other.ready.slot], [1, 2]);
  await one.end();
  assert.deepEqual(await filesIn(home), await other.files());
});

test('the same Emacs takes its configuration over', async (t) => {
  // Its earlier keeper may live for a while after the connection was cut.
  const { home } = await stage(t);
  const one = await (await Keeper.start(t, home)).announce();
  const other = await (await Keeper.start(t, home)).announce();
  assert.equal(other.ready.slot, 1);
  assert.equal((await other.read(other.configuration())).keeper, other.process.pid);
  await one.end();
  assert.deepEqual(await filesIn(home), await other.files());
});

test('two Emacsen do not change places', async (t) => {
  // Both connections have been cut, and the one that was second is back first.
  const { home } = await stage(t);
  for (const [emacs, slot, expected] of [
    ['e2', 2, 2], ['e1', 1, 1], ['e3', 2, 3], ['e4', '../x', 4],
  ]) {
    const keeper = await (await Keeper.start(t, home)).announce({ emacs, slot });
    assert.equal(keeper.ready.slot, expected);
  }
});

test('what a dead keeper has left is replaced', async (t) => {
  const { home } = await stage(t);
  // Also the socket for a CLI that is not used there.
  const dead = await (await Keeper.start(t, home)).announce({ agents: [GEMINI, QWEN] });
  const socket = await dead.socket();
  dead.process.kill('SIGKILL');
  await dead.ended;
  assert.ok(existsSync(socket) && existsSync(dead.discovery));
  const keeper = await (await Keeper.start(t, home)).announce({ emacs: 'e2' });
  assert.equal(keeper.ready.slot, 1);
  assert.deepEqual(await filesIn(home), await keeper.files());
});

test('a dead keeper may have had the same process id', async (t) => {
  // As in a container that was started again.
  const { home } = await stage(t);
  const dead = await (await Keeper.start(t, home)).announce();
  dead.process.kill('SIGKILL');
  await dead.ended;
  const keeper = await Keeper.start(t, home);
  const configuration = await dead.read(dead.configuration());
  await writeFile(dead.configuration(), JSON.stringify({ ...configuration, keeper: keeper.process.pid }));
  await keeper.announce();
  assert.equal(keeper.ready.slot, 1);
  assert.ok(existsSync(keeper.discovery));
});

test('what is not ours stays', async (t) => {
  const { home, cache } = await stage(t);
  const configuration = (slot) => path.join(cache, `${machine()}-laptop_me-${slot}-gemini.json`);
  // It looks like what a dead keeper has left.
  const target = path.join(home, 'target');
  const text = JSON.stringify({ socket: '/none', keeper: Number(DEAD), emacs: 'e1', roots: [] });
  await writeFile(target, text);
  await symlink(target, configuration(1));
  await writeFile(configuration(2), 'damaged\n');
  const keeper = await (await Keeper.start(t, home)).announce();
  assert.equal(keeper.ready.slot, 3);
  await keeper.end();
  assert.equal(await readFile(target, 'utf8'), text);
  assert.equal(await readlink(configuration(1)), target);
  assert.equal(await readFile(configuration(2), 'utf8'), 'damaged\n');
});

test('keepers that choose at once have different configurations', async (t) => {
  const { home } = await stage(t);
  const keepers = await Promise.all([1, 2, 3, 4, 5, 6].map(async (number) => (
    (await Keeper.start(t, home)).announce({ emacs: `e${number}` }))));
  assert.deepEqual(keepers.map((it) => it.ready.slot).sort(), [1, 2, 3, 4, 5, 6]);
});

// ---- Faults

test('a directory of others is left alone', async (t) => {
  const { home } = await stage(t);
  const elsewhere = path.join(home, 'elsewhere');
  const link = path.join(home, 'tmp', 'gemini');
  await mkdir(elsewhere);
  await symlink(elsewhere, link);
  const keeper = await (await Keeper.start(t, home)).announce();
  assert.ok((await keeper.said('warning')).text.startsWith(`${link} belongs to another user`));
  keeper.tell({ do: 'roots', roots: ['/b'] });
  await keeper.end();
  // Once is enough.
  assert.equal(keeper.messages.filter((it) => it.say === 'warning').length, 1);
  assert.deepEqual(await readdir(elsewhere), []);
});

test('if all directories are of others, that is a fault, and Emacs says what to do', async (t) => {
  const { home } = await stage(t);
  await symlink(home, path.join(home, 'tmp', 'gemini'));
  const keeper = await Keeper.start(t, home);
  await keeper.said('home');
  // In a sandbox, there is only one directory.
  keeper.tell({ do: 'announce', relay: '', editor: '', hash: '0', id: 'x', emacs: 'e', slot: null, roots: [], agents: [GEMINI], sandbox: true });
  const fault = await keeper.said('fault');
  assert.equal(fault.kind, 'owner');
  assert.match(fault.text, /gemini belongs to another user, or cannot be made, so no CLI finds Emacs$/);
  assert.equal(await keeper.ended, 1);
});

test('a cache of others is a fault', async (t) => {
  const home = await directoryFor(t);
  await mkdir(path.join(home, 'tmp'));
  await mkdir(path.join(home, '.cache'));
  await symlink('../tmp', path.join(home, '.cache', 'gemini-companion'));
  const keeper = await Keeper.start(t, home);
  await keeper.said('home');
  keeper.tell({ do: 'announce', relay: '', hash: '0', id: 'x', emacs: 'e', slot: null, roots: [], agents: [GEMINI] });
  const fault = await keeper.said('fault');
  assert.match(fault.text, /gemini-companion cannot be written, or belongs to another user: set XDG_CACHE_HOME/);
  assert.equal(fault.kind, 'keeper');
  assert.equal(await keeper.ended, 1);
  assert.deepEqual(await readdir(path.join(home, 'tmp')), []);
});

test('a full disk is a fault, and leaves the slot free', async (t) => {
  const { home, cache } = await stage(t);
  // Blocks of 512 or 1024 bytes.
  const full = await Keeper.start(t, home, { before: "ulimit -f 1; trap '' XFSZ\n" });
  await full.said('home');
  full.tell({ do: 'announce', relay: RELAY, hash: '0123', id: 'laptop_me', emacs: 'e', slot: 1, roots: [`/${'x'.repeat(2000)}`], agents: [GEMINI] });
  assert.match((await full.said('fault')).text, /-1 cannot be written: is the disk full/);
  assert.equal(await full.ended, 1);
  assert.deepEqual(await filesIn(home), [path.join(cache, 'relay-0123.mjs')]);
  const keeper = await (await Keeper.start(t, home)).announce({ slot: 1 });
  assert.equal(keeper.ready.slot, 1);
});

test('a long name is no name of a socket', async (t) => {
  const { home } = await stage(t, 'x'.repeat(90));
  const refused = await Keeper.start(t, home);
  await refused.said('home');
  refused.tell({ do: 'announce', relay: '', hash: '0', id: 'x', emacs: 'e', slot: null, roots: [], agents: [GEMINI] });
  assert.match((await refused.said('fault')).text, /too long a name for a socket/);
  // There may be another directory for it.
  const XDG_RUNTIME_DIR = await directoryFor(t);
  const keeper = await Keeper.start(t, home, { environment: { XDG_RUNTIME_DIR } });
  await keeper.announce();
  const directory = path.join(XDG_RUNTIME_DIR, 'gemini-companion');
  assert.equal(path.dirname(await keeper.socket()), directory);
  assert.equal(await modeOf(directory), '700');
});

test('Node is found, and one that is too old is none', async (t) => {
  if (['/usr/local/bin/node', '/opt/homebrew/bin/node'].some(existsSync)) return;
  const { home } = await stage(t);
  const bin = path.join(home, 'bin');
  await mkdir(bin);
  const login = path.join(home, 'login');
  const environment = { PATH: bin, SHELL: login };
  const shell = ['/bin/sh'];
  const lacks = async () => {
    const keeper = await Keeper.start(t, home, { environment, shell });
    await keeper.until('a fault', () => /^gemini-companion: fault node no node of /m.test(keeper.output));
    assert.equal(await keeper.ended, 1);
  };
  await lacks();
  await writeFile(path.join(bin, 'node'), '#!/bin/sh\necho v12.22.9\n');
  await chmod(path.join(bin, 'node'), 0o755);
  await lacks();
  // The user's shell finds one, as asdf, fnm and mise have it, and says something before.
  await writeFile(login, `#!/bin/sh
echo welcome
[ "$1" = -ilc ] && PATH=${path.dirname(process.execPath)}:/bin exec /bin/sh -c "$2"
`);
  await chmod(login, 0o755);
  const own = await (await Keeper.start(t, home, { environment, shell })).announce();
  assert.equal((await own.read(own.discovery)).stdio.command, await realpath(process.execPath));
  await own.end();
  const found = path.join(home, '.nvm/versions/node/v20.1.0/bin/node');
  await mkdir(path.dirname(found), { recursive: true });
  await symlink(process.execPath, found);
  // An old one that was installed later.
  const old = path.join(home, '.nvm/versions/node/v16.20.0/bin/node');
  await mkdir(path.dirname(old), { recursive: true });
  await writeFile(old, '#!/bin/sh\necho v16.20.0\n');
  await chmod(old, 0o755);
  const keeper = await (await Keeper.start(t, home, { environment, shell })).announce();
  assert.equal((await keeper.read(keeper.discovery)).stdio.command, found);
});

// ---- Clients

test('clients of each agent are passed on, byte for byte, both ways', async (t) => {
  const { home } = await stage(t);
  await mkdir(path.join(home, '.qwen'));
  const keeper = await (await Keeper.start(t, home)).announce({ agents: [GEMINI, QWEN] });
  for (const name of ['gemini', 'qwen']) {
    const { client, open, channel } = await keeper.connect(name);
    assert.equal(open.data.toString(), name);
    client.write(Buffer.from([0, 255, 10, 13]));
    await keeper.until('what it says', () => keeper.received(channel).length === 4);
    assert.deepEqual([...keeper.received(channel)], [0, 255, 10, 13]);
    let told = '';
    const heard = new Promise((resolve) => { client.on('end', () => resolve(told)); });
    client.on('data', (data) => { told += data; });
    keeper.send(DATA, channel, Buffer.from('an '));
    keeper.send(DATA, channel, Buffer.from('answer'));
    keeper.send(CLOSE, channel, Buffer.alloc(0));
    assert.equal(await heard, 'an answer');
    await keeper.until('the end', () => keeper.find(CLOSE, channel));
  }
});

test('much is passed on both ways, and never more than allowed', async (t) => {
  const { home } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce();
  const { client, channel } = await keeper.connect();
  const much = Buffer.alloc(10 << 20, 'abcdefghijk');
  client.write(much);
  await keeper.until('a part', () => keeper.received(channel).length > WINDOW - MAX_DATA);
  const round = async () => {
    const count = keeper.frames.filter((it) => it.kind === PING).length;
    keeper.process.stdin.write(frame(PING, 0, 0));
    await keeper.until('an answer', () => keeper.frames.filter((it) => it.kind === PING).length > count);
  };
  await round();
  let given = WINDOW;
  while (given < much.length + WINDOW) {
    assert.ok(keeper.received(channel).length <= given);
    keeper.process.stdin.write(frame(CREDIT, channel, MAX_DATA));
    given += MAX_DATA;
    if (given % WINDOW === 0) await round();
  }
  await keeper.until('all', () => keeper.received(channel).length === much.length);
  assert.ok(keeper.received(channel).equals(much));
  // The client reads nothing yet: there is credit only for what fits between.
  client.pause();
  let allowed = WINDOW;
  let sent = 0;
  let seen = 0;
  const parts = [];
  client.on('data', (data) => parts.push(data));
  client.pause();
  const credit = () => {
    const gave = keeper.frames.filter((it) => it.kind === CREDIT && it.channel === channel);
    for (; seen < gave.length; seen += 1) allowed += gave[seen].length;
    return allowed >= MAX_DATA;
  };
  while (sent < much.length) {
    if (sent > WINDOW) client.resume();
    await keeper.until('credit', credit);
    keeper.send(DATA, channel, much.subarray(sent, sent + MAX_DATA));
    allowed -= MAX_DATA;
    sent += MAX_DATA;
  }
  await keeper.until('all of it', () => {
    keeper.process.stdin.write(frame(PING, 0, 0));
    return parts.reduce((sum, part) => sum + part.length, 0) === much.length;
  });
  assert.ok(Buffer.concat(parts).equals(much));
});

test('a client that leaves is told of, and what comes late for it is ignored', async (t) => {
  const { home } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce();
  const { client, channel } = await keeper.connect();
  client.destroy();
  await keeper.until('the end', () => keeper.find(CLOSE, channel));
  keeper.send(DATA, channel, Buffer.from('late'));
  keeper.process.stdin.write(frame(CREDIT, channel, 5));
  const next = await keeper.connect();
  assert.equal(next.channel, channel + 1);
});

// ---- Files of the CLIs

const SETTINGS = ['GEMINI_CLI_HOME', '~', '.gemini/settings.json'];

// What the keeper answers to {do: ORDER, file, ...REST}.
let requests = 0;
async function request(keeper, order, rest = {}, file = SETTINGS) {
  requests += 1;
  const id = requests;
  keeper.tell({ do: order, id, file, ...rest });
  return keeper.until('an answer', () => keeper.messages.find((it) => it.id === id));
}

test('a file of a CLI is read and written, and keeps its mode and its link', async (t) => {
  const { home } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce();
  const name = path.join(home, '.gemini', 'settings.json');
  assert.equal((await request(keeper, 'read')).text, null);
  const text = '{ "ä": "\\r\\n\ud83d\ude00" }\r\n';
  const written = await request(keeper, 'write', { old: null, text });
  assert.deepEqual([written.name, written.error], [name, undefined]);
  assert.deepEqual([await readFile(name, 'utf8'), await modeOf(name)], [text, '600']);
  assert.equal(await modeOf(path.dirname(name)), '700');
  assert.equal((await request(keeper, 'read')).text, text);
  const target = path.join(home, 'dotfile');
  await writeFile(target, 'old', { mode: 0o640 });
  await chmod(target, 0o640);
  await rm(name);
  await symlink('../dotfile', name);
  await request(keeper, 'write', { old: 'old', text: 'new' });
  assert.deepEqual([await readFile(target, 'utf8'), await modeOf(target)], ['new', '640']);
  assert.equal(await readlink(name), '../dotfile');
  await request(keeper, 'write', { old: 'new', text: null });
  assert.equal((await request(keeper, 'read')).text, null);
});

test('with the last file in it, a directory goes', async (t) => {
  const { home } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce();
  const files = ['extensions/emacs/hooks/hooks.json', 'extensions/emacs/a.json'];
  const order = (file, more) => request(keeper, 'write', more, ['NONE', '~', `.gemini/${file}`]);
  for (const file of files) await order(file, { old: null, text: file });
  await writeFile(path.join(home, '.gemini', 'mine'), '');
  assert.equal((await order(files[0], { old: files[0], text: null })).error, undefined);
  assert.deepEqual(await readdir(path.join(home, '.gemini/extensions/emacs')), ['a.json']);
  await order(files[1], { old: files[1], text: null });
  assert.deepEqual(await readdir(path.join(home, '.gemini')), ['mine']);
});

test('a home is where the variable says', async (t) => {
  const { home } = await stage(t);
  const other = path.join(home, 'other');
  await mkdir(other);
  const keeper = await (await Keeper.start(t, home, { environment: { QWEN_HOME: other } })).announce();
  const { name } = await request(keeper, 'read', {}, ['QWEN_HOME', '~/.qwen', 'settings.json']);
  assert.equal(name, path.join(other, 'settings.json'));
});

test('a file that cannot be read or written stays, and the answer says why', async (t) => {
  const { home } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce();
  const name = path.join(home, '.gemini', 'settings.json');
  await mkdir(name, { recursive: true });
  const read = async () => (await request(keeper, 'read')).error;
  assert.match(await read(), /not a regular file/);
  await rm(name, { recursive: true });
  await writeFile(name, 'x'.repeat(100 << 10));
  assert.match(await read(), /too large/);
  await writeFile(name, '"'.repeat(40 << 10)); // twice as long in JSON
  assert.match(await read(), /too large/);
  await writeFile(name, Buffer.from([0xff]));
  assert.match(await read(), /not text in UTF-8/);
  await writeFile(name, 'saved by the CLI');
  const { error } = await request(keeper, 'write', { old: 'read before', text: 'mine' });
  assert.match(error, /has just changed/);
  assert.equal(await readFile(name, 'utf8'), 'saved by the CLI');
});

// ---- Texts to edit

const EDITOR = readFileSync(new URL('../../src/editor.mjs', import.meta.url), 'utf8');

// A keeper, and what runs its program with a file that contains BYTES, and no terminal.
async function editing(t, bytes, limit = 'unlimited') {
  const { home, cache } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce({ editor: EDITOR });
  const file = path.join(home, 'prompt.txt');
  await writeFile(file, bytes);
  const run = () => {
    const program = spawn(
      '/bin/sh', ['-c', `ulimit -f ${limit}; trap '' XFSZ; exec "$0" "$1"`, keeper.ready.editor, file],
      { stdio: ['ignore', 'ignore', 'pipe'] });
    t.after(() => program.kill());
    let said = '';
    program.stderr.on('data', (data) => { said += data; });
    const ended = new Promise((resolve) => {
      program.on('close', (code) => resolve({ said, code }));
    });
    return { program, ended };
  };
  return { keeper, cache, file, run };
}

test('a text is edited in Emacs, or stays as it is', async (t) => {
  const { keeper, file, run } = await editing(t, 'eins\n\u2028é');
  assert.equal(await modeOf(keeper.ready.editor), '700');
  for (const [text, result] of [[null, 'eins\n\u2028é'], ['zwei\r\n', 'zwei\r\n'], ['', '']]) {
    const before = keeper.messages.length;
    const { ended } = run();
    const order = await keeper.until('an order',
      () => keeper.messages.slice(before).find((it) => it.say === 'edit'));
    assert.equal(order.name, 'prompt.txt');
    assert.equal(order.text, await readFile(file, 'utf8'));
    keeper.tell({ do: 'edited', id: order.id, text });
    assert.deepEqual(await ended, { said: '', code: 0 });
    assert.equal(await readFile(file, 'utf8'), result);
    keeper.tell({ do: 'edited', id: order.id, text: 'late' });
  }
  assert.equal(keeper.messages.filter((it) => it.say === 'unedited').length, 0);
});

test('on a full disk, the text stays as it was', async (t) => {
  // Blocks of 512 bytes.
  const { keeper, file, run } = await editing(t, 'old', 2);
  const { ended } = run();
  keeper.tell({ do: 'edited', id: (await keeper.said('edit')).id, text: 'x'.repeat(5000) });
  assert.match((await ended).said, /EFBIG/);
  assert.equal(await readFile(file, 'utf8'), 'old');
  // What the program prints is gone as soon as the CLI goes on.
  await keeper.until('the failure', () => keeper.messages.find(
    (it) => it.say === 'edit' && /EFBIG/.test(it.failure)));
});

test('Emacs is told if nobody waits for a text any more', async (t) => {
  const { keeper, run } = await editing(t, 'one');
  const { program } = run();
  const { id } = await keeper.said('edit');
  program.kill();
  assert.equal((await keeper.said('unedited')).id, id);
});

test('a program that sends no order is hung up on, and no other', async (t) => {
  const { keeper, run } = await editing(t, 'one');
  const stranger = net.connect(await keeper.edits(), () => stranger.write('GET / HTTP/1.1\n'));
  await once(stranger, 'close');
  run();
  assert.equal((await keeper.said('edit')).text, 'one');
});

test('what cannot be edited in Emacs stays, and its user is told why', async (t) => {
  for (const [bytes, said] of [[Buffer.from([0xe9]), /not text in UTF-8/], ['x'.repeat(61 << 10), /too long/]]) {
    const { keeper, file, run } = await editing(t, bytes);
    const { said: why } = await run().ended;
    assert.match(why, said);
    assert.equal((await readFile(file)).length, bytes.length);
    assert.equal(keeper.messages.filter((it) => it.say === 'edit').length, 0);
  }
});

test('with the connection, the program for texts ends, and goes', async (t) => {
  const { keeper, cache, run } = await editing(t, 'one');
  const { ended } = run();
  await keeper.said('edit');
  await keeper.end();
  assert.match((await ended).said, /Emacs cannot be reached/);
  assert.deepEqual(await filesIn(cache), [path.join(cache, 'relay-0123.mjs')]);
});

test('it ends if Emacs says nothing any more', async (t) => {
  const { home, cache } = await stage(t);
  const keeper = await Keeper.start(t, home, { constants: { MAX_SILENCE: '300' } });
  await keeper.announce();
  assert.equal(await keeper.ended, 0);
  assert.deepEqual(await filesIn(home), [path.join(cache, 'relay-0123.mjs')]);
});

test('what makes no sense ends it in order', async (t) => {
  for (const broken of [
    frame(9, 0, 0), frame(DATA, 1, MAX_DATA + 1), frame(TEXT, 0, 0xffffffff), frame(CLOSE, 1, 1),
    frame(TEXT, 0, 1, Buffer.from('{')),
  ]) {
    const { home, cache } = await stage(t);
    const keeper = await (await Keeper.start(t, home)).announce();
    keeper.process.stdin.write(broken);
    assert.equal((await keeper.said('fault')).kind, 'keeper');
    assert.equal(await keeper.ended, 1);
    assert.deepEqual(await filesIn(home), [path.join(cache, 'relay-0123.mjs')]);
  }
});

test('a frame that is cut ends it in order', async (t) => {
  const { home, cache } = await stage(t);
  const keeper = await (await Keeper.start(t, home)).announce();
  keeper.process.stdin.write(frame(DATA, 1, 100));
  assert.equal(await keeper.end(), 0);
  assert.deepEqual(await filesIn(home), [path.join(cache, 'relay-0123.mjs')]);
});
