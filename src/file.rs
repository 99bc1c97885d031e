//! Files that are somebody else's: between two looks anything may stand in their place.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// What becomes of a symbolic link at the end of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Refuse,
}

/// Opens a regular file for reading, and nothing else: looked at is what was opened. To open never
/// waits, as for the writer of a FIFO.
pub fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NONBLOCK | if links == Links::Refuse { libc::O_NOFOLLOW } else { 0 },
    );
    #[cfg(not(unix))]
    let _ = links;
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn nothing_but_a_regular_file_is_opened_and_nothing_is_waited_for() {
        let temporary = tempfile::tempdir().unwrap();
        let name = |name: &str| temporary.path().join(name);
        std::fs::write(name("file"), "").unwrap();
        std::os::unix::fs::symlink(name("file"), name("link")).unwrap();
        std::os::unix::fs::symlink(name("fifo"), name("link-to-fifo")).unwrap();
        assert!(Command::new("mkfifo").arg(name("fifo")).status().unwrap().success());
        let (told, opened) = mpsc::channel();
        let directory = temporary.path().to_owned();
        std::thread::spawn(move || {
            let open = |name: &str, links| open_regular(&directory.join(name), links).is_ok();
            for (name, follow, refuse) in [
                ("file", true, true),
                ("link", true, false),
                ("fifo", false, false),
                ("link-to-fifo", false, false),
                (".", false, false),
                ("missing", false, false),
            ] {
                let opened = (open(name, Links::Follow), open(name, Links::Refuse));
                let _ = told.send((name, opened, (follow, refuse)));
            }
        });
        let deadline = Duration::from_secs(10);
        for _ in 0..6 {
            let (name, opened, expected) = opened.recv_timeout(deadline).expect("no wait");
            assert_eq!(opened, expected, "{name}");
        }
    }
}
