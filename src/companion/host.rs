//! Hosts: other machines, or other logins, on which clients run.
//!
//! Emacs names their files with a prefix, as Tramp does; clients name them without it. Directories of this
//! machine that a container has mounted have their own names in Emacs. What comes from a host may be
//! hostile, since its administrator can read the tokens there: it names no file but those of that host,
//! and has limits of its own, so that it cannot use up those of others.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::Instant;

use crate::allowance::Allowance;
use crate::ignore::Matcher;
use crate::limits::Limits;
use crate::lock::lock;
use crate::name;
use crate::place::Place;

/// On average, a host may make one request in this time.
const INTERVAL: Duration = Duration::from_millis(40);
/// How many may come at once.
const BURST: u32 = 50;
/// A larger message counts as several requests.
const BYTES_OF_REQUEST: usize = 1 << 20;
/// More than there are roots on a host at the same time: a relay tells of 64. The rules of each may take
/// 2 MiB.
const MAX_IGNORE_FILES: usize = 128;

/// A host whose clients are served.
pub struct Host {
    prefix: String,
    /// What all its clients may use.
    allowance: Arc<Allowance>,
    /// It is no longer served.
    closed: AtomicBool,
    /// When the requests so far would have ended if they had come one by one.
    paid_until: Mutex<Option<Instant>>,
    /// Since when its clients can reach Emacs, if they can.
    reachable: Mutex<Option<Instant>>,
    /// Directories, the ignore file of each, and its matcher; the one that was told last is at the end.
    ignore_files: Mutex<VecDeque<(String, IgnoreFile, Matcher)>>,
    /// What is mounted there: directories there, and what Emacs calls them, without trailing slashes;
    /// and whether nothing else there is served, since it is a sandbox.
    mounts: Mutex<(Vec<(String, String)>, bool)>,
}

/// The .geminiignore of a directory on a host, as its clients tell.
#[derive(Debug, PartialEq, Eq)]
pub enum IgnoreFile {
    /// There is none.
    Missing,
    /// It contains this text.
    Text(String),
    /// It could not be read, for this reason.
    Unreadable(String),
}

impl Host {
    /// The host whose files begin with `prefix` in Emacs.
    pub(crate) fn new(prefix: &str, limits: &Limits) -> Host {
        Host {
            prefix: prefix.to_owned(),
            allowance: Arc::new(Allowance::new(limits)),
            closed: AtomicBool::new(false),
            paid_until: Mutex::default(),
            reachable: Mutex::default(),
            ignore_files: Mutex::default(),
            mounts: Mutex::default(),
        }
    }

    /// What names of its files begin with in Emacs.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What Emacs calls the file that clients there call `path`.
    pub fn name_of(&self, path: &str) -> String {
        self.name_here(path).unwrap_or_else(|| self.remote_name_of(path))
    }

