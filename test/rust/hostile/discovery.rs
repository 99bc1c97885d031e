//! What other processes may leave where discovery files are: of each file it is drawn what its name,
//! its kind, its content, its age and its owner are. Only what is certainly an Emacs's that has ended
//! goes; all else stays as it is, and our own file is as it should be whatever stood in its place.
//!
//! `HOSTILE_SEED=SEED cargo test hostile::discovery` repeats the case that a failure names.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gemini_companion::Agent;
use gemini_companion::discovery::DiscoveryFile;
use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::{Check, chance, ensure, in_time, pick};
use crate::agents::{gemini, qwen};
use crate::support::id_space;

const PORT: u16 = 4711;
/// No system gives such an id to a process.
const DEAD: u32 = (1 << 22) + 1;
/// As old as a file that nobody will finish.
const OLD: Duration = Duration::from_secs(2 * 3600);
/// What an unfinished file of an Emacs holds, if it holds anything.
const EMACS: &str = r#""ideInfo":{"name":"emacs""#;

#[test]
fn nothing_that_others_leave_in_the_directory_harms_or_is_harmed() {
    super::run_cases("discovery files", 300, 4_000_000, |_, random, counts| {
        let case = Case::draw(random);
        let outcomes = in_time(move || case.play())??;
        outcomes.into_iter().for_each(|(kind, outcome)| counts.add(kind, outcome));
        Ok(())
    });
}

type Outcomes = Vec<(&'static str, &'static str)>;

struct Case {
    temporary: tempfile::TempDir,
    agent: Agent,
    leftovers: BTreeMap<OsString, Leftover>,
    /// What takes the place of our own file when that is there.
    replacement: Leftover,
}

struct Leftover {
    kind: Kind,
    content: Content,
    is_old: bool,
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
    /// The whole file of an Emacs whose process ids are ours, and the one in it.
    process: Option<Option<u32>>,
}

impl Case {
    fn draw(random: &mut SmallRng) -> Case {
        let agent = pick(random, &[gemini, qwen])(Vec::new());
        let draw = |_| (draw_name(random), Leftover::draw(random));
        let mut leftovers: BTreeMap<_, _> = (0..12).map(draw).collect();
        if chance(random, 30) {
            leftovers.insert(agent.file_names(PORT).remove(0).into(), Leftover::draw(random));
        }
        let temporary = tempfile::tempdir().unwrap();
        Case { temporary, agent, leftovers, replacement: Leftover::draw(random) }
    }

    fn directory(&self) -> PathBuf {
        self.temporary.path().join("gemini/ide")
    }

