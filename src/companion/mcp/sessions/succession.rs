//! The next session of a client that lost its connection inherits the reviews and outcomes of the last
//! one, if its process shows that it is the same client.

use tokio::time::Instant;

use super::Sessions;
use super::table::Table;
use crate::ide::ReviewId;
use crate::mcp::client::SessionId;

impl Sessions {
    /// Moves what lost sessions have to the sessions that replace them; not at once, since a session
    /// that returns keeps its own.
    pub(super) fn hand_over(&self, table: &mut Table, now: Instant) {
        for lost in table.sessions_where(|_, session| !session.is_connected(now)) {
            if let Some(successor) = table.successor_of(&lost) {
                self.notify_closed(table.inherit(&successor, &lost));
            }
        }
    }

    /// Does the same at once if `session` closes a review of the session that it replaces, open or not.
    pub(super) fn hand_over_to(&self, table: &mut Table, session: &SessionId, path: &str) {
        for lost in table.sessions_where(|id, lost| {
            lost.endings.find(path).is_some() || table.reviews.find(id, path).is_some()
        }) {
            if table.successor_of(&lost).as_ref() == Some(session) {
                self.notify_closed(table.inherit(session, &lost));
            }
        }
    }
}

impl Table {
    /// The newest session of the same client that began when the stream of `id` was lost, or later.
    /// It must have a stream: otherwise, what it inherits could be lost with it.
    fn successor_of(&self, id: &SessionId) -> Option<SessionId> {
        let lost = &self.sessions[id];
        let successors = self
            .sessions
            .iter()
            .filter(|(_, successor)| lost.may_be_replaced_by(successor) && successor.is_open());
        successors.max_by_key(|(_, successor)| successor.begun).map(|(id, _)| id.clone())
    }

    /// Moves the reviews of `lost`, their outcomes and endings, to `successor`. If a later session of the
    /// client has had another review of a file, it no longer waits for the one here, which ends. Returns
    /// the reviews that this ends.
    fn inherit(&mut self, successor: &SessionId, lost: &SessionId) -> Vec<ReviewId> {
        let Some(session) = self.sessions.get_mut(lost) else { return Vec::new() };
        let mut outcomes = session.outbox.take_outcomes();
        let mut endings = std::mem::take(&mut session.endings);
        let session = &self.sessions[lost];
        let later = self.sessions_where(|_, other| session.is_earlier_of(other));
        let is_stale = |path: &str| {
            let has_ended = |id| self.sessions[id].endings.find(path).is_some();
            later.iter().any(|id| has_ended(id) || self.reviews.find(id, path).is_some())
        };
        let stale =
            self.reviews.all().filter(|review| review.owner == *lost && is_stale(&review.path));
        let closed: Vec<ReviewId> = stale.map(|review| review.id).collect();
        outcomes.retain(|decided| !is_stale(&decided.path));
        endings.retain(|path| !is_stale(path));
        for review in &closed {
            self.reviews.end(*review);
        }
        // The successor is one of the later sessions, so it has no review of the other files.
        self.reviews.inherit(successor, lost);
        self.deliver(successor, outcomes);
        if let Some(session) = self.sessions.get_mut(successor) {
            session.endings.inherit(endings);
        }
        closed
    }
}
