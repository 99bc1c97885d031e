// The connection breaks at each request, answer and event of a review's life.  Whatever happens, what
// the CLI writes is what the user has decided, or Emacs knows that it is something else.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { stage } from './relay-cli.mjs';

const OLD = 'old\n';
const PROPOSAL = 'proposal\n';
const EDITED = 'edited by the user\n';

const STEPS = ['initialize', 'notifications/initialized', 'GET', 'openDiff', 'closeDiff', 'event',
  'fileWritten'];

// How the user decides: in Emacs as soon as it shows the change, in the CLI then or before, or in
// both.  STATUS is what is decided.
const CASES = {
  'accepted in Emacs': { inEmacs: 'accepted', status: 'accepted' },
  'rejected in Emacs': { inEmacs: 'rejected', status: 'rejected' },
  'accepted in the CLI, edited in Emacs': { inCli: 'shown', status: 'accepted' },
  'accepted in the CLI at once': { inCli: 'at once', status: 'accepted' },
  'rejected in the CLI': { inCli: 'shown', status: 'rejected' },
  'rejected in the CLI at once': { inCli: 'at once', status: 'rejected' },
  'accepted in both': { inEmacs: 'accepted', inCli: 'shown', status: 'accepted' },
};

const WAYS = {
  'one connection breaks': { isWide: false, isDeadly: false },
  'all break': { isWide: true, isDeadly: false },
  'Emacs is replaced': { isWide: true, isDeadly: true },
};

// Whether the step comes at all in a case.
function comes(step, { inEmacs, inCli, status }) {
  if (step === 'closeDiff') return Boolean(inCli);
  if (step === 'event') return Boolean(inEmacs);
  if (step === 'fileWritten') return status === 'accepted';
  return true;
}

// Emacs cuts once, at STEP.
function cutOnce(emacs, step, moment, way) {
  Object.assign(emacs, way);
  const cut = { isDone: false };
  emacs.cut = (what) => {
    if (what !== step || cut.isDone) return undefined;
    cut.isDone = true;
    return moment;
  };
  return cut;
}

// The user in Emacs edits each proposal, and decides perhaps.
function playUser(emacs, { inEmacs }) {
  emacs.shown = (file, review) => {
    if (review) review.content = EDITED;
    if (inEmacs === 'accepted') emacs.accept(file, EDITED);
    if (inEmacs === 'rejected') emacs.reject(file);
    emacs.changed();
  };
}

async function review(t, step, moment, way, how) {
  const { directory, emacs, start } = await stage(t);
  const cut = cutOnce(emacs, step, moment, way);
  const file = path.join(directory, 'file.txt');
  await writeFile(file, OLD);
  const shown = { isSo: false };
  playUser(emacs, how);
  const { shown: show } = emacs;
  emacs.shown = (...args) => {
    shown.isSo = true;
    show(...args);
  };
  const cli = start();
  await cli.begin();
  cli.propose(1, file, PROPOSAL);
  if (how.inCli === 'shown') await emacs.until('the review', () => shown.isSo);
  const before = emacs.of('openDiff').length;
  const known = new Set(emacs.sessions.keys());
  if (how.inCli) cli.resolve(2, file, how.status);
  const { status, content } = await emacs.until('a decision', () => cli.decided);
  const written = status === 'accepted' ? content ?? PROPOSAL : OLD;
  if (status === 'accepted') await writeFile(file, written);
  await judge({ emacs, cli, file, written, how, way, step, status, shown });
  if (how.inCli === 'shown') {
    const late = emacs.of('openDiff').slice(before)
      .filter((it) => !known.has(it.headers['mcp-session-id']));
    assert.deepEqual(late, [], 'what is being closed was proposed again');
  }
  assert.ok(cut.isDone || how.inCli === 'at once', 'nothing was cut');
  return { emacs, cli, file, written };
}

async function judge({ emacs, cli, file, written, how, way, step, status, shown }) {
  assert.equal(status, how.status);
  assert.equal(await readFile(file, 'utf8'), written);
  // What the CLI has taken back before it was sent, Emacs need not know.
  if (status === 'accepted' && (how.inCli !== 'at once' || shown.isSo)) {
    // Emacs knows what was written, so it can tell its user.
    await emacs.until('the news of the file', () => emacs.files.get(file)?.text === written);
    // The edits are lost only with Emacs, or if the user has not waited for it.
    const mayBeLost = way.isDeadly || how.inCli === 'at once';
    if (!mayBeLost) assert.equal(written, EDITED, `after ${step}`);
  }
  await emacs.until('the end of the review', () => !emacs.reviewer(file));
  await cli.answer(1);
  if (how.inCli) await cli.answer(2);
  for (const id of [0, 1, 2]) assert.ok(cli.answers(id).length <= 1, `${id} was answered twice`);
  assert.ok(cli.outcomes().length <= 1, 'there are several outcomes');
  // No proposal is shown twice by the same Emacs.
  assert.equal(new Set(emacs.opened).size, emacs.opened.length);
  assert.equal(cli.stderr, '');
}

for (const [title, how] of Object.entries(CASES)) {
  test(`a review is ${title}`, { concurrency: 8 }, async (t) => {
    const runs = [];
    for (const [name, way] of Object.entries(WAYS)) {
      for (const step of STEPS.filter((it) => comes(it, how))) {
        for (const moment of ['before', 'middle', 'after']) {
          runs.push(t.test(`${name} at ${step}, ${moment}`,
            (t) => review(t, step, moment, way, how)));
        }
      }
    }
    await Promise.all(runs);
  });
}
