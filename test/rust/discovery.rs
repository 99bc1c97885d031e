//! The discovery file: its content, and its replacement and deletion.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gemini_companion::Agent;
use gemini_companion::discovery::{DiscoveryFile, split_roots};
use serde_json::{Value, json};

use crate::agents::{gemini, llxprt, qwen};
use crate::support::{TestCompanion, id_space};

pub fn create(directory: &Path) -> anyhow::Result<DiscoveryFile> {
    DiscoveryFile::create(&gemini(Vec::new()), directory, 4711, &["/one".into(), "/two".into()])
}

pub fn own_file(directory: &Path) -> PathBuf {
    directory.join(format!("gemini-ide-server-{}-4711.json", std::process::id()))
}

pub fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The content of the file of a companion in `ide` that has our PID namespace.
pub fn content(ide: &str) -> String {
    content_in(ide, &id_space())
}

fn content_in(ide: &str, id_space: &str) -> String {
    json!({ "port": 1, "ideInfo": { "name": ide }, "idSpace": id_space }).to_string()
}

/// A process that lives as long as this value.
struct LivingProcess(Child);

impl LivingProcess {
    fn start() -> LivingProcess {
        // Both wait for input.
        let mut command = Command::new(if cfg!(windows) { "cmd" } else { "cat" });
        LivingProcess(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for LivingProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The id of a process that has ended.
pub fn dead_process() -> u32 {
    LivingProcess::start().id()
}

/// What tells a file from one that replaces it.
pub fn identity(path: &Path) -> impl PartialEq + std::fmt::Debug + use<> {
    let entry = fs::metadata(path).unwrap();
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::ino(&entry);
    #[cfg(not(unix))]
    return entry.modified().unwrap();
}

#[test]
fn it_has_all_that_a_client_needs() {
    let server = TestCompanion::start();
    let port = server.companion.port();
    let name = format!("gemini-ide-server-{}-{port}.json", std::process::id());
    assert_eq!(names(&server.directory), [name.as_str()]);
    let text = fs::read_to_string(server.directory.join(name)).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({
            "port": port,
            "workspacePath": "/project",
            "authToken": server.companion.token("gemini").unwrap(),
            "ideInfo": { "name": "emacs", "displayName": "Emacs" },
            "idSpace": id_space(),
        })
    );
    assert_eq!(server.companion.token("gemini").unwrap().len(), 64);
}

#[test]
fn new_roots_replace_the_file_and_dropping_deletes_it() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    let mut file = create(&directory).unwrap();
    let before = identity(&own_file(&directory));
    file.write(&gemini(Vec::new()), 4711, &["/three".into()]).unwrap();
    assert_ne!(identity(&own_file(&directory)), before);
    assert!(fs::read_to_string(own_file(&directory)).unwrap().contains(r#""/three""#));
    assert_eq!(names(&directory).len(), 1);
    drop(file);
    assert_eq!(names(&directory), [""; 0]);
}

#[test]
fn only_files_of_dead_emacs_processes_are_deleted() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let other = LivingProcess::start();
    let (dead, alive, own) = (dead_process(), other.id(), std::process::id());
    let put = |name: String, text: String| fs::write(directory.join(name), text).unwrap();
    put(format!("gemini-ide-server-{dead}-1.json"), content("emacs"));
    put(format!("gemini-ide-server-{own}-2.json"), content("emacs"));
    let kept = [
        (format!("gemini-ide-server-{dead}-5.json.0123.tmp"), content("emacs")),
        (format!("gemini-ide-server-{alive}-3.json"), content("emacs")),
        (format!("gemini-ide-server-{dead}-4.json"), content("vscode")),
        (format!("gemini-ide-server-{dead}-6.json"), "{".to_owned()),
        (format!("gemini-ide-server-{dead}.json"), content("emacs")),
        ("notes.txt".to_owned(), String::new()),
    ];
    for (name, text) in kept.clone() {
        put(name, text);
    }
    let file = create(&directory).unwrap();
    let mut expected: Vec<String> = kept.into_iter().map(|(name, _)| name).collect();
    expected.push(own_file(&directory).file_name().unwrap().to_str().unwrap().to_owned());
    expected.sort();
    assert_eq!(names(&directory), expected);
    drop(file);
}

#[test]
fn files_from_other_pid_namespaces_or_boots_are_kept() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let (dead, own) = (dead_process(), std::process::id());
    let space = id_space();
    let (boot, namespace) = space.split_once(' ').unwrap_or((&space, ""));
    for (port, elsewhere) in [
        (1, format!("{boot} pid:[1]")),   // another container
        (2, format!("0123 {namespace}")), // another machine, or an earlier boot
        (3, String::new()),
    ] {
        for process in [dead, own] {
            let name = format!("gemini-ide-server-{process}-{port}.json");
            fs::write(directory.join(name), content_in("emacs", &elsewhere)).unwrap();
        }
    }
    let silent = format!("gemini-ide-server-{dead}-4.json");
    fs::write(directory.join(silent), r#"{"port":1,"ideInfo":{"name":"emacs"}}"#).unwrap();
    let before = names(&directory);
    drop(create(&directory).unwrap());
    assert_eq!(names(&directory), before);
}

#[test]
fn the_process_may_be_named_inside_the_file() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let put = |port: u16, process: Option<u32>| {
        let mut content = serde_json::from_str::<Value>(&content("emacs")).unwrap();
        content["ppid"] = json!(process);
        fs::write(directory.join(format!("{port}.lock")), content.to_string()).unwrap();
    };
    put(1, Some(dead_process()));
    let other = LivingProcess::start();
    put(2, Some(other.id()));
    put(3, None);
    drop(DiscoveryFile::create(&qwen(Vec::new()), &directory, 4711, &[]).unwrap());
    assert_eq!(names(&directory), ["2.lock", "3.lock"]);
}

#[test]
fn a_file_is_written_for_each_process_that_a_client_may_look_for() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("llxprt/ide");
    let name = |process, port| format!("llxprt-ide-server-{process}-{port}.json");
    let (own, parent) = (std::process::id(), 1);
    let both = || {
        let mut both = vec![name(own, 4711), name(parent, 4711)];
        both.sort();
        both
    };
    let agent = llxprt(Vec::new(), vec![parent]);
    let create = || DiscoveryFile::create(&agent, &directory, 4711, &["/one".into()]).unwrap();
    let mut file = create();
    assert_eq!(names(&directory), both());
    assert_eq!(file.damaged().count(), 0);
    fs::remove_file(directory.join(name(parent, 4711))).unwrap();
    let damaged: Vec<_> = file.damaged().map(Path::to_owned).collect();
    assert_eq!(damaged, [directory.join(name(parent, 4711))]);
    file.write(&agent, 4711, &["/two".into()]).unwrap();
    for name in both() {
        let text = fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["workspacePath"], "/two");
    }
    drop(file);
    assert_eq!(names(&directory), [""; 0]);
    // Only the process in the file shows that its Emacs was killed.
    let killed = json!({ "port": 1, "ppid": dead_process(), "ideInfo": { "name": "emacs" },
                         "idSpace": id_space() });
    fs::write(directory.join(name(parent, 1)), killed.to_string()).unwrap();
    let _file = create();
    assert_eq!(names(&directory), both());
}

