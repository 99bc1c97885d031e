//! The discovery file: its content, its permissions, and its replacement and deletion.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use gemini_companion::Agent;
use gemini_companion::discovery::{DiscoveryFile, split_roots};
use serde_json::{Value, json};

use crate::agents::{gemini, llxprt, qwen};
use crate::support::{TestCompanion, id_space, wait_for};

fn create(directory: &Path) -> anyhow::Result<DiscoveryFile> {
    DiscoveryFile::create(&gemini(Vec::new()), directory, 4711, &["/one".into(), "/two".into()])
}

fn own_file(directory: &Path) -> PathBuf {
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
fn content(ide: &str) -> String {
    content_in(ide, &id_space())
}

fn content_in(ide: &str, id_space: &str) -> String {
    json!({ "port": 1, "ideInfo": { "name": ide }, "idSpace": id_space }).to_string()
}

/// The id of a process that has ended.
fn dead_process() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
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
fn only_its_owner_may_read_it() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    let _file = create(&directory).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&own_file(&directory)), 0o600);
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(directory.parent().unwrap()), 0o700);
}

#[test]
fn new_roots_replace_the_file_and_dropping_deletes_it() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    let mut file = create(&directory).unwrap();
    let before = fs::metadata(own_file(&directory)).unwrap().ino();
    file.write(&gemini(Vec::new()), 4711, &["/three".into()]).unwrap();
    assert_ne!(fs::metadata(own_file(&directory)).unwrap().ino(), before);
    assert!(fs::read_to_string(own_file(&directory)).unwrap().contains(r#""/three""#));
    assert_eq!(names(&directory).len(), 1);
    drop(file);
    assert_eq!(names(&directory), [""; 0]);
}

#[test]
fn a_symbolic_link_in_its_place_is_replaced_not_followed() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let victim = temporary.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, own_file(&directory)).unwrap();
    let _file = create(&directory).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!fs::symlink_metadata(own_file(&directory)).unwrap().is_symlink());
}

#[test]
fn only_files_of_dead_emacs_processes_are_deleted() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let (dead, alive, own) = (dead_process(), 1, std::process::id());
    let put = |name: String, text: String| fs::write(directory.join(name), text).unwrap();
    put(format!("gemini-ide-server-{dead}-1.json"), content("emacs"));
    put(format!("gemini-ide-server-{own}-2.json"), content("emacs"));
    // Unfinished for more than an hour.
    put(format!("gemini-ide-server-{alive}-5.json.0123.tmp"), String::new());
    put(
        format!("gemini-ide-server-{dead}-6.json.0123.tmp"),
        r#"{"ideInfo":{"name":"emacs""#.into(),
    );
    put(format!("gemini-ide-server-{dead}-7.json.0123.tmp"), "of somebody else".to_owned());
    for port in 5..=7 {
        make_old(&directory, port);
    }
    let kept = [
        (format!("gemini-ide-server-{dead}-7.json.0123.tmp"), "of somebody else".to_owned()),
        (format!("gemini-ide-server-{dead}-8.json.0123.tmp"), String::new()),
        (format!("gemini-ide-server-{dead}-x.json.0123.tmp"), String::new()),
        (format!("gemini-ide-server-{alive}-3.json"), content("emacs")),
        (format!("gemini-ide-server-{dead}-4.json"), content("vscode")),
        (format!("gemini-ide-server-{dead}-6.json"), "{".to_owned()),
        (format!("gemini-ide-server-{dead}.json"), content("emacs")),
        ("notes.txt".to_owned(), String::new()),
    ];
    for (name, text) in kept.clone().into_iter().skip(1) {
        put(name, text);
    }
    make_old(&directory, "x");
    let file = create(&directory).unwrap();
    let mut expected: Vec<String> = kept.into_iter().map(|(name, _)| name).collect();
    expected.push(own_file(&directory).file_name().unwrap().to_str().unwrap().to_owned());
    expected.sort();
    assert_eq!(names(&directory), expected);
    drop(file);
}

/// Makes the unfinished file for `port` as old as one that will never be finished.
fn make_old(directory: &Path, port: impl std::fmt::Display) {
    let end = format!("-{port}.json.0123.tmp");
    let name = names(directory).into_iter().find(|name| name.ends_with(&end)).unwrap();
    let file = fs::File::options().write(true).open(directory.join(name)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3700)).unwrap();
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
    put(2, Some(1));
    put(3, None);
    drop(DiscoveryFile::create(&qwen(Vec::new()), &directory, 4711, &[]).unwrap());
    assert_eq!(names(&directory), ["2.lock", "3.lock"]);
}

