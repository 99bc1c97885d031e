//! What other processes may leave in the directory of discovery files: each file has a random name,
//! kind, content, age and owner. Only files that are certainly of an Emacs that has ended are
//! deleted; all others stay unchanged, and our own file is right whatever was in its place.
//!
//! `HOSTILE_SEED=SEED cargo test hostile::discovery` repeats the case that a failure names.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};

use gemini_companion::Agent;
use gemini_companion::discovery::DiscoveryFile;
use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::{Check, chance, ensure, pick};
use crate::agents::{gemini, qwen};
use crate::support::{DEADLINE, id_space};

const PORT: u16 = 4711;
/// No process has such an id on any system.
const DEAD: u32 = (1 << 22) + 1;

#[test]
fn files_of_others_do_no_harm_and_suffer_none() {
    super::run_cases("discovery files", 300, 4_000_000, |_, random, counts| {
        let case = Case::random(random);
        let outcomes = in_time(move || case.play())??;
        outcomes.into_iter().for_each(|(kind, outcome)| counts.add(kind, outcome));
        Ok(())
    });
}

/// The value of `work`, or an error if it panics or hangs.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Check<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(DEADLINE).map_err(|error| match error {
        RecvTimeoutError::Timeout => "a hang".to_owned(),
        RecvTimeoutError::Disconnected => "a panic, see above".to_owned(),
    })
}

type Outcomes = Vec<(&'static str, &'static str)>;

struct Case {
    temporary: tempfile::TempDir,
    agent: Agent,
    leftovers: BTreeMap<OsString, Leftover>,
    /// What replaces our own file once it has been created.
    replacement: Leftover,
}

struct Leftover {
    kind: Kind,
    content: Content,
    is_closed: bool,
    is_of_another_user: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    File,
    Directory,
    FullDirectory,
    Link,
    DanglingLink,
    Fifo,
    Socket,
}

struct Content {
    kind: &'static str,
    bytes: Vec<u8>,
    /// Set if this is a complete file from our PID namespace; the inner value is the process it
    /// names.
    process: Option<Option<u32>>,
}

impl Case {
    fn random(random: &mut SmallRng) -> Case {
        let agent = pick(random, &[gemini, qwen])(Vec::new());
        let leftover = |_| (random_name(random), Leftover::random(random));
        let mut leftovers: BTreeMap<_, _> = (0..12).map(leftover).collect();
        if chance(random, 30) {
            leftovers.insert(agent.file_names(PORT).remove(0).into(), Leftover::random(random));
        }
        let temporary = tempfile::tempdir().unwrap();
        Case { temporary, agent, leftovers, replacement: Leftover::random(random) }
    }

    fn directory(&self) -> PathBuf {
        self.temporary.path().join("gemini/ide")
    }

    /// The target of links; as a file in the directory it would be deleted.
    fn target(&self) -> PathBuf {
        self.temporary.path().join("target")
    }

    fn own(&self) -> PathBuf {
        self.directory().join(&self.agent.file_names(PORT)[0])
    }

    fn create(&self) -> anyhow::Result<DiscoveryFile> {
        let roots = ["/one".to_owned(), "/two".to_owned()];
        DiscoveryFile::create(&self.agent, &self.directory(), PORT, &roots)
    }

    fn play(&self) -> Check<Outcomes> {
        fs::create_dir_all(self.directory()).unwrap();
        let target_content = complete(Some(DEAD)).to_string();
        fs::write(self.target(), &target_content).unwrap();
        for (name, leftover) in &self.leftovers {
            leftover.place(&self.directory().join(name), &self.target());
        }
        let (mut before, all) = (self.others(), self.all());
        let created = self.create();
        let outcomes = self.check_leftovers(&before)?;
        before.retain(|name, _| self.directory().join(name).symlink_metadata().is_ok());
        match created {
            Ok(file) => self.check_own(file)?,
            Err(error) => {
                self.check_refusal(&format!("{error:#}"))?;
                ensure(self.all().len() + count_gone(&outcomes) == all.len(), || {
                    "an unfinished file is left".to_owned()
                })?;
            }
        }
        ensure(self.others() == before, || "a second clean-up changes something".to_owned())?;
        ensure(fs::read_to_string(self.target()).unwrap() == target_content, || {
            "a link was followed".to_owned()
        })?;
        Ok(outcomes)
    }

