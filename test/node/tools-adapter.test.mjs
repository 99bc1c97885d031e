// tools_adapter.mjs, with an HTTP server in place of Emacs.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { test } from 'node:test';
import { text as textOf } from 'node:stream/consumers';
import { Changes, Program, copyProgram, directoryFor } from './support.mjs';

const TOOL = { name: 'echo', description: 'Says it again', inputSchema: { type: 'object' } };

class FakeEmacs extends Changes {
  calls = [];
  // The CLIs that are connected, by their process ids.
  clients = [];
  // Called with each message, the request and the response; returns a result, or undefined if the
  // response is seen to.
  handler = () => undefined;

  constructor(t, name) {
    super();
    this.name = name;
    this.server = http.createServer((request, response) => this.#serve(request, response));
    t.after(() => {
      this.server.close();
      this.server.closeAllConnections();
    });
  }

  async listen(...where) {
    await new Promise((resolve) => {
      this.server.listen(...(where.length ? where : [0, '127.0.0.1']), resolve);
    });
    this.port = this.server.address().port;
  }

  async #serve(request, response) {
    const message = JSON.parse(await textOf(request));
    if (message.params?.name === 'hasClient') {
      const isConnected = this.clients.includes(message.params.arguments.process);
      return this.answer(response, says(isConnected ? 'yes' : ''));
    }
    if (message.method === 'tools/call') {
      const { host, authorization, 'gemini-companion-directory': directory } = request.headers;
      this.calls.push({ ...message.params, host, authorization, directory });
    }
    const result = this.handler(message, request, response);
    if (result) this.answer(response, result);
    this.changed();
  }

  answer(response, result) {
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result }));
  }
}

const says = (text) => ({ content: [{ type: 'text', text }], isError: false });

// What Node loads before the program: in a container, if the environment says so, in which the name
// of the machine around it has the address there, or none.
const PRELOAD = `
  import dns from 'node:dns';
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const { existsSync } = fs;
  fs.existsSync = (file) => (/^\\/\\.dockerenv$|^\\/run\\/\\.containerenv$/.test(file)
    ? file === process.env.TEST_CONTAINER : existsSync(file));
  const { lookup } = dns;
  dns.lookup = (name, options, done) => {
    if (name !== 'host.docker.internal') return lookup(name, options, done);
    const address = process.env.TEST_ADDRESS;
    if (!address) return done(Object.assign(new Error('not found'), { code: 'ENOTFOUND' }));
    const family = address.includes(':') ? 6 : 4;
    if (options.all) done(null, [{ address, family }]);
    else done(null, address, family);
  };
  syncBuiltinESMExports();
`;

async function stage(t, constants = {}) {
  const directory = await directoryFor(t);
  const announcements = path.join(directory, 'gemini', 'ide');
  await mkdir(announcements, { recursive: true });
  const program = await copyProgram('tools_adapter.mjs', directory, constants);
  // Announces an Emacs, of which those with a higher NUMBER are asked first.
  const announce = (number, port) => writeFile(
    path.join(announcements, `gemini-ide-server-${number}-${port}.json`), JSON.stringify({
      port, authToken: `token-${number}`, workspacePath: directory, ideInfo: { name: 'emacs' },
    }));
  const emacs = async (number) => {
    const one = new FakeEmacs(t, number);
    await one.listen();
    await announce(number, one.port);
    return one;
  };
  const command = [process.execPath,
    '--import', `data:text/javascript,${encodeURIComponent(PRELOAD)}`, program,
    'directory=gemini/ide', 'file=gemini-ide-server-PID-PORT.json',
    'port=GEMINI_CLI_IDE_SERVER_PORT', 'process=GEMINI_CLI_IDE_PID'];
  const options = (env = {}) => ({
    cwd: directory, env: { PATH: process.env.PATH, TMPDIR: directory, ...env },
  });
  const start = (env) => new Program(t, command, options(env));
  return { directory, announce, emacs, command, options, start };
}

// Process ids that are in use nowhere, so that their order is that of the numbers.
const FIRST = 99999999;
const SECOND = 99999998;

async function failed(program, id) {
  const { result } = await program.answer(id);
  assert.ok(result.isError);
  return result.content[0].text;
}

