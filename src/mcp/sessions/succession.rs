//! Which session takes the place of another: what is owed to a client that lost its session goes to
//! its next one, and back if it proves to be another client's.

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
    /// Notes that it is being found out which process the client of a session is.
    pub fn expect_recognition(&self, id: &SessionId) {
        if let Some(session) = self.table().sessions.get_mut(id) {
            (session.place, session.placed) = (None, Instant::now());
        }
    }

    /// Notes which process the client of a session is, if that could be found out.
    ///
    /// What a session of the same process that lost its stream has not heard, and the reviews it
    /// waits for, may become this one's: the client lost its connection and waits for them still.
    pub fn recognise(&self, id: &SessionId, process: Option<Process>) {
        let place = Place::of(process.as_ref());
        let forwards = process.as_ref().is_some_and(Process::forwards);
        let mut table = self.table();
        self.settle_in(&mut table, id, place);
        let Some(process) = process else { return };
        let shared = forwards || table.sessions.values().any(|other| other.peer.shares(&process));
        let Some(session) = table.sessions.get_mut(id) else { return };
        session.peer = if shared { Peer::Shared(process) } else { Peer::Client(process) };
        self.hand_on(&mut table, Instant::now());
        self.changed.notify_one();
    }

    /// Moves what lost sessions wait for to the sessions that replaced them. Not at once: a session
    /// that comes back keeps its own.
    pub(super) fn hand_on(&self, table: &mut Table, now: Instant) {
        table.note_shared_processes();
        for lost in table.sessions_where(|_, session| !session.is_connected(now)) {
            if let Some(heir) = table.heir_of(&lost) {
                self.tell_closed(table.inherit(&heir, &lost));
            }
        }
    }

    /// A client that closes a review which a lost session of its process has open is the same client:
    /// there is no need to wait whether that session comes back.
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
            self.tell_closed(table.inherit(session, &lost));
        }
    }

    /// A session came back, for which another one was taken to speak: so these are two clients.
    pub(super) fn give_back(&self, table: &mut Table, id: &SessionId) {
        self.tell_closed(table.reviews.give_back(id));
        let others = table.sessions.iter_mut().filter(|(other, _)| *other != id);
        let owed: Vec<Decided> = others
            .flat_map(|(_, other)| other.outbox.take_outcomes(|decided| decided.proposer == *id))
            .collect();
        table.deliver(id, owed);
    }
}

impl Table {
    /// The newest session of the same client that began when the stream was lost or later.
    fn heir_of(&self, id: &SessionId) -> Option<SessionId> {
        let lost = &self.sessions[id];
        let heirs = self
            .sessions
            .iter()
            .filter(|(_, heir)| lost.may_be_replaced_by(heir) && !heir.is_lost());
        heirs.max_by_key(|(_, heir)| heir.begun).map(|(id, _)| id.clone())
    }

    /// The client of a session takes leave: a session that its process begins later has nothing to do
    /// with what earlier ones wait for.
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

    /// Moves what `lost` waits for to `heir`. Returns the reviews that end by it.
    fn inherit(&mut self, heir: &SessionId, lost: &SessionId) -> Vec<ReviewId> {
        let Some(session) = self.sessions.get_mut(lost) else { return Vec::new() };
        session.replaced = true;
        let mut outcomes = session.outbox.take_outcomes(|_| true);
        outcomes.retain(|decided| !decided.superseded);
        let closed = self.reviews.inherit(heir, lost);
        self.deliver(heir, outcomes);
        closed
    }

    /// Notes which processes speak for several clients: those of which an earlier session is in use
    /// after a later one has begun, which one client would have replaced it by.
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
