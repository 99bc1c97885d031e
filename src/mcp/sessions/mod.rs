//! The sessions of a companion, behind one lock.
//!
//! `Sessions` is shared between the server's thread and Emacs's main thread. Everything is behind
//! one short mutex, never held across an await or a call into Lisp. Sending an event to Lisp
//! while holding it is fine, and keeps events in the order of what they tell.
//!
//! The lock guards the `Table`. Each of the other files does one thing with it: they use the table
//! and this file, `outcomes`, `requests` and `lifetime` also `succession`, and that `context`.

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

pub use super::client::{Client, SessionId};
pub use outcomes::Asked;
pub use requests::Busy;
pub use streams::{EventReader, StreamReader};

use super::places::Place;
use super::revision::Revision;
use super::session::{Session, Stream};
use crate::bridge::{Bridge, Event};
use crate::ide::ReviewId;
use crate::limits::Limits;
use crate::lock::lock;
use crate::process::Process;
use table::Table;

/// What a client hears that comes too late.
pub const STOPPING: &str = "the companion is stopping";

pub struct Sessions {
    bridge: Arc<Bridge>,
    limits: Limits,
    table: Mutex<Table>,
    /// Wakes `expire_forever` when the next deadline may have come closer.
    changed: Notify,
    /// Wakes who waits for the first context.
    published: Notify,
}

/// What there is to tell of a session.
#[derive(Debug, PartialEq, Eq)]
pub struct Description {
    /// Enough of its id to tell it from the others, and no more: whoever knows the id and the token
    /// could speak in its name.
    pub key: String,
    /// In words for the user.
    pub client: String,
    pub process: Option<u32>,
    /// None while it is being found out.
    pub place: Option<Place>,
    pub age: Duration,
    /// Whether the stream is open; None if it never was.
    pub listens: Option<bool>,
    pub reviews: Vec<ReviewId>,
    /// Outcomes that it has not heard.
    pub unheard: usize,
}

impl Sessions {
    pub fn new(bridge: Arc<Bridge>, limits: Limits) -> Sessions {
        Sessions {
            bridge,
            limits,
            table: Mutex::default(),
            changed: Notify::new(),
            published: Notify::new(),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Starts a session.
    pub fn open(&self, client: Client, revision: Revision) -> anyhow::Result<SessionId> {
        self.begin(&mut self.table(), Session::new(client, revision))
    }

    fn begin(&self, table: &mut Table, session: Session) -> anyhow::Result<SessionId> {
        if table.ending {
            anyhow::bail!(STOPPING);
        }
        let id = SessionId::random()?;
        if table.sessions.len() >= self.limits.sessions {
            let least_used = table.least_used(&session.client.agent);
            let Some(least_used) = least_used else { anyhow::bail!("too many sessions") };
            self.remove(table, &least_used);
        }
        table.sessions.insert(id.clone(), session);
        table.note_readers();
        self.announce(table, Instant::now());
        self.changed.notify_one();
        Ok(id)
    }

    /// The number of sessions whose client is there, as far as we know.
    pub fn count(&self) -> usize {
        self.table().announced
    }

    /// The processes of all clients, each once.
    pub fn processes(&self) -> Vec<Process> {
        let mut processes: Vec<Process> = Vec::new();
        for process in self.table().sessions.values().filter_map(|session| session.peer.process()) {
            if !processes.contains(process) {
                processes.push(process.clone());
            }
        }
        processes
    }

    /// All sessions, the oldest first, and the event streams behind them.
    pub fn describe(&self) -> Vec<Description> {
        let table = self.table();
        let mut sessions: Vec<_> = table.sessions.iter().collect();
        sessions.sort_by_key(|(_, session)| session.begun);
        let describe = |(id, session): (&SessionId, &Session)| Description {
            key: id.key().to_owned(),
            client: session.client.describe(),
            process: session.peer.process().map(Process::id),
            place: session.place.clone(),
            age: session.begun.elapsed(),
            listens: match session.stream {
                Stream::Never => None,
                Stream::Open { .. } | Stream::Events => Some(true),
                Stream::Lost { .. } => Some(false),
            },
            reviews: table.reviews.of(id),
            unheard: session.outbox.waiting(),
        };
        let listeners =
            table.listeners.describe().map(|(number, agent, place, begun)| Description {
                key: listener_key(number),
                client: format!("{} (event stream)", agent.title),
                process: None,
                place: Some(place.clone()),
                age: begun.elapsed(),
                listens: Some(true),
                reviews: Vec::new(),
                unheard: 0,
            });
        sessions.into_iter().map(describe).chain(listeners).collect()
    }

    /// Ends the session, or event stream, with this key at the user's wish. Its reviews are closed.
    pub fn disconnect(&self, key: &str) -> bool {
        let mut table = self.table();
        let numbers: Vec<u64> = table.listeners.describe().map(|(number, ..)| number).collect();
        if let Some(number) = numbers.into_iter().find(|number| listener_key(*number) == key) {
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
    }

    fn remove_listener(&self, table: &mut Table, number: u64) {
        table.listeners.remove(number);
        table.note_readers();
        self.announce(table, Instant::now());
        self.changed.notify_one();
    }

    /// Tells Lisp how many clients there are if that has changed. While there is none Lisp does not
    /// say what the user looks at, nor that he does not want it told any more.
    fn announce(&self, table: &mut Table, now: Instant) {
        // Readers of events are counted themselves.
        let counts = |session: &&Session| {
            session.is_connected(now) && !matches!(session.stream, Stream::Events)
        };
        let connected = table.sessions.values().filter(counts).count() + table.listeners.count();
        if connected != table.announced {
            table.announced = connected;
            if connected == 0 {
                table.forget_context();
            }
            self.bridge.send(Event::Clients);
        }
    }

    /// Closes the reviews of a session for which nobody waits any more.
    fn close_reviews_of(&self, table: &mut Table, id: &SessionId) {
        for review in table.reviews.of(id) {
            table.reviews.end(review);
            self.tell_closed([review]);
        }
    }

    /// Tells Lisp that reviews are over without the user.
    fn tell_closed(&self, reviews: impl IntoIterator<Item = ReviewId>) {
        for review in reviews {
            self.bridge.send(Event::CloseReview { review, call: None });
        }
    }
}

/// As a session has one.
fn listener_key(number: u64) -> String {
    format!("events-{number}")
}

#[cfg(test)]
#[path = "../../../test/rust/handover.rs"]
mod handover;

#[cfg(test)]
mod tests;