    /// All files in the directory.
    fn all(&self) -> BTreeMap<OsString, Entry> {
        let entries = fs::read_dir(self.directory()).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name(), Entry::of(&entry.path()))).collect()
    }

    /// All files except our own.
    fn others(&self) -> BTreeMap<OsString, Entry> {
        let mut all = self.all();
        all.remove(self.own().file_name().unwrap());
        all
    }

    /// Checks that the other files are unchanged, except those that had to be deleted.
    fn check_leftovers(&self, before: &BTreeMap<OsString, Entry>) -> Check<Outcomes> {
        let after = self.others();
        let new = after.keys().find(|name| !before.contains_key(*name));
        ensure(new.is_none(), || format!("{new:?} is left behind"))?;
        let mut outcomes = Outcomes::new();
        for (name, entry) in before {
            let leftover = &self.leftovers[name];
            let is_deleted = leftover.is_deleted(&self.agent, name.to_str());
            let stays = after.get(name) == Some(entry);
            ensure(is_deleted != stays && is_deleted != after.contains_key(name), || {
                let what = if stays { "stays" } else { "does not stay as it is" };
                format!("{name:?} {what}: {:?} {}", leftover.kind, leftover.content.kind)
            })?;
            outcomes.push((leftover.label(), if is_deleted { "gone" } else { "kept" }));
        }
        Ok(outcomes)
    }

    /// Checks that our own file is complete and private, that it can be restored after something
    /// has replaced it, and that it is deleted in the end.
    fn check_own(&self, mut file: DiscoveryFile) -> Check {
        self.check_file(&file)?;
        remove(&self.own());
        self.replacement.place(&self.own(), &self.target());
        ensure(!file.is_intact(), || format!("{:?} is taken for ours", self.replacement.kind))?;
        let roots = ["/one".to_owned(), "/two".to_owned()];
        match file.write(&self.agent, PORT, &roots) {
            Ok(()) => self.check_file(&file)?,
            Err(error) => {
                let is_directory = self.replacement.kind.is_directory();
                ensure(is_directory, || format!("not written over a file: {error:#}"))?;
                remove(&self.own());
            }
        }
        drop(file);
        ensure(self.own().symlink_metadata().is_err(), || "it is there after its end".to_owned())
    }

    fn check_file(&self, file: &DiscoveryFile) -> Check {
        let entry = fs::symlink_metadata(self.own()).map_err(|error| error.to_string())?;
        ensure(entry.is_file() && entry.mode() & 0o7777 == 0o600 && entry.nlink() == 1, || {
            format!("our own file is {entry:?}")
        })?;
        let text = fs::read_to_string(self.own()).unwrap();
        let content: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let is_complete = content["port"] == PORT
            && content["workspacePath"] == "/one:/two"
            && content["authToken"] == self.agent.token.reveal()
            && content["ideInfo"] == json!({ "name": "emacs", "displayName": "Emacs" });
        ensure(is_complete && file.is_intact(), || format!("our own file holds {text}"))
    }

    /// Checks that the reason is a directory in the place of our own file, which we do not remove:
    /// nothing else may keep us from writing it.
    fn check_refusal(&self, reason: &str) -> Check {
        let own = self.own();
        let is_in_the_way = self.leftovers.get(own.file_name().unwrap());
        ensure(is_in_the_way.is_some_and(|it| it.kind.is_directory()) && own.is_dir(), || {
            format!("no file is written: {reason}")
        })?;
        ensure(reason.contains(own.to_str().unwrap()), || format!("not named: {reason}"))
    }
}

fn count_gone(outcomes: &Outcomes) -> usize {
    outcomes.iter().filter(|(_, outcome)| *outcome == "gone").count()
}

/// The state of a file, in which any change shows.
#[derive(PartialEq)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    content: Option<Vec<u8>>,
}

impl Entry {
    fn of(path: &Path) -> Entry {
        let entry = fs::symlink_metadata(path).unwrap();
        let content = match entry.is_symlink() {
            true => Some(fs::read_link(path).unwrap().into_os_string().into_vec()),
            false if entry.is_file() => fs::read(path).ok(),
            false => None,
        };
        Entry {
            mode: entry.mode(),
            owner: (entry.uid(), entry.gid()),
            inode: entry.ino(),
            modified: (entry.mtime(), entry.mtime_nsec()),
            changed: (entry.ctime(), entry.ctime_nsec()),
            content,
        }
    }
}

