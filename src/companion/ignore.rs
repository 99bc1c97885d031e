//! Files that no agent should see: those that a `.geminiignore` names, by the rules of gitignore.
//!
//! Ignore files come with repositories, and this runs on Emacs's main thread. So their size is
//! limited, and so is the work to match them; beyond that there is an error.

mod class;
mod glob;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use anyhow::{Context, Result, anyhow, bail};

use self::glob::{Budget, TooCostly};
use self::rules::Rules;
use crate::file::{Links, open_regular};
use crate::lock::lock;

/// Larger than any file that is written by hand.
pub(crate) const MAX_SIZE: u64 = 1 << 15;
/// The work to match one path: a third of a millisecond, enough for a thousand common lines. When
/// an ignore file changes, all open files are matched at once.
const BUDGET: usize = 50_000;
/// More than anybody has projects open; beyond that it is only slower.
const MAX_KNOWN: usize = 64;
/// More than are open in one project.
const MAX_VERDICTS: usize = 1000;

/// Ignore files by their name, as they were read last.
static KNOWN: LazyLock<Mutex<HashMap<PathBuf, Arc<Known>>>> = LazyLock::new(Mutex::default);

struct Known {
    stamp: Stamp,
    matcher: Matcher,
}

/// The text of an ignore file.
pub(crate) struct Matcher {
    rules: Rules,
    /// Results so far, by relative path.
    verdicts: Mutex<HashMap<Vec<u8>, Verdict>>,
}

/// Whether a file is named.
type Verdict = Result<bool, TooCostly>;

/// Device, inode, when that was changed, which nobody can set, and the size.
#[cfg(unix)]
type Stamp = (u64, u64, i64, i64, u64);
#[cfg(not(unix))]
type Stamp = (std::time::SystemTime, u64);

/// Whether `ignore_file` names `path`, a file below its directory. A missing ignore file names
/// nothing. The text of an error completes a sentence that begins with the ignore file.
pub fn names(ignore_file: &Path, path: &Path) -> Result<bool> {
    let directory = ignore_file.parent().context("has no directory")?;
    let path = path.strip_prefix(directory).context("is about another directory")?;
    match known(ignore_file).context("cannot be read")? {
        None => Ok(false),
        Some(known) => known.matcher.names(path),
    }
}

/// The ignore file as it is now, or `None` if there is none.
fn known(ignore_file: &Path) -> Result<Option<Arc<Known>>> {
    let metadata = match ignore_file.metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            lock(&KNOWN).remove(ignore_file);
            return Ok(None);
        }
        metadata => metadata?,
    };
    let stamp = stamp(&metadata)?;
    let known = lock(&KNOWN).get(ignore_file).cloned();
    if let Some(known) = known.filter(|known| known.stamp == stamp) {
        return Ok(Some(known));
    }
    check(&metadata)?;
    let known = Arc::new(Known::read(ignore_file)?);
    let mut all = lock(&KNOWN);
    if all.len() >= MAX_KNOWN {
        all.clear();
    }
    all.insert(ignore_file.to_owned(), known.clone());
    Ok(Some(known))
}

impl Known {
    fn read(ignore_file: &Path) -> Result<Known> {
        let file = open_regular(ignore_file, Links::Follow)?;
        // It may have been replaced since it was checked.
        let metadata = file.metadata()?;
        check(&metadata)?;
        let mut text = Vec::new();
        file.take(MAX_SIZE).read_to_end(&mut text)?;
        Ok(Known { stamp: stamp(&metadata)?, matcher: Matcher::new(&text) })
    }
}

impl Matcher {
    pub(crate) fn new(text: &[u8]) -> Matcher {
        Matcher { rules: Rules::parse(text), verdicts: Mutex::default() }
    }

    /// Whether the text names `path`, relative to the directory of the ignore file. For the error
    /// see `names`.
    pub(crate) fn names(&self, path: &Path) -> Result<bool> {
        let names: Vec<_> = path.iter().map(|name| name.as_encoded_bytes()).collect();
        self.name(names.join(&b'/')).map_err(|TooCostly| {
            anyhow!("is too costly to match: it needs fewer lines, or fewer * in them")
        })
    }

    fn name(&self, path: Vec<u8>) -> Verdict {
        if let Some(verdict) = lock(&self.verdicts).get(&path) {
            return *verdict;
        }
        let verdict = self.rules.name(&path, &mut Budget(BUDGET));
        let mut verdicts = lock(&self.verdicts);
        if verdicts.len() >= MAX_VERDICTS {
            verdicts.clear();
        }
        verdicts.insert(path, verdict);
        verdict
    }
}

/// Changes when a file is written or replaced.
#[cfg(unix)]
fn stamp(metadata: &Metadata) -> Result<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let (seconds, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
    Ok((metadata.dev(), metadata.ino(), seconds, nanoseconds, metadata.len()))
}

#[cfg(not(unix))]
fn stamp(metadata: &Metadata) -> Result<Stamp> {
    Ok((metadata.modified()?, metadata.len()))
}

fn check(metadata: &Metadata) -> Result<()> {
    if !metadata.is_file() {
        bail!("it is not a regular file");
    }
    if metadata.len() > MAX_SIZE {
        bail!("it is larger than {MAX_SIZE} bytes");
    }
    Ok(())
}
