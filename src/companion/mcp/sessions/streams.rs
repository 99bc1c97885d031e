//! Event streams: those of sessions, and `/events`.

use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::time::Instant;

use super::Sessions;
use super::context::{context_json, event_json};
use super::table::Table;
use crate::agent::Agent;
use crate::bridge::Event;
use crate::mcp::client::SessionId;
use crate::mcp::message::ping_json;
use crate::mcp::outbox::Outgoing;
use crate::mcp::session::{PING, Stream};
use crate::place::Place;

/// The right to read the outgoing messages of one session, until a newer stream replaces it.
pub struct StreamReader {
    sessions: Arc<Sessions>,
    session: SessionId,
    number: u64,
}

/// The right to read the events of document 004.
pub struct EventReader {
    sessions: Arc<Sessions>,
    number: u64,
}

impl Sessions {
    /// Opens the stream of a session, replacing an older one. `last_event` is the number of the
    /// last event that the client has received, if the client names one.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        session: &SessionId,
        last_event: Option<u64>,
    ) -> Option<StreamReader> {
        let mut table = self.table();
        self.update_places(&mut table);
        let context = table.context_of(session).map(context_json);
        let entry = table.sessions.get_mut(session)?;
        // A process that only opened the session and ended, like a shell command, is not the client.
        if entry.process().is_some_and(|process| !process.is_alive()) {
            entry.origin.process = None;
        }
        let number = entry.open_stream();
        entry.outbox.resume(last_event);
        if let Some(context) = context.filter(|_| !entry.outbox.has_context()) {
            entry.outbox.push(Outgoing::Context(context));
        }
        self.announce(&mut table, Instant::now());
        self.changed.notify_one(); // this session may inherit from another one now
        Some(StreamReader { sessions: self.clone(), session: session.clone(), number })
    }

    /// Opens a stream of document 004, unless the agent has too many.
    pub(crate) fn listen(self: &Arc<Self>, agent: Arc<Agent>, place: Place) -> Option<EventReader> {
        let mut table = self.table();
        if table.listeners.of(&agent).count() >= self.limits.event_readers {
            return None;
        }
        let context = table.contexts.get(&place).map(event_json);
        if context.is_none() {
            self.bridge.send(Event::ClientsChanged); // as in `update_places`
        }
        let number = table.listeners.add(agent.clone(), place, context);
        table.update_unnamed_streams();
        table.queue_undelivered(&agent, number);
        self.announce(&mut table, Instant::now());
        Some(EventReader { sessions: self.clone(), number })
    }

    /// Pings every client that has a stream. Returns how many there are.
    pub fn ping(&self) -> usize {
        let message: Arc<str> = ping_json(PING).into();
        let mut table = self.table();
        let asked = table.sessions.values_mut().filter(|session| session.is_open());
        asked.map(|session| session.ping(message.clone())).count()
    }

    /// Ends all streams properly, before the server restarts. Their clients open them again.
    pub(crate) fn interrupt_streams(&self) {
        let since = Instant::now();
        let mut table = self.table();
        table.listeners.end();
        for session in table.sessions.values_mut() {
            session.wake();
            if let Stream::Open { .. } = session.stream {
                session.stream = Stream::Lost { since };
            }
        }
        table.update_unnamed_streams();
    }
}

impl Table {
    /// Sends a listener those outcomes of the unnamed session of `agent` for which there was none.
    fn queue_undelivered(&mut self, agent: &Agent, listener: u64) {
        let unnamed = self.unnamed(agent);
        let Some(session) = unnamed.and_then(|id| self.sessions.get_mut(&id)) else { return };
        while let Some((_, outcome)) = session.outbox.next() {
            self.listeners.queue_outcome_for(listener, outcome);
        }
    }
}

impl StreamReader {
    /// The next message and its event number; `None` when the stream is over.
    pub fn poll_next(&self, current: &Waker) -> Poll<Option<(u64, String)>> {
        let next = self.poll_message(current); // the lock is free again
        next.map(|next| next.map(|(number, message)| (number, message.into_text())))
    }

    fn poll_message(&self, current: &Waker) -> Poll<Option<(u64, Outgoing)>> {
        let mut table = self.sessions.table();
        let ending = table.ending;
        let Some(session) = table.sessions.get_mut(&self.session) else { return Poll::Ready(None) };
        let Stream::Open { number, waker } = &mut session.stream else { return Poll::Ready(None) };
        if *number != self.number {
            return Poll::Ready(None);
        }
        match session.outbox.next() {
            Some(message) => Poll::Ready(Some(message)),
            None if ending => Poll::Ready(None),
            None => {
                *waker = Some(current.clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut table = self.sessions.table();
        if let Some(session) = table.sessions.get_mut(&self.session)
            && matches!(session.stream, Stream::Open { number, .. } if number == self.number)
        {
            session.stream = Stream::Lost { since: Instant::now() };
        }
        drop(table);
        self.sessions.changed.notify_one();
    }
}

impl EventReader {
    /// The next event; `None` when the stream is over.
    pub fn poll_next(&self, current: &Waker) -> Poll<Option<String>> {
        let mut table = self.sessions.table();
        let polled = table.listeners.poll(self.number, current);
        if polled.is_pending() && table.ending {
            return Poll::Ready(None);
        }
        drop(table);
        polled.map(|event| event.map(Outgoing::into_text))
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.sessions.remove_listener(&mut self.sessions.table(), self.number);
    }
}
