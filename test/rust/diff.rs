//! Comparing texts, and merging two changes of one text. Diffs are checked by applying them, as the
//! program patch does.

use std::time::Duration;

use gemini_companion::diff::{Comparison, Overlap, Region, ThreeWay, merge};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::hostile::{chance, ensure, pick, run_cases};

/// Enough time for these texts on any machine.
const ENOUGH: Duration = Duration::from_secs(600);

fn unified(before: &str, after: &str) -> String {
    String::from_utf8(compare(before, after).unified(3)).unwrap()
}

fn compare<'t>(before: &'t str, after: &'t str) -> Comparison<'t> {
    Comparison::new(before.as_bytes(), after.as_bytes(), ENOUGH)
}

fn merged(base: &str, ours: &str, theirs: &str) -> Result<String, Overlap> {
    merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), ENOUGH)
        .map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn diffs_have_the_format_of_the_program_diff() {
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    assert_eq!(
        unified(before, "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
        "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    );
    assert_eq!(unified("", "new\n"), "@@ -0,0 +1 @@\n+new\n");
    assert_eq!(unified("old\n", ""), "@@ -1 +0,0 @@\n-old\n");
    assert_eq!(
        unified("a\nb", "a\nb\n"),
        "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
    );
    assert_eq!(unified(before, before), "");
}

#[test]
fn line_endings_and_invalid_utf8_are_compared_as_bytes() {
    assert_eq!(unified("a\r\n", "a\n"), "@@ -1 +1 @@\n-a\r\n+a\n");
    let hunks = Comparison::new(b"\xff\n", b"\xfe\n", ENOUGH).unified(3);
    assert_eq!(hunks, b"@@ -1 +1 @@\n-\xff\n+\xfe\n");
}

#[test]
fn nearby_changes_share_a_hunk() {
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let after = "1\ntwo\n3\n4\n5\nsix\n7\n8\n9\n";
    let both = compare(before, after);
    assert_eq!((both.added(), both.removed()), (2, 2));
    assert_eq!(unified(before, after).matches("@@ -").count(), 1);
}

#[test]
fn changes_of_different_lines_are_merged() {
    let base = "1\n2\n3\n4\n5\n";
    assert_eq!(
        merged(base, "one\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n"),
        Ok("one\n2\n3\n4\n5\n6\n".into())
    );
    assert_eq!(merged(base, "2\n3\n4\n5\n", "1\n2\n3\nfour\n5\n"), Ok("2\n3\nfour\n5\n".into()));
    assert_eq!(merged("", "", "new\n"), Ok("new\n".into()));
    assert_eq!(merged("a\nb\nc", "A\nb\nc", "a\nb\nc\n"), Ok("A\nb\nc\n".into()));
}

#[test]
fn a_change_made_by_both_is_merged_once() {
    let (base, both) = ("1\n2\n3\n4\n", "1\ntwo\n3\n4\n");
    assert_eq!(merged(base, both, both), Ok(both.into()));
    assert_eq!(merged(base, both, "1\ntwo\n3\nfour\n"), Ok("1\ntwo\n3\nfour\n".into()));
}

#[test]
fn changes_of_the_same_or_adjacent_lines_overlap() {
    let base = "1\n2\n3\n4\n";
    assert_eq!(merged(base, "1\ntwo\n3\n4\n", "1\nzwei\n3\n4\n"), Err(Overlap { line: 2 }));
    assert_eq!(merged(base, "1\n2\nthree\n4\n", "0\n1\ntwo\n3\n4\n"), Err(Overlap { line: 3 }));
    assert_eq!(
        merged(base, "1\n2\nours\n3\n4\n", "1\n2\ntheirs\n3\n4\n"),
        Err(Overlap { line: 3 })
    );
}

#[test]
fn applying_a_diff_yields_the_other_text() {
    run_cases("diffs", 3_000, 1_000_000, |_, random, _| {
        let (before, after) = (random_text(random), random_text(random));
        let comparison = compare(&before, &after);
        let hunks = String::from_utf8(comparison.unified(3)).unwrap();
        let applied = apply(&before, &hunks);
        ensure(applied == after, || format!("{before:?} to {after:?} is {applied:?} by {hunks}"))?;
        let signs = |sign| hunks.lines().filter(|line| line.starts_with(sign)).count();
        ensure(signs('+') == comparison.added(), || {
            format!("{} added in {hunks}", comparison.added())
        })?;
        ensure(signs('-') == comparison.removed(), || {
            format!("{} removed in {hunks}", comparison.removed())
        })?;
        Ok(())
    });
}

#[test]
fn outside_of_the_regions_texts_are_equal() {
    run_cases("regions", 3_000, 3_000_000, |_, random, counts| {
        let base = random_text(random);
        let texts = [edited_text(random, &base), edited_text(random, &base), base];
        let [a, b, c] = texts.each_ref().map(|text| lines(text));
        let most = random.random_range(1..6);
        let two = compare(&texts[0], &texts[1]).regions(most);
        ensure(two.len() <= most, || format!("{} regions", two.len()))?;
        check_equal_outside(&two, [&a, &b])?;
        let [ours, theirs, base] = texts.each_ref().map(|text| text.as_bytes());
        let compared = ThreeWay::new(base, ours, theirs, ENOUGH);
        let three = compared.regions(most);
        ensure(three.len() <= most, || format!("{} regions of three", three.len()))?;
        check_equal_outside(&three, [&a, &b, &c])?;
        for region in &three {
            let [a, b, c] = [&a[region[0].clone()], &b[region[1].clone()], &c[region[2].clone()]];
            let expected = [b == c, a == c, a == b].iter().position(|&equal| equal);
            counts.add("the odd one", expected.map_or("none".into(), |text| text.to_string()));
            let odd = compared.odd_one(region);
            ensure(odd == expected, || format!("{odd:?} of {a:?}, {b:?}, {c:?}"))?;
        }
        Ok(())
    });
}

#[test]
fn too_many_regions_are_joined_evenly() {
    let before: String = (0..100).map(|line| format!("{line}\n")).collect();
    let line = |line| if line % 10 == 0 { "x\n".into() } else { format!("{line}\n") };
    let every_tenth: String = (0..100).map(line).collect();
    let regions = |most| compare(&before, &every_tenth).regions(most);
    assert_eq!(regions(10).len(), 10);
    assert_eq!(regions(9).len(), 9);
    assert_eq!(regions(2), [[0..41, 0..41], [50..91, 50..91]]);
    assert_eq!(regions(1), [[0..91, 0..91]]);
}

fn check_equal_outside<const TEXTS: usize>(
    regions: &[Region<TEXTS>],
    texts: [&Vec<&str>; TEXTS],
) -> Result<(), String> {
    let mut outside: [Vec<&str>; TEXTS] = [const { Vec::new() }; TEXTS];
    for (text, (outside, lines)) in outside.iter_mut().zip(texts).enumerate() {
        let mut done = 0;
        for region in regions {
            outside.extend(&lines[done..region[text].start]);
            // The gaps must be equal one by one.
            outside.push("region");
            done = region[text].end;
        }
        outside.extend(&lines[done..]);
    }
    ensure(outside.iter().all(|lines| *lines == outside[0]), || format!("{regions:?}: {texts:?}"))
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[test]
fn a_diff_that_runs_out_of_time_is_correct_if_not_minimal() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut draw =
        || -> String { (0..60_000).map(|_| pick(&mut random, &["a\n", "b\n"])).collect() };
    let (before, after) = (draw(), draw());
    let comparison = Comparison::new(before.as_bytes(), after.as_bytes(), Duration::ZERO);
    let hunks = String::from_utf8(comparison.unified(3)).unwrap();
    assert!(apply(&before, &hunks) == after);
}

#[test]
fn merging_applies_both_changes_unless_they_overlap() {
    run_cases("merges", 3_000, 2_000_000, |_, random, counts| {
        let edits: Vec<Edit> =
            (0..random.random_range(1..20)).map(|_| random_edit(random)).collect();
        let text = |made: fn(Edit) -> bool| -> String {
            let lines = edits.iter().enumerate();
            lines
                .map(|(line, &edit)| edited(line, if made(edit) { edit } else { Edit::None }))
                .collect()
        };
        let base = text(|_| false);
        let ours = text(|edit| matches!(edit, Edit::Ours(_)));
        let theirs = text(|edit| matches!(edit, Edit::Theirs(_)));
        let overlap = edits.windows(2).any(|pair| {
            matches!(pair, [Edit::Ours(_), Edit::Theirs(_)] | [Edit::Theirs(_), Edit::Ours(_)])
        });
        let both = merged(&base, &ours, &theirs);
        counts.add("edits", if overlap { "overlap" } else { "are apart" });
        ensure(both.is_err() == overlap, || format!("{ours:?}, {theirs:?}: {both:?}"))?;
        ensure(overlap || both == Ok(text(|_| true)), || format!("{ours:?}, {theirs:?}: {both:?}"))
    });
}

/// What happens to a line: it is kept, or replaced by a text, or deleted if there is none.
#[derive(Clone, Copy)]
enum Edit {
    None,
    Ours(Option<&'static str>),
    Theirs(Option<&'static str>),
}

fn random_edit(random: &mut SmallRng) -> Edit {
    match random.random_range(0..10) {
        0 => Edit::Ours(pick(random, &[None, Some("ours\n"), Some("ours\nand more\n")])),
        1 => Edit::Theirs(pick(random, &[None, Some("theirs\n"), Some("theirs\n\n")])),
        _ => Edit::None,
    }
}

fn edited(line: usize, edit: Edit) -> String {
    match edit {
        Edit::None => format!("{line}\n"),
        Edit::Ours(text) | Edit::Theirs(text) => text.unwrap_or_default().to_owned(),
    }
}

/// A text with many equal lines, perhaps without a newline at the end.
fn random_text(random: &mut SmallRng) -> String {
    let count = random.random_range(0..24);
    let mut text: String = (0..count).map(|_| random_line(random)).collect();
    if chance(random, 20) {
        text.pop();
    }
    text
}

/// The text `base` with some lines changed, removed and added.
fn edited_text(random: &mut SmallRng, base: &str) -> String {
    let mut text = String::new();
    for line in lines(base) {
        match random.random_range(0..12) {
            0 => {}
            1 => text.push_str(random_line(random)),
            2 => text.extend([line, random_line(random)]),
            _ => text.push_str(line),
        }
    }
    text
}

fn random_line(random: &mut SmallRng) -> &'static str {
    pick(random, &["\n", "a\n", "b\n", "  c\n", "}\n", "-- \n", "++x\n", "@@ -1 +1 @@\n", "ä\r\n"])
}

/// The result of applying the hunks of a unified diff to `before`.
fn apply(before: &str, hunks: &str) -> String {
    let lines: Vec<&str> = before.split_inclusive('\n').collect();
    let (mut text, mut done, mut last) = (String::new(), 0, "");
    for line in hunks.split_inclusive('\n') {
        let (sign, rest) = line.split_at(1);
        match sign {
            "@" => {
                let start = start_of(rest);
                text.extend(lines[done..start].iter().copied());
                done = start;
            }
            "-" => done += 1,
            " " => {
                text.push_str(lines[done]);
                done += 1;
            }
            "+" => text.push_str(rest),
            _ if last == "+" => text.truncate(text.len() - 1),
            _ => {}
        }
        last = sign;
    }
    text.extend(lines[done..].iter().copied());
    text
}

/// The line, counted from 0, at which the hunk with this header begins.
fn start_of(header: &str) -> usize {
    let place = header.split(['-', ' ']).nth(2).unwrap();
    let (start, count) = place.split_once(',').unwrap_or((place, "1"));
    start.parse::<usize>().unwrap() - usize::from(count != "0")
}
