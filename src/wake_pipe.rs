//! The pipe by which the server's thread wakes Lisp.

use std::sync::Arc;
use std::task::Wake;

/// The write end of the pipe of a pipe process.
pub struct WakePipe {
    #[cfg(unix)]
    file: std::fs::File,
}

#[cfg(unix)]
impl WakePipe {
    /// Takes over `descriptor`: not inherited by subprocesses, and never blocking.
    pub fn new(descriptor: std::os::fd::OwnedFd) -> std::io::Result<WakePipe> {
        rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        Ok(WakePipe { file: descriptor.into() })
    }
}

impl Wake for WakePipe {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[cfg(unix)]
    fn wake_by_ref(self: &Arc<Self>) {
        use std::io::Write;
        // A full pipe wakes Emacs up anyway; other errors mean that Emacs has closed it.
        let _ = (&self.file).write(b"!");
    }

    #[cfg(not(unix))]
    fn wake_by_ref(self: &Arc<Self>) {}
}
