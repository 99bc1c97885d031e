//! The program that leads to a host, such as ssh. Three threads own its standard streams: what they
//! read and write may block, on any system.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::frames::MAX_DATA;
use crate::lock::lock;
use crate::thread;

/// How long it may go on when its standard output has ended, or when its standard input has been
/// closed: the far end cleans up meanwhile.
const GRACE: Duration = Duration::from_secs(5);
/// Time between two checks whether it has ended.
const PAUSE: Duration = Duration::from_millis(10);
/// Chunks that may wait in each direction.
const WAITING: usize = 4;

/// A running program. It is ended when `input` and `kept` are dropped.
pub struct Program {
    /// What is written to its standard input, which ends with this.
    pub input: mpsc::Sender<Vec<u8>>,
    /// What it writes, in chunks, to its standard output and to its standard error.
    pub output: mpsc::Receiver<Vec<u8>>,
    pub errors: mpsc::Receiver<Vec<u8>>,
    /// Its exit status, if it was not killed by a signal, some time after the end of its output.
    pub status: oneshot::Receiver<Option<i32>>,
    pub kept: Kept,
}

/// Lets a program live. When this is dropped, the program is killed, perhaps after a while.
pub struct Kept {
    child: Arc<Mutex<Child>>,
    /// Whether there is a keeper, which cleans up first.
    pub has_keeper: bool,
}

impl Program {
    pub fn start(mut command: Command) -> io::Result<Program> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        set_apart(&mut command);
        let mut child = command.spawn()?;
        let (to, from, complaints) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let kept = Kept { child: child.clone(), has_keeper: false };
        let (input, written) = mpsc::channel(WAITING);
        let (chunks, output) = mpsc::channel(WAITING);
        let (lines, errors) = mpsc::channel(WAITING);
        let (ended, status) = oneshot::channel();
        thread::start(move || write_all(to, written))?;
        thread::start(move || read_all(complaints, &lines))?;
        thread::start(move || {
            read_all(from, &chunks);
            drop(chunks);
            let _ = ended.send(end(&child));
        })?;
        Ok(Program { input, output, errors, status, kept })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // This may be the server's thread, so it must not wait for the lock, which `end` may hold.
        let Ok(mut child) = self.child.try_lock() else { return };
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        if !self.has_keeper {
            let _ = child.kill();
        }
        drop(child);
        let child = self.child.clone();
        // If no thread can be started, nobody waits for its end.
        let _ = thread::start(move || {
            end(&child);
        });
    }
}

/// If Emacs runs in a terminal, the program must neither get the signals of its keys nor ask anything
/// there. It must get other signals, which are blocked in the thread that starts it.
#[cfg(unix)]
fn set_apart(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // Safety: all of this may be called between fork and exec, and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?; // first, since the handlers are still those of Emacs
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            Ok(())
        });
    }
}

/// Emacs may have no console, and then the program would open a window for its own.
#[cfg(windows)]
fn set_apart(command: &mut Command) {
    const CREATE_NO_WINDOW: u32 = 0x0800_0000;
    std::os::windows::process::CommandExt::creation_flags(command, CREATE_NO_WINDOW);
}

fn write_all(to: Option<impl Write>, mut written: mpsc::Receiver<Vec<u8>>) {
    let Some(mut to) = to else { return };
    while let Some(bytes) = written.blocking_recv() {
        if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
            return; // it has ended, or will
        }
    }
}

fn read_all(from: Option<impl Read>, chunks: &mpsc::Sender<Vec<u8>>) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; MAX_DATA];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(size) if chunks.blocking_send(buffer[..size].to_vec()).is_err() => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Waits until it has ended, and kills it if that takes too long.
fn end(child: &Mutex<Child>) -> Option<i32> {
    let deadline = Instant::now() + GRACE;
    loop {
        let mut child = lock(child);
        match child.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) if Instant::now() < deadline => {}
            _ => {
                let _ = child.kill();
                return child.wait().ok()?.code();
            }
        }
        drop(child);
        std::thread::sleep(PAUSE);
    }
}