    /// Where links lead: in the place of a link it would go.
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
        let precious = whole(Some(DEAD)).to_string();
        fs::write(self.target(), &precious).unwrap();
        for (name, leftover) in &self.leftovers {
            leftover.put(&self.directory().join(name), &self.target());
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
                    "a file that was begun is left".to_owned()
                })?;
            }
        }
        ensure(self.others() == before, || "a later look changes something".to_owned())?;
        ensure(fs::read_to_string(self.target()).unwrap() == precious, || {
            "a link was followed".to_owned()
        })?;
        Ok(outcomes)
    }

    /// All that is in the directory, as it is.
    fn all(&self) -> BTreeMap<OsString, Entry> {
        let entries = fs::read_dir(self.directory()).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name(), Entry::of(&entry.path()))).collect()
    }

    /// All but our own file.
    fn others(&self) -> BTreeMap<OsString, Entry> {
        let mut all = self.all();
        all.remove(self.own().file_name().unwrap());
        all
    }

    /// Whether the others are as they were, less those that have to go.
    fn check_leftovers(&self, before: &BTreeMap<OsString, Entry>) -> Check<Outcomes> {
        let after = self.others();
        let new = after.keys().find(|name| !before.contains_key(*name));
        ensure(new.is_none(), || format!("{new:?} is left"))?;
        let mut outcomes = Outcomes::new();
        for (name, entry) in before {
            let leftover = &self.leftovers[name];
            let goes = leftover.goes(&self.agent, name.to_str());
            let stays = after.get(name) == Some(entry);
            ensure(goes != stays && goes != after.contains_key(name), || {
                let what = if stays { "stays" } else { "does not stay as it is" };
                format!("{name:?} {what}: {:?} {}", leftover.kind, leftover.content.kind)
            })?;
            outcomes.push((leftover.label(), if goes { "gone" } else { "kept" }));
        }
        Ok(outcomes)
    }

    /// Whether our own file is whole, for nobody else, and is so again after something took its
    /// place; and goes at the end.
    fn check_own(&self, mut file: DiscoveryFile) -> Check {
        self.check_file(&file)?;
        remove(&self.own());
        self.replacement.put(&self.own(), &self.target());
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

    /// Nothing but a directory in its place, which we do not remove, is in the way of our own file.
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

/// A file as it is, so that any change of it shows.
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
    fn draw(random: &mut SmallRng) -> Leftover {
        Leftover {
            kind: draw_kind(random),
            content: Content::draw(random),
            is_old: chance(random, 50),
            is_closed: chance(random, 5),
            is_of_another_user: is_root() && chance(random, 15),
        }
    }

    fn put(&self, path: &Path, target: &Path) {
        match self.kind {
            Kind::File => self.put_file(path),
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

    fn put_file(&self, path: &Path) {
        fs::write(path, &self.content.bytes).unwrap();
        if self.is_old {
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - OLD).unwrap();
        }
        if self.is_closed {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }
    }

    /// Whether it is certain that this is of an Emacs that has ended, or was never finished.
    fn goes(&self, agent: &Agent, name: Option<&str>) -> bool {
        let is_readable = is_root() || !self.is_closed;
        let is_ours = self.kind == Kind::File && is_readable && !self.is_of_another_user;
        let Some(name) = name.filter(|_| is_ours && self.content.bytes.len() <= 1 << 20) else {
            return false;
        };
        match NAMES.iter().find(|(known, ..)| *known == name) {
            Some((_, of, Names::Unfinished)) => {
                agent.name == *of && self.is_old && self.content.was_begun()
            }
            Some((_, of, Names::Process(process))) => {
                let of_dead = |inner: Option<u32>| {
                    inner.or(*process).is_some_and(|id| id != 1) // which lives as long as all
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

fn draw_kind(random: &mut SmallRng) -> Kind {
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

/// The path of a socket must be short, so it gets the other name afterwards.
fn bind_socket(path: &Path) {
    let short = path.parent().unwrap().parent().unwrap().join("s");
    drop(UnixListener::bind(&short).unwrap());
    fs::rename(short, path).unwrap();
}

fn is_root() -> bool {
    // Safety: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// What a name says to the agent whose it is.
#[derive(Clone, Copy)]
enum Names {
    /// This process, or the one that the content tells.
    Process(Option<u32>),
    Unfinished,
}

/// Names that are those of discovery files, and whose.
const NAMES: [(&str, &str, Names); 12] = [
    ("gemini-ide-server-4194305-1.json", "gemini", Names::Process(Some(DEAD))),
    ("gemini-ide-server-4194305-65535.json", "gemini", Names::Process(Some(DEAD))),
    ("gemini-ide-server-4294967295-1.json", "gemini", Names::Process(Some(u32::MAX))),
    ("gemini-ide-server-0-1.json", "gemini", Names::Process(Some(0))),
    ("gemini-ide-server-1-1.json", "gemini", Names::Process(Some(1))),
    ("gemini-ide-server-4194305-1.json.0123.tmp", "gemini", Names::Unfinished),
    ("gemini-ide-server-1-1.json.0123.tmp", "gemini", Names::Unfinished),
    ("1.lock", "qwen", Names::Process(None)),
    ("65535.lock", "qwen", Names::Process(None)),
    ("0.lock", "qwen", Names::Process(None)),
    ("1.lock.0123.tmp", "qwen", Names::Unfinished),
    ("2.lock.0123.tmp", "qwen", Names::Unfinished),
];

/// Names that are almost those of discovery files.
const ODD_NAMES: [&str; 16] = [
    "gemini-ide-server-4194305-1.json~",
    "gemini-ide-server-4194305-1.json\n",
    " gemini-ide-server-4194305-1.json",
    "gemini-ide-server-4194305-1.json.a.b.tmp",
    "gemini-ide-server-4194305-1.json.tmp",
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

fn draw_name(random: &mut SmallRng) -> OsString {
    match random.random_range(0..10) {
        0..6 => pick(random, &NAMES).0.into(),
        6 => gemini(Vec::new()).file_names(2).remove(0).into(),
        7 | 8 => pick(random, &ODD_NAMES).into(),
        _ => draw_any_name(random),
    }
}

fn draw_any_name(random: &mut SmallRng) -> OsString {
    let length = pick(random, &[1, 7, 200, 255]);
    let bytes = (0..length).map(|_| match random.random::<u8>() {
        0 | b'/' | b'.' => b'x',
        byte if cfg!(target_os = "macos") => byte & 0x3f | 0x40, // names are UTF-8 there
        byte => byte,
    });
    OsString::from_vec(bytes.collect())
}

impl Content {
    fn draw(random: &mut SmallRng) -> Content {
        let process = pick(random, &[None, Some(DEAD), Some(1), Some(0)]);
        let whole = whole(process);
        let bytes = whole.to_string().into_bytes();
        let strange = |kind, bytes| Content { kind, bytes, process: None };
        match random.random_range(0..16) {
            0..6 => Content { kind: "whole", bytes, process: Some(process) },
            6 | 7 => {
                let length = random.random_range(0..bytes.len());
                strange("truncated", bytes[..length].to_vec())
            }
            8 => strange("random bytes", random_bytes(random)),
            9 | 10 => strange("wrong shape", bent(random, whole).to_string().into_bytes()),
            11 => strange("whole, then something", [&bytes[..], b"}"].concat()),
            12 => Content { kind: "padded", bytes: padded(random, bytes), process: Some(process) },
            13 => strange("deep", deep(random)),
            14 => strange("huge", vec![0; (1 << 20) + random.random_range(0..2)]),
            _ => strange("member twice", twice(&whole)),
        }
    }

    /// Whether an Emacs may have begun to write this.
    fn was_begun(&self) -> bool {
        let is_told = |text: &str| text.is_empty() || text.contains(EMACS);
        std::str::from_utf8(&self.bytes).is_ok_and(is_told)
    }
}

/// What the file of an Emacs says of this machine; some tell their process.
fn whole(process: Option<u32>) -> Value {
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

/// JSON that is not what an Emacs here would write.
fn bent(random: &mut SmallRng, mut content: Value) -> Value {
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

/// Spaces do no harm, as long as it is not too large.
fn padded(random: &mut SmallRng, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(pick(random, &[1 << 10, 1 << 20, (1 << 20) + 1]), b' ');
    bytes
}

fn deep(random: &mut SmallRng) -> Vec<u8> {
    format!(r#"{{"other":{}"#, "[".repeat(pick(random, &[200, 1 << 19]))).into_bytes()
}

fn twice(content: &Value) -> Vec<u8> {
    let text = content.to_string();
    let again = r#","ideInfo":{"name":"emacs"}}"#;
    format!("{}{again}", text.strip_suffix('}').unwrap()).into_bytes()
}

fn random_bytes(random: &mut SmallRng) -> Vec<u8> {
    (0..random.random_range(1..300)).map(|_| random.random()).collect()
}
