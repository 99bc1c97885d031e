//! Paths for which clients propose changes, composed of awkward components. A path is accepted if
//! it can only be the name of a local file, to the system as well as to Emacs; a refusal says in
//! one short line what is wrong with it. This test decides by other means than the server what is
//! wrong.
//!
//! `HOSTILE_SEED=SEED cargo test hostile::paths` repeats the case that a failure names.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};

use gemini_companion::Limits;
use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::json;

use super::{Check, chance, check_event, ensure, pick, post, run_cases};
use crate::support::{TestCompanion, request};

const LARGEST: usize = 1 << 20;
/// The most bytes of a refusal: what a client says is quoted briefly, though each character may be
/// escaped.
const LONGEST: usize = 1200;

#[test]
fn only_names_of_local_files_are_accepted() {
    let place = tempfile::tempdir().unwrap();
    create_files(place.path());
    let server = TestCompanion::with(Limits {
        body: LARGEST,
        reviews: usize::MAX,
        share_reviews: usize::MAX,
        ..Limits::default()
    });
    let session = server.open_session();
    run_cases("paths", 3000, 5_000_000, |_, random, counts| {
        let path = random_path(random, place.path().to_str().unwrap());
        let answer = open_diff(&server, &session.id, &path)
            .map_err(|reason| format!("{path:?}: {reason}"))?;
        let faults = faults(&path);
        counts.add(
            faults.first().unwrap_or(&"nothing is wrong"),
            if answer.is_ok() { "accepted" } else { "refused" },
        );
        check_answer(&path, &answer, &faults).map_err(|what| {
            format!("{path:?}: the answer is wrong ({what}): {answer:?}, {faults:?}")
        })
    });
}

#[test]
fn links_that_never_end_and_very_long_names_are_refused_and_long_ones_are_not() {
    let place = tempfile::tempdir().unwrap();
    create_files(place.path());
    let server = TestCompanion::start();
    let session = server.open_session();
    let reason = |path: &str| open_diff(&server, &session.id, path).unwrap().err();
    let in_place = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    for link in ["to-itself", "to-below-itself", "to-below-other", "to-below-another/x/x"] {
        let reason = reason(&in_place(link)).unwrap_or_default();
        assert!(reason.contains("cannot be a file: "), "{link}: {reason}");
    }
    let reason_of_upwards = reason(&in_place("to-upwards/x")).unwrap_or_default();
    assert!(reason_of_upwards.contains("part of the system"), "{reason_of_upwards}");
    assert_eq!(reason(&in_place(&["a"; 1500].join("/"))), None);
    let reason_of_long = reason(&in_place(&["a"; 20_000].join("/"))).unwrap_or_default();
    assert!(reason_of_long.contains("is longer than 4096 bytes"), "{reason_of_long}");
}

/// Proposes a change of `path`. The inner error is the reason of a refusal.
fn open_diff(server: &TestCompanion, session: &str, path: &str) -> Check<Result<(), String>> {
    let arguments = json!({ "filePath": path, "newContent": "" });
    let call = json!({ "name": "openDiff", "arguments": arguments });
    let reply = post(server, session, &request(7, "tools/call", call))?;
    server.events().iter().try_for_each(check_event)?; // or too many events would wait
    let result = &reply.json()["result"];
    let reason = || result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    Ok(if result["isError"] == true { Err(reason()) } else { Ok(()) })
}

/// Creates the files that paths may name.
fn create_files(place: &Path) {
    let name = |name: &str| place.join(name);
    fs::create_dir(name("directory")).unwrap();
    for file in ["file", "directory/file", "a:b", "new\nline", "漢字", "back\\slash", "~", "$HOME"]
    {
        fs::write(name(file), "text").unwrap();
    }
    for (size, file) in [(LARGEST, "largest"), (LARGEST + 1, "too-large")] {
        File::create(name(file)).unwrap().set_len(size as u64).unwrap();
    }
    let fifo = CString::new(name("fifo").as_os_str().as_bytes()).unwrap();
    // Safety: it reads the name, which ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    drop(UnixListener::bind(name("socket")).unwrap());
    for (link, target) in [
        ("to-file", "file"),
        ("to-directory", "directory"),
        ("to-fifo", "fifo"),
        ("to-large", "too-large"),
        ("to-null", "/dev/null"),
        ("to-proc", "/proc/self"),
        ("to-nowhere", "missing"),
        ("to-itself", "to-itself"),
        ("to-below-itself", "to-below-itself/to-below-itself"),
        ("to-below-other", "to-below-another/x"),
        ("to-below-another", "to-below-other/x"),
        ("to-upwards", "directory/../to-proc"),
        ("to-root", "/"),
    ] {
        symlink(target, name(link)).unwrap();
    }
}

/// Beginnings with a meaning to the system, to a shell, to Emacs, or elsewhere.
const STARTS: [&str; 16] = [
    "",
    "/",
    "/",
    "//",
    "///",
    "/:",
    "~/",
    "~root/",
    "$HOME/",
    "C:\\",
    "c:/",
    "\\\\host\\",
    "file://",
    "/proc/",
    "/sys/",
    "/dev/",
];

