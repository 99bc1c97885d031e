//! Who is at the other end of a connection: the process, and the directory in which it works.

use std::sync::Arc;
use std::time::Duration;

use super::admission::Admission;
use super::socket::{Connection, client_inode};
use crate::mcp::places::Place;
use crate::mcp::sessions::{SessionId, Sessions};
use crate::process::Process;

/// How long a client waits until its process is found.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// The sender of a request.
#[derive(Clone)]
pub struct Peer {
    pub connection: Connection,
    pub admission: Arc<Admission>,
}

impl Peer {
    /// Finds the process of the client of a new session. That may take milliseconds, in which
    /// others are served. The client gets its session id only afterwards, so that the session has
    /// inherited by then what it can.
    pub async fn identify(&self, sessions: &Arc<Sessions>, session: &SessionId) {
        sessions.begin_identification(session);
        let search = search(self.connection, sessions);
        let (sessions, session) = (sessions.clone(), session.clone());
        let recognition = tokio::spawn(async move {
            sessions.identify(&session, search.await);
        });
        // If it takes longer, the search goes on, but the client does not wait.
        let _ = tokio::time::timeout(IDENTIFY_TIMEOUT, recognition).await;
    }
}

/// Where the client at the other end of `connection` works, if that is found out in time.
pub async fn place_of(connection: Connection, sessions: Arc<Sessions>) -> Place {
    let process = tokio::time::timeout(IDENTIFY_TIMEOUT, search(connection, &sessions)).await;
    Place::of(process.ok().flatten().as_ref())
}

/// Looks for the process at the other end of `connection`, on a blocking thread.
fn search(
    connection: Connection,
    sessions: &Arc<Sessions>,
) -> impl Future<Output = Option<Process>> + Send + use<> {
    let sessions = sessions.clone();
    let search = move || process_of(connection, &sessions.processes());
    async { tokio::task::spawn_blocking(search).await.ok()? }
}

/// The process that holds the client's end of `connection`; tries `likely` ones first.
fn process_of(connection: Connection, likely: &[Process]) -> Option<Process> {
    Process::with_socket(client_inode(connection)?, likely)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::server::socket::tests::connect;

    #[test]
    fn the_process_at_the_other_end_is_found() {
        let (connection, _listener, _stream) = connect();
        let process = process_of(connection, &[]).unwrap();
        assert_eq!(Some(&process), Process::with_id(std::process::id()).as_ref());
        assert!(process.is_alive());
        let elsewhere = Connection { client: "127.0.0.1:1".parse().unwrap(), ..connection };
        assert_eq!(process_of(elsewhere, &[process]), None);
    }
}
