//! The discovery file, by which a client finds this companion.
//!
//! Document 002, I.2: one JSON object in `os.tmpdir()/gemini/ide/`, its name tells our process id
//! and port. It holds the token, so nobody else may read it or put something in its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::process::is_alive;
use crate::token::random_hex;

const IDE_NAME: &str = "emacs";
const ROOT_SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };
/// A discovery file is a few hundred bytes; what is larger is none.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// The file on disk. Dropping it deletes the file.
#[derive(Debug)]
pub struct DiscoveryFile {
    path: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Content<'a> {
    port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    ppid: Option<u32>,
    workspace_path: String,
    auth_token: &'a str,
    ide_info: IdeInfo<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IdeInfo<'a> {
    name: &'a str,
    display_name: &'a str,
}

impl DiscoveryFile {
    /// Creates the directory and the file for `agent` and the companion of this process on `port`.
    ///
    /// Also deletes what Emacsen that were killed left there. Errors name the directory and what
    /// to do.
    pub fn create(
        agent: &Agent,
        directory: &Path,
        port: u16,
        roots: &[String],
    ) -> Result<DiscoveryFile> {
        prepare_directory(directory)?;
        remove_stale_files(agent, directory, std::process::id());
        let file = DiscoveryFile { path: directory.join(agent.file_name(port)) };
        file.write(agent, port, roots)?;
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the content. A reader sees the old or the new file, never half of one.
    pub fn write(&self, agent: &Agent, port: u16, roots: &[String]) -> Result<()> {
        let content = Content {
            port,
            ppid: agent.tells_process.then(std::process::id),
            workspace_path: roots.join(&ROOT_SEPARATOR.to_string()),
            auth_token: agent.token.reveal(),
            ide_info: IdeInfo { name: IDE_NAME, display_name: "Emacs" },
        };
        // Whoever cleans up temporary directories may have removed it.
        prepare_directory(self.path.parent().context("a file has a directory")?)?;
        replace_file(&self.path, &serde_json::to_vec(&content)?).with_context(|| {
            format!("cannot write {}: make its directory writable", self.path.display())
        })
    }
}

impl Drop for DiscoveryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Splits `roots` into those a discovery file can hold and those with the separator in their name.
pub fn split_roots(roots: &[String]) -> (Vec<String>, Vec<String>) {
    roots.iter().cloned().partition(|root| !root.is_empty() && !root.contains(ROOT_SEPARATOR))
}

/// Writes a new private file beside `path` and renames it over it, so that whatever stands at
/// `path`, a symbolic link too, is replaced and never followed.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", random_hex::<8>()?));
    let temporary = PathBuf::from(temporary);
    let result = create_private_file(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    Ok(result?)
}

fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes `directory` (`TMPDIR/gemini/ide`) exist and checks that nobody else could replace it.
fn prepare_directory(directory: &Path) -> Result<()> {
    let parent = directory.parent().context("the discovery directory needs a parent")?;
    let temporary = parent.parent().context("the discovery directory needs a grandparent")?;
    if !temporary.is_absolute() {
        bail!(
            "the temporary directory {} is not absolute, so that it is another one for each \
             program: set TMPDIR to an absolute name",
            temporary.display()
        );
    }
    if !temporary.is_dir() {
        bail!(
            "{} is no directory: set TMPDIR to a directory that exists, for Emacs and for the \
             terminals of your CLI",
            temporary.display()
        );
    }
    for directory in [parent, directory] {
        create_private_directory(directory).with_context(|| {
            format!("cannot create the directory {}: make its parent writable", directory.display())
        })?;
        check_owner(directory)?;
    }
    Ok(())
}

fn create_private_directory(directory: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Refuses a directory, or a symbolic link in its place, that is not ours.
#[cfg(unix)]
fn check_owner(directory: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let own = own_user();
    let entry = fs::symlink_metadata(directory)?;
    let Ok(target) = fs::metadata(directory).and_then(check_directory) else {
        bail!("{} is no directory: move it away", directory.display());
    };
    if entry.uid() != own || target.uid() != own {
        bail!(
            "the directory {} belongs to another user (uid {}): remove it, or set TMPDIR to a \
             directory of your own, for Emacs and for the terminals of your CLI",
            directory.display(),
            if entry.uid() == own { target.uid() } else { entry.uid() }
        );
    }
    keep_others_out(directory, target.mode())
}

/// Takes write permission from everybody else, who could put a file in the place of ours.
#[cfg(unix)]
fn keep_others_out(directory: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    const WRITE_FOR_OTHERS: u32 = 0o022;
    if mode & WRITE_FOR_OTHERS == 0 {
        return Ok(());
    }
    let private = fs::Permissions::from_mode(mode & 0o7777 & !WRITE_FOR_OTHERS);
    fs::set_permissions(directory, private)
        .with_context(|| format!("others may write in {}", directory.display()))
}

#[cfg(unix)]
fn check_directory(entry: fs::Metadata) -> io::Result<fs::Metadata> {
    if entry.is_dir() { Ok(entry) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

#[cfg(not(unix))]
fn check_owner(directory: &Path) -> Result<()> {
    if !directory.is_dir() {
        bail!("{} is no directory: move it away", directory.display());
    }
    Ok(())
}

/// Deletes files of Emacsen that no longer live, and older ones of this very Emacs: the client
/// tries only one of several files. Touches no other companion's file.
fn remove_stale_files(agent: &Agent, directory: &Path, own_process: u32) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let (finished, name) = unfinished(name).map_or((true, name), |name| (false, name));
        let Some(named) = agent.process_in_name(name) else { continue };
        let Some(text) = read_untrusted(&path) else { continue };
        let process = if finished {
            // One that does not say that it is an Emacs companion's is none of ours.
            marked_process(&text).and_then(|told| named.or(told))
        } else {
            named.filter(|_| text.is_empty() || text.contains(r#""ideInfo":{"name":"emacs""#))
        };
        if process.is_some_and(|process| process == own_process || !is_alive(process)) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The name that a file would have got that was never finished, if `name` is that of one.
fn unfinished(name: &str) -> Option<&str> {
    Some(name.strip_suffix(".tmp")?.rsplit_once('.')?.0)
}

/// The content of a regular file of this user.
fn read_untrusted(path: &Path) -> Option<String> {
    let file = open_untrusted(path).ok()?;
    let is_plain = |entry: fs::Metadata| {
        entry.is_file() && entry.len() <= MAX_FILE_SIZE && belongs_to_us(&entry)
    };
    if !file.metadata().is_ok_and(is_plain) {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_FILE_SIZE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The process that the content of an Emacs companion's file tells, if it is one's.
fn marked_process(text: &str) -> Option<Option<u32>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Marked {
        ide_info: Name,
        ppid: Option<u32>,
    }
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    let file: Marked = serde_json::from_str(text).ok()?;
    (file.ide_info.name == IDE_NAME).then_some(file.ppid)
}

/// Opens what may be anything: never through a symbolic link, never waiting for a FIFO's writer.
fn open_untrusted(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NOFOLLOW | libc::O_NONBLOCK,
    );
    options.open(path)
}

#[cfg(unix)]
fn own_user() -> u32 {
    // Safety: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(unix)]
fn belongs_to_us(entry: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(entry) == own_user()
}

#[cfg(not(unix))]
fn belongs_to_us(_entry: &fs::Metadata) -> bool {
    true
}
