//! The discovery files of a companion: written for each agent, kept intact, deleted at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gemini_companion::{Companion, Event, Limits};

use crate::agents::gemini;
use crate::discovery::{identity, names};
use crate::support::{TestCompanion, agents, wait_for};

fn fault(companion: &Companion) -> Option<String> {
    companion.announcement().unwrap().fault()
}

fn set_roots(companion: &Companion, roots: &[String]) {
    companion.announcement().unwrap().set_roots(roots);
}

#[test]
fn a_companion_serves_without_a_discovery_file() {
    let temporary = tempfile::tempdir().unwrap();
    fs::write(temporary.path().join("gemini"), "").unwrap();
    let directory = temporary.path().join("gemini/ide");
    let companion =
        Companion::start(vec![gemini(vec![directory])], 0, &[], Limits::default()).unwrap();
    assert!(fault(&companion).is_some_and(|fault| fault.contains("move it away")));
    std::net::TcpStream::connect(("127.0.0.1", companion.port())).unwrap();
    // Once that is done the file is written with the next change.
    fs::remove_file(temporary.path().join("gemini")).unwrap();
    set_roots(&companion, &["/one".to_owned()]);
    assert_eq!(fault(&companion), None);
    assert_eq!(names(&temporary.path().join("gemini/ide")).len(), 1);
}

#[test]
fn each_of_several_directories_has_a_file() {
    let temporary = tempfile::tempdir().unwrap();
    let directories: Vec<PathBuf> = ["one", "two", "missing/three"]
        .map(|name| temporary.path().join(name).join("gemini/ide"))
        .into();
    fs::create_dir(temporary.path().join("one")).unwrap();
    fs::create_dir(temporary.path().join("two")).unwrap();
    let companion = Companion::start(
        vec![gemini(directories.clone())],
        0,
        &["/project".to_owned()],
        Limits::default(),
    )
    .unwrap();
    let content = |directory: &Path| {
        let file = names(directory).pop().unwrap();
        fs::read_to_string(directory.join(file)).unwrap()
    };
    assert_eq!(content(&directories[0]), content(&directories[1]));
    let written = companion.announcement().unwrap().files();
    let named = |place: &Path| place.join(names(place).pop().unwrap()).display().to_string();
    assert_eq!(written, [named(&directories[0]), named(&directories[1])]);
    let reason = fault(&companion).unwrap();
    assert!(reason.contains("missing"), "{reason}");
    set_roots(&companion, &["/other".to_owned()]);
    assert!(content(&directories[1]).contains("/other"));
    companion.stop();
    assert_eq!((names(&directories[0]), names(&directories[1])), (vec![], vec![]));
}

#[test]
fn the_user_is_warned_of_unusable_roots_and_directories() {
    let server = TestCompanion::start();
    let warning = |roots: &[&str]| {
        set_roots(
            &server.companion,
            &roots.iter().map(|&root| root.to_owned()).collect::<Vec<_>>(),
        );
        match server.next_event() {
            Event::Warning(text) => text,
            other => panic!("{other:?}"),
        }
    };
    let [one, other] = if cfg!(windows) { ["/a;b", "/e;f"] } else { ["/a:b", "/e:f"] };
    assert!(warning(&[one, "/c"]).contains(one));
    // Only once, as long as it is there.
    assert!(warning(&["/d", one, other]).contains(other));
    assert_eq!(server.events(), []);
    set_roots(&server.companion, &["/c".to_owned()]);
    assert!(warning(&[one]).contains(one));
    fs::remove_dir_all(&server.directory).unwrap();
    fs::write(&server.directory, "").unwrap();
    assert!(warning(&["/c"]).contains("move it away"));
}

/// The discovery file of Gemini CLI, which must exist.
fn file_of(server: &TestCompanion) -> PathBuf {
    server.directory.join(&names(&server.directory)[0])
}

type Damage = fn(&Path);

