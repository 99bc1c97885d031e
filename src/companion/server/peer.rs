//! Who is at the other end of a connection.

use std::sync::Arc;
use std::time::Duration;

use super::admission::Admission;
use super::socket::Connection;
use crate::agent::Agent;
use crate::place::Place;
use crate::process::Process;

/// How long a client waits until its process is found.
const PATIENCE: Duration = Duration::from_secs(1);

/// The sender of a request.
#[derive(Clone)]
pub struct Peer {
    pub way: Way,
    pub admission: Arc<Admission>,
}

/// How it has connected.
#[derive(Clone)]
pub enum Way {
    /// By loopback. It must show the token of its agent.
    Loopback(Connection),
    /// By a wire to a host, and there by the socket of its agent, which only the same user can open.
    Wire(Arc<Agent>),
}

impl Peer {
    /// The connection, unless the client is on a host.
    pub fn connection(&self) -> Option<Connection> {
        match self.way {
            Way::Loopback(connection) => Some(connection),
            Way::Wire(_) => None,
        }
    }
}

/// The process at the other end of `connection`, if it is found in time: that may take milliseconds,
/// on a thread of its own.
pub async fn process_of(connection: Option<Connection>) -> Option<Process> {
    let connection = connection?;
    let search = tokio::task::spawn_blocking(move || connection.client());
    tokio::time::timeout(PATIENCE, search).await.ok()?.ok()?
}

/// Where the client at the other end of `connection` works, if that is found out in time.
pub async fn place_of(connection: Option<Connection>) -> Place {
    Place::of(process_of(connection).await.as_ref())
}
