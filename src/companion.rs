//! One running companion: listener, server thread and discovery files, stopped in reverse.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};

use crate::agent::Agent;
use crate::bridge::{Bridge, Event, lock};
use crate::discovery::{DiscoveryFile, split_roots};
use crate::limits::Limits;
use crate::mcp::Protocol;
use crate::mcp::session::Sessions;
use crate::server::Server;

pub struct Companion {
    agents: Vec<Arc<Agent>>,
    bridge: Arc<Bridge>,
    sessions: Arc<Sessions>,
    limits: Limits,
    running: Mutex<Option<Running>>,
}

/// What `stop` takes down.
struct Running {
    port: u16,
    /// Why that is not the port that was wanted.
    port_fault: Option<String>,
    /// Open as long as we run: whoever comes while no server listens has to wait, and that is all.
    listener: TcpListener,
    server: Server,
    /// Those that were replaced, which may still have connections.
    retired: Vec<Server>,
    discovery: Vec<Announcement>,
}

/// What leads one agent to us by one directory.
struct Announcement {
    agent: Arc<Agent>,
    directory: PathBuf,
    /// The file, or why there is none.
    file: Result<DiscoveryFile, String>,
}

impl Companion {
    /// Binds `port` (0: a free one), starts the server's thread, then writes the discovery files
    /// of all `agents`: a client that reads one can connect.
    pub fn start(
        agents: Vec<Agent>,
        port: u16,
        roots: &[String],
        limits: Limits,
    ) -> Result<Companion> {
        let bridge = Arc::new(Bridge::new());
        let companion = Companion {
            agents: agents.into_iter().map(Arc::new).collect(),
            sessions: Arc::new(Sessions::new(bridge.clone(), limits.clone())),
            bridge,
            limits,
            running: Mutex::new(None),
        };
        let (listener, port_fault) = listen(port)?;
        let port = listener.local_addr()?.port();
        let server = companion.serve(&listener)?;
        let roots = companion.usable(roots);
        let discovery = companion.announce(port, &roots);
        let retired = Vec::new();
        let running = Running { port, port_fault, listener, server, retired, discovery };
        *lock(&companion.running) = Some(running);
        Ok(companion)
    }

    /// Starts the server anew. Port, token and sessions stay, so that clients notice nothing but
    /// the end of their stream, which they open again.
    pub fn restart(&self) -> Result<()> {
        let mut running = lock(&self.running);
        let Some(running) = &mut *running else { bail!("the companion does not run") };
        let server = self.serve(&running.listener)?;
        let replaced = std::mem::replace(&mut running.server, server);
        replaced.retire();
        self.sessions.interrupt_streams();
        running.retired.retain(|server| !server.is_over());
        running.retired.push(replaced);
        Ok(())
    }

    fn serve(&self, listener: &TcpListener) -> Result<Server> {
        let listener = listener.try_clone().context("cannot listen any more")?;
        let protocol = Protocol::new(self.bridge.clone(), self.sessions.clone());
        Server::start(listener, self.agents.clone(), protocol, &self.limits)
    }

    fn announce(&self, port: u16, roots: &[String]) -> Vec<Announcement> {
        let places = self.agents.iter().flat_map(|agent| {
            agent.directories.iter().map(|directory| (agent.clone(), directory.clone()))
        });
        let announced = places.map(|(agent, directory)| {
            let file = create(&agent, &directory, port, roots);
            Announcement { agent, directory, file }
        });
        announced.collect()
    }

    /// The port, 0 if the companion does not run.
    pub fn port(&self) -> u16 {
        lock(&self.running).as_ref().map_or(0, |running| running.port)
    }

    /// The token of the agent with this name, if that is served.
    pub fn token(&self, agent: &str) -> Option<&str> {
        self.agents.iter().find(|known| known.name == agent).map(|agent| agent.token.reveal())
    }

    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The names of the discovery files that were written.
    pub fn discovery_files(&self) -> Vec<String> {
        let running = lock(&self.running);
        let announcements = running.iter().flat_map(|running| &running.discovery);
        let files = announcements.filter_map(|announcement| announcement.file.as_ref().ok());
        files.map(|file| file.path().display().to_string()).collect()
    }

    /// Why the port is not the one that was wanted, if it is not.
    pub fn port_fault(&self) -> Option<String> {
        lock(&self.running).as_ref()?.port_fault.clone()
    }

    /// Why clients cannot find the discovery files, as far as they cannot: a line for each.
    pub fn discovery_fault(&self) -> Option<String> {
        let running = lock(&self.running);
        let faults: Vec<&str> = running
            .iter()
            .flat_map(|running| &running.discovery)
            .filter_map(|announcement| announcement.file.as_ref().err().map(String::as_str))
            .collect();
        (!faults.is_empty()).then(|| faults.join("\n"))
    }

    /// Rewrites the discovery files for new workspace roots. What could not be written before is
    /// tried again.
    pub fn set_roots(&self, roots: &[String]) {
        let roots = self.usable(roots);
        let mut running = lock(&self.running);
        let Some(running) = &mut *running else { return };
        let port = running.port;
        for Announcement { agent, directory, file } in &mut running.discovery {
            match file {
                Ok(written) => {
                    if let Err(error) = written.write(agent, port, &roots) {
                        self.bridge.send(Event::Warning(format!("{error:#}")));
                    }
                }
                Err(_) => *file = create(agent, directory, port, &roots),
            }
        }
    }

    /// Those of `roots` that the discovery file can hold.
    fn usable(&self, roots: &[String]) -> Vec<String> {
        let (usable, unusable) = split_roots(roots);
        for root in unusable.iter().filter(|root| !root.is_empty()) {
            self.bridge.send(Event::Warning(format!(
                "the workspace root {root} cannot be announced to clients: its name holds the \
                 separator of roots"
            )));
        }
        usable
    }

    /// Rejects open reviews, answers calls that wait, deletes the files, lets the streams end
    /// properly, ends the threads.
    pub fn stop(&self) {
        let Some(running) = lock(&self.running).take() else { return };
        let Running { listener, server, retired: mut servers, discovery, .. } = running;
        self.sessions.end_all();
        self.bridge.end_calls();
        drop((discovery, listener));
        servers.push(server);
        Server::stop_all(servers);
        self.bridge.attach(None);
    }
}

fn create(
    agent: &Agent,
    directory: &Path,
    port: u16,
    roots: &[String],
) -> Result<DiscoveryFile, String> {
    DiscoveryFile::create(agent, directory, port, roots).map_err(|error| format!("{error:#}"))
}

/// Listens on `port`, or on a free one, with the reason: a port that is taken must not keep those
/// away who find us by the discovery file.
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
