//! Compares texts line by line, and merges two changes of one text.
//!
//! Texts are bytes: nothing here depends on their encoding. Comparing takes bounded time: what has
//! not been compared by then counts as changed.

use std::iter::Peekable;
use std::ops::Range;
use std::slice;
use std::time::{Duration, Instant};

use memchr::memchr_iter;
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// How long Emacs may wait for two texts to be compared.
pub const TIMEOUT: Duration = Duration::from_millis(100);

/// The number of lines in two texts beyond which there is no time to hash them.
const MOST_HASHED: usize = 1_000_000;

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

/// Where texts differ: in each of them a range of lines, counted from 0.
///
/// An empty range is where lines of the others are missing.
pub type Region<const TEXTS: usize> = [Range<usize>; TEXTS];

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

    /// The hunks of a unified diff, with up to `context` lines around each. Changes that are close to
    /// each other share a hunk.
    pub fn unified(&self, context: usize) -> Vec<u8> {
        let share = |one: &Change, next: &Change| next.before.start - one.before.end <= 2 * context;
        let mut text = Vec::new();
        let mut first = 0;
        for changes in self.changes.chunk_by(share) {
            let next = first + changes.len();
            // Between two hunks there are more lines than both take.
            let (lead, trail) = (self.gap(first).min(context), self.gap(next).min(context));
            self.write_hunk(&mut text, changes, lead, trail);
            first = next;
        }
        text
    }

    /// Where the texts differ, in at most `most` regions: if there are more, neighbors are joined.
    pub fn regions(&self, most: usize) -> Vec<Region<2>> {
        let regions = self.changes.iter().map(|it| [it.before.clone(), it.after.clone()]);
        joined(&regions.collect::<Vec<_>>(), most)
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
    let ThreeWay { ours, theirs } = ThreeWay::new(base, ours, theirs, timeout);
    let mut merged = Vec::new();
    let mut rest = ours.changes.iter().peekable();
    for change in &theirs.changes {
        while let Some(mine) = rest.next_if(|mine| mine.before.end < change.before.start) {
            merged.push((mine, ours.lines_after(mine)));
        }
        while let Some(mine) = rest.next_if(|mine| mine.before.start <= change.before.end) {
            let same = mine.before == change.before
                && ours.lines_after(mine) == theirs.lines_after(change);
            if !same {
                return Err(Overlap { line: change.after.start + 1 });
            }
        }
        merged.push((change, theirs.lines_after(change)));
    }
    merged.extend(rest.map(|mine| (mine, ours.lines_after(mine))));
    let (mut text, mut done) = (Vec::new(), 0);
    for (change, lines) in merged {
        text.extend(ours.before[done..change.before.start].concat());
        text.extend(lines.concat());
        done = change.before.end;
    }
    text.extend(ours.before[done..].concat());
    Ok(text)
}

/// Three texts, of which two were made from `base`.
pub struct ThreeWay<'t> {
    ours: Comparison<'t>,
    theirs: Comparison<'t>,
}

impl<'t> ThreeWay<'t> {
    /// Compares each of the two texts with `base`, for at most about `timeout`.
    pub fn new(base: &'t [u8], ours: &'t [u8], theirs: &'t [u8], timeout: Duration) -> Self {
        let [ours, theirs] = [ours, theirs].map(|text| Comparison::new(base, text, timeout));
        Self { ours, theirs }
    }

    /// Where the texts differ, as [ours, theirs, base], in at most `most` regions.
    pub fn regions(&self, most: usize) -> Vec<Region<3>> {
        let [mut ours, mut theirs] = [&self.ours, &self.theirs].map(Side::new);
        let mut regions = Vec::new();
        while let Some(start) = [ours.next_start(), theirs.next_start()].into_iter().flatten().min()
        {
            let starts = [ours.line(start), theirs.line(start)];
            let mut end = start;
            // A change of one text may reach the next one of the other.
            while let Some(reached) = ours.take(end).or_else(|| theirs.take(end)) {
                end = end.max(reached);
            }
            regions.push([starts[0]..ours.line(end), starts[1]..theirs.line(end), start..end]);
        }
        joined(&regions, most)
    }