test('a call that Emacs may have had is not made again', async (t) => {
  const { emacs, start } = await stage(t);
  const first = await emacs(FIRST);
  const second = await emacs(SECOND);
  second.handler = () => says('second');
  const cuts = {
    'before the answer': (request) => { request.socket.destroy(); },
    'in the middle of the answer': (request, response) => {
      response.writeHead(200, { 'Content-Length': 1000 });
      response.write('{', () => { request.socket.destroy(); });
    },
  };
  const program = start();
  for (const [title, cut] of Object.entries(cuts)) {
    first.calls = [];
    first.handler = (message, request, response) => {
      if (message.method !== 'tools/call') return { tools: [TOOL] };
      cut(request, response);
      return undefined;
    };
    program.call(title, 'echo', {});
    assert.match(await failed(program, title), /Emacs could not be asked/, title);
    assert.equal(first.calls.length, 1, title);
    assert.equal(second.calls.length, 0, title);
  }
});

test('another Emacs is asked if the first one does not listen, or refuses', async (t) => {
  const { emacs, announce, start } = await stage(t);
  const second = await emacs(SECOND);
  second.handler = () => says('second');
  const first = new FakeEmacs(t, FIRST);
  await first.listen();
  await announce(FIRST, first.port);
  first.handler = (_message, _request, response) => { response.writeHead(401).end(); };
  const program = start();
  program.call(1, 'echo', {});
  assert.equal((await program.answer(1)).result.content[0].text, 'second');
  await new Promise((resolve) => { first.server.close(resolve); });
  program.call(2, 'echo', {});
  assert.equal((await program.answer(2)).result.content[0].text, 'second');
});

test('an Emacs in a directory of another user is not asked', {
  skip: process.getuid?.() !== 0 && 'only root can give a directory away',
}, async (t) => {
  const { directory, emacs, start } = await stage(t);
  const first = await emacs(FIRST);
  const program = start();
  for (const name of ['gemini', 'gemini/ide']) {
    await chown(path.join(directory, name), 12345, 12345);
    program.call(name, 'echo', {});
    assert.match(await failed(program, name), /No Emacs has/);
    await chown(path.join(directory, name), 0, 0);
  }
  assert.equal(first.calls.length, 0);
});

test('without any that listens, the model is told why', async (t) => {
  const { emacs, start } = await stage(t);
  const only = await emacs(FIRST);
  await new Promise((resolve) => { only.server.close(resolve); });
  const program = start();
  program.call(1, 'echo', {});
  assert.match(await failed(program, 1), /ECONNREFUSED/);
});

test('tools that are known stay if Emacs breaks off while it lists them', async (t) => {
  const { emacs, start } = await stage(t, { LIST_AGE: 0 });
  const only = await emacs(FIRST);
  only.handler = () => ({ tools: [TOOL] });
  const program = start();
  program.request(1, 'tools/list');
  assert.deepEqual((await program.answer(1)).result.tools, [TOOL]);
  only.handler = (_message, request) => { request.socket.destroy(); };
  program.request(2, 'tools/list');
  assert.deepEqual((await program.answer(2)).result.tools, [TOOL]);
});

const CONTAINERS = [
  ['in a container, Emacs is on the machine around it',
    { TEST_CONTAINER: '/.dockerenv', TEST_ADDRESS: '127.0.0.1' }, 'host.docker.internal'],
  ['in a container of another kind, too',
    { TEST_CONTAINER: '/run/.containerenv', TEST_ADDRESS: '127.0.0.1' }, 'host.docker.internal'],
  ['in a container where that has no address, Emacs is inside',
    { TEST_CONTAINER: '/.dockerenv' }, '127.0.0.1'],
  ['in a container where nothing listens there, Emacs is inside',
    { TEST_CONTAINER: '/.dockerenv', TEST_ADDRESS: '::1' }, '127.0.0.1'],
  ...['SSH_CONNECTION', 'REMOTE_CONTAINERS', 'VSCODE_REMOTE_CONTAINERS_SESSION'].map((it) => [
    `in a container with ${it}, Emacs seems to be inside`,
    { TEST_CONTAINER: '/.dockerenv', TEST_ADDRESS: '127.0.0.1', [it]: '1' }, '127.0.0.1']),
  ['elsewhere, Emacs is on this machine', { TEST_ADDRESS: '127.0.0.1' }, '127.0.0.1'],
];