#[test]
fn a_file_is_written_for_each_process_that_a_client_may_look_for() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("llxprt/ide");
    let name = |process, port| format!("llxprt-ide-server-{process}-{port}.json");
    let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
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
fn the_file_of_a_zombie_is_deleted() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let mut child = Command::new("true").stdout(std::process::Stdio::piped()).spawn().unwrap();
    // Its output ends when the process does; it is a zombie until it is waited for.
    std::io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut Vec::new()).unwrap();
    wait_for("a zombie", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.contains(") Z ").then_some(())
    });
    let name = format!("gemini-ide-server-{}-1.json", child.id());
    fs::write(directory.join(&name), content("emacs")).unwrap();
    let _file = create(&directory).unwrap();
    assert!(!names(&directory).contains(&name));
    child.wait().unwrap();
}

#[test]
fn an_error_names_the_unusable_directory_and_the_remedy() {
    let temporary = tempfile::tempdir().unwrap();
    let reason = |path: &str| format!("{:#}", create(&temporary.path().join(path)).unwrap_err());
    assert!(reason("missing/gemini/ide").contains("set TMPDIR"));
    fs::create_dir(temporary.path().join("file")).unwrap();
    fs::write(temporary.path().join("file/gemini"), "").unwrap();
    assert!(reason("file/gemini/ide").contains("move it away"), "{}", reason("file/gemini/ide"));
    fs::create_dir(temporary.path().join("dangling")).unwrap();
    symlink("nowhere", temporary.path().join("dangling/gemini")).unwrap();
    assert!(reason("dangling/gemini/ide").contains("move it away"));
    let relative = create(Path::new("relative/gemini/ide")).unwrap_err();
    assert!(format!("{relative:#}").contains("set TMPDIR to an absolute name"));
}

/// The id of a user who is neither root nor the user of `as_user`.
const SOMEBODY: u32 = 12345;

