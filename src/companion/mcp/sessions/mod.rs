//! The sessions of a companion, behind one lock.
//!
//! `Sessions` is shared between the server's thread and Emacs's main thread. Everything is behind
//! one mutex, held briefly and never across an await or a call into Lisp. Sending an event to Lisp
//! while holding it is fine, and keeps the events in order.
//!
//! The lock guards the `Table`. Each of the other files does one thing with it.

mod context;
mod lifetime;
mod outcomes;
mod requests;
mod streams;
mod succession;
mod table;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub use super::client::{Client, Origin, SessionId, key_of};
pub use outcomes::{BUSY, not_open};
pub use requests::ActiveSession;
pub use streams::{EventReader, StreamReader};

use super::hello::Revision;
use super::listeners::Listener;
use super::session::{Session, Stream};
use crate::bridge::{Bridge, Event};
use crate::host::Host;
use crate::ide::ReviewId;
use crate::limits::Limits;
use crate::lock::lock;
use crate::place::Place;
use crate::process::Process;
use table::Table;

/// The error for requests that arrive while the companion is stopping.
pub const STOPPING: &str = "the companion is stopping";

/// The sessions of a companion.
pub struct Sessions {
    bridge: Arc<Bridge>,
    pub(crate) limits: Limits,
    table: Mutex<Table>,
    /// Wakes `expire_forever` when the next deadline may be earlier than before.
    changed: Notify,
    /// Wakes requests that await the first context.
    published: Notify,
}

/// A session, or event stream, as the user sees it.
#[derive(Debug, Default, PartialEq)]
pub struct Description {
    /// The beginning of its id, enough to distinguish it from the others. The whole id is a secret:
    /// with it and the token anybody could impersonate the client.
    pub key: String,
    /// The name of the client, for the user.
    pub client: String,
    /// The process of the client, if it is known.
    pub process: Option<u32>,
    /// Where its client is, unless on this machine.
    pub host: Option<Arc<Host>>,
    /// Where its client works.
    pub place: Place,
    /// The time since it began.
    pub age: Duration,
    /// Whether the stream is open; `None` if it never was.
    pub listens: Option<bool>,
    /// Its open reviews.
    pub reviews: Vec<ReviewId>,
    /// How many outcomes have not been sent.
    pub undelivered: usize,
    /// Whether its user decides changes in a front end of its own.
    pub has_own_front: bool,
    /// The name of its agent.
    pub agent: String,
    /// Whether it has asked for the tools.
    pub knows_tools: bool,
}

