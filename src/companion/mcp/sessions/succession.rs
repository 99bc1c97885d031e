//! Sessions that replace others: the next session of a client that lost its connection inherits its
//! reviews and outcomes. They are given back if that session proves to be another client's.

use std::collections::HashMap;

use tokio::time::Instant;

use super::Sessions;
use super::table::Table;
use crate::ide::ReviewId;
use crate::mcp::client::{Peer, SessionId};
use crate::mcp::outbox::Decided;
use crate::mcp::session::Session;
use crate::place::Place;
use crate::process::Process;

impl Sessions {
    /// Records where the client of a session works, whose process cannot be known, as on a host, and
    /// whether it has a front of its own.
    pub(crate) fn place_at(&self, id: &SessionId, place: Place, has_own_front: bool) {
        let mut table = self.table();
        self.set_place(&mut table, id, place);
        if let Some(session) = table.sessions.get_mut(id) {
            session.has_own_front = has_own_front;
        }
    }

    /// Records that the process of a session's client is being looked for.
    pub(crate) fn begin_identification(&self, id: &SessionId) {
        if let Some(session) = self.table().sessions.get_mut(id) {
            (session.place, session.placed) = (None, Instant::now());
        }
    }

    /// Records the process of a session's client, if it was found.
    ///
    /// If an earlier session of the client has lost its stream, this one may inherit its reviews
    /// and undelivered outcomes.
    pub(crate) fn identify(&self, id: &SessionId, process: Option<Process>) {
        let place = Place::of(process.as_ref());
        // A process whose directory is known forwards nothing.
        let forwards = place == Place::Unknown && process.as_ref().is_some_and(Process::forwards);
        let mut table = self.table();
        self.set_place(&mut table, id, place);
        let Some(process) = process else { return };
        let has_own_front = process.has_own_front();
        let shared = forwards || table.sessions.values().any(|other| other.peer.shares(&process));
        let Some(session) = table.sessions.get_mut(id) else { return };
        session.has_own_front = has_own_front;
        session.peer = if shared { Peer::Shared(process) } else { Peer::Client(process) };
        self.hand_over(&mut table, Instant::now());
        self.changed.notify_one();
    }

    /// Moves the reviews and undelivered outcomes of lost sessions to the sessions that replace
    /// them; not at once, since a session that returns keeps its own.
    pub(super) fn hand_over(&self, table: &mut Table, now: Instant) {
        table.update_shared_processes();
        for lost in table.sessions_where(|_, session| !session.is_connected(now)) {
            if let Some(successor) = table.successor_of(&lost) {
                self.notify_closed(table.inherit(&successor, &lost));
            }
        }
    }

    /// Has `session` inherit at once from a lost session of its process if it closes a review of
    /// that: it is the same client, and there is no need to wait for the other to return. It must have
    /// a stream, or what it inherits would stay with it.
    pub(super) fn claim(&self, table: &mut Table, session: &SessionId, path: &str) {
        if table.reviews.find(session, path).is_some() {
            return;
        }
        table.update_shared_processes();
        let claimant = table.sessions.get(session).filter(|session| session.is_open());
        let Some(claimant) = claimant else { return };
        let lost = table.sessions_where(|id, lost| {
            table.reviews.find(id, path).is_some() && lost.may_be_replaced_by(claimant)
        });
        for lost in lost {
            self.notify_closed(table.inherit(session, &lost));
        }
    }

    /// Returns to a session what others have inherited from it: it is back, so they are other
    /// clients'.
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
    /// The newest session of the same client that began when the stream of `id` was lost, or later.
    /// It must have a stream: what a session inherits that never opens one would be lost with it.
    fn successor_of(&self, id: &SessionId) -> Option<SessionId> {
        let lost = &self.sessions[id];
        let successors = self
            .sessions
            .iter()
            .filter(|(_, successor)| lost.may_be_replaced_by(successor) && successor.is_open());
        successors.max_by_key(|(_, successor)| successor.begun).map(|(id, _)| id.clone())
    }

    /// Has later sessions of a process inherit nothing from earlier ones, when its client ends the
    /// session `id`.
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

    /// Records which processes several clients share: those with an earlier session that is in use
    /// after a later one has begun, as a single client would have replaced it.
    fn update_shared_processes(&mut self) {
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