for (const [title, env, host] of CONTAINERS) {
  test(title, async (t) => {
    const { emacs, start } = await stage(t);
    const only = await emacs(FIRST);
    only.handler = () => says('yes');
    const program = start(env);
    for (const id of [1, 2]) {
      program.call(id, 'echo', {});
      assert.equal((await program.answer(id)).result.content[0].text, 'yes');
    }
    const expected = `${host}:${only.port}`;
    assert.deepEqual(only.calls.map((it) => it.host), [expected, expected]);
  });
}

// ---- The hook

async function runHook(t, { command, options, directory }) {
  const hook = spawn(command[0], [...command.slice(1), 'hook=edited', 'cli=7'], { ...options(), stdio: 'pipe' });
  t.after(() => hook.kill('SIGKILL'));
  hook.stdin.end(JSON.stringify({
    cwd: directory, hook_event_name: 'AfterTool', tool_name: 'write_file',
    tool_input: { file_path: 'a.txt' },
    tool_response: { returnDisplay: { originalContent: '1', newContent: '2', isNewFile: false } },
  }));
  const output = await textOf(hook.stdout);
  return output && JSON.parse(output).hookSpecificOutput.additionalContext;
}

test('the hook waits for checkers as long as Emacs shows that it lives', async (t) => {
  const scene = await stage(t, { SIGN_AFTER: 50 });
  const emacs = await scene.emacs(FIRST);
  let answerEdit;
  emacs.handler = ({ params }, _request, response) => {
    if (params.arguments.path === scene.directory) {
      // The checkers are done only after that.
      response.on('finish', () => answerEdit());
      return says('');
    }
    answerEdit = () => emacs.answer(response, says('1:1: error'));
    return undefined;
  };
  assert.equal(await runHook(t, scene), '1:1: error');
  const [edit, sign] = emacs.calls;
  assert.equal(edit.arguments.after, '2');
  assert.deepEqual(sign.arguments, { path: scene.directory, tool: '' });
  assert.equal(emacs.calls.length, 2);
});

test('the hook tells when the file was written if it has the text of the edit', async (t) => {
  const scene = await stage(t);
  const emacs = await scene.emacs(FIRST);
  emacs.handler = () => says('');
  const file = path.join(scene.directory, 'a.txt');
  for (const text of ['2', '2\n', undefined]) {
    if (text) await writeFile(file, text);
    else await rm(file);
    await runHook(t, scene);
    const { modified } = emacs.calls.pop().arguments;
    assert.equal(modified, text === '2' ? Math.floor((await stat(file)).mtimeMs / 1000) : undefined);
  }
});

test('the hook does not wait for an Emacs that is blocked, or busy', async (t) => {
  const scene = await stage(t, { SIGN_AFTER: 50, SIGN_PATIENCE: 100, HOOK_PATIENCE: 3600000 });
  const emacs = await scene.emacs(FIRST);
  assert.equal(await runHook(t, scene), '');
  assert.equal(emacs.calls.length, 2);
  emacs.handler = ({ params }) => (params.arguments.path === scene.directory
    ? { ...says('Emacs is busy: call again later'), isError: true } : undefined);
  assert.equal(await runHook(t, scene), '');
});

test('the hook asks for no sign of life if Emacs answers soon', async (t) => {
  const scene = await stage(t);
  const emacs = await scene.emacs(FIRST);
  emacs.handler = () => says('1:1: error');
  assert.equal(await runHook(t, scene), '1:1: error');
  assert.equal(emacs.calls.length, 1);
});

