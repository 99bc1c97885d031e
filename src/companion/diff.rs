//! Compares texts line by line, and merges two changes of one text.
//!
//! Texts are bytes: nothing here depends on their encoding. Comparing takes bounded time: what has
//! not been compared by then counts as changed.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use memchr::memchr_iter;
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// How long Emacs may wait for two texts to be compared.
pub const TIMEOUT: Duration = Duration::from_millis(100);

/// The differences between two texts.
pub struct Comparison<'t> {
    before: Vec<&'t [u8]>,
    after: Vec<&'t [u8]>,
    changes: Vec<Change>,
}

/// Lines before, and those that replace them after, counted from 0.
#[derive(Clone)]
struct Change {
    before: Range<usize>,
    after: Range<usize>,
}

/// A conflict: two changes of one text that cannot both be made.
#[derive(Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The line of the second changed text, from 1, where they meet.
    pub line: usize,
}

impl<'t> Comparison<'t> {
    /// Compares two texts, for at most about `timeout`.
    pub fn new(before: &'t [u8], after: &'t [u8], timeout: Duration) -> Self {
        let (before, after) = (lines(before), lines(after));
        let changes = changes(&before, &after, timeout);
        Self { before, after, changes }
    }

    /// How many lines only the text after has.
    pub fn added(&self) -> usize {
        self.changes.iter().map(|change| change.after.len()).sum()
    }

    /// How many lines only the text before has.
    pub fn removed(&self) -> usize {
        self.changes.iter().map(|change| change.before.len()).sum()
    }

    /// How many lines the text before has.
    pub fn total(&self) -> usize {
        self.before.len()
    }

    /// The hunks of a unified diff, with up to `context` lines around each.
    ///
    /// Changes that are close to each other share a hunk, unless `apart`: then each has its own,
    /// and the lines between two are divided between them.
    pub fn unified(&self, context: usize, apart: bool) -> Vec<u8> {
        let share = |one: &Change, next: &Change| {
            !apart && next.before.start - one.before.end <= 2 * context
        };
        let mut text = Vec::new();
        let mut first = 0;
        for changes in self.changes.chunk_by(share) {
            let next = first + changes.len();
            let lead = if first == 0 { self.gap(0) } else { self.gap(first) / 2 };
            let trail = match self.gap(next) {
                rest if next == self.changes.len() => rest,
                between => between.div_ceil(2),
            };
            self.write_hunk(&mut text, changes, lead.min(context), trail.min(context));
            first = next;
        }
        text
    }

    /// How many unchanged lines there are directly before the change `index`.
    fn gap(&self, index: usize) -> usize {
        let start = index.checked_sub(1).map_or(0, |before| self.changes[before].before.end);
        let end = self.changes.get(index).map_or(self.before.len(), |next| next.before.start);
        end - start
    }

    fn write_hunk(&self, text: &mut Vec<u8>, changes: &[Change], lead: usize, trail: usize) {
        let (first, last) = (&changes[0], &changes[changes.len() - 1]);
        let before = first.before.start - lead..last.before.end + trail;
        let after = first.after.start - lead..last.after.end + trail;
        text.extend(format!("@@ -{} +{} @@\n", place(&before), place(&after)).into_bytes());
        let mut done = before.start;
        for change in changes {
            write_lines(text, b' ', &self.before[done..change.before.start]);
            write_lines(text, b'-', &self.before[change.before.clone()]);
            write_lines(text, b'+', &self.after[change.after.clone()]);
            done = change.before.end;
        }
        write_lines(text, b' ', &self.before[done..before.end]);
    }

    fn lines_after(&self, change: &Change) -> &[&'t [u8]] {
        &self.after[change.after.clone()]
    }
}

/// The text `base` with the changes of both `ours` and `theirs`.
///
/// Changes overlap if they are of the same line, or of adjacent lines, and are not equal. Each of the
/// two comparisons takes at most about `timeout`.
pub fn merge(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    timeout: Duration,
) -> Result<Vec<u8>, Overlap> {
    let [ours, theirs] = [ours, theirs].map(|text| Comparison::new(base, text, timeout));
    let mut merged = Merge { base: &ours.before, done: 0, text: Vec::new() };
    let mut rest = ours.changes.iter().peekable();
    for change in &theirs.changes {
        while let Some(mine) = rest.next_if(|mine| mine.before.end < change.before.start) {
            merged.make(mine, ours.lines_after(mine));
        }
        while let Some(mine) = rest.next_if(|mine| mine.before.start <= change.before.end) {
            let same = mine.before == change.before
                && ours.lines_after(mine) == theirs.lines_after(change);
            if !same {
                return Err(Overlap { line: change.after.start + 1 });
            }
        }
        merged.make(change, theirs.lines_after(change));
    }
    rest.for_each(|mine| merged.make(mine, ours.lines_after(mine)));
    Ok(merged.finish())
}

/// A text that is being merged from `base`, whose first lines are done.
struct Merge<'t> {
    base: &'t [&'t [u8]],
    done: usize,
    text: Vec<u8>,
}

impl Merge<'_> {
    fn make(&mut self, change: &Change, lines: &[&[u8]]) {
        self.text.extend(self.base[self.done..change.before.start].concat());
        self.text.extend(lines.concat());
        self.done = change.before.end;
    }

    fn finish(mut self) -> Vec<u8> {
        self.text.extend(self.base[self.done..].concat());
        self.text
    }
}

/// The lines of `text`, each with its newline.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut start = 0;
    let ends = memchr_iter(b'\n', text).map(|newline| newline + 1);
    let unfinished = (!text.is_empty() && !text.ends_with(b"\n")).then_some(text.len());
    ends.chain(unfinished).map(|end| &text[std::mem::replace(&mut start, end)..end]).collect()
}

fn changes(before: &[&[u8]], after: &[&[u8]], timeout: Duration) -> Vec<Change> {
    let lead = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let ends = before[lead..].iter().rev().zip(after[lead..].iter().rev());
    let trail = ends.take_while(|(one, other)| one == other).count();
    let mut numbers = HashMap::new();
    let before = numbered(&before[lead..before.len() - trail], &mut numbers);
    let after = numbered(&after[lead..after.len() - trail], &mut numbers);
    let deadline = Some(Instant::now() + timeout);
    capture_diff_slices_deadline(Algorithm::Myers, &before, &after, deadline)
        .chunk_by(|one, next| is_change(one) && is_change(next))
        .filter(|operations| is_change(&operations[0]))
        .map(|operations| {
            let (first, last) = (&operations[0], &operations[operations.len() - 1]);
            Change {
                before: lead + first.old_range().start..lead + last.old_range().end,
                after: lead + first.new_range().start..lead + last.new_range().end,
            }
        })
        .collect()
}

fn is_change(operation: &DiffOp) -> bool {
    !matches!(operation, DiffOp::Equal { .. })
}

/// A number for each of `lines`, equal for equal ones, since numbers are quicker to compare.
fn numbered<'t>(lines: &[&'t [u8]], numbers: &mut HashMap<&'t [u8], usize>) -> Vec<usize> {
    lines
        .iter()
        .map(|line| {
            let next = numbers.len();
            *numbers.entry(line).or_insert(next)
        })
        .collect()
}

/// The range of `lines` for the header of a hunk: from 1, or the line before if there are none.
fn place(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn write_lines(text: &mut Vec<u8>, sign: u8, lines: &[&[u8]]) {
    for line in lines {
        text.push(sign);
        text.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            text.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}