fn remove(path: &Path) {
    let removed = match fs::symlink_metadata(path) {
        Ok(entry) if entry.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
    assert!(!removed.is_err_and(|error| error.kind() != ErrorKind::NotFound), "{path:?}");
}

impl Leftover {
    fn random(random: &mut SmallRng) -> Leftover {
        Leftover {
            kind: random_kind(random),
            content: Content::random(random),
            is_closed: chance(random, 5),
            is_of_another_user: is_root() && chance(random, 15),
        }
    }

    fn place(&self, path: &Path, target: &Path) {
        match self.kind {
            Kind::File => self.place_file(path),
            Kind::Directory => fs::create_dir(path).unwrap(),
            Kind::FullDirectory => fs::create_dir_all(path.join("full")).unwrap(),
            Kind::Link => symlink(target, path).unwrap(),
            Kind::DanglingLink => symlink("nowhere", path).unwrap(),
            Kind::Fifo => make_fifo(path),
            Kind::Socket => bind_socket(path),
        }
        if self.is_of_another_user {
            lchown(path, Some(12345), Some(12345)).unwrap();
        }
    }

    fn place_file(&self, path: &Path) {
        fs::write(path, &self.content.bytes).unwrap();
        if self.is_closed {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }
    }

    /// Whether this is certainly of an Emacs that has ended.
    fn is_deleted(&self, agent: &Agent, name: Option<&str>) -> bool {
        let is_readable = is_root() || !self.is_closed;
        let is_ours = self.kind == Kind::File && is_readable && !self.is_of_another_user;
        let Some(name) = name.filter(|_| is_ours && self.content.bytes.len() <= 1 << 20) else {
            return false;
        };
        match NAMES.iter().find(|(known, ..)| *known == name) {
            Some((_, of, process)) => {
                let of_dead = |inner: Option<u32>| {
                    inner.or(*process).is_some_and(|id| id != 1) // which is always alive
                };
                agent.name == *of && self.content.process.is_some_and(of_dead)
            }
            None => {
                let of_us = |process: Option<u32>| process != Some(1);
                name == agent.file_names(2)[0] && self.content.process.is_some_and(of_us)
            }
        }
    }

    fn label(&self) -> &'static str {
        match self.kind {
            Kind::File => self.content.kind,
            Kind::Directory | Kind::FullDirectory => "directory",
            Kind::Link | Kind::DanglingLink => "link",
            Kind::Fifo => "FIFO",
            Kind::Socket => "socket",
        }
    }
}

impl Kind {
    fn is_directory(self) -> bool {
        matches!(self, Kind::Directory | Kind::FullDirectory)
    }
}

fn random_kind(random: &mut SmallRng) -> Kind {
    use Kind::{DanglingLink, Directory, Fifo, File, FullDirectory, Link, Socket};
    if chance(random, 70) {
        return File;
    }
    pick(random, &[Directory, FullDirectory, Link, DanglingLink, Fifo, Socket])
}

fn make_fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // Safety: it reads the name, which ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// Creates a socket under a short name, as sockets need, and renames it.
fn bind_socket(path: &Path) {
    let short = path.parent().unwrap().parent().unwrap().join("s");
    drop(UnixListener::bind(&short).unwrap());
    fs::rename(short, path).unwrap();
}