test('a hook tells of a turn and of questions, but no texts', async (t) => {
  const scene = await stage(t);
  const emacs = await scene.emacs(FIRST);
  const long = 'x'.repeat(20000);
  const told = async (event, input, answer = '') => {
    emacs.handler = () => says(answer);
    emacs.calls.length = 0;
    const { command, options, directory } = scene;
    const hook = spawn(command[0], [...command.slice(1), `hook=${event}`, 'cli=7'],
      { ...options(), stdio: 'pipe' });
    t.after(() => hook.kill('SIGKILL'));
    hook.stdin.end(JSON.stringify({ cwd: directory, session_id: 's', hook_event_name: 'E', ...input }));
    const output = await textOf(hook.stdout);
    const { event: what, directory: where, session, process, ...rest } = emacs.calls[0]?.arguments ?? {};
    if (what) assert.deepEqual([where, session, process], [directory, 's', 7]);
    if (what && what !== event) rest.event = what;
    return [rest, output && JSON.parse(output)];
  };
  assert.deepEqual(await told('start', { source: 'resume' }), [{ text: 'resume' }, '']);
  assert.deepEqual(await told('prompt', {
    prompt: 'look @a\n--- Content from referenced files ---\nsecret',
  }, '1 comment from Emacs\na:1: why\nb:2: how'), [
    { text: 'look @a' },
    {
      systemMessage: '1 comment from Emacs',
      hookSpecificOutput: { hookEventName: 'E', additionalContext: 'a:1: why\nb:2: how' },
    }]);
  assert.equal((await told('prompt', { prompt: long }))[0].text.length, 10000);
  const astral = `a${'😀'.repeat(6000)}`;
  assert.ok((await told('prompt', { prompt: astral }))[0].text.isWellFormed());
  assert.deepEqual(
    await told('prompt', { prompt: '[System: You successfully executed a tool but returned nothing.]' }),
    [{ event: 'ran' }, '']);
  // Qwen Code.
  assert.deepEqual(await told('prompt', { prompt: '' }), [{}, '']);
  assert.equal(emacs.calls.length, 0);
  for (const type of ['idle_prompt', 'auth_success']) {
    assert.deepEqual(await told('asks', { notification_type: type, message: 'm' }), [{}, '']);
  }
  assert.equal(emacs.calls.length, 0);
  assert.deepEqual(await told('asks', { message: 'm' }), [{ text: 'm' }, '']);
  assert.deepEqual(
    await told('asks', { message: 'm', details: { type: 'exec', title: 't', command: 'rm' } }),
    [{ text: 'rm' }, '']);
  const permission = 'Qwen Code needs your permission to use ';
  for (const [tool, more] of [
    ['edit', { path: '' }], ['notebook_edit', { path: '' }], ['run_shell_command', {}]]) {
    const text = permission + tool;
    assert.deepEqual(await told('asks', { message: text }), [{ text, ...more }, '']);
  }
  const edit = { type: 'edit', title: 't', filePath: '/f', newContent: 'secret' };
  assert.deepEqual(await told('asks', { details: edit }), [{ text: 't', path: '/f' }, '']);
  assert.deepEqual(
    await told('edit', { tool_input: { file_path: 'a.txt', content: 'secret' } }, 'It is unsaved'),
    [{ path: path.join(scene.directory, 'a.txt') },
      { decision: 'ask', systemMessage: 'It is unsaved' }]);
  // What is denied stays so.
  const policies = path.join(scene.directory, '.gemini/policies');
  await mkdir(policies, { recursive: true });
  for (const [policy, isAsked] of [
    ['# decision = "deny"\n', true],
    ['[[rule]]\ntoolName = "write_file"\ndecision = "deny"\n', false],
    ['rule = [{ toolName = "write_file", "decision" = \'deny\' }]\n', false],
  ]) {
    await writeFile(path.join(policies, 'mine.toml'), policy);
    const [{ path: asked }] = await told('edit', { tool_input: { file_path: 'a.txt' } });
    assert.equal(asked !== undefined, isAsked);
  }
  assert.deepEqual(await told('done', { prompt_response: 'secret' }), [{}, '']);
});

test('a policy that cannot be read may deny an edit, and does not block the hook', {
  skip: process.platform === 'win32',
}, async (t) => {
  const scene = await stage(t);
  const emacs = await scene.emacs(FIRST);
  emacs.handler = () => says('');
  const policies = path.join(scene.directory, '.gemini/policies');
  await mkdir(policies, { recursive: true });
  // A link to nothing denies nothing, nor does it hide what does.
  const file = path.join(policies, 'mine.toml');
  for (const [make, isAsked] of [
    [() => execFileSync('mkfifo', [file]), false],
    [() => symlink('/dev/zero', file), false],
    [() => writeFile(file, '#'.repeat((1 << 20) + 1)), false],
    [() => symlink('nothing', file), true],
    [async () => {
      await symlink('nothing', file);
      await writeFile(path.join(policies, 'other.toml'), 'decision = "deny"\n');
    }, false],
  ]) {
    await make();
    emacs.calls.length = 0;
    const { command, options, directory: cwd } = scene;
    const hook = spawn(command[0], [...command.slice(1), 'hook=edit', 'cli=7'],
      { ...options(), stdio: 'pipe', timeout: 10000, killSignal: 'SIGKILL' });
    hook.stdin.end(JSON.stringify({ cwd, session_id: 's', tool_input: { file_path: 'a.txt' } }));
    assert.deepEqual(await once(hook, 'close'), [0, null]);
    assert.equal(emacs.calls.length, isAsked ? 1 : 0);
    await rm(file);
  }
});

