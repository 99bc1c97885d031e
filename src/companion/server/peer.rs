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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::server::socket::tests::connect;

    #[tokio::test]
    async fn the_process_at_the_other_end_is_found_while_it_holds_the_connection() {
        let (connection, listener, stream) = connect();
        let _accepted = listener.accept().unwrap();
        let process = process_of(Some(connection)).await.unwrap();
        assert_eq!(Some(&process), Process::with_id(std::process::id()).as_ref());
        assert!(process.is_alive());
        let elsewhere = Connection { client: "127.0.0.1:1".parse().unwrap(), ..connection };
        assert_eq!(process_of(Some(elsewhere)).await, None);
        drop(stream);
        // A child that another test just starts holds all sockets of this process for a moment.
        while process_of(Some(connection)).await.is_some() {}
    }
}
