//! Who is at the other end of a connection.

use std::sync::Arc;
use std::time::Duration;

use super::admission::Admission;
use super::socket::Connection;
use crate::agent::Agent;
use crate::mcp::sessions::Origin;

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

/// The origin of the client at the other end of `connection`, as far as that is found in time: it may
/// take milliseconds, on a thread of its own.
pub async fn origin_of(connection: Option<Connection>) -> Origin {
    let search = move || Origin::of(connection.and_then(Connection::client));
    let found = tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(search)).await;
    found.ok().and_then(Result::ok).unwrap_or_default()
}
