//! Sessions that replace others: a client that lost its connection gets its reviews and outcomes in
//! its next session. If that proves to be another client's, they are given back.

use std::collections::HashMap;

use tokio::time::Instant;

use super::Sessions;
use super::table::Table;
use crate::ide::ReviewId;
use crate::mcp::client::{Peer, SessionId};
use crate::mcp::outbox::Decided;
use crate::mcp::places::Place;
use crate::mcp::session::Session;
use crate::process::Process;

impl Sessions {
    /// Notes that the process of a session's client is being looked for.
    pub(crate) fn begin_identification(&self, id: &SessionId) {
        if let Some(session) = self.table().sessions.get_mut(id) {
            (session.place, session.placed) = (None, Instant::now());
        }
    }

    /// Notes which process the client of a session is, if that was found.
    ///
    /// If the client had a session before and lost its stream, this one may inherit its reviews and
    /// undelivered outcomes.
    pub(crate) fn identify(&self, id: &SessionId, process: Option<Process>) {
        let place = Place::of(process.as_ref());
        // A process whose directory is known forwards nothing.
        let forwards = place == Place::Unknown && process.as_ref().is_some_and(Process::forwards);
        let mut table = self.table();
        self.set_place(&mut table, id, place);
        let Some(process) = process else { return };
        let shared = forwards || table.sessions.values().any(|other| other.peer.shares(&process));
        let Some(session) = table.sessions.get_mut(id) else { return };
        session.peer = if shared { Peer::Shared(process) } else { Peer::Client(process) };
        self.hand_over(&mut table, Instant::now());
        self.changed.notify_one();
    }

    /// Moves reviews and undelivered outcomes of lost sessions to the sessions that replaced them.
    /// Not at once, since a session that comes back keeps its own.
    pub(super) fn hand_over(&self, table: &mut Table, now: Instant) {
        table.note_shared_processes();
        for lost in table.sessions_where(|_, session| !session.is_connected(now)) {
            if let Some(successor) = table.successor_of(&lost) {
                self.notify_closed(table.inherit(&successor, &lost));
            }
        }
    }

    /// If the client closes a review that a lost session of its process opened, it is the same
    /// client, and there is no need to wait whether that session comes back.
    pub(super) fn claim(&self, table: &mut Table, session: &SessionId, path: &str) {
        if table.reviews.find(session, path).is_some() {
            return;
        }
        table.note_shared_processes();
        let Some(claimant) = table.sessions.get(session) else { return };
        let lost = table.sessions_where(|id, lost| {
            table.reviews.find(id, path).is_some() && lost.may_be_replaced_by(claimant)
        });
        for lost in lost {
            self.notify_closed(table.inherit(session, &lost));
        }
    }

    /// Gives a session that came back what others have inherited from it: they are other clients'.
    pub(super) fn give_back(&self, table: &mut Table, id: &SessionId) {
        self.notify_closed(table.reviews.give_back(id));
        let others = table.sessions.iter_mut().filter(|(other, _)| *other != id);
        let owed: Vec<Decided> = others
            .flat_map(|(_, other)| other.outbox.take_outcomes(|decided| decided.proposer == *id))
            .collect();
        table.deliver(id, owed);
    }
}

impl Table {
    /// The newest session of the same client that began when the stream was lost or later.
    fn successor_of(&self, id: &SessionId) -> Option<SessionId> {
        let lost = &self.sessions[id];
        let successors = self
            .sessions
            .iter()
            .filter(|(_, successor)| lost.may_be_replaced_by(successor) && !successor.is_lost());
        successors.max_by_key(|(_, successor)| successor.begun).map(|(id, _)| id.clone())
    }

    /// The client of a session has ended it: sessions that its process opens later inherit nothing
    /// from earlier ones.
    pub(super) fn disown_earlier(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let earlier =
            self.sessions_where(|_, other| other.is_lost() && other.is_earlier_of(session));
        for other in earlier {
            if let Some(other) = self.sessions.get_mut(&other) {
                other.peer = Peer::Unknown;
            }
        }
    }

    /// Moves the reviews and outcomes of `lost` to `successor`. Returns the reviews that this ends.
    fn inherit(&mut self, successor: &SessionId, lost: &SessionId) -> Vec<ReviewId> {
        let Some(session) = self.sessions.get_mut(lost) else { return Vec::new() };
        session.replaced = true;
        let mut outcomes = session.outbox.take_outcomes(|_| true);
        outcomes.retain(|decided| !decided.superseded);
        let closed = self.reviews.inherit(successor, lost);
        self.deliver(successor, outcomes);
        closed
    }

    /// Notes which processes several clients share: those with an earlier session that is in use
    /// after a later one has begun. A single client would have replaced it.
    fn note_shared_processes(&mut self) {
        let mut known: HashMap<&Process, Vec<&Session>> = HashMap::new();
        for session in self.sessions.values() {
            if let Peer::Client(process) = &session.peer {
                known.entry(process).or_default().push(session);
            }
        }
        known.retain(|_, sessions| {
            sessions.sort_unstable_by_key(|session| session.begun);
            sessions.windows(2).any(|pair| pair[0].outlived(pair[1]))
        });
        let shared: Vec<Process> = known.into_keys().cloned().collect();
        for session in self.sessions.values_mut() {
            session.peer.share(&shared);
        }
    }
}
