//! The HTTP server: one background thread with its own tokio runtime.
//!
//! Nothing here waits for Emacs's main thread.

mod admission;
mod answer;
mod body;
mod connection;
mod endpoint;
mod error;
mod guard;
mod headers;
mod peer;
mod socket;
mod sse;
mod trace;

use std::convert::Infallible;
use std::net::TcpListener;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc as tokio_mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::agent::Roster;
use crate::bridge::Event;
use crate::limits::Limits;
use crate::mcp::Protocol;
use crate::panics;
use crate::thread;
use crate::wire::Wire;
use admission::Gate;
use endpoint::{Endpoint, Phase};
use guard::Guard;
use peer::{Peer, Way};
use socket::Connection;

/// Blocking threads besides those that check files of clients: they look for processes, and start the
/// programs of wires.
const OWN_BLOCKING_THREADS: usize = 4;
/// When the server stops, how long connections may take to end, and then blocking tasks.
const CONNECTIONS_GRACE: Duration = Duration::from_millis(250);
const TASKS_GRACE: Duration = Duration::from_millis(50);
/// How long Emacs waits for all threads together.
const THREADS_GRACE: Duration = Duration::from_millis(500);
/// Before accepting again after an error, which usually is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a server that was replaced may go on serving its connections: calls on them may wait
/// for Emacs. Each answer tells the client to use a new connection, and clients close idle ones.
const RETIREMENT: Duration = Duration::from_secs(90);

pub struct Server {
    phase: watch::Sender<Phase>,
    /// Wires to run, each with the prefix of the host to which it leads.
    wires: tokio_mpsc::UnboundedSender<(String, Wire)>,
    finished: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Serves `listener` on its own thread until `stop_all`.
    pub fn start(
        listener: TcpListener,
        roster: Arc<Roster>,
        protocol: Protocol,
        limits: &Limits,
    ) -> Result<Server> {
        let guard = Guard::new(roster, listener.local_addr()?.port());
        let gate = Arc::new(Gate::new(limits.clone()));
        let (phase, phases) = watch::channel(Phase::Serving);
        let endpoint = Arc::new(Endpoint::new(guard, protocol, limits.clone(), phases.clone()));
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(limits.file_checks + OWN_BLOCKING_THREADS)
            .build()?;
        let listener = {
            let _context = runtime.enter();
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)?
        };
        let (wires, orders) = tokio_mpsc::unbounded_channel();
        let (finish, finished) = mpsc::channel();
        let thread = thread::start(move || {
            let bridge = &endpoint.protocol.bridge;
            let served = || run(runtime, listener, gate, &endpoint, phases, orders);
            if !std::panic::catch_unwind(AssertUnwindSafe(served)).unwrap_or(false) {
                bridge.send(Event::ServerDied);
            }
            let _ = finish.send(());
        })
        .context("cannot start the server thread")?;
        Ok(Server { phase, wires, finished, thread })
    }

    /// Leaves new connections to another server. Open ones are served for a while: if they were
    /// closed, a client might just be sending its next request.
    pub fn retire(&self) {
        self.phase.send_replace(Phase::Retired);
    }

    /// Runs `wire`, which leads to the host with `prefix`.
    pub fn run_wire(&self, prefix: &str, wire: Wire) {
        // If the server has ended, the wire is dropped, which tells that it has ended.
        let _ = self.wires.send((prefix.to_owned(), wire));
    }

    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops all `servers`, lets their connections end, and joins their threads. All of them are
    /// told to stop first, and share one deadline.
    pub fn stop_all(servers: Vec<Server>) {
        let deadline = Instant::now() + THREADS_GRACE;
        for server in &servers {
            server.phase.send_replace(Phase::Stopping);
        }
        for server in servers {
            server.join(deadline);
        }
    }

    /// Joins the thread, unless it hangs: Emacs must not hang, too.
    fn join(self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        if self.finished.recv_timeout(left).is_ok() {
            let _ = self.thread.join();
        }
    }
}