/// What may happen to a discovery file, with a name for each. Each is atomic, since the file may be
/// repaired at any time.
fn damages() -> Vec<(&'static str, Damage)> {
    vec![
        ("deleted", |file| fs::remove_file(file).unwrap()),
        ("its directories deleted", |file| {
            let gemini = file.parent().unwrap().parent().unwrap();
            fs::rename(gemini, gemini.with_extension("gone")).unwrap();
        }),
        ("written into", |file| fs::write(file, r#"{"port":1}"#).unwrap()),
        ("emptied", |file| fs::write(file, "").unwrap()),
        #[cfg(unix)]
        ("opened to others", |file| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            fs::set_permissions(file, mode).unwrap();
        }),
        #[cfg(unix)]
        ("replaced by a link to what it held", |file| {
            let (copy, link) = (file.with_extension("copy"), file.with_extension("link"));
            fs::copy(file, &copy).unwrap();
            std::os::unix::fs::symlink(copy, &link).unwrap();
            fs::rename(link, file).unwrap();
        }),
    ]
}

fn is_as_written(file: &Path, text: &str) -> bool {
    fs::symlink_metadata(file).is_ok_and(|entry| entry.is_file() && is_private(&entry))
        && fs::read_to_string(file).unwrap() == text
}

#[cfg(unix)]
fn is_private(entry: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(entry) & 0o777 == 0o600
}

/// In the temporary directory of a user, all is private.
#[cfg(not(unix))]
fn is_private(_entry: &fs::Metadata) -> bool {
    true
}

#[test]
fn a_damaged_file_is_repaired_automatically() {
    let limits = Limits { repair_interval: Duration::from_millis(10), ..Limits::default() };
    let server = TestCompanion::with(limits);
    let file = file_of(&server);
    let text = fs::read_to_string(&file).unwrap();
    for (what, happen) in damages() {
        happen(&file);
        wait_for(what, || is_as_written(&file, &text).then_some(()));
    }
    // The server that replaces that one repairs it, too; after a stop the file stays deleted.
    server.companion.restart().unwrap();
    fs::remove_file(&file).unwrap();
    wait_for("the file", || is_as_written(&file, &text).then_some(()));
    // In Wine, a file cannot be replaced while this test reads it.
    if !cfg!(windows) {
        assert_eq!(server.events(), []);
    }
    let announcement = server.companion.announcement().unwrap();
    server.companion.stop();
    announcement.repair();
    assert!(!file.exists());
}

#[test]
fn a_restart_repairs_a_damaged_file() {
    let server = TestCompanion::start();
    let file = file_of(&server);
    let text = fs::read_to_string(&file).unwrap();
    let damaged = || server.companion.announcement().unwrap().damaged_files();
    for (what, happen) in damages() {
        assert_eq!(damaged(), [""; 0]);
        happen(&file);
        assert!(damaged().contains(&file.display().to_string()), "{what}");
        server.companion.restart().unwrap();
        assert!(is_as_written(&file, &text), "{what}");
    }
}

#[test]
fn an_intact_file_is_not_rewritten() {
    let server = TestCompanion::start();
    let file = file_of(&server);
    let before = identity(&file);
    server.companion.announcement().unwrap().repair();
    assert_eq!(identity(&file), before);
}

#[test]
fn a_failed_repair_is_reported_once_and_retried() {
    let server = TestCompanion::start();
    let file = file_of(&server);
    let announcement = server.companion.announcement().unwrap();
    let gemini = server.directory.parent().unwrap();
    fs::remove_dir_all(gemini).unwrap();
    fs::write(gemini, "").unwrap();
    announcement.repair();
    // The files of all agents are below it.
    for _ in agents(&server.directory) {
        let Event::Warning(text) = server.next_event() else { panic!("no warning") };
        assert!(text.contains("move it away"), "{text}");
    }
    assert!(announcement.fault().unwrap().contains("move it away"));
    announcement.repair();
    assert_eq!(server.events(), []);
    fs::remove_file(gemini).unwrap();
    announcement.repair();
    assert_eq!(announcement.fault(), None);
    assert!(file.exists());
}
