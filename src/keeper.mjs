// Announces Emacs to the CLIs on this machine, and passes on what they say, as long as the connection
// lasts.
//
// gemini-companion, a package for Emacs, has had this program started by bootstrap.sh.  Emacs is at the
// other end of standard input and output, on which there are frames: a byte for the kind, four for the
// channel, four for the length, big-endian, and for some kinds so many bytes:
//
//   0 OPEN     a client of the agent with this name has connected; channels have ascending numbers
//   1 DATA     what it says, or is told; at most 64 KiB
//   2 CLOSE    the connection was closed; the other end closes it, too, and says so once
//   3 CREDIT   the length says how many bytes more the other end may send on this channel
//   4 TEXT     a message, an object of JSON
//   5 PING     Emacs asks whether there is somebody, and gets the same frame
//
// Messages of Emacs:
//
//   {do: announce, relay, hash, editor, id, emacs, slot, roots, agents, sandbox}
//              relay is the program that a CLI starts, and hash its hash; editor is one for $VISUAL; id
//              names the machine and the user of Emacs, of letters, digits, dots and underscores; emacs
//              is a random name, the same as long as this Emacs serves this host; slot is what Emacs had
//              when it was connected before, or null; roots are workspace roots; each agent has a name, a
//              pattern for the name of its discovery file, and a directory: ["temporary", DIRECTORY], or
//              ["home", VARIABLE, DEFAULT, DIRECTORY], where the home must exist; sandbox is true if what
//              is written is mounted in a sandbox, where the CLIs are
//   {do: roots, roots}
//              other workspace roots
//   {do: read, id, file: [VARIABLE, DEFAULT, NAME]}
//              what is in a file of a CLI, NAME in its home
//   {do: write, id, file, old, text}
//              put text there, if old is still there; null stands for no file
//   {do: edited, id, text}
//              what the user has made of a text, or null if that stays as it is
//
// and those of the keeper:
//
//   {say: home, home}                 the user's home
//   {say: root, root}                 the name without symbolic links of a workspace root
//   {say: ready, pid, host, slot, editor}   the CLIs can find Emacs, and run the program editor
//   {say: file, id, name, text}       the answer to read and write: the name of the file, and what is in it
//   {say: file, id, name, error}      or why it cannot be read, or written
//   {say: edit, id, terminal, name, text}   the user is to edit text, from a file with this name, for
//                                     the CLI in this terminal of Emacs
//   {say: unedited, id}               nobody waits for that any more
//   {say: warning, text}              for the user
//   {say: fault, kind, text}          for the user, and the end
//
// At the end it removes what it has written, but not the relay.

import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { randomBytes } from 'node:crypto';

const [OPEN, DATA, CLOSE, CREDIT, TEXT, PING] = [0, 1, 2, 3, 4, 5];
const HEADER = 9;

// In bytes.
const WINDOW = 1 << 20;
const PORTION = 64 << 10;
const MAX_DATA = 64 << 10;
const MAX_TEXT = 1 << 20;
const MAX_FILE = 60 << 10; // a message to Emacs has at most 64 KiB
const MAX_WAITING = 256 << 10;
const MAX_SOCKET_NAME = 100; // the kernel takes some more

// In milliseconds.  Emacs says something every 2 s.
const MAX_SILENCE = 40000;
const RELAY_LIFE = 30 * 24 * 3600 * 1000;

// ---- Files

// Writes TEXT to FILE.  Never through a link that somebody has put there.
function write(file, text, mode = 0o600) {
  const draft = `${file}.${process.pid}`;
  try {
    fs.rmSync(draft, { force: true });
    fs.writeFileSync(draft, text, { flag: 'wx', mode: 0o600 });
    fs.chmodSync(draft, mode);
    fs.renameSync(draft, file);
  } catch {
    fs.rmSync(draft, { force: true });
    throw new Fault(`${file} cannot be written: is the disk full?`);
  }
}

// What FILE is if it is ours; a link could be changed by others.
function ours(file) {
  const stats = fs.lstatSync(file, { throwIfNoEntry: false });
  return stats?.uid === process.getuid() ? stats : undefined;
}

const isOurDirectory = (file) => ours(file)?.isDirectory();
const isOurFile = (file) => ours(file)?.isFile();

