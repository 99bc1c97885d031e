//! A running companion: listener, server thread and discovery files, started in this order and
//! stopped in reverse.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};

use crate::agent::{Agent, Roster};
use crate::announcement::Announcement;
use crate::bridge::{Bridge, WireId};
use crate::host::Host;
use crate::limits::Limits;
use crate::lock::lock;
use crate::mcp::Protocol;
use crate::mcp::model_tools::ModelTools;
use crate::mcp::sessions::Sessions;
use crate::server::Server;
use crate::wire::Wires;

/// A companion, which runs until it is stopped or dropped.
pub struct Companion {
    roster: Arc<Roster>,
    bridge: Arc<Bridge>,
    sessions: Arc<Sessions>,
    model_tools: Arc<ModelTools>,
    wires: Arc<Wires>,
    limits: Limits,
    running: Mutex<Option<Running>>,
}

struct Running {
    port: u16,
    /// Why that is not the requested port.
    port_fault: Option<String>,
    /// Stays open while a server is replaced, so that clients that connect in between just wait.
    listener: TcpListener,
    server: Server,
    /// Servers that were replaced, which may still have connections.
    retired: Vec<Server>,
    announcement: Arc<Announcement>,
}

impl Companion {
    /// Binds `port` (0: a free one), starts the server's thread, then writes the discovery files of
    /// all `agents`: when a client reads one, it can connect.
    pub fn start(
        agents: Vec<Agent>,
        port: u16,
        roots: &[String],
        limits: Limits,
    ) -> Result<Companion> {
        let bridge = Arc::new(Bridge::new(&limits));
        let companion = Companion {
            roster: Arc::new(Roster::new(agents, &limits)),
            sessions: Arc::new(Sessions::new(bridge.clone(), limits.clone())),
            model_tools: Arc::new(ModelTools::new(bridge.clone(), &limits)),
            wires: Arc::default(),
            bridge,
            limits,
            running: Mutex::new(None),
        };
        let (listener, port_fault) = listen(port)?;
        let port = listener.local_addr()?.port();
        let server = companion.serve(&listener)?;
        let (bridge, agents) = (companion.bridge.clone(), companion.roster.local());
        let interval = companion.limits.repair_interval;
        let announcement = Arc::new(Announcement::begin(bridge, port, &agents, roots, interval)?);
        let retired = Vec::new();
        let running = Running { port, port_fault, listener, server, retired, announcement };
        *lock(&companion.running) = Some(running);
        Ok(companion)
    }

    /// Restarts the server. Port, tokens and sessions stay, so that clients only notice the end of
    /// their stream, which they open again. Restores discovery files that are not intact.
    pub fn restart(&self) -> Result<()> {
        let mut running = lock(&self.running);
        let Some(running) = &mut *running else { bail!("the companion does not run") };
        let server = self.serve(&running.listener)?;
        let replaced = std::mem::replace(&mut running.server, server);
        replaced.retire();
        self.sessions.interrupt_streams();
        self.sessions.reschedule(); // the new server may have looked before
        running.retired.retain(|server| !server.is_over());
        running.retired.push(replaced);
        running.announcement.repair();
        Ok(())
    }

    fn serve(&self, listener: &TcpListener) -> Result<Server> {
        let listener = listener.try_clone().context("cannot listen any more")?;
        let protocol =
            Protocol::new(self.bridge.clone(), self.sessions.clone(), self.model_tools.clone());
        Server::start(listener, self.roster.clone(), protocol, &self.limits)
    }

    /// The port, 0 if the companion does not run.
    pub fn port(&self) -> u16 {
        lock(&self.running).as_ref().map_or(0, |running| running.port)
    }

    /// The token of the agent with this name on this machine, if there is one.
    pub fn token(&self, agent: &str) -> Option<String> {
        let local = self.roster.local();
        local.iter().find(|known| known.name == agent).map(|agent| agent.token.reveal().to_owned())
    }

    /// Serves clients on the host whose files begin with `prefix` in Emacs, too. Returns the agents
    /// there, each with a token of its own, the same ones until the host is closed.
    pub fn open_host(&self, prefix: &str) -> Result<Vec<Arc<Agent>>> {
        self.roster.open_host(prefix, &self.limits)
    }

    /// Stops serving clients on a host: their tokens become invalid, their sessions and reviews end.
    pub fn close_host(&self, prefix: &str) {
        if let Some(host) = self.roster.close_host(prefix) {
            self.sessions.leave(&host);
        }
    }

    /// Records whether the clients on the host with `prefix` can reach Emacs now. Those who do not
    /// return then have ended.
    pub fn set_host_reachable(&self, prefix: &str, reachable: bool) {
        if let Some(host) = self.roster.host(prefix) {
            host.set_reachable(reachable);
            self.sessions.reschedule();
        }
    }

    /// Opens a wire by `command` to the host with `prefix`, which is open. `script` is what a shell at
    /// the other end is to read.
    pub fn open_wire(&self, prefix: &str, command: Command, script: String) -> Result<WireId> {
        let running = lock(&self.running);
        let Some(running) = &*running else { bail!("the companion does not run") };
        let (id, wire) = self.wires.open(self.bridge.clone(), command, script);
        running.server.run_wire(prefix, wire);
        Ok(id)
    }

    /// Sends `message`, a JSON object, to the keeper at the other end of `wire`. Returns false if that
    /// has ended, or the message is too long.
    pub fn write_wire(&self, wire: WireId, message: String) -> bool {
        self.wires.send(wire, message)
    }

    /// Ends `wire`: the keeper removes what it has announced.
    pub fn close_wire(&self, wire: WireId) {
        self.wires.close(wire);
    }

    /// The host with `prefix`, if it is served.
    pub fn host(&self, prefix: &str) -> Option<Arc<Host>> {
        self.roster.host(prefix)
    }

    /// The events for Lisp.
    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// The sessions of the clients.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The tools for the model.
    pub fn model_tools(&self) -> &ModelTools {
        &self.model_tools
    }

    /// Why the port is not the requested one, if it is not.
    pub fn port_fault(&self) -> Option<String> {
        lock(&self.running).as_ref()?.port_fault.clone()
    }

    /// The discovery files, while we run.
    pub fn announcement(&self) -> Option<Arc<Announcement>> {
        Some(lock(&self.running).as_ref()?.announcement.clone())
    }

    /// Stops: rejects open reviews, ends waiting calls, deletes the discovery files, and ends the
    /// streams properly, then the threads. Stopping twice is harmless.
    pub fn stop(&self) {
        let Some(running) = lock(&self.running).take() else { return };
        let Running { listener, server, retired: mut servers, announcement, .. } = running;
        self.wires.close_all();
        self.sessions.end_all();
        self.bridge.end_calls();
        let deleted = announcement.end(); // while the server stops
        drop(listener);
        servers.push(server);
        Server::stop_all(servers);
        announcement.wait(deleted);
        self.bridge.set_waker(None);
    }
}

/// Listens on `port`, or else on a free one, with the reason: clients find that by the discovery file.
fn listen(port: u16) -> Result<(TcpListener, Option<String>)> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let fault = match bind(port) {
        Ok(listener) => return Ok((listener, None)),
        Err(error) => format!("cannot listen on 127.0.0.1:{port}: {error}"),
    };
    if port == 0 {
        bail!(fault);
    }
    let listener = bind(0).with_context(|| fault.clone())?;
    Ok((listener, Some(fault)))
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.stop();
    }
}
