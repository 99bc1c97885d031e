//! The client of a session: its session id, its name and version, and its process.

use std::sync::Arc;

use crate::agent::Agent;
use crate::process::Process;
use crate::token::random_hex;

/// The `Mcp-Session-Id` of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

/// A client as it introduces itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// The agent whose token it has shown.
    pub agent: Arc<Agent>,
    pub name: String,
    pub version: String,
}

/// The process at the other end of a session's connections.
pub enum Peer {
    Unknown,
    /// The process of the client itself, as far as we know: all sessions of the process are that
    /// client's.
    Client(Process),
    /// A process that several clients share, as a proxy: that it lives says nothing about any of
    /// them.
    Shared(Process),
}

impl SessionId {
    pub fn random() -> anyhow::Result<SessionId> {
        Ok(SessionId(random_hex::<16>()?.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// See `Description`.
    pub fn key(&self) -> &str {
        &self.0[..8]
    }
}

impl From<&str> for SessionId {
    fn from(id: &str) -> SessionId {
        SessionId(id.into())
    }
}

impl Client {
    /// Describes the client for the user. Gemini CLI and its forks report the name of their
    /// transport instead of their own.
    pub fn describe(&self) -> String {
        let name = match self.name.as_str() {
            "streamable-http-client" | "stdio-client" => &self.agent.title,
            "" => "A client",
            name => name,
        };
        format!("{name} {}", self.version).trim_end().to_owned()
    }

    /// Its name and version as it reports them.
    pub fn info(&self) -> (String, String) {
        (self.name.clone(), self.version.clone())
    }
}

impl Peer {
    pub fn process(&self) -> Option<&Process> {
        match self {
            Peer::Unknown => None,
            Peer::Client(process) | Peer::Shared(process) => Some(process),
        }
    }

    /// The process, unless it is known to be shared by several clients.
    pub fn own_process(&self) -> Option<&Process> {
        match self {
            Peer::Client(process) => Some(process),
            Peer::Unknown | Peer::Shared(_) => None,
        }
    }

    /// Whether this is `process`, known to be shared by several clients.
    pub fn shares(&self, process: &Process) -> bool {
        matches!(self, Peer::Shared(shared) if shared == process)
    }

    /// Records that several clients share the processes `shared`.
    pub fn share(&mut self, shared: &[Process]) {
        if let Peer::Client(process) = self
            && shared.contains(process)
        {
            *self = Peer::Shared(process.clone());
        }
    }
}
