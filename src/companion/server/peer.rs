//! Who is at the other end of a connection: the process, and the directory in which it works.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::admission::Admission;
use super::socket::{Connection, client_inode, client_inode_by_netlink};
use crate::lock::lock;
use crate::mcp::sessions::{SessionId, Sessions};
use crate::place::Place;
use crate::process::{Holder, Process};

/// How long a client waits until its process is found.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections that are remembered, with the process at the other end.
const REMEMBERED: usize = 64;
/// How many of them are tried for a new connection, each in two microseconds.
const TRIED: usize = 8;

/// The sender of a request.
#[derive(Clone)]
pub struct Peer {
    pub connection: Connection,
    pub admission: Arc<Admission>,
}

/// Finds the process at the other end of a connection. To search all processes takes long, so those
/// that were found last are remembered, whether they still have a session or not.
#[derive(Default)]
pub struct Finder {
    /// Newest first.
    found: Mutex<VecDeque<Found>>,
}

/// Who holds the client's end of a connection.
struct Found {
    connection: Connection,
    inode: u32,
    holder: Holder,
}

impl Peer {
    /// Finds the process of the client of a new session. That may take milliseconds, in which
    /// others are served. The client gets its session id only afterwards, so that the session has
    /// inherited by then what it can.
    pub async fn identify(
        &self,
        finder: &Arc<Finder>,
        sessions: &Arc<Sessions>,
        session: &SessionId,
    ) {
        let inode = match finder.recognize(self.connection) {
            Ok(process) => return sessions.identify(session, Some(process)),
            Err(inode) => inode,
        };
        sessions.begin_identification(session);
        let search = finder.search(self.connection, inode);
        let (sessions, session) = (sessions.clone(), session.clone());
        let recognition = tokio::spawn(async move {
            sessions.identify(&session, search.await);
        });
        // If it takes longer, the search goes on, but the client does not wait.
        let _ = tokio::time::timeout(IDENTIFY_TIMEOUT, recognition).await;
    }
}

impl Finder {
    /// Where the client at the other end of `connection` works, if that is found out in time.
    pub async fn place_of(self: Arc<Self>, connection: Connection) -> Place {
        let process = match self.recognize(connection) {
            Ok(process) => Some(process),
            Err(inode) => {
                let search = self.search(connection, inode);
                tokio::time::timeout(IDENTIFY_TIMEOUT, search).await.ok().flatten()
            }
        };
        Place::of(process.as_ref())
    }

    /// The process at the other end of `connection`, if it is one of the last, by the descriptor
    /// that it had before, or was just started; otherwise the inode of its socket, if that is known.
    fn recognize(&self, connection: Connection) -> Result<Process, Option<u32>> {
        let mut found = lock(&self.found);
        let same = found.iter().find(|found| found.connection == connection);
        if let Some(holder) = same.and_then(|found| found.holder.again(found.inode)) {
            return Ok(holder.process);
        }
        let inode = client_inode_by_netlink(connection).ok_or(None)?;
        let known = found.iter().take(TRIED).find_map(|found| found.holder.again(inode));
        let holder = known.or_else(|| Holder::among_newest(inode)).ok_or(Some(inode))?;
        let process = holder.process.clone();
        remember(&mut found, Found { connection, inode, holder });
        Ok(process)
    }

    /// Searches all processes for the one at the other end of `connection`, on a blocking thread.
    fn search(
        self: &Arc<Self>,
        connection: Connection,
        inode: Option<u32>,
    ) -> impl Future<Output = Option<Process>> + Send + use<> {
        let finder = self.clone();
        let search = move || {
            let inode = inode.or_else(|| client_inode(connection))?;
            let holder = Holder::of(inode, &finder.processes())?;
            let process = holder.process.clone();
            remember(&mut lock(&finder.found), Found { connection, inode, holder });
            Some(process)
        };
        async { tokio::task::spawn_blocking(search).await.ok()? }
    }

    /// The processes that were found last, without duplicates.
    fn processes(&self) -> Vec<Process> {
        let mut processes: Vec<Process> = Vec::new();
        for Found { holder, .. } in &*lock(&self.found) {
            if !processes.contains(&holder.process) {
                processes.push(holder.process.clone());
            }
        }
        processes
    }
}

fn remember(all: &mut VecDeque<Found>, new: Found) {
    all.retain(|found| found.connection != new.connection);
    all.truncate(REMEMBERED - 1);
    all.push_front(new);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::server::socket::tests::connect;

    async fn find(finder: &Arc<Finder>, connection: Connection) -> Option<Process> {
        match finder.recognize(connection) {
            Ok(process) => Some(process),
            Err(inode) => finder.search(connection, inode).await,
        }
    }

    #[tokio::test]
    async fn the_process_at_the_other_end_is_found() {
        let finder = Arc::new(Finder::default());
        let (connection, _listener, _stream) = connect();
        let process = find(&finder, connection).await.unwrap();
        assert_eq!(Some(&process), Process::with_id(std::process::id()).as_ref());
        assert!(process.is_alive());
        let elsewhere = Connection { client: "127.0.0.1:1".parse().unwrap(), ..connection };
        assert_eq!(find(&finder, elsewhere).await, None);
    }

    #[tokio::test]
    async fn a_process_that_was_found_is_recognized_while_it_holds_the_connection() {
        let finder = Arc::new(Finder::default());
        let (connection, listener, stream) = connect();
        let _accepted = listener.accept().unwrap();
        let process = find(&finder, connection).await.unwrap();
        assert_eq!(finder.recognize(connection), Ok(process.clone()));
        drop(stream);
        // A child that another test just starts holds all sockets of this process for a moment.
        while finder.recognize(connection) != Err(None) {}
        assert_eq!(find(&finder, connection).await, None);
    }

    #[tokio::test]
    async fn the_last_connections_are_remembered() {
        let finder = Arc::new(Finder::default());
        let kept: Vec<_> = (0..=REMEMBERED).map(|_| connect()).collect();
        for (connection, ..) in &kept {
            find(&finder, *connection).await.unwrap();
        }
        assert_eq!(lock(&finder.found).len(), REMEMBERED);
        let (first, last) = (kept[0].0, kept[REMEMBERED].0);
        let known = |end| lock(&finder.found).iter().any(|found| found.connection == end);
        assert!(!known(first) && known(last));
        assert_eq!(finder.processes(), [Process::with_id(std::process::id()).unwrap()]);
    }
}
