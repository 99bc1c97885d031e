//! The discovery file, by which a client finds this companion.
//!
//! Document 002, I.2: one JSON object in `os.tmpdir()/gemini/ide/`, with our process id and port in
//! its name. It contains the token, so nobody else may read or replace it. An agent that may take
//! another process for ours finds it under a second name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::json;

use crate::agent::Agent;
use crate::file::{Links, open_regular};
use crate::process::{id_space, is_alive};
use crate::token::random_hex;

const IDE_NAME: &str = "emacs";
const ROOT_SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };
/// A discovery file has a few hundred bytes; larger files are something else.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// The file on disk, under all its names. Dropping this deletes it.
#[derive(Debug)]
pub struct DiscoveryFile {
    paths: Vec<PathBuf>,
    /// Its content as it was written.
    content: Vec<u8>,
}

impl DiscoveryFile {
    /// Creates the directory and the file for `agent` and the companion of this process on `port`.
    ///
    /// Also deletes files of Emacsen that were killed. Errors name the directory and what to do.
    pub fn create(
        agent: &Agent,
        directory: &Path,
        port: u16,
        roots: &[String],
    ) -> Result<DiscoveryFile> {
        prepare_directory(directory)?;
        remove_stale_files(agent, directory);
        let paths = agent.file_names(port).into_iter().map(|name| directory.join(name)).collect();
        let mut file = DiscoveryFile { paths, content: Vec::new() };
        file.write(agent, port, roots)?;
        Ok(file)
    }

    /// Its names.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Replaces the content atomically.
    pub fn write(&mut self, agent: &Agent, port: u16, roots: &[String]) -> Result<()> {
        let mut content = json!({
            "port": port,
            "workspacePath": roots.join(&ROOT_SEPARATOR.to_string()),
            "authToken": agent.token.reveal(),
            "ideInfo": { "name": IDE_NAME, "displayName": "Emacs" },
        });
        if agent.file_has_pid {
            content["ppid"] = std::process::id().into();
        }
        // Where our process id is valid: not for clients, but for other Emacsen that clean up.
        if let Some(id_space) = id_space() {
            content["idSpace"] = id_space.into();
        }
        self.content = content.to_string().into_bytes();
        for path in &self.paths {
            // The directory may have been removed as an old temporary one.
            prepare_directory(path.parent().context("a file has a directory")?)?;
            replace_file(path, &self.content).with_context(|| {
                format!("cannot write {}: make its directory writable", path.display())
            })?;
        }
        Ok(())
    }

    /// Its names under which it is missing or was changed, or others can read it.
    pub fn damaged(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path).filter(|path| {
            read_untrusted(path, 0o077).is_none_or(|text| text.as_bytes() != self.content)
        })
    }

    /// Whether it is as it was written, under all its names.
    pub fn is_intact(&self) -> bool {
        self.damaged().next().is_none()
    }
}

impl Drop for DiscoveryFile {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = fs::remove_file(path);
        }
    }
}

/// Splits `roots` into those that a discovery file can contain, and those with the separator in
/// their name.
pub fn split_roots(roots: &[String]) -> (Vec<String>, Vec<String>) {
    roots.iter().cloned().partition(|root| !root.is_empty() && !root.contains(ROOT_SEPARATOR))
}

/// Writes a new private file beside `path` and renames it to `path`. Whatever was there is
/// replaced; a symbolic link is not followed.
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
            "the temporary directory {} is not absolute, so it is a different one for each \
             program: set TMPDIR to an absolute name",
            temporary.display()
        );
    }
    if !temporary.is_dir() {
        bail!(
            "{} is not a directory: set TMPDIR to a directory that exists, for Emacs and for the \
             terminals of your CLI",
            temporary.display()
        );
    }
    for directory in [parent, directory] {
        create_private_directory(directory).with_context(|| {
            format!("cannot create the directory {}: make its parent writable", directory.display())
        })?;
        if !directory.is_dir() {
            bail!("{} is not a directory: move it away", directory.display());
        }
        #[cfg(unix)]
        keep_others_out(directory)?;
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

/// Refuses a directory, or a symbolic link in its place, that is not ours, and removes write
/// permission for others, who could replace our file.
#[cfg(unix)]
fn keep_others_out(directory: &Path) -> Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    const WRITE_FOR_OTHERS: u32 = 0o022;
    let (entry, target) = (fs::symlink_metadata(directory)?, fs::metadata(directory)?);
    if let Some(other) = [&entry, &target].into_iter().find(|it| !is_own(it, 0)) {
        bail!(
            "the directory {} belongs to another user (uid {}): remove it, or set TMPDIR to a \
             directory of your own, for Emacs and for the terminals of your CLI",
            directory.display(),
            other.uid()
        );
    }
    let mode = target.mode();
    if mode & WRITE_FOR_OTHERS == 0 {
        return Ok(());
    }
    let private = fs::Permissions::from_mode(mode & 0o7777 & !WRITE_FOR_OTHERS);
    fs::set_permissions(directory, private)
        .with_context(|| format!("others may write in {}", directory.display()))
}

/// Deletes files of Emacsen that have ended, and older files of this one: the client tries only one
/// of several. Keeps the files of other companions.
fn remove_stale_files(agent: &Agent, directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if agent.pid_in_name(name).is_some_and(|named| is_stale(&path, named)) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether it is certain that a file is stale: its Emacs has ended, or is this one. `named` is the
/// process id in its name. Process ids of other PID namespaces, or from before a reboot, cannot be
/// judged here.
fn is_stale(path: &Path, named: Option<u32>) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parsed {
        ide_info: Name,
        ppid: Option<u32>,
        id_space: Option<String>,
    }
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    let parsed = read_untrusted(path, 0).and_then(|text| serde_json::from_str(&text).ok());
    let Some(Parsed { ide_info, ppid, id_space: Some(space) }) = parsed else { return false };
    // The id in the name may be of a process that is taken for it.
    let Some(process) = ppid.or(named) else { return false };
    let is_ours = ide_info.name == IDE_NAME && id_space() == Some(space);
    is_ours && (process == std::process::id() || !is_alive(process))
}

/// The content of a regular file of this user, no link, whose mode has none of the bits `forbidden`.
fn read_untrusted(path: &Path, forbidden: u32) -> Option<String> {
    let file = open_regular(path, Links::Refuse).ok()?;
    let is_plain = |entry: fs::Metadata| entry.len() <= MAX_FILE_SIZE && is_own(&entry, forbidden);
    if !file.metadata().is_ok_and(is_plain) {
        return None;
    }
    io::read_to_string(file.take(MAX_FILE_SIZE)).ok()
}

/// Whether a file is of this user, and its mode has none of the bits `forbidden`.
#[cfg(unix)]
fn is_own(entry: &fs::Metadata, forbidden: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    entry.uid() == crate::process::own_user() && entry.mode() & forbidden == 0
}

/// Elsewhere, the temporary directory of a user is private.
#[cfg(not(unix))]
fn is_own(_entry: &fs::Metadata, _forbidden: u32) -> bool {
    true
}