function removeFile(file) {
  if (isOurFile(file)) fs.rmSync(file, { force: true });
}

function removeSocket(file) {
  if (typeof file === 'string' && ours(file)?.isSocket()) fs.rmSync(file, { force: true });
}

// Makes DIRECTORY, and those above it, for nobody else.
function makePrivate(directory) {
  try {
    fs.mkdirSync(directory, { recursive: true });
    if (!isOurDirectory(directory)) return false;
    fs.chmodSync(directory, 0o700);
    return true;
  } catch {
    return false;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

function read(file) {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch {
    return {};
  }
}

// ---- Files of the CLIs

// Answers {do: read} and {do: write}.
function serveFile({ do: order, id, file: [variable, usual, name], old, text }) {
  const answer = { say: 'file', id, name: path.join(homeName(variable, usual), name) };
  try {
    const known = textOf(answer.name);
    if (order === 'read') return { ...answer, text: known };
    if (known !== old) throw new Error('it has just changed; try again');
    replace(answer.name, text);
    if (text === null) removeEmpty(path.dirname(answer.name), homeName(variable, usual));
    return { ...answer, text };
  } catch ({ message }) {
    return { ...answer, error: message };
  }
}

// The text in FILE, or null if there is none.
function textOf(file) {
  const stats = fs.statSync(file, { throwIfNoEntry: false });
  if (!stats) return null;
  if (!stats.isFile()) throw new Error('it is not a regular file');
  if (stats.size > MAX_FILE) throw new Error('it is too large');
  const bytes = fs.readFileSync(file);
  const text = bytes.toString();
  if (!Buffer.from(text).equals(bytes)) throw new Error('it is not text in UTF-8');
  if (Buffer.byteLength(JSON.stringify(text)) > MAX_FILE) throw new Error('it is too large');
  return text;
}

// Puts TEXT into FILE, or removes it if that is null.  A link to it stays.
function replace(file, text) {
  if (text === null) return fs.rmSync(file, { force: true });
  fs.mkdirSync(path.dirname(file), { recursive: true });
  const stats = fs.statSync(file, { throwIfNoEntry: false });
  if (!stats) return write(file, text);
  const target = fs.realpathSync(file);
  if (!ours(target)) throw new Error('it belongs to another user');
  fs.accessSync(target, fs.constants.W_OK);
  write(target, text, stats.mode & 0o7777);
}

// Removes DIRECTORY, and those above it below HOME, as far as they are empty.
function removeEmpty(directory, home) {
  try {
    for (let it = directory; path.dirname(it).startsWith(home); it = path.dirname(it)) fs.rmdirSync(it);
  } catch {
    // There is something in it.
  }
}

// ---- Frames

// Why there is an end, in words for the user.
class Fault extends Error {
  constructor(text, kind = 'keeper') {
    super(text);
    this.kind = kind;
  }
}

// What is sent to Emacs.  While much waits, no client is read, so that nothing waits for long.
class Outbox {
  get isFull() {
    return process.stdout.writableLength > MAX_WAITING;
  }

  send(kind, channel, length, data) {
    const header = Buffer.allocUnsafe(HEADER);
    header[0] = kind;
    header.writeUInt32BE(channel, 1);
    header.writeUInt32BE(length, 5);
    process.stdout.write(data ? Buffer.concat([header, data]) : header);
  }

  say(message) {
    const data = Buffer.from(JSON.stringify(message));
    this.send(TEXT, 0, data.length, data);
  }
}

// The frames in what Emacs sends.  TAKE is called with each: kind, channel, length, data.
class Frames {
  constructor(take) {
    this.take = take;
    this.parts = [];
    this.size = 0;
    this.header = undefined;
  }

  add(chunk) {
    this.parts.push(chunk);
    this.size += chunk.length;
    for (;;) {
      if (!this.header) {
        if (this.size < HEADER) return;
        this.header = this.readHeader(this.bytes(HEADER));
      }
      const { kind, channel, length, size } = this.header;
      if (this.size < size) return;
      this.header = undefined;
      this.take(kind, channel, length, this.bytes(size));
    }
  }

  readHeader(bytes) {
    const kind = bytes[0];
    const length = bytes.readUInt32BE(5);
    const most = { [DATA]: MAX_DATA, [TEXT]: MAX_TEXT, [CREDIT]: WINDOW, [CLOSE]: 0, [PING]: 0 }[kind];
    if (!(length <= most)) throw new Fault('what Emacs has sent makes no sense');
    return { kind, channel: bytes.readUInt32BE(1), length, size: kind === CREDIT ? 0 : length };
  }

  bytes(size) {
    const all = this.parts.length === 1 ? this.parts[0] : Buffer.concat(this.parts, this.size);
    this.parts = [all.subarray(size)];
    this.size -= size;
    return all.subarray(0, size);
  }
}

// ---- Clients

// The connection of a client, as a channel to Emacs.
class Channel {
  constructor(number, socket, outbox) {
    this.number = number;
    this.socket = socket;
    this.outbox = outbox;
    // How many bytes it may send, and Emacs; and how many it has taken since Emacs was told so.
    this.credit = WINDOW;
    this.allowed = WINDOW;
    this.taken = 0;
    socket.on('data', (data) => this.pass(data));
    socket.on('error', () => {}); // `close' follows
  }

  // Node reads no more than that at once, and reads only while there is credit for it.
  pass(data) {
    this.credit -= data.length;
    this.outbox.send(DATA, this.number, data.length, data);
    this.rest();
  }

  // Reads no more while nothing can be sent.
  rest() {
    if (this.credit < MAX_DATA || this.outbox.isFull) this.socket.pause();
    else this.socket.resume();
  }

  addCredit(bytes) {
    this.credit += bytes;
    this.rest();
  }

  tell(data) {
    this.allowed -= data.length;
    if (this.allowed < 0) throw new Fault('Emacs has sent more than allowed');
    this.socket.write(data, () => this.giveCredit(data.length));
  }

  giveCredit(bytes) {
    this.taken += bytes;
    if (this.taken < PORTION) return;
    this.outbox.send(CREDIT, this.number, this.taken);
    this.allowed += this.taken;
    this.taken = 0;
  }
}

// The clients, of all agents.
class Clients {
  constructor(outbox) {
    this.outbox = outbox;
    this.last = 0;
    this.channels = new Map();
    process.stdout.on('drain', () => {
      for (const channel of this.channels.values()) channel.rest();
    });
  }

  // Lets clients of AGENT connect to SOCKET.
  listen(agent, socket) {
    const name = Buffer.from(agent);
    return listen(socket, (connection) => {
      this.last += 1;
      const number = this.last;
      this.outbox.send(OPEN, number, name.length, name);
      this.channels.set(number, new Channel(number, connection, this.outbox));
      connection.on('close', () => {
        this.channels.delete(number);
        this.outbox.send(CLOSE, number, 0);
      });
    });
  }

  take(kind, number, length, data) {
    const channel = this.channels.get(number);
    if (!channel) return; // it was closed meanwhile
    if (kind === DATA) channel.tell(data);
    if (kind === CREDIT) channel.addCredit(length);
    // `destroySoon' writes first what waits.
    if (kind === CLOSE) channel.socket.destroySoon();
  }
}

// Calls TAKE with each connection to SOCKET, which only this user can make.
function listen(socket, take) {
  const server = net.createServer(take);
  return new Promise((resolve, reject) => {
    server.on('error', reject);
    server.listen(socket, () => {
      fs.chmodSync(socket, 0o600);
      resolve();
    });
  });
}

// ---- Editing

// The texts that CLIs want edited.
class Edits {
  constructor(outbox) {
    this.outbox = outbox;
    this.last = 0;
    this.waiting = new Map();
  }

  // Takes an order from editor.mjs.
  take(connection) {
    let order = '';
    let id;
    connection.setEncoding('utf8').on('error', () => {}).on('data', (data) => {
      order += data;
      if (id || Buffer.byteLength(order) > MAX_FILE) connection.destroy();
      else if (order.endsWith('\n')) id = this.begin(connection, order);
    }).on('close', () => {
      if (this.waiting.delete(id)) this.outbox.say({ say: 'unedited', id });
    });
  }

  begin(connection, order) {
    let wish;
    try {
      wish = JSON.parse(order);
    } catch {
      connection.destroy(); // some other program
      return undefined;
    }
    this.last += 1;
    this.waiting.set(this.last, connection);
    this.outbox.say({ ...wish, say: 'edit', id: this.last });
    return this.last;
  }

  answer({ id, text }) {
    this.waiting.get(id)?.end(`${JSON.stringify(text)}\n`);
    this.waiting.delete(id);
  }
}

// ---- Announcing

// What is on this machine for the CLIs.
class Announcement {
  constructor(outbox, clients, edits, order) {
    Object.assign(this, order);
    this.outbox = outbox;
    this.clients = clients;
    this.edits = edits;
    this.host = os.hostname();
    this.directory = this.findDirectory();
    this.configurations = undefined;
    // The keeper before this one, in the same slot.
    this.left = undefined;
    this.sockets = new Map();
    this.files = new Set();
    this.warned = new Set();
  }

  machine() {
    return this.host.replace(/[^A-Za-z0-9._]/g, '_');
  }

  async begin() {
    for (const { name } of this.agents) {
      const socket = this.socketName();
      this.sockets.set(name, socket);
      await this.clients.listen(name, socket);
    }
    this.sockets.set('edits', this.socketName());
    this.writeRelay();
    this.chooseSlot();
    await this.writeEditor();
    this.announce();
  }

  // It has the same name as long as the CLIs that know it.
  async writeEditor() {
    const socket = this.sockets.get('edits');
    await listen(socket, (connection) => this.edits.take(connection));
    this.editorFile = `${this.configurations}-edit.mjs`;
    this.editor = this.editor.replace("'@SOCKET@'", () => JSON.stringify(socket));
    write(this.editorFile, this.editor, 0o700);
  }

  // The directory for the relay, the configurations and the sockets.
  findDirectory() {
    const { XDG_CACHE_HOME: cache = '' } = process.env;
    const directory = path.join(cache.startsWith('/') ? cache : path.join(os.homedir(), '.cache'),
      'gemini-companion');
    if (/[\0-\x1f\x7f]/.test(directory)) {
      throw new Fault('the name of the cache directory has control characters');
    }
    if (!makePrivate(directory)) {
      throw new Fault(`${directory} cannot be written, or belongs to another user: set XDG_CACHE_HOME to a directory of your own there`);
    }
    return directory;
  }

  socketName() {
    const name = randomBytes(8).toString('hex');
    const { XDG_RUNTIME_DIR: runtime } = process.env;
    const other = runtime && path.join(runtime, 'gemini-companion');
    for (const directory of [this.directory, other]) {
      const socket = directory && path.join(directory, name);
      if (socket && Buffer.byteLength(socket) <= MAX_SOCKET_NAME
          && (directory !== other || (fs.existsSync(runtime) && makePrivate(other)))) return socket;
    }
    throw new Fault(`${this.directory} has too long a name for a socket`);
  }

  // Those of other versions stay for a while, since they may run, or CLIs may start them again.
  writeRelay() {
    this.relayFile = path.join(this.directory, `relay-${this.hash}.mjs`);
    if (!isOurFile(this.relayFile)) write(this.relayFile, this.relay);
    this.touchRelay();
    for (const name of fs.readdirSync(this.directory)) {
      const file = path.join(this.directory, name);
      if (/^relay-.*\.mjs$/.test(name) && ours(file)?.mtimeMs < Date.now() - RELAY_LIFE) {
        removeFile(file);
      }
    }
  }

  // It was announced again.
  touchRelay() {
    const now = new Date();
    try {
      fs.utimesSync(this.relayFile, now, now);
    } catch {
      // Somebody has removed it.
    }
  }

  // ---- The slot

  // A CLI keeps the configuration with which it was started.  So that has the same name when Emacs
  // connects again, or is started again, but another one if there is another Emacs on its machine.  A
  // home may belong to several machines.
  chooseSlot() {
    const prefix = path.join(this.directory, `${this.machine()}-${this.id}-`);
    const slots = [this.slot, ...Array.from({ length: 99 }, (_, index) => index + 1)];
    this.slot = slots.find((slot) => Number.isInteger(slot) && this.take(`${prefix}${slot}`));
    if (!this.slot) throw new Fault(`${this.directory} has configurations of 99 other Emacsen`);
    this.configurations = `${prefix}${this.slot}`;
  }

  // Whether the slot is ours from now on.  Another keeper may be choosing, too: who makes the file has it.
  take(configurations) {
    this.left = undefined;
    const files = this.configurationsOf(configurations);
    if (files.length > 0) return files.every((file) => this.isLeft(file));
    const [{ name }] = this.agents;
    const file = `${configurations}-${name}.json`;
    try {
      fs.writeFileSync(file, this.configurationOf(name), { flag: 'wx', mode: 0o600 });
      return true;
    } catch (error) {
      if (error.code === 'EEXIST') return false;
      removeFile(file); // a part of it would take the slot for ever
      throw new Fault(`${configurations} cannot be written: is the disk full?`);
    }
  }

  configurationOf(agent) {
    return JSON.stringify({
      socket: this.sockets.get(agent), sockets: [...this.sockets.values()], keeper: process.pid,
      emacs: this.emacs, roots: this.roots,
    });
  }

  configurationsOf(prefix) {
    const name = `${path.basename(prefix)}-`;
    return fs.readdirSync(this.directory)
      .filter((it) => it.startsWith(name) && it.endsWith('.json'))
      .map((it) => path.join(this.directory, it));
  }

  // Whether the configuration FILE is of a keeper that is dead, or of the same Emacs: after a
  // connection is cut, its keeper may live for a while.
  isLeft(file) {
    if (!isOurFile(file)) return false;
    const { keeper, emacs, sockets } = read(file);
    if (!Number.isInteger(keeper) || keeper <= 0) return false;
    if (keeper !== process.pid && isAlive(keeper)) return emacs === this.emacs;
    [sockets].flat().forEach(removeSocket);
    // In a container that was started again, it may have had our id.
    if (keeper !== process.pid) this.left = keeper;
    return true;
  }

  // ---- Discovery files

  announce() {
    this.touchRelay();
    for (const agent of this.agents) this.announceAgent(agent);
    if (this.files.size === 0) {
      const [directory] = this.warned;
      throw new Fault(`${directory ?? 'every directory'} belongs to another user, or cannot be made, so no CLI finds Emacs`, 'owner');
    }
  }

  announceAgent({ name, file, directory: [kind, ...names] }) {
    const configuration = `${this.configurations}-${name}.json`;
    const directories = kind === 'temporary' ? temporaryDirectories(this.sandbox) : homeOf(...names);
    if (directories.length === 0) return;
    write(configuration, this.configurationOf(name));
    const below = names.at(-1);
    for (const directory of directories) {
      // All users have the temporary directory; others must not have made the first part.
      const parents = kind === 'temporary' ? [path.join(directory, path.dirname(below))] : [];
      const last = path.join(directory, below);
      if ([...parents, last].every((it) => this.makeOurs(it))) {
        this.writeDiscoveryFile(last, file, configuration);
      }
    }
  }

  writeDiscoveryFile(directory, pattern, configuration) {
    const file = path.join(directory, nameFor(pattern, process.pid));
    write(file, JSON.stringify({
      workspacePath: this.roots.join(':'),
      ppid: process.pid,
      ideInfo: { name: 'emacs', displayName: 'Emacs' },
      // The name by which it was found stays when it is updated.
      stdio: { command: this.sandbox ? 'node' : process.argv0, args: [this.relayFile, configuration] },
    }));
    this.files.add(file);
    if (this.left) removeFile(path.join(directory, nameFor(pattern, this.left)));
  }

  // Others must not put anything there, as a discovery file for the CLI.
  makeOurs(directory) {
    try {
      if (!fs.existsSync(directory)) fs.mkdirSync(directory);
      if (isOurDirectory(directory)) {
        fs.chmodSync(directory, fs.statSync(directory).mode & 0o7755);
        return true;
      }
    } catch {
      // It cannot be made.
    }
    if (!this.warned.has(directory)) {
      this.warned.add(directory);
      this.outbox.say({ say: 'warning', text: `${directory} belongs to another user, or cannot be made, so a CLI that looks there does not find Emacs: set TMPDIR to a directory of your own there` });
    }
    return false;
  }

  // The CLIs that are connected can do without.
  setRoots(roots) {
    this.roots = roots;
    try {
      if (this.configurations) this.announce();
    } catch ({ message }) {
      this.outbox.say({ say: 'warning', text: message });
    }
  }

  // A later keeper may have written the configurations since.
  end() {
    for (const file of this.files) removeFile(file);
    for (const file of this.configurations ? this.configurationsOf(this.configurations) : []) {
      if (isOurFile(file) && read(file).keeper === process.pid) removeFile(file);
    }
    for (const socket of this.sockets.values()) removeSocket(socket);
    if (this.editorFile && textOf(this.editorFile) === this.editor) removeFile(this.editorFile);
  }
}

// No port has such a number.
function nameFor(pattern, pid) {
  return pattern.replace('PID', pid).replace('PORT', pid + 100000);
}

// Our own, and, unless that is ONLY, where a CLI may look that has another environment.
function temporaryDirectories(only) {
  const { TMPDIR, TMP, TEMP } = process.env;
  const own = TMPDIR || TMP || TEMP;
  return [...new Set([own?.startsWith('/') ? path.resolve(own) : '/tmp', ...(only ? [] : ['/tmp'])])];
}

// The home of an agent, if that exists.
function homeOf(variable, usual) {
  const home = homeName(variable, usual);
  return home.startsWith('/') && fs.existsSync(home) ? [home] : [];
}

// The name of DIRECTORY without symbolic links, if there is such a directory.
function realName(directory) {
  try {
    return fs.realpathSync(directory);
  } catch {
    return directory;
  }
}

// The home of an agent: that of VARIABLE, or else USUAL.
function homeName(variable, usual) {
  return (process.env[variable] || usual).replace(/^~(?=\/|$)/, () => os.homedir());
}

// ---- Emacs

class Keeper {
  constructor() {
    this.outbox = new Outbox();
    this.clients = new Clients(this.outbox);
    this.edits = new Edits(this.outbox);
    this.announcement = undefined;
    this.silence = undefined;
  }

  start() {
    const frames = new Frames((...parts) => this.take(...parts));
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) process.on(signal, () => this.end());
    // Faults, too, wherever they are thrown.
    process.on('uncaughtException', (error) => this.fail(error));
    process.stdout.on('error', () => this.end());
    process.stdin.on('end', () => this.end());
    process.stdin.on('error', () => this.end());
    process.stdin.on('data', (chunk) => {
      this.waitForMore();
      frames.add(chunk);
    });
    process.stdout.write('gemini-companion: frames\n');
    this.waitForMore();
    this.outbox.say({ say: 'home', home: os.homedir() });
  }

  // Not for ever: after a cut, the connection may seem to live for hours.
  waitForMore() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.end(), MAX_SILENCE);
  }

  take(kind, channel, length, data) {
    if (kind === PING) this.outbox.send(PING, 0, 0);
    else if (kind === TEXT) this.hear(JSON.parse(data.toString()));
    else this.clients.take(kind, channel, length, data);
  }

  hear(message) {
    if (message.do === 'announce' && !this.announcement) {
      this.announce(message);
    } else if (message.do === 'roots') {
      this.announcement?.setRoots(message.roots);
      this.tellRealNames(message.roots);
    } else if (message.do === 'read' || message.do === 'write') {
      this.outbox.say(serveFile(message));
    } else if (message.do === 'edited') {
      this.edits.answer(message);
    }
  }

  async announce(order) {
    this.announcement = new Announcement(this.outbox, this.clients, this.edits, order);
    this.tellRealNames(order.roots);
    await this.announcement.begin();
    const { host, slot, editorFile: editor } = this.announcement;
    this.outbox.say({ say: 'ready', pid: process.pid, host, slot, editor });
  }

  // A CLI works in the directory that a link leads to.
  tellRealNames(roots) {
    for (const root of roots) {
      const real = realName(root);
      if (!roots.includes(real)) this.outbox.say({ say: 'root', root: real });
    }
  }

  fail(error) {
    const { kind = 'keeper', message } = error;
    this.outbox.say({ say: 'fault', kind, text: message });
    this.end(1);
  }

  end(status = 0) {
    try {
      this.announcement?.end();
    } finally {
      // What it has said goes out first, if somebody still takes it.
      process.stdout.write('', () => process.exit(status));
      setTimeout(() => process.exit(status), 1000);
    }
  }
}

process.umask(0o077);
delete process.env.GEMINI_COMPANION_KEEPER;
new Keeper().start();
