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

// How the connection breaks.  Emacs may be away until the CLI waits no more.
const WAYS = {
  'one connection breaks': { isWide: false, isDeadly: false },
  'all break': { isWide: true, isDeadly: false },
  'Emacs is replaced': { isWide: true, isDeadly: true },
  'Emacs stays away': { isWide: true, isGone: true },
};

// Whether the step comes at all in a case.
function comes(step, way, { inEmacs, inCli, status }) {
  if (way.isGone && inCli !== 'shown') return false;
  if (way.isGone && !['closeDiff', 'event'].includes(step)) return false;
  if (step === 'closeDiff') return Boolean(inCli);
  if (step === 'event') return Boolean(inEmacs);
  if (step === 'fileWritten') return status === 'accepted';
  return true;
}

// Emacs cuts once, at STEP.
function cutOnce(emacs, step, moment, way) {
  Object.assign(emacs, way);
  let isDone = false;
  emacs.cut = (what) => {
    if (what !== step || isDone) return undefined;
    isDone = true;
    return moment;
  };
}

// The user in Emacs edits each proposal, and decides perhaps.
function playUser(emacs, { inEmacs }) {
  emacs.shown = (file, review) => {
    emacs.hasShown = true;
    if (review) review.content = EDITED;
    if (inEmacs === 'accepted') emacs.accept(file, EDITED);
    if (inEmacs === 'rejected') emacs.reject(file);
    emacs.changed();
  };
}

async function review(t, step, moment, way, how) {
  const constants = way.isGone ? { DIFF_PATIENCE: 100 } : {};
  const { directory, emacs, start } = await stage(t, { constants });
  cutOnce(emacs, step, moment, way);
  playUser(emacs, how);
  const file = path.join(directory, 'file.txt');
  await writeFile(file, OLD);
  const cli = start();
  await cli.begin();
  cli.propose(1, file, PROPOSAL);
  if (how.inCli === 'shown') await emacs.until('the review', () => emacs.hasShown);
  const before = { sessions: new Set(emacs.sessions.keys()), opened: emacs.of('openDiff').length };
  // If there is no answer, that is seen below.
  if (how.inCli) cli.resolve(2, file, how.status).catch(() => {});
  const { status, content } = await emacs.until('a decision', () => cli.decided);
  if (way.isGone) {
    await emacs.until('the cut', () => emacs.isCut);
    await emacs.listen();
  }
  assert.equal(status, how.status);
  const written = status === 'accepted' ? content ?? PROPOSAL : OLD;
  if (status === 'accepted') await writeFile(file, written);
  await judgeFile({ emacs, file, written, way, how });
  await judgeMessages({ emacs, cli, file, how, before });
}

// What the CLI has written is what the user has decided, or Emacs knows that it is not.
async function judgeFile({ emacs, file, written, way, how }) {
  assert.equal(await readFile(file, 'utf8'), written);
  // What the CLI has taken back before it was sent, Emacs need not know.
  const isKnown = how.inCli !== 'at once' || emacs.hasShown;
  if (how.status !== 'accepted' || !isKnown) return;
  await emacs.until('the news of the file', () => emacs.files.get(file)?.text === written);
  // The edits are lost only with Emacs, or if somebody does not wait for them.
  const mayBeLost = way.isDeadly || way.isGone || how.inCli === 'at once';
  if (!mayBeLost) assert.equal(written, EDITED);
}

async function judgeMessages({ emacs, cli, file, how, before }) {
  await emacs.until('the end of the review', () => !emacs.reviewer(file));
  await cli.answer(1);
  if (how.inCli) await cli.answer(2);
  for (const id of [0, 1, 2]) assert.ok(cli.answers(id).length <= 1, `${id} was answered twice`);
  assert.ok(cli.outcomes().length <= 1, 'there are several outcomes');
  // No proposal is shown twice by the same Emacs, and none that is being closed by another one.
  assert.equal(new Set(emacs.opened).size, emacs.opened.length);
  if (how.inCli === 'shown') {
    const again = emacs.of('openDiff').slice(before.opened)
      .filter((it) => !before.sessions.has(it.headers['mcp-session-id']));
    assert.deepEqual(again, []);
  }
  // What is closed at once may be taken back before Emacs has heard of it.
  if (how.inCli !== 'at once') await emacs.until('the cut', () => emacs.isCut);
  assert.equal(cli.stderr, '');
}

for (const [title, how] of Object.entries(CASES)) {
  test(`a review is ${title}`, { concurrency: 8 }, async (t) => {
    const runs = [];
    for (const [name, way] of Object.entries(WAYS)) {
      for (const step of STEPS.filter((it) => comes(it, way, how))) {
        for (const moment of ['before', 'middle', 'after']) {
          runs.push(t.test(`${name} at ${step}, ${moment}`,
            (t) => review(t, step, moment, way, how)));
        }
      }
    }
    await Promise.all(runs);
  });
}