#[test]
fn an_error_names_the_unusable_directory_and_the_remedy() {
    let temporary = tempfile::tempdir().unwrap();
    let reason = |path: &str| format!("{:#}", create(&temporary.path().join(path)).unwrap_err());
    assert!(reason("missing/gemini/ide").contains("set TMPDIR"));
    fs::create_dir(temporary.path().join("file")).unwrap();
    fs::write(temporary.path().join("file/gemini"), "").unwrap();
    assert!(reason("file/gemini/ide").contains("move it away"), "{}", reason("file/gemini/ide"));
    let relative = create(Path::new("relative/gemini/ide")).unwrap_err();
    assert!(format!("{relative:#}").contains("set TMPDIR to an absolute name"));
}

#[test]
fn files_too_large_for_discovery_files_are_kept() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let dead = dead_process();
    for (port, size) in [(1, 1 << 20), (2, (1 << 20) + 1)] {
        let text = content("emacs");
        let text = format!("{text}{}", " ".repeat(size - text.len()));
        fs::write(directory.join(format!("gemini-ide-server-{dead}-{port}.json")), text).unwrap();
    }
    drop(create(&directory).unwrap());
    assert_eq!(names(&directory), [format!("gemini-ide-server-{dead}-2.json")]);
}

#[test]
fn a_deleted_directory_is_created_again_with_the_next_roots() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    let mut file = create(&directory).unwrap();
    fs::remove_dir_all(temporary.path().join("gemini")).unwrap();
    file.write(&gemini(Vec::new()), 4711, &["/three".into()]).unwrap();
    assert!(fs::read_to_string(own_file(&directory)).unwrap().contains("/three"));
}

#[test]
fn roots_that_cannot_be_listed_are_left_out() {
    let listed = if cfg!(windows) { "/b;c" } else { "/b:c" };
    let roots = ["/a", listed, "", "/d e"].map(str::to_owned);
    let (usable, unusable) = split_roots(&roots);
    assert_eq!(usable, ["/a", "/d e"]);
    assert_eq!(unusable, [listed, ""]);
}

#[test]
fn each_process_adds_one_file_name() {
    let own = std::process::id();
    let names = |others: &[u32]| llxprt(Vec::new(), others.to_vec()).file_names(7);
    let name = |process: u32| format!("llxprt-ide-server-{process}-7.json");
    assert_eq!(names(&[own, 12, 12]), [name(own), name(12)]);
    let qwen = Agent { alias_pids: vec![12], ..qwen(Vec::new()) };
    assert_eq!(qwen.file_names(7), ["7.lock"]);
}

#[test]
fn file_names_are_made_and_recognized() {
    let (gemini, qwen) = (gemini(Vec::new()), qwen(Vec::new()));
    let own = std::process::id();
    let name = format!("gemini-ide-server-{own}-4711.json");
    assert_eq!(gemini.file_names(4711), [name.as_str()]);
    assert_eq!(gemini.pid_in_name(&name), Some(Some(own)));
    assert_eq!(qwen.file_names(4711), ["4711.lock"]);
    assert_eq!(qwen.pid_in_name("4711.lock"), Some(None));
    for name in [
        "",
        "gemini-ide-server-12.json",
        "gemini-ide-server--1.json",
        "gemini-ide-server-1-99999.json",
        "gemini-ide-server-1-2.jsonx",
        "gemini-ide-server-1-2.json.x.tmp",
        "4711.lock",
    ] {
        assert_eq!(gemini.pid_in_name(name), None, "{name}");
    }
    for name in ["99999.lock", ".lock", "1.lock2", "a1.lock"] {
        assert_eq!(qwen.pid_in_name(name), None, "{name}");
    }
}
