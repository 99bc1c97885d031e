//! Files that the user wants no agent to see: what a `.geminiignore` names, by gitignore's rules.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use gix_ignore::glob::Pattern;
use gix_ignore::glob::pattern::Case;
use gix_ignore::glob::wildmatch::Mode;

use crate::bridge::lock;
use crate::file::{Links, open_regular};

/// Larger than any that is written by hand.
const MAX_SIZE: u64 = 1 << 20;
/// More than anybody has projects open; with more it is only slower.
const MAX_KNOWN: usize = 256;

/// Ignore files by their name, as they were read last.
static KNOWN: Mutex<Option<HashMap<PathBuf, Known>>> = Mutex::new(None);

struct Known {
    stamp: Stamp,
    rules: Rules,
}

/// What the lines of an ignore file say, in their order: the last that fits decides.
struct Rules(Vec<Pattern>);

/// Changes when a file is written.
#[derive(PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    length: u64,
}

/// Whether `ignore_file` names `path`, a file below its directory. If there is no such file it
/// names nothing. An error says why it cannot be known.
pub fn names(ignore_file: &Path, path: &Path) -> Result<bool> {
    let directory = ignore_file.parent().context("an ignore file has a directory")?;
    if !path.starts_with(directory) {
        bail!("{} is not below {}", path.display(), directory.display());
    }
    let mut known = lock(&KNOWN);
    let known = known.get_or_insert_default();
    let Ok(metadata) = ignore_file.metadata() else {
        known.remove(ignore_file);
        return Ok(false);
    };
    let stamp = Stamp::of(&metadata)?;
    if known.get(ignore_file).is_none_or(|known| known.stamp != stamp) {
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        let rules = Rules::parse(&read(ignore_file, &metadata)?);
        known.insert(ignore_file.to_owned(), Known { stamp, rules });
    }
    Ok(known[ignore_file].rules.name(path.strip_prefix(directory)?))
}

impl Stamp {
    fn of(metadata: &Metadata) -> Result<Stamp> {
        Ok(Stamp { modified: metadata.modified()?, length: metadata.len() })
    }
}

impl Rules {
    fn parse(text: &[u8]) -> Rules {
        Rules(gix_ignore::parse(text, false).map(|(pattern, ..)| pattern).collect())
    }

    /// Whether they name a file, or a directory in which it is: what is in there cannot be
    /// excepted.
    fn name(&self, file: &Path) -> bool {
        let name = file.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/");
        let directories = name.match_indices('/').map(|(end, _)| (&name[..end], true));
        directories.chain([(name.as_str(), false)]).any(|(path, is_directory)| {
            let fits = |pattern: &&Pattern| fits(pattern, path, is_directory);
            self.0.iter().rfind(fits).is_some_and(|pattern| !pattern.is_negative())
        })
    }
}

/// Gemini CLI's own reader of these files looks over case, too.
fn fits(pattern: &Pattern, path: &str, is_directory: bool) -> bool {
    let basename = path.rfind('/').map(|slash| slash + 1);
    pattern.matches_repo_relative_path(
        path.into(),
        basename,
        Some(is_directory),
        Case::Fold,
        Mode::NO_MATCH_SLASH_LITERAL,
    )
}

fn read(ignore_file: &Path, metadata: &Metadata) -> Result<Vec<u8>> {
    // To open a FIFO would be to wait.
    if !metadata.is_file() {
        bail!("it is no regular file");
    }
    if metadata.len() > MAX_SIZE {
        bail!("it is larger than {MAX_SIZE} bytes");
    }
    let mut text = Vec::new();
    open_regular(ignore_file, Links::Follow)?.take(MAX_SIZE).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_named(rules: &str, path: &str) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let ignore_file = directory.path().join(".geminiignore");
        std::fs::write(&ignore_file, rules).unwrap();
        names(&ignore_file, &directory.path().join(path)).unwrap()
    }

    #[test]
    fn patterns_are_those_of_gitignore() {
        for (rules, path, expected) in [
            ("secret.txt", "secret.txt", true),
            ("secret.txt", "deep/down/secret.txt", true),
            ("/secret.txt", "deep/secret.txt", false),
            ("build/", "build/out.txt", true),
            ("build/", "build", false),
            ("*.log\n!keep.log", "a.log", true),
            ("*.log\n!keep.log", "keep.log", false),
            ("a/**/b", "a/x/y/b", true),
            ("# comment\n\n  \n", "comment", false),
            ("\\#odd", "#odd", true),
            ("sp\\ ", "sp ", true),
            ("[", "[", false),
            ("crlf.txt\r\n", "crlf.txt", true),
            ("\u{feff}first", "first", true),
            ("build/\n!build/keep", "build/keep", true),
            ("a/b", "x/a/b", false),
            ("Secret.TXT", "secret.txt", true),
            ("*字.txt", "漢字.txt", true),
            ("a\\\\b", "a\\b", true),
            ("", "a", false),
        ] {
            assert_eq!(is_named(rules, path), expected, "{rules:?} and {path:?}");
        }
    }

    #[test]
    fn a_file_that_changes_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let ignore_file = directory.path().join(".geminiignore");
        let path = directory.path().join("a");
        let is_named = || names(&ignore_file, &path).unwrap();
        assert!(!is_named());
        std::fs::write(&ignore_file, "a\n").unwrap();
        assert!(is_named());
        std::fs::write(&ignore_file, "b and c\n").unwrap();
        assert!(!is_named());
        std::fs::write(&ignore_file, "a\n").unwrap();
        assert!(is_named());
        std::fs::remove_file(&ignore_file).unwrap();
        assert!(!is_named());
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let ignore_file = directory.path().join(".geminiignore");
        std::fs::create_dir(&ignore_file).unwrap();
        assert!(names(&ignore_file, &directory.path().join("a")).is_err());
        assert!(names(&ignore_file, Path::new("/elsewhere/a")).is_err());
        let large = directory.path().join("large");
        std::fs::File::create(&large).unwrap().set_len(MAX_SIZE + 1).unwrap();
        assert!(names(&large, &directory.path().join("a")).is_err());
    }
}