/// Serves until it is told to stop. Returns false if it dies instead; streams end properly even then.
fn run(
    runtime: Runtime,
    listener: tokio::net::TcpListener,
    gate: Arc<Gate>,
    endpoint: &Arc<Endpoint>,
    mut phases: watch::Receiver<Phase>,
    mut wires: tokio_mpsc::UnboundedReceiver<(String, Wire)>,
) -> bool {
    let phase = runtime.block_on(async {
        // Each connection holds a receiver: the channel closes with the last of them.
        let (close, closing) = watch::channel(());
        let door = Door { gate, endpoint: endpoint.clone(), closing };
        let phase = tokio::select! {
            _ = panics::caught(accept(&listener, &door)) => Phase::Died,
            _ = panics::caught(run_wires(&mut wires, &door)) => Phase::Died,
            _ = panics::caught(endpoint.protocol.sessions.expire_forever()) => Phase::Died,
            phase = next_phase(&mut phases) => phase,
        };
        drop((listener, door, wires));
        match phase {
            Phase::Died => endpoint.protocol.sessions.interrupt_streams(),
            Phase::Retired => {
                endpoint.protocol.sessions.reschedule(); // this one may have been told alone
                tokio::select! {
                    () = close.closed() => {}
                    _ = next_phase(&mut phases) => {}
                    () = tokio::time::sleep(RETIREMENT) => {}
                }
            }
            Phase::Serving | Phase::Stopping => {}
        }
        let _ = close.send(());
        let _ = tokio::time::timeout(CONNECTIONS_GRACE, close.closed()).await;
        phase
    });
    runtime.shutdown_timeout(TASKS_GRACE);
    phase != Phase::Died
}

/// Waits for the next phase. A dropped sender means to stop.
async fn next_phase(phases: &mut watch::Receiver<Phase>) -> Phase {
    match phases.changed().await {
        Ok(()) => *phases.borrow_and_update(),
        Err(_) => Phase::Stopping,
    }
}

/// Where connections come in.
#[derive(Clone)]
struct Door {
    gate: Arc<Gate>,
    endpoint: Arc<Endpoint>,
    closing: watch::Receiver<()>,
}

impl Door {
    /// Serves a new connection.
    fn let_in(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, way: Way) {
        let Door { gate, endpoint, closing } = self.clone();
        let from = Peer { admission: gate.admit(matches!(way, Way::Wire(_))), way };
        tokio::spawn(connection::serve(stream, from, endpoint, closing));
    }
}

/// Runs wires; all end with this.
async fn run_wires(
    orders: &mut tokio_mpsc::UnboundedReceiver<(String, Wire)>,
    door: &Door,
) -> Infallible {
    let mut wires = JoinSet::new();
    loop {
        let (prefix, wire) = tokio::select! {
            Some(order) = orders.recv() => order,
            Some(_) = wires.join_next() => continue,
            else => std::future::pending().await,
        };
        let door = door.clone();
        wires.spawn(wire.run(move |agent, stream| {
            let agent = door.endpoint.guard.roster.agent_on(&prefix, agent);
            agent.map(|agent| door.let_in(stream, Way::Wire(agent))).is_some()
        }));
    }
}

async fn accept(listener: &tokio::net::TcpListener, door: &Door) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                // A client that has hung up already is no error.
                if let Ok(connection) = meet(&socket) {
                    door.let_in(socket, Way::Loopback(connection));
                }
                // Lets new connections authenticate before more are accepted.
                tokio::task::yield_now().await;
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Prepares a new connection. Fails if the client has hung up already, or is another user's.
fn meet(socket: &TcpStream) -> std::io::Result<Connection> {
    let connection = Connection { client: socket.peer_addr()?, server: socket.local_addr()? };
    socket.set_nodelay(true)?; // messages are small, and the sender waits for each
    if connection.is_of_another_user() {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    Ok(connection)
}
