//! Who may read, replace and delete discovery files, by the rights of Unix.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::Command;

use crate::discovery::{content, create, dead_process, names, own_file};

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
fn a_link_that_leads_nowhere_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    symlink("nowhere", temporary.path().join("gemini")).unwrap();
    let reason = create(&temporary.path().join("gemini/ide")).unwrap_err().to_string();
    assert!(reason.contains("move it away"), "{reason}");
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
#[cfg(target_os = "linux")]
fn the_file_of_a_zombie_is_deleted() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("gemini/ide");
    drop(create(&directory).unwrap());
    let mut child = Command::new("true").stdout(std::process::Stdio::piped()).spawn().unwrap();
    // Its output ends when the process does; it is a zombie until it is waited for.
    std::io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut Vec::new()).unwrap();
    crate::support::wait_for("a zombie", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.contains(") Z ").then_some(())
    });
    let name = format!("gemini-ide-server-{}-1.json", child.id());
    fs::write(directory.join(&name), content("emacs")).unwrap();
    let _file = create(&directory).unwrap();
    assert!(!names(&directory).contains(&name));
    child.wait().unwrap();
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