const NAMES: [&str; 59] = [
    "",
    ".",
    "..",
    "...",
    " ",
    "a",
    "missing",
    "file",
    "directory",
    "a:b",
    "new\nline",
    "漢字",
    "back\\slash",
    "~",
    "$HOME",
    "${HOME}",
    "~root",
    "largest",
    "too-large",
    "fifo",
    "socket",
    "to-file",
    "to-directory",
    "to-fifo",
    "to-large",
    "to-null",
    "to-proc",
    "to-nowhere",
    "to-itself",
    "to-below-itself",
    "to-below-other",
    "to-upwards",
    "to-root",
    "proc",
    "sys",
    "dev",
    "self",
    "mem",
    "null",
    "kernel",
    "/:",
    ":",
    "ssh:host:",
    "ssh:user@host#22:",
    "-:host:",
    "host:",
    "user@host:",
    "[ssh/h]",
    "[h]",
    "[",
    "\0",
    "a\0b",
    "\r\n",
    "\u{1b}[2J",
    "\u{fffd}",
    "\u{feff}",
    "\u{202e}",
    "\u{2028}",
    "e\u{301}\u{85}",
];

fn random_path(random: &mut SmallRng, place: &str) -> String {
    let start = match chance(random, 60) {
        true => format!("{place}/"),
        false => pick(random, &STARTS).to_owned(),
    };
    let names: Vec<_> = (0..random.random_range(0..5)).map(|_| random_name(random)).collect();
    let end = if chance(random, 10) { "/" } else { "" };
    format!("{start}{}{end}", names.join("/"))
}

fn random_name(random: &mut SmallRng) -> String {
    match random.random_range(0..30) {
        0 => pick(random, &["a", "é", "字", "\u{1}"]).repeat(pick(random, &[85, 255, 256, 5000])),
        1 => pick(random, &NAMES).to_owned() + pick(random, &NAMES),
        _ => pick(random, &NAMES).to_owned(),
    }
}

fn check_answer(path: &str, answer: &Result<(), String>, faults: &[&str]) -> Check {
    let Err(reason) = answer else {
        return ensure(is_normal(path) && faults.is_empty(), || "accepted".to_owned());
    };
    let is_odd = |char: char| char.is_control() || "\u{2028}\u{202e}".contains(char);
    ensure(!reason.contains(is_odd) && reason.len() <= LONGEST, || "not a short line".to_owned())?;
    ensure(reason.starts_with("filePath \""), || "does not name the path".to_owned())?;
    // The quoted path may contain anything, the reasons no quote followed by a space.
    let (_, why) = reason.rsplit_once("\" ").ok_or("gives no reason")?;
    ensure(faults.iter().any(|fault| why.starts_with(fault)), || "refused".to_owned())
}

/// Everything that is wrong with a path, as refusals put it.
fn faults(path: &str) -> Vec<&'static str> {
    let names: Vec<&str> = path.split('/').skip(1).collect();
    let first = names.iter().find(|name| !name.is_empty()).copied().unwrap_or_default();
    let is_absolute = path.starts_with('/');
    let possible = [
        (path.contains('\0'), "contains a NUL character"),
        (path.len() > 4096, "is longer than 4096 bytes"),
        (!is_absolute, "must be absolute"),
        (is_absolute && is_magic(first), "looks like a remote name of Emacs"),
        (names.contains(&".."), "must not contain \"..\""),
        (names.contains(&"."), "must not contain \".\""),
        (path.contains("//"), "must not contain \"//\""),
        (path.ends_with('/'), "is a directory"),
    ];
    let wrong = possible.into_iter().filter(|(is_so, _)| *is_so).map(|(_, fault)| fault);
    wrong
        .chain((is_absolute && !path.contains('\0')).then(|| fault_of_file(path)).flatten())
        .collect()
}

/// Whether some `tramp-syntax`, or the quoting of names, gives this name another meaning:
/// `METHOD:...`, `HOST:...`, `[METHOD/...` and `:`.
fn is_magic(first: &str) -> bool {
    first.starts_with('[') || first.contains(':')
}

/// Whether a path begins at the root, and each of its components leads further down.
fn is_normal(path: &str) -> bool {
    let normal = path.split('/').fold(String::new(), |before, name| match name {
        "" | "." => before,
        ".." => before.rsplit_once('/').unwrap_or_default().0.to_owned(),
        name => before + "/" + name,
    });
    path == normal
}

/// What is wrong with the file that a path leads to, if there is one.
fn fault_of_file(path: &str) -> Option<&'static str> {
    let is_within = |path: &Path| ["/proc", "/sys", "/dev"].iter().any(|it| path.starts_with(it));
    let is_elsewhere = real(path).is_some_and(|path| is_within(&path));
    if is_within(Path::new(path)) || is_elsewhere {
        return Some("is part of the system, not a file");
    }
    match fs::metadata(path) {
        Ok(file) if file.is_dir() => Some("is a directory"),
        Ok(file) if !file.is_file() => Some("is not a regular file"),
        Ok(file) if file.len() > LARGEST as u64 => Some("is too large a file"),
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(_) => Some("cannot be a file: "),
    }
}

/// Where the system would find or create the file that a path names, with all links followed.
fn real(path: &str) -> Option<PathBuf> {
    let mut rest: Vec<OsString> = names_of(Path::new(path));
    let (mut real, mut links) = (PathBuf::from("/"), 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        match fs::read_link(real.join(&name)) {
            Ok(_) if links == 40 => return None,
            Ok(target) => {
                links += 1;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                rest.extend(names_of(&target));
            }
            Err(_) => real.push(name),
        }
    }
    Some(real)
}

/// The names in a path and its "..", the last one first.
fn names_of(path: &Path) -> Vec<OsString> {
    let names =
        path.components().filter(|it| matches!(it, Component::Normal(_) | Component::ParentDir));
    names.rev().map(|name| name.as_os_str().to_owned()).collect()
}