fn is_root() -> bool {
    // Safety: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Names of discovery files, each with its agent and the process in it; its content may name another.
const NAMES: [(&str, &str, Option<u32>); 8] = [
    ("gemini-ide-server-4194305-1.json", "gemini", Some(DEAD)),
    ("gemini-ide-server-4194305-65535.json", "gemini", Some(DEAD)),
    ("gemini-ide-server-4294967295-1.json", "gemini", Some(u32::MAX)),
    ("gemini-ide-server-0-1.json", "gemini", Some(0)),
    ("gemini-ide-server-1-1.json", "gemini", Some(1)),
    ("1.lock", "qwen", None),
    ("65535.lock", "qwen", None),
    ("0.lock", "qwen", None),
];

/// Names that only resemble those of discovery files.
const ODD_NAMES: [&str; 18] = [
    "gemini-ide-server-4194305-1.json~",
    "gemini-ide-server-4194305-1.json\n",
    " gemini-ide-server-4194305-1.json",
    "gemini-ide-server-4194305-1.json.a.b.tmp",
    "gemini-ide-server-4194305-1.json.tmp",
    "gemini-ide-server-4194305-1.json.0123.tmp",
    "1.lock.0123.tmp",
    "gemini-ide-server-4194305-65536.json",
    "gemini-ide-server-4294967296-1.json",
    "gemini-ide-server--4194305-1.json",
    "gemini-ide-server-+4194305-1.json",
    "gemini-ide-server-4194305-.json",
    "gemini-ide-server-PID-PORT.json",
    "gemini-ide-server-٤-1.json",
    "65536.lock",
    ".lock",
    ".tmp",
    "notes.txt",
];

fn random_name(random: &mut SmallRng) -> OsString {
    match random.random_range(0..10) {
        0..6 => pick(random, &NAMES).0.into(),
        6 => gemini(Vec::new()).file_names(2).remove(0).into(),
        7 | 8 => pick(random, &ODD_NAMES).into(),
        _ => arbitrary_name(random),
    }
}

fn arbitrary_name(random: &mut SmallRng) -> OsString {
    let length = pick(random, &[1, 7, 200, 255]);
    let bytes = (0..length).map(|_| match random.random::<u8>() {
        0 | b'/' | b'.' => b'x',
        byte if cfg!(target_os = "macos") => byte & 0x3f | 0x40, // names are UTF-8 there
        byte => byte,
    });
    OsString::from_vec(bytes.collect())
}

impl Content {
    fn random(random: &mut SmallRng) -> Content {
        let process = pick(random, &[None, Some(DEAD), Some(1), Some(0)]);
        let complete = complete(process);
        let bytes = complete.to_string().into_bytes();
        let strange = |kind, bytes| Content { kind, bytes, process: None };
        match random.random_range(0..16) {
            0..6 => Content { kind: "complete", bytes, process: Some(process) },
            6 | 7 => {
                let length = random.random_range(0..bytes.len());
                strange("truncated", bytes[..length].to_vec())
            }
            8 => strange("random bytes", random_bytes(random)),
            9 | 10 => strange("wrong shape", malformed(random, complete).to_string().into_bytes()),
            11 => strange("complete, then something", [&bytes[..], b"}"].concat()),
            12 => Content { kind: "padded", bytes: padded(random, bytes), process: Some(process) },
            13 => strange("deep", deep(random)),
            14 => strange("huge", vec![0; (1 << 20) + random.random_range(0..2)]),
            _ => strange("member with_duplicate", with_duplicate(&complete)),
        }
    }
}

/// The content of the file of an Emacs on this machine, which may name its process.
fn complete(process: Option<u32>) -> Value {
    let mut content = json!({
        "port": 1,
        "workspacePath": "/project",
        "authToken": "other",
        "ideInfo": { "name": "emacs" },
        "idSpace": id_space(),
    });
    if let Some(process) = process {
        content["ppid"] = json!(process);
    }
    content
}

/// JSON that no Emacs here would write.
fn malformed(random: &mut SmallRng, mut content: Value) -> Value {
    let odd =
        [json!(null), json!([]), json!({}), json!(""), json!("vscode"), json!(-1), json!(1e99)];
    let odd = pick(random, &odd);
    match random.random_range(0..7) {
        0 => return odd,
        1 => content["ideInfo"] = odd,
        2 => content["ideInfo"]["name"] = odd,
        3 => content["idSpace"] = odd,
        4 => {
            content["ppid"] = pick(random, &[json!("1"), json!(-1), json!(1_u64 << 32), json!([])])
        }
        5 => return json!([content]),
        _ => content["idSpace"] = json!("another machine pid:[1]"),
    }
    content
}

/// Spaces do no harm unless they make the file too large.
fn padded(random: &mut SmallRng, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(pick(random, &[1 << 10, 1 << 20, (1 << 20) + 1]), b' ');
    bytes
}

fn deep(random: &mut SmallRng) -> Vec<u8> {
    format!(r#"{{"other":{}"#, "[".repeat(pick(random, &[200, 1 << 19]))).into_bytes()
}

fn with_duplicate(content: &Value) -> Vec<u8> {
    let text = content.to_string();
    let again = r#","ideInfo":{"name":"emacs"}}"#;
    format!("{}{again}", text.strip_suffix('}').unwrap()).into_bytes()
}

fn random_bytes(random: &mut SmallRng) -> Vec<u8> {
    (0..random.random_range(1..300)).map(|_| random.random()).collect()
}