fn is_root() -> bool {
    // Safety: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Does `work` in a new directory as a user other than root. Root runs it as the user nobody, on a
/// thread whose user is changed by a system call, as the C library would change all threads.
fn as_user<T: Send>(work: impl FnOnce(&Path) -> T + Send) -> T {
    // Other users have no access to the temporary directory of the test suite.
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    let path = temporary.path();
    if !is_root() {
        return work(path);
    }
    chown(path, Some(NOBODY), None).unwrap();
    let as_nobody = || {
        become_nobody();
        work(path)
    };
    std::thread::scope(|scope| scope.spawn(as_nobody).join().unwrap())
}

const NOBODY: u32 = 65534;

#[cfg(target_os = "linux")]
fn become_nobody() {
    // Safety: it changes only the user of this thread.
    let failed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
    assert_eq!(failed, 0);
}

#[cfg(not(target_os = "linux"))]
fn become_nobody() {
    panic!("these tests are not for root here");
}

#[test]
fn an_unprivileged_user_can_create_and_clean_up_files() {
    as_user(|temporary| {
        let directory = temporary.join("gemini/ide");
        let file = create(&directory).unwrap();
        assert!(file.is_intact());
        let name = format!("gemini-ide-server-{}-1.json", dead_process());
        fs::write(directory.join(&name), content("emacs")).unwrap();
        let _other = create(&directory).unwrap();
        assert!(!names(&directory).contains(&name));
    });
}

#[test]
fn a_link_to_a_directory_of_root_is_refused() {
    as_user(|temporary| {
        // Root's, behind a link that is the user's own.
        symlink("/", temporary.join("gemini")).unwrap();
        let reason = format!("{:#}", create(&temporary.join("gemini/ide")).unwrap_err());
        assert!(reason.contains("belongs to another user (uid 0)"), "{reason}");
    });
}

#[test]
fn directories_and_links_of_other_users_are_refused() {
    if !is_root() {
        return; // only root can change owners
    }
    let temporary = tempfile::tempdir().unwrap();
    let reason = |path: &str| format!("{:#}", create(&temporary.path().join(path)).unwrap_err());
    let name = |name: &str| temporary.path().join(name);
    for parent in ["parent/gemini", "directory/gemini/ide", "target", "linked/own", "link"] {
        fs::create_dir_all(name(parent)).unwrap();
    }
    for directory in ["parent/gemini", "directory/gemini/ide", "target"] {
        chown(name(directory), Some(SOMEBODY), None).unwrap();
    }
    symlink(name("target"), name("linked/gemini")).unwrap();
    symlink(name("linked/own"), name("link/gemini")).unwrap();
    lchown(name("link/gemini"), Some(SOMEBODY), None).unwrap();
    for place in ["parent", "directory", "linked", "link"] {
        let reason = reason(&format!("{place}/gemini/ide"));
        assert!(reason.contains("belongs to another user (uid 12345)"), "{place}: {reason}");
    }
    // A link of the user to a directory of the user is accepted.
    fs::remove_file(name("linked/gemini")).unwrap();
    symlink(name("linked/own"), name("linked/gemini")).unwrap();
    assert!(create(&name("linked/gemini/ide")).unwrap().is_intact());
}

#[test]
fn files_of_other_users_are_neither_deleted_nor_trusted() {
    if !is_root() {
        return; // only root can change owners
    }
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let name = format!("gemini-ide-server-{}-1.json", dead_process());
    fs::write(directory.join(&name), content("emacs")).unwrap();
    chown(directory.join(&name), Some(SOMEBODY), None).unwrap();
    let file = create(&directory).unwrap();
    assert!(names(&directory).contains(&name));
    assert!(file.is_intact());
    chown(own_file(&directory), Some(SOMEBODY), None).unwrap();
    assert!(!file.is_intact());
}

#[test]
fn write_permission_for_others_is_removed() {
    for (before, after) in [
        (0o777, 0o755),
        (0o720, 0o700),
        (0o702, 0o700),
        (0o1777, 0o1755),
        (0o2775, 0o2755),
        (0o755, 0o755),
        (0o711, 0o711),
    ] {
        as_user(|temporary| {
            let directory = temporary.join("gemini/ide");
            fs::create_dir_all(&directory).unwrap();
            let both = [directory.parent().unwrap(), &directory];
            for directory in both {
                fs::set_permissions(directory, fs::Permissions::from_mode(before)).unwrap();
            }
            let _file = create(&directory).unwrap();
            for directory in both {
                let mode = fs::metadata(directory).unwrap().permissions().mode() & 0o7777;
                assert_eq!(mode, after, "{before:o} became {mode:o}");
            }
        });
    }
}

#[test]
fn a_directory_in_order_is_not_changed() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let changed = || {
        let parent = fs::metadata(directory.parent().unwrap()).unwrap();
        (parent.ctime(), parent.ctime_nsec())
    };
    let before = changed();
    drop(create(&directory).unwrap());
    assert_eq!(changed(), before);
}

#[test]
fn an_error_says_how_a_directory_can_be_created() {
    as_user(|temporary| {
        fs::set_permissions(temporary, fs::Permissions::from_mode(0o500)).unwrap();
        let reason = format!("{:#}", create(&temporary.join("gemini/ide")).unwrap_err());
        assert!(reason.contains("make its parent writable"), "{reason}");
        fs::set_permissions(temporary, fs::Permissions::from_mode(0o700)).unwrap();
    });
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
fn cleaning_up_skips_all_but_regular_files() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let dead = dead_process();
    let name = |port: u16| directory.join(format!("gemini-ide-server-{dead}-{port}.json"));
    // Opening it would wait for a writer.
    let made = Command::new("mkfifo").arg(name(1)).status().unwrap();
    assert!(made.success());
    let elsewhere = temporary.path().join("elsewhere");
    fs::write(&elsewhere, content("emacs")).unwrap();
    symlink(&elsewhere, name(2)).unwrap();
    fs::create_dir(name(3)).unwrap();
    let _file = create(&directory).unwrap();
    assert!(elsewhere.exists());
    assert_eq!(names(&directory).len(), 4);
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
    let roots = ["/a", "/b:c", "", "/d e"].map(str::to_owned);
    let (usable, unusable) = split_roots(&roots);
    assert_eq!(usable, ["/a", "/d e"]);
    assert_eq!(unusable, ["/b:c", ""]);
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