impl Sessions {
    pub(crate) fn new(bridge: Arc<Bridge>, limits: Limits) -> Sessions {
        Sessions {
            bridge,
            limits,
            table: Mutex::default(),
            changed: Notify::new(),
            published: Notify::new(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    pub(crate) fn open(
        &self,
        client: Client,
        revision: Revision,
        origin: Origin,
    ) -> anyhow::Result<SessionId> {
        self.begin(&mut self.table(), Session::new(client, revision, origin))
    }

    fn begin(&self, table: &mut Table, session: Session) -> anyhow::Result<SessionId> {
        if table.ending {
            anyhow::bail!(STOPPING);
        }
        if session.host().is_some_and(Host::is_closed) {
            anyhow::bail!("Emacs has disconnected from this machine");
        }
        let id = SessionId::random()?;
        let is_own = |other: &Session| other.allowance() == session.allowance();
        self.make_room(table, &session, self.limits.share_sessions, is_own)?;
        self.make_room(table, &session, self.limits.sessions, |_| true)?;
        table.sessions.insert(id.clone(), session);
        table.update_unnamed_streams();
        self.announce(table, Instant::now());
        self.bridge.send(Event::ClientsChanged); // Lisp publishes the context of a new place
        self.changed.notify_one();
        Ok(id)
    }

    /// If there are `limit` of the sessions that `counts` selects, removes one in favor of `session`.
    fn make_room(
        &self,
        table: &mut Table,
        session: &Session,
        limit: usize,
        counts: impl Fn(&Session) -> bool,
    ) -> anyhow::Result<()> {
        if table.sessions.values().filter(|other| counts(other)).count() < limit {
            return Ok(());
        }
        let least_used = table.least_used(&session.client.agent, counts);
        let Some(least_used) = least_used else { anyhow::bail!("too many sessions") };
        self.remove(table, &least_used);
        Ok(())
    }

    /// How many clients are connected, as far as we know.
    pub fn count(&self) -> usize {
        self.table().announced
    }

    /// All sessions, oldest first, then the event streams.
    pub fn describe(&self) -> Vec<Description> {
        let table = self.table();
        let mut sessions: Vec<_> = table.sessions.iter().collect();
        sessions.sort_by_key(|(_, session)| session.begun);
        let describe = |(id, session): (&SessionId, &Session)| Description {
            key: id.key().to_owned(),
            client: session.client.describe(),
            process: session.process().map(Process::id).or(session.origin.process_there),
            host: session.client.agent.host.clone(),
            place: session.origin.place.clone(),
            age: session.begun.elapsed(),
            listens: match session.stream {
                Stream::Never => None,
                Stream::Open { .. } | Stream::Events => Some(true),
                Stream::Lost { .. } => Some(false),
            },
            reviews: table.reviews.of(id),
            undelivered: session.outbox.waiting(),
            has_own_front: session.origin.has_own_front,
            agent: session.client.agent.name.clone(),
            knows_tools: session.knows_tools,
        };
        let describe_listener = |listener: &Listener| Description {
            key: listener_key(listener.number),
            client: format!("{} (event stream)", listener.agent.title),
            place: listener.place.clone(),
            age: listener.begun.elapsed(),
            listens: Some(true),
            agent: listener.agent.name.clone(),
            ..Description::default()
        };
        let listeners = table.listeners.all().iter().map(describe_listener);
        sessions.into_iter().map(describe).chain(listeners).collect()
    }

    /// Ends the session, or event stream, with this key, as the user wishes. Closes its reviews.
    pub fn disconnect(&self, key: &str) -> bool {
        let mut table = self.table();
        let mut numbers = table.listeners.all().iter().map(|listener| listener.number);
        if let Some(number) = numbers.find(|number| listener_key(*number) == key) {
            self.remove_listener(&mut table, number);
            return true;
        }
        let Some(id) = table.sessions.keys().find(|id| id.key() == key).cloned() else {
            return false;
        };
        self.remove(&mut table, &id);
        true
    }

    fn remove(&self, table: &mut Table, id: &SessionId) {
        let Some(mut session) = table.sessions.remove(id) else { return };
        session.wake();
        self.close_reviews_of(table, id);
        self.announce(table, Instant::now());
        self.bridge.send(Event::ClientsChanged); // Lisp forgets a client that was lost before
    }

    fn remove_listener(&self, table: &mut Table, number: u64) {
        table.listeners.remove(number);
        table.update_unnamed_streams();
        self.announce(table, Instant::now());
        self.changed.notify_one();
    }

    /// Notifies Lisp if the number of clients has changed. While there are none, Lisp publishes no
    /// context, and does not withdraw one either: so all contexts are dropped.
    fn announce(&self, table: &mut Table, now: Instant) {
        // Listeners are counted instead of the sessions that they belong to.
        let counts = |session: &&Session| {
            session.is_connected(now) && !matches!(session.stream, Stream::Events)
        };
        let connected =
            table.sessions.values().filter(counts).count() + table.listeners.all().len();
        if connected != table.announced {
            table.announced = connected;
            if connected == 0 {
                table.forget_context();
            }
            self.bridge.send(Event::ClientsChanged);
        }
    }

    /// Closes the reviews of a session, whose client no longer waits for them.
    fn close_reviews_of(&self, table: &mut Table, id: &SessionId) {
        for review in table.reviews.of(id) {
            table.reviews.end(review);
            self.notify_closed([review]);
        }
    }

    /// Notifies Lisp that reviews have ended without the user.
    fn notify_closed(&self, reviews: impl IntoIterator<Item = ReviewId>) {
        for review in reviews {
            self.bridge.send(Event::CloseReview { review, call: None });
        }
    }
}

/// The counterpart of a session's key.
fn listener_key(number: u64) -> String {
    format!("events-{number}")
}

#[cfg(test)]
mod tests;
