//! Access to files that others can replace at any time.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// What to do with a symbolic link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Refuse,
}

/// Runs checks of files on threads of their own. A file system that hangs keeps each thread that
/// asks it, so their number is limited.
pub struct FileChecks {
    permits: Arc<Semaphore>,
    timeout: Duration,
}

impl FileChecks {
    pub fn new(count: usize, timeout: Duration) -> FileChecks {
        FileChecks { permits: Arc::new(Semaphore::new(count)), timeout }
    }

    /// Returns the result of `check`, or `None` if that takes too long.
    pub async fn run<T: Send + 'static>(
        &self,
        check: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let checked = async {
            let permit = self.permits.clone().acquire_owned().await.ok()?;
            let check = move || {
                let _place = permit; // taken until the check ends
                check()
            };
            tokio::task::spawn_blocking(check).await.ok()
        };
        tokio::time::timeout(self.timeout, checked).await.ok()?
    }
}

/// Opens a file for reading if it is a regular one, which is checked after opening it. Never waits,
/// as opening a FIFO does.
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
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn looks_that_never_end_leave_time_to_say_so_and_threads_for_others() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(3)
            .build()
            .unwrap();
        runtime.block_on(async {
            let patient = FileChecks::new(2, Duration::from_secs(10));
            let checks = FileChecks { permits: patient.permits.clone(), timeout: Duration::ZERO };
            assert_eq!(patient.run(|| 1).await, Some(1));
            let (answers, stuck): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel::<()>()).unzip();
            for file_system in stuck {
                let check = move || file_system.recv().is_ok();
                assert_eq!(checks.run(check).await, None);
            }
            assert_eq!(checks.run(|| 2).await, None); // no thread is free
            assert_eq!(tokio::task::spawn_blocking(|| 3).await.ok(), Some(3));
            drop(answers);
            assert_eq!(patient.run(|| 4).await, Some(4));
        });
    }

    #[test]
    fn nothing_but_a_regular_file_is_opened() {
        for path in [".", "/dev/null"] {
            assert!(open_regular(Path::new(path), Links::Follow).is_err(), "{path}");
        }
    }
}
