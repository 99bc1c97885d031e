//! One running companion: listener, server thread and discovery file, stopped in reverse.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};

use crate::bridge::{Bridge, Event, lock};
use crate::discovery::{DiscoveryFile, split_roots};
use crate::mcp::Protocol;
use crate::mcp::session::Sessions;
use crate::server::Server;
use crate::token::Token;

pub struct Companion {
    port: u16,
    token: Token,
    bridge: Arc<Bridge>,
    sessions: Arc<Sessions>,
    running: Mutex<Option<Running>>,
}

/// What `stop` takes down.
struct Running {
    server: Server,
    /// The file, or why there is none: clients then find us by the environment only.
    discovery: Result<DiscoveryFile, String>,
}

impl Companion {
    /// Binds `port` (0: a free one), starts the server's thread, then writes the discovery file
    /// into `directory`: a client that reads it can connect.
    pub fn start(directory: PathBuf, port: u16, roots: &[String]) -> Result<Companion> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot listen on 127.0.0.1:{port}"))?;
        let port = listener.local_addr()?.port();
        let token = Token::generate()?;
        let bridge = Arc::new(Bridge::new());
        let sessions = Arc::new(Sessions::new(bridge.clone()));
        let protocol = Protocol::new(bridge.clone(), sessions.clone());
        let server = Server::start(listener, token.clone(), protocol)?;
        let roots = usable_roots(&bridge, roots);
        let discovery = DiscoveryFile::create(&directory, port, &token, &roots)
            .map_err(|error| format!("{error:#}"));
        let running = Mutex::new(Some(Running { server, discovery }));
        Ok(Companion { port, token, bridge, sessions, running })
    }

    pub fn port(&self) -> u16 {
        self.port
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

    /// Why clients cannot find the discovery file.
    pub fn discovery_fault(&self) -> Option<String> {
        lock(&self.running).as_ref().and_then(|running| running.discovery.as_ref().err().cloned())
    }

    /// Rewrites the discovery file for new workspace roots.
    pub fn set_roots(&self, roots: &[String]) {
        let roots = usable_roots(&self.bridge, roots);
        if let Some(Running { discovery: Ok(file), .. }) = &*lock(&self.running)
            && let Err(error) = file.write(self.port, &self.token, &roots)
        {
            self.bridge.send(Event::Warning(format!("{error:#}")));
        }
    }

    /// Rejects open reviews, deletes the file, lets the streams end properly, ends the thread.
    pub fn stop(&self) {
        let Some(Running { server, discovery }) = lock(&self.running).take() else { return };
        self.sessions.end_all();
        drop(discovery);
        server.stop();
        self.bridge.attach(None);
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.stop();
    }
}

fn usable_roots(bridge: &Bridge, roots: &[String]) -> Vec<String> {
    let (usable, unusable) = split_roots(roots);
    for root in unusable.iter().filter(|root| !root.is_empty()) {
        bridge.send(Event::Warning(format!(
            "the workspace root {root} cannot be announced to clients: its name holds the \
             separator of roots"
        )));
    }
    usable
}