// Announces an Emacs on another machine as a keeper does, with SOCKET in the configuration.
async function announceFar(directory, socket) {
  const configuration = path.join(directory, 'relay.json');
  await writeFile(configuration, JSON.stringify({ socket, keeper: FIRST, roots: [directory] }));
  await writeFile(
    path.join(directory, `gemini/ide/gemini-ide-server-${FIRST}-${FIRST + 100000}.json`),
    JSON.stringify({
      workspacePath: directory,
      ppid: FIRST,
      ideInfo: { name: 'emacs' },
      stdio: { command: 'node', args: ['/relay.mjs', configuration] },
    }));
}

test('Emacs on another machine is asked by the socket there, without a token', async (t) => {
  const { directory, start } = await stage(t);
  const far = new FakeEmacs(t, FIRST);
  far.handler = () => says('far');
  const program = start();
  // After a cut the keeper has another socket.
  for (const name of ['one', 'two']) {
    const socket = path.join(directory, name);
    await far.listen(socket);
    await announceFar(directory, socket);
    program.call(name, 'echo', {});
    assert.equal((await program.answer(name)).result.content[0].text, 'far');
    const { authorization, directory: told } = far.calls.at(-1);
    assert.equal(authorization, undefined);
    assert.equal(decodeURIComponent(told), directory);
    await new Promise((resolve) => { far.server.close(resolve); });
  }
  program.call('gone', 'echo', {});
  assert.match(await failed(program, 'gone'), /ENOENT|ECONNREFUSED/);
  await announceFar(directory, 'relative');
  program.call('damaged', 'echo', {});
  assert.match(await failed(program, 'damaged'), /No Emacs has/);
});

test('of several Emacsen, the one to which the CLI is connected is asked and told', async (t) => {
  const { command, directory, emacs, options, start } = await stage(t);
  const [newest, mine] = [await emacs(FIRST), await emacs(SECOND)];
  newest.handler = () => says('newest');
  mine.handler = () => says('mine');
  const program = start();
  program.call(1, 'echo', {});
  assert.equal((await program.answer(1)).result.content[0].text, 'newest');
  mine.clients = [process.pid, 42];
  program.call(2, 'echo', {});
  assert.equal((await program.answer(2)).result.content[0].text, 'mine');
  const hook = spawn(command[0], [...command.slice(1), 'hook=done', 'cli=42'], options());
  const ended = once(hook, 'close');
  hook.stdin.end(JSON.stringify({ session_id: 's', cwd: directory }));
  await ended;
  assert.deepEqual(mine.calls.map(({ name }) => name), ['echo', 'noteEvent']);
});

test('a hook tells an Emacs on another machine where its CLI works', async (t) => {
  const { directory, command, options } = await stage(t);
  const far = new FakeEmacs(t, FIRST);
  const socket = path.join(directory, 'socket');
  await far.listen(socket);
  await announceFar(directory, socket);
  far.handler = () => says('');
  const hook = spawn(command[0], [...command.slice(1), 'hook=prompt', 'cli=42'],
    options({ GEMINI_COMPANION_TERMINAL: 'a1' }));
  const ended = once(hook, 'close');
  const cwd = path.join(directory, 'below');
  hook.stdin.end(JSON.stringify({ session_id: 's', cwd, prompt: 'Go' }));
  await ended;
  const [{ name, arguments: told, directory: at }] = far.calls;
  assert.equal(told.terminal, 'a1');
  assert.equal(decodeURIComponent(at), cwd);
  assert.deepEqual([name, told.event, told.process, told.text], ['noteEvent', 'prompt', 42, 'Go']);
});
