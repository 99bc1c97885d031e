//! The HTTP server: one background thread with a tokio runtime of its own.
//!
//! Nothing here waits for Emacs's main thread. The thread has all signals blocked: they are
//! Emacs's, and SIGPIPE would end a batch Emacs when a client hangs up.

mod door;
mod endpoint;
mod guard;
mod sse;

use std::net::TcpListener;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::bridge::Event;
use crate::limits::Limits;
use crate::mcp::Protocol;
use crate::process::Connection;
use crate::token::Token;
use door::{Door, Visitor};
use endpoint::Endpoint;
use guard::Guard;

/// For looking at the file system, which may be slow.
const BLOCKING_THREADS: usize = 4;
/// How long connections may take to end when the server stops, then blocking tasks.
const CONNECTIONS_GRACE: Duration = Duration::from_millis(250);
const TASKS_GRACE: Duration = Duration::from_millis(50);
/// How long Emacs waits for the thread in all.
const THREAD_GRACE: Duration = Duration::from_millis(500);
/// Before accepting again after an error, which is usually a want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The running server.
pub struct Server {
    stop: oneshot::Sender<()>,
    finished: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Serves `listener` on a thread of its own until `stop`.
    pub fn start(
        listener: TcpListener,
        token: Token,
        protocol: Protocol,
        limits: &Limits,
    ) -> Result<Server> {
        let guard = Guard::new(token, listener.local_addr()?.port());
        let door = Door::new(limits.connections, limits.strangers);
        let endpoint = Arc::new(Endpoint::new(guard, protocol, limits.clone()));
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()?;
        let listener = {
            let _context = runtime.enter();
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let (finish, finished) = mpsc::channel();
        let thread = with_signals_blocked(|| {
            std::thread::Builder::new().name("gemini-companion".to_owned()).spawn(move || {
                let bridge = endpoint.protocol().bridge();
                let served = || run(runtime, listener, &door, &endpoint, stopped);
                if !std::panic::catch_unwind(AssertUnwindSafe(served)).unwrap_or(false) {
                    bridge.send(Event::Died);
                }
                let _ = finish.send(());
            })
        })
        .context("cannot start the server thread")?;
        Ok(Server { stop, finished, thread })
    }

    /// Stops accepting, lets connections end, and joins the thread. A thread that is stuck is
    /// left behind rather than Emacs with it.
    pub fn stop(self) {
        drop(self.stop);
        if self.finished.recv_timeout(THREAD_GRACE).is_ok() {
            let _ = self.thread.join();
        }
    }
}

/// Serves until it is told to stop: true. False if it ends otherwise.
fn run(
    runtime: Runtime,
    listener: tokio::net::TcpListener,
    door: &Door,
    endpoint: &Arc<Endpoint>,
    stopped: oneshot::Receiver<()>,
) -> bool {
    let told = runtime.block_on(async {
        let connections = GracefulShutdown::new();
        let told = tokio::select! {
            () = accept(&listener, door, endpoint, &connections) => false,
            () = endpoint.protocol().sessions().expire_forever() => false,
            _ = stopped => true,
        };
        drop(listener);
        let _ = tokio::time::timeout(CONNECTIONS_GRACE, connections.shutdown()).await;
        told
    });
    runtime.shutdown_timeout(TASKS_GRACE);
    told
}

async fn accept(
    listener: &tokio::net::TcpListener,
    door: &Door,
    endpoint: &Arc<Endpoint>,
    connections: &GracefulShutdown,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let visitor = door.enter();
                let Ok(connection) = connect(stream, endpoint.clone(), visitor.clone()) else {
                    continue;
                };
                let connection = connections.watch(connection);
                tokio::spawn(async move {
                    tokio::select! {
                        _ = connection => {} // a client that hangs up is no error
                        () = visitor.turned_out() => {}
                    }
                });
                // Those that have come may show their token before more come in.
                tokio::task::yield_now().await;
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

type Serving = http1::Connection<TokioIo<TcpStream>, endpoint::Service>;

/// Begins to serve a connection. Fails if its client has hung up already.
fn connect(
    stream: TcpStream,
    endpoint: Arc<Endpoint>,
    visitor: Arc<Visitor>,
) -> std::io::Result<Serving> {
    stream.set_nodelay(true)?; // small messages, each awaited by somebody
    let connection = Connection { client: stream.peer_addr()?, server: stream.local_addr()? };
    let header_time = endpoint.limits().header_time;
    let service = endpoint::Service::new(endpoint, connection, visitor);
    Ok(http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .serve_connection(TokioIo::new(stream), service))
}

/// Runs `spawn` so that the thread it starts has every signal blocked from its first instruction.
#[cfg(unix)]
fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    // Safety: both sets are initialised before they are read; the mask of this thread is put back.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut previous: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
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
