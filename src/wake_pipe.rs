//! The pipe by which the server's thread wakes Lisp.

use std::sync::Arc;
use std::task::Wake;

/// The write end of the pipe of a pipe process.
pub struct WakePipe {
    #[cfg(unix)]
    descriptor: std::os::fd::OwnedFd,
}

#[cfg(unix)]
impl WakePipe {
    /// Takes over `descriptor`: not inherited by subprocesses, and never blocking.
    pub fn new(descriptor: std::os::fd::OwnedFd) -> std::io::Result<WakePipe> {
        use std::os::fd::AsRawFd;
        let raw = descriptor.as_raw_fd();
        // Safety: `raw` is open, `descriptor` owns it; fcntl changes flags only.
        let result = unsafe {
            libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC)
                | libc::fcntl(raw, libc::F_SETFL, libc::O_WRONLY | libc::O_NONBLOCK)
        };
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(WakePipe { descriptor }) }
    }
}

impl Wake for WakePipe {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[cfg(unix)]
    fn wake_by_ref(self: &Arc<Self>) {
        use std::os::fd::AsRawFd;
        let byte = b'!';
        // Safety: the descriptor is open and the buffer is one byte long. A full pipe (EAGAIN)
        // wakes Emacs up anyway; other errors mean that Emacs has closed it.
        unsafe { libc::write(self.descriptor.as_raw_fd(), (&raw const byte).cast(), 1) };
    }

    #[cfg(not(unix))]
    fn wake_by_ref(self: &Arc<Self>) {}
}
