//! Who is at the other end of a connection: which process, and where that works.

use std::sync::Arc;
use std::time::Duration;

use super::door::Visitor;
use super::socket::{Connection, client_inode};
use crate::mcp::places::Place;
use crate::mcp::sessions::{SessionId, Sessions};
use crate::process::Process;

/// How long a client waits for that to be found out.
const RECOGNITION: Duration = Duration::from_secs(1);

/// Whom a request comes from.
#[derive(Clone)]
pub struct Peer {
    pub connection: Connection,
    pub visitor: Arc<Visitor>,
}

impl Peer {
    /// Finds out which process the client of a new session is. That may take milliseconds, in which
    /// others are served. The client hears of its session afterwards, so that what it inherits is
    /// there by then.
    pub async fn recognise(&self, sessions: &Arc<Sessions>, session: &SessionId) {
        sessions.expect_recognition(session);
        let search = search(self.connection, sessions);
        let (sessions, session) = (sessions.clone(), session.clone());
        let recognition = tokio::spawn(async move {
            sessions.recognise(&session, search.await);
        });
        // If it takes longer it goes on without the client.
        let _ = tokio::time::timeout(RECOGNITION, recognition).await;
    }
}

/// Where the client works that is at the other end of `connection`, as far as that is found out in
/// time.
pub async fn place_of(connection: Connection, sessions: Arc<Sessions>) -> Place {
    let process = tokio::time::timeout(RECOGNITION, search(connection, &sessions)).await;
    Place::of(process.ok().flatten().as_ref())
}

/// Looks for the process that is at the other end of `connection`, on a thread of its own.
fn search(
    connection: Connection,
    sessions: &Arc<Sessions>,
) -> impl Future<Output = Option<Process>> + Send + use<> {
    let sessions = sessions.clone();
    let search = move || process_of(connection, &sessions.processes());
    async { tokio::task::spawn_blocking(search).await.ok()? }
}

/// The process that holds the client's end of `connection`; `likely` are looked at first.
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
