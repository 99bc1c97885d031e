//! The pipe by which the server's thread wakes Lisp. Not on Windows, where Emacs and the module may use
//! different C runtimes.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

use emacs::func::Manage;
use emacs::{CallEnv, Env, FromLisp, Result};
use gemini_companion::Companion;
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};

/// The write end of the pipe of a pipe process.
struct WakePipe(File);

impl Wake for WakePipe {
    fn wake(self: Arc<Self>) {
        // A full pipe wakes Emacs up anyway; other errors mean that Emacs has closed it.
        let _ = (&self.0).write(b"!");
    }
}

/// Lets Lisp call `set_wake_pipe`.
///
/// By hand, since `Env::open_channel` hides the descriptor, which subprocesses of Emacs must not inherit
/// and which must never block.
pub fn register(env: &Env) -> Result<()> {
    let documentation = "Let COMPANION write a byte to the pipe process PROCESS when it has events.\n\n\
                         (fn COMPANION PROCESS)";
    let function = emacs::lambda!(env, set_wake_pipe, 2..2, documentation)?;
    env.fset("gemini-companion--mod-set-wake-pipe", function)?;
    Ok(())
}

/// Wakes Lisp by a write end of the pipe process, the second argument.
fn set_wake_pipe(env: &CallEnv) -> Result<()> {
    let companion = <&RefCell<Companion>>::from_lisp(env.get_arg(0))?;
    let descriptor = open_channel(env, 1)?;
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&descriptor, true)?;
    let pipe = Arc::new(WakePipe(descriptor.into()));
    companion.borrow().bridge().set_waker(Some(pipe.into()));
    Ok(())
}

fn open_channel(env: &CallEnv, argument: usize) -> Result<OwnedFd> {
    let raw = env.raw();
    // Safety: `raw` is the environment of this very call and `argument` is below its arity.
    unsafe {
        let open_channel = (*raw).open_channel.expect("Emacs 28 has open_channel");
        let descriptor = open_channel(raw, env.raw_args()[argument]);
        if descriptor < 0 {
            // Emacs has an error of its own pending; ours says what was wrong.
            ((*raw).non_local_exit_clear.expect("every Emacs has non_local_exit_clear"))(raw);
            anyhow::bail!("PROCESS must be a pipe process");
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}
