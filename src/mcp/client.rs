//! Who has a session: the id that it goes by, what the client says of itself, and its process.

use std::sync::Arc;

use crate::agent::Agent;
use crate::process::Process;
use crate::token::random_hex;

/// The `Mcp-Session-Id` of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

/// Who connected, as it says itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Whose token it has shown.
    pub agent: Arc<Agent>,
    pub name: String,
    pub version: String,
}

/// The process at the other end of a session's connections.
pub enum Peer {
    Unknown,
    /// The client, as far as we know: another session of it is the same client's.
    Client(Process),
    /// It speaks for several clients, as a proxy does: that it lives tells nothing of any of them.
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
    /// The client in words for the user. Gemini CLI, and its forks, give the name of their
    /// transport.
    pub fn describe(&self) -> String {
        let name = match self.name.as_str() {
            "streamable-http-client" => &self.agent.title,
            "" => "A client",
            name => name,
        };
        format!("{name} {}", self.version).trim_end().to_owned()
    }

    /// Its name and version as it says them.
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

    /// The process, if it is not known to speak for several clients.
    pub fn own_process(&self) -> Option<&Process> {
        match self {
            Peer::Client(process) => Some(process),
            Peer::Unknown | Peer::Shared(_) => None,
        }
    }

    /// Whether this is `process`, and known to speak for several clients.
    pub fn shares(&self, process: &Process) -> bool {
        matches!(self, Peer::Shared(shared) if shared == process)
    }

    /// Notes that the processes `shared` speak for several clients.
    pub fn share(&mut self, shared: &[Process]) {
        if let Peer::Client(process) = self
            && shared.contains(process)
        {
            *self = Peer::Shared(process.clone());
        }
    }
}
