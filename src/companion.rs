//! One running companion: listener, server thread and discovery files, stopped in reverse.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};

use crate::bridge::{Bridge, Event, lock};
use crate::discovery::{DiscoveryFile, split_roots};
use crate::limits::Limits;
use crate::mcp::Protocol;
use crate::mcp::session::Sessions;
use crate::server::Server;
use crate::token::Token;

pub struct Companion {
    token: Token,
    bridge: Arc<Bridge>,
    sessions: Arc<Sessions>,
    /// Where the discovery files are: clients may have different temporary directories.
    directories: Vec<PathBuf>,
    limits: Limits,
    running: Mutex<Option<Running>>,
}

/// What `stop` takes down.
struct Running {
    port: u16,
    /// Open as long as we run: whoever comes while no server listens has to wait, and that is all.
    listener: TcpListener,
    server: Server,
    /// Those that were replaced, which may still have connections.
    retired: Vec<Server>,
    /// For each directory the file, or why there is none.
    discovery: Vec<Result<DiscoveryFile, String>>,
}

impl Companion {
    /// Binds `port` (0: a free one), starts the server's thread, then writes the discovery file
    /// into each of `directories`: a client that reads it can connect.
    pub fn start(
        directories: Vec<PathBuf>,
        port: u16,
        roots: &[String],
        limits: Limits,
    ) -> Result<Companion> {
        let bridge = Arc::new(Bridge::new());
        let companion = Companion {
            token: Token::generate()?,
            sessions: Arc::new(Sessions::new(bridge.clone(), limits.clone())),
            bridge,
            directories,
            limits,
            running: Mutex::new(None),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot listen on 127.0.0.1:{port}"))?;
        let port = listener.local_addr()?.port();
        let server = companion.serve(&listener)?;
        let roots = companion.usable(roots);
        let announce = |directory: &PathBuf| companion.announce(directory, port, &roots);
        let discovery = companion.directories.iter().map(announce).collect();
        let retired = Vec::new();
        let running = Running { port, listener, server, retired, discovery };
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
        Server::start(listener, self.token.clone(), protocol, &self.limits)
    }

    fn announce(
        &self,
        directory: &Path,
        port: u16,
        roots: &[String],
    ) -> Result<DiscoveryFile, String> {
        DiscoveryFile::create(directory, port, &self.token, roots)
            .map_err(|error| format!("{error:#}"))
    }

    /// The port, 0 if the companion does not run.
    pub fn port(&self) -> u16 {
        lock(&self.running).as_ref().map_or(0, |running| running.port)
    }

    pub fn token(&self) -> &str {
        self.token.reveal()
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
        let files = running.iter().flat_map(|running| running.discovery.iter().flatten());
        files.map(|file| file.path().display().to_string()).collect()
    }

    /// Why clients cannot find the discovery files, as far as they cannot: a line for each.
    pub fn discovery_fault(&self) -> Option<String> {
        let running = lock(&self.running);
        let faults: Vec<&str> = running
            .iter()
            .flat_map(|running| &running.discovery)
            .filter_map(|discovery| discovery.as_ref().err().map(String::as_str))
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
        for (directory, discovery) in self.directories.iter().zip(&mut running.discovery) {
            match discovery {
                Ok(file) => {
                    if let Err(error) = file.write(port, &self.token, &roots) {
                        self.bridge.send(Event::Warning(format!("{error:#}")));
                    }
                }
                Err(_) => *discovery = self.announce(directory, port, &roots),
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

    /// Rejects open reviews, deletes the file, lets the streams end properly, ends the thread.
    pub fn stop(&self) {
        let Some(running) = lock(&self.running).take() else { return };
        let Running { listener, server, retired, discovery, .. } = running;
        self.sessions.end_all();
        drop((discovery, listener));
        retired.into_iter().chain([server]).for_each(Server::stop);
        self.bridge.attach(None);
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.stop();
    }
}
