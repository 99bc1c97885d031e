//! The client of a session: the session's id, the client's name and version, and where it comes from.

use std::sync::Arc;

use crate::agent::Agent;
use crate::place::Place;
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

/// Where a client is, as far as that is known.
#[derive(Default)]
pub struct Origin {
    /// The process at the other end of its connection.
    pub process: Option<Process>,
    /// The id of the process of a client on a host; nothing else is known here about that process.
    pub process_there: Option<u32>,
    /// That is a program that forwards connections: several clients may share it, and it may live
    /// longer than any of them.
    pub is_forwarded: bool,
    pub place: Place,
    /// Its user decides changes in a front end of its own, as in one that speaks ACP.
    pub has_own_front: bool,
}

impl Origin {
    /// The origin of a client on this machine, whose process this is.
    pub fn of(process: Option<Process>) -> Origin {
        let place = Place::of(process.as_ref());
        Origin {
            // A process whose directory is known forwards nothing.
            is_forwarded: place == Place::Unknown
                && process.as_ref().is_some_and(Process::forwards),
            has_own_front: process.as_ref().is_some_and(Process::has_own_front),
            place,
            process,
            process_there: None,
        }
    }
}

/// The beginning of the id of a session; see `Description`.
pub fn key_of(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
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
        key_of(&self.0)
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
}