    /// Which of the three texts in `region` differs from the other two, if those are equal.
    pub fn odd_one(&self, region: &Region<3>) -> Option<usize> {
        let [ours, theirs, base] = region.clone();
        let (ours, theirs, base) =
            (&self.ours.after[ours], &self.theirs.after[theirs], &self.ours.before[base]);
        match (theirs == base, ours == base, ours == theirs) {
            (true, ..) => Some(0),
            (_, true, _) => Some(1),
            (.., true) => Some(2),
            _ => None,
        }
    }
}

/// One of two texts that are compared with a third, line by line.
struct Side<'c> {
    rest: Peekable<slice::Iter<'c, Change>>,
    /// How many more lines it has than the third one, so far.
    surplus: isize,
}

impl<'c> Side<'c> {
    fn new(comparison: &'c Comparison) -> Self {
        Self { rest: comparison.changes.iter().peekable(), surplus: 0 }
    }

    /// Where the next change of it starts in the third text.
    fn next_start(&mut self) -> Option<usize> {
        self.rest.peek().map(|change| change.before.start)
    }

    /// Skips the next change if it starts at `line` or before; returns its end in the third text.
    fn take(&mut self, line: usize) -> Option<usize> {
        let change = self.rest.next_if(|change| change.before.start <= line)?;
        self.surplus += change.after.len() as isize - change.before.len() as isize;
        Some(change.before.end)
    }

    /// The line of it that corresponds to `line` of the third text.
    fn line(&self, line: usize) -> usize {
        line.saturating_add_signed(self.surplus)
    }
}

/// The `regions`, of which neighbors are joined, evenly spread, if there are more than `most`.
fn joined<const TEXTS: usize>(regions: &[Region<TEXTS>], most: usize) -> Vec<Region<TEXTS>> {
    let count = regions.len().min(most);
    let start = |index: usize| index * regions.len() / count;
    let joined = |index: usize| {
        let (first, last) = (&regions[start(index)], &regions[start(index + 1) - 1]);
        std::array::from_fn(|text| first[text].start..last[text].end)
    };
    (0..count).map(joined).collect()
}

/// The lines of `text`, each with its newline.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut start = 0;
    let ends = memchr_iter(b'\n', text).map(|newline| newline + 1);
    let unfinished = (!text.is_empty() && !text.ends_with(b"\n")).then_some(text.len());
    ends.chain(unfinished).map(|end| &text[std::mem::replace(&mut start, end)..end]).collect()
}

fn changes(before: &[&[u8]], after: &[&[u8]], timeout: Duration) -> Vec<Change> {
    operations(before, after, timeout)
        .chunk_by(|one, next| is_change(one) && is_change(next))
        .filter(|operations| is_change(&operations[0]))
        .map(|operations| {
            let (first, last) = (&operations[0], &operations[operations.len() - 1]);
            Change {
                before: first.old_range().start..last.old_range().end,
                after: first.new_range().start..last.new_range().end,
            }
        })
        .collect()
}

fn operations(before: &[&[u8]], after: &[&[u8]], timeout: Duration) -> Vec<DiffOp> {
    let may_hash = before.len() + after.len() <= MOST_HASHED;
    let first = if may_hash { timeout / 3 } else { timeout };
    let deadline = Instant::now() + first;
    // With few changes, in however long a text, this takes a tenth of the time: the other way begins
    // by hashing all lines.
    let mut script = Compact::new(Replace::new(Capture::new()), before, after);
    let Ok(()) = myers::diff_deadline_raw(
        &mut script,
        before,
        0..before.len(),
        after,
        0..after.len(),
        Some(deadline),
    );
    if !may_hash || Instant::now() < deadline {
        return script.into_inner().into_inner().into_ops();
    }
    // That took long perhaps because others had the processor, so this has its own time.
    let deadline = Instant::now() + (timeout - first);
    capture_diff_slices_deadline(Algorithm::Myers, before, after, Some(deadline))
}

fn is_change(operation: &DiffOp) -> bool {
    !matches!(operation, DiffOp::Equal { .. })
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
