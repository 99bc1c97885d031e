//! Threads. Signals are blocked in them, since they are for Emacs: SIGPIPE would end a batch Emacs when
//! a client hangs up.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread that does `work`.
pub fn start(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    with_signals_blocked(|| Builder::new().name("gemini-companion".to_owned()).spawn(work))
}

/// Signals for faults of the thread itself. If they were blocked, the system would end Emacs at
/// once; otherwise Emacs auto-saves first.
#[cfg(unix)]
const SYNCHRONOUS_SIGNALS: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];

/// Runs `spawn` such that in the thread that it starts, all signals from outside are blocked from
/// the first instruction on.
#[cfg(unix)]
fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    // Safety: both sets are initialized before they are read; the mask of this thread is put back.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut previous: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for signal in SYNCHRONOUS_SIGNALS {
            libc::sigdelset(&mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut previous);
        let result = spawn();
        libc::pthread_sigmask(libc::SIG_SETMASK, &previous, std::ptr::null_mut());
        result
    }
}

#[cfg(not(unix))]
fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    spawn()
}