    fn remote_name_of(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// What this machine calls the file that clients there call `path`, if it is mounted from here.
    pub(crate) fn name_here(&self, path: &str) -> Option<String> {
        let (mounts, _) = &*lock(&self.mounts);
        let below = |there: &str| {
            path.strip_prefix(there).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = mounts.iter().filter_map(|(there, here)| Some((below(there)?, here)));
        let (rest, here) = found.min_by_key(|(rest, _)| rest.len())?;
        (!here.starts_with(&self.prefix)).then(|| format!("{here}{rest}"))
    }

    /// Records what is mounted there, directories there and their names here; never the root directory of
    /// this machine. If it is a sandbox, no other file there is served.
    pub fn set_mounts(&self, mounts: Vec<(String, String)>, is_sandbox: bool) {
        *lock(&self.mounts) = (mounts, is_sandbox);
    }

    /// Why `path` cannot be the name of a file there, if it cannot be. The reason completes a sentence
    /// that begins with the name.
    pub(crate) fn fault(&self, path: &str) -> Option<String> {
        name::fault_on_host(path).or_else(|| {
            let (_, is_sandbox) = *lock(&self.mounts);
            let is_hidden = is_sandbox && self.name_here(path).is_none();
            is_hidden.then(|| "is in no directory that Emacs shares with this sandbox".to_owned())
        })
    }

    /// Where a client works: in `directory`, by what it says.
    pub(crate) fn place(&self, directory: Option<&str>) -> Place {
        let directory = directory.filter(|it| name::fault_on_host(it).is_none()).unwrap_or("/");
        Some(&*self.remote_name_of(directory)).into()
    }

    /// Records whether the connection to the host stands.
    pub(crate) fn set_reachable(&self, reachable: bool) {
        *lock(&self.reachable) = reachable.then(Instant::now);
    }

    /// Since when clients there can reach Emacs, if they can.
    pub(crate) fn reachable_since(&self) -> Option<Instant> {
        *lock(&self.reachable)
    }

    pub(crate) fn allowance(&self) -> &Arc<Allowance> {
        &self.allowance
    }

    /// Records that it is no longer served: no session of its clients begins from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Waits before a message of `bytes` is handled, if messages come too fast.
    pub(crate) async fn slow_down(&self, bytes: usize) {
        let requests = 1 + u32::try_from(bytes / BYTES_OF_REQUEST).unwrap_or(u32::MAX);
        let now = Instant::now();
        let due = {
            let mut paid_until = lock(&self.paid_until);
            let earliest = now.checked_sub(BURST * INTERVAL).unwrap_or(now);
            let due = paid_until.unwrap_or(earliest).max(earliest);
            *paid_until = Some(due + INTERVAL.saturating_mul(requests));
            due
        };
        if due > now {
            tokio::time::sleep_until(due).await;
        }
    }

    /// Records the ignore file of `directory`. Returns whether it differs from the one before. If there
    /// are too many, forgets the one that was told least recently: its directory is probably no root
    /// any more. If it still is, its files are withheld until clients tell of the ignore file again.
    pub(crate) fn set_ignore_file(&self, directory: &str, file: IgnoreFile) -> bool {
        let mut known = lock(&self.ignore_files);
        let index = known.iter().position(|(other, ..)| other == directory);
        let before = index.and_then(|index| known.remove(index));
        if known.len() >= MAX_IGNORE_FILES {
            known.pop_front();
        }
        if let Some(same) = before.filter(|(_, before, _)| *before == file) {
            known.push_back(same);
            return false;
        }
        let matcher = match &file {
            IgnoreFile::Text(text) => Matcher::new(text.as_bytes()),
            IgnoreFile::Missing | IgnoreFile::Unreadable(_) => Matcher::new(b""),
        };
        known.push_back((directory.to_owned(), file, matcher));
        true
    }

    /// Whether the ignore file of the directory `root` names the file `path` below it. The text of
    /// an error completes a sentence that begins with the ignore file.
    pub fn ignores(&self, root: &str, path: &str) -> Result<bool> {
        let below = Path::new(path).strip_prefix(root).context("is about another directory")?;
        match lock(&self.ignore_files).iter().find(|(directory, ..)| directory == root) {
            None => bail!("is not known yet"),
            Some((_, IgnoreFile::Unreadable(reason), _)) => bail!("cannot be read: {reason}"),
            Some((.., matcher)) => matcher.names(below),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Host({:?})", self.prefix)
    }
}

/// There is one for each host, as long as that is served.
impl PartialEq for Host {
    fn eq(&self, other: &Host) -> bool {
        std::ptr::eq(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_mounted_have_the_names_of_this_machine() {
        let host = Host::new("/docker:box:", &Limits::default());
        let mount = |there: &str, here: &str| (there.to_owned(), here.to_owned());
        let volume = mount("/app/lib/volume", "/docker:box:/app/lib/volume");
        let mounts = [mount("/app", "/home/me/project"), mount("/app/lib", "/srv/lib"), volume];
        host.set_mounts(mounts.to_vec(), false);
        assert_eq!(host.name_here("/app/lib/volume/a"), None);
        for (there, here) in [
            ("/app/a", "/home/me/project/a"),
            ("/app/lib/a", "/srv/lib/a"),
            ("/app/lib/volume/a", "/docker:box:/app/lib/volume/a"),
            ("/app/library/a", "/home/me/project/library/a"),
            ("/apps/a", "/docker:box:/apps/a"),
        ] {
            assert_eq!(host.name_of(there), here);
        }
        // A client works there, whatever its directory is called here.
        assert_eq!(host.place(Some("/app")).directory(), Some("/docker:box:/app"));
        assert_eq!(host.fault("/etc/a"), None);
        // Emacs cannot name other files of a sandbox.
        host.set_mounts(mounts.to_vec(), true);
        assert!(host.fault("/etc/a").is_some());
        assert_eq!(host.fault("/app/a"), None);
    }

    #[test]
    fn of_too_many_ignore_files_the_one_told_least_recently_is_forgotten() {
        let host = Host::new("/ssh:build:", &Limits::default());
        let set = |number: usize| host.set_ignore_file(&format!("/{number}"), IgnoreFile::Missing);
        let is_known = |number: usize| host.ignores(&format!("/{number}"), &format!("/{number}/a"));
        assert!((0..MAX_IGNORE_FILES).all(set));
        assert!(!set(0));
        assert!(set(MAX_IGNORE_FILES));
        assert!(is_known(0).is_ok() && is_known(1).is_err() && is_known(2).is_ok());
        assert!(is_known(MAX_IGNORE_FILES).is_ok());
        assert!(set(1));
        assert_eq!(lock(&host.ignore_files).len(), MAX_IGNORE_FILES);
    }
}
