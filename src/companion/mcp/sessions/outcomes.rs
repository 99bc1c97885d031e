//! Reviews of sessions, from the proposal to the delivery of the outcome.

use std::sync::Arc;

use super::table::Table;
use super::{STOPPING, Sessions};
use crate::bridge::{CallId, Event, HostFile};
use crate::ide::{Meta, Notification, Outcome, ReviewId};
use crate::mcp::client::SessionId;
use crate::mcp::message::notification_json;
use crate::mcp::outbox::Decided;
use crate::mcp::reviews::Ended;
use crate::place::Place;
use crate::process::Process;
use tokio::time::Instant;

/// Why a review cannot be opened.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// No outcome could be delivered any more.
    Stopping,
    SessionEnded,
    /// The client has not read the outcomes of earlier reviews.
    TooManyUnread,
    /// The user has to decide some reviews first.
    TooManyOpen,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Refused::Stopping => STOPPING,
            Refused::SessionEnded => "the session has ended",
            Refused::TooManyUnread => {
                "too many outcomes wait for you: open your event stream and read them"
            }
            Refused::TooManyOpen => "too many reviews wait for the user: decide some of them first",
        })
    }
}

/// Whether Lisp was asked to decide a review.
#[derive(Debug, PartialEq, Eq)]
pub enum DecisionRequest {
    Sent,
    NotOpen,
    /// Another call awaits the decision.
    Already,
    /// Lisp has not handled the earlier requests yet.
    TooMany,
}

/// A review that its client has closed.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed {
    pub review: ReviewId,
    /// Whether the session that proposed it has closed it, rather than another one of the same
    /// client.
    pub by_proposer: bool,
}

impl Sessions {
    /// Opens a review and notifies Lisp. Replaces an open review of the same file and session. The
    /// file has `bytes_now` bytes, all of which Emacs reads.
    pub(crate) fn open_review(
        &self,
        session: &SessionId,
        path: String,
        content: String,
        bytes_now: usize,
    ) -> Result<ReviewId, Refused> {
        self.propose(&mut self.table(), session, path, content, bytes_now, None)
    }

    /// Opens a review of a file on a host. Lisp is told first what the file contains. Nothing
    /// happens if the newest review of the file has the same name: its client repeats itself.
    pub(crate) fn open_review_on_host(
        &self,
        session: &SessionId,
        file: HostFile,
        content: String,
        name: &str,
    ) -> Result<(), Refused> {
        let mut table = self.table();
        let newest = table.sessions.get(session).and_then(|it| it.proposals.of(&file.path));
        if newest.as_deref() == Some(name) {
            return Ok(());
        }
        let (path, size) = (file.path.clone(), file.contents.size());
        self.propose(&mut table, session, path.clone(), content, size, Some(file))?;
        if let Some(session) = table.sessions.get_mut(session) {
            session.proposals.add(&path, name);
        }
        Ok(())
    }

    fn propose(
        &self,
        table: &mut Table,
        session: &SessionId,
        path: String,
        content: String,
        bytes_now: usize,
        file: Option<HostFile>,
    ) -> Result<ReviewId, Refused> {
        if table.ending {
            return Err(Refused::Stopping);
        }
        let Some(entry) = table.sessions.get_mut(session) else {
            return Err(Refused::SessionEnded);
        };
        let (client, info) = (entry.client.describe(), entry.client.info());
        let agent = entry.client.agent.name.clone();
        let process = entry.peer.own_process().map(Process::id);
        entry.outbox.forget_outcomes_of(&path);
        if entry.outbox.is_full() {
            return Err(Refused::TooManyUnread);
        }
        let bytes = content.len() + bytes_now;
        let host = file.as_ref().map(|file| file.host.clone());
        let load = table.reviews.load_without(session, &path, |_| true);
        let fits = load.count < self.limits.reviews
            && load.bytes + table.undelivered_bytes() + bytes <= self.limits.review_bytes
            && self.bridge.has_room_for(bytes);
        let fits_host = host.as_ref().is_none_or(|host| {
            let load = table.reviews.load_without(session, &path, |owner| table.is_on(owner, host));
            load.count < self.limits.host_reviews
                && load.bytes + bytes <= self.limits.host_review_bytes
                && host.queued.has_room_for(2)
        });
        if !(fits && fits_host) {
            return Err(Refused::TooManyOpen);
        }
        table.supersede(session, &path);
        let (review, older) = table.reviews.open(session, &path, bytes);
        self.notify_closed(older);
        if let Some(file) = file {
            self.bridge.send(Event::HostFile(file));
        }
        self.bridge.send(Event::OpenReview {
            review,
            agent,
            client,
            info,
            process,
            path,
            content,
            host,
        });
        Ok(review)
    }

    /// Closes a review, as its client wishes; Lisp answers `call` with the final text. Unless
    /// `silent`, the session is notified that the review was rejected.
    pub(crate) fn close_review(
        &self,
        session: &SessionId,
        path: &str,
        silent: bool,
        call: CallId,
    ) -> Option<Closed> {
        let mut table = self.table();
        self.claim(&mut table, session, path);
        let review = table.reviews.find(session, path)?;
        let by_proposer = table.reviews.is_owned_by_proposer(review);
        if silent {
            table.reviews.end(review);
        } else {
            table.settle(review, &Outcome::Rejected);
        }
        self.bridge.send(Event::CloseReview { review, call: Some(call) });
        Some(Closed { review, by_proposer })
    }

    /// Asks Lisp to decide a review in place of the user, for the client that proposed it. The
    /// client works in `place`, or where its session does if that is `None`.
    pub(crate) fn request_decision(
        &self,
        session: &SessionId,
        path: &str,
        accept: bool,
        call: CallId,
        place: Option<Place>,
    ) -> DecisionRequest {
        let mut table = self.table();
        let Some(review) = table.reviews.find(session, path) else {
            return DecisionRequest::NotOpen;
        };
        if !self.bridge.has_room_for_decision() {
            return DecisionRequest::TooMany; // events of cancelled calls may still be queued
        }
        if !table.reviews.begin_decision(review, call, |call| self.bridge.is_awaited(call)) {
            return DecisionRequest::Already;
        }
        let own = || table.sessions.get(session).and_then(|session| session.place.clone());
        let place = place.or_else(own).unwrap_or(Place::Unknown);
        let directory = place.directory().map(str::to_owned);
        self.bridge.send(Event::DecideReview { review, accept, call, directory });
        DecisionRequest::Sent
    }

    /// Reports the user's decision to the session that owns the review. Returns false if the review
    /// is not open.
    pub fn decide(&self, review: ReviewId, outcome: Outcome) -> bool {
        let mut table = self.table();
        let settled = table.settle(review, &outcome);
        table.limit_kept(self.limits.kept_bytes);
        drop(table);
        self.changed.notify_one();
        settled
    }

    /// The outcome of the latest review of `path` in an unnamed session, if it is still kept.
    pub(crate) fn outcome(&self, session: &SessionId, path: &str) -> Option<Outcome> {
        let event = self.kept_event(session, path)?;
        Some(Outcome::from_event(&event)) // which may be long: without the lock
    }

    fn kept_event(&self, session: &SessionId, path: &str) -> Option<Arc<str>> {
        let table = self.table();
        let session = table.sessions.get(session).filter(|session| session.is_unnamed)?;
        session.outbox.outcome_of(path).map(|decided| decided.text.clone())
    }
}

impl Table {
    /// Ends a review and queues its outcome for the session that owns it.
    pub(super) fn settle(&mut self, review: ReviewId, outcome: &Outcome) -> bool {
        let Some(ended) = self.reviews.end(review) else { return false };
        let Ended { id, owner, proposer, path, superseded } = ended;
        let Some(session) = self.sessions.get(&owner) else { return true };
        let (agent, is_unnamed) = (session.client.agent.clone(), session.is_unnamed);
        let has_readers = self.listeners.any_of(&agent);
        let event = (has_readers || is_unnamed)
            .then(|| notification_json(&Notification::outcome_event(&path, outcome)).into());
        if let Some(event) = &event {
            self.listeners.queue_outcome(&agent, event);
        }
        let name = session.proposals.of(&path);
        let meta = name.as_deref().map(|proposal| Meta { proposal });
        let text = match event.filter(|_| is_unnamed) {
            Some(event) => event,
            None => notification_json(&Notification::outcome(&path, outcome, meta)).into(),
        };
        let brief = Notification::brief_outcome(&path, outcome, meta)
            .filter(|_| owner == proposer && !is_unnamed)
            .map(|notification| notification_json(&notification).into());
        self.deliver(&owner, [Decided { review: id, proposer, path, text, brief, superseded }]);
        if let Some(session) = self.sessions.get_mut(&owner).filter(|_| is_unnamed) {
            session.last_used = Instant::now();
            if has_readers {
                session.outbox.mark_all_sent();
            }
        }
        true
    }

    /// Records that the client of a session proposes a change of `path`: it no longer awaits the
    /// outcomes of proposals in its earlier sessions.
    fn supersede(&mut self, id: &SessionId, path: &str) {
        let Some(session) = self.sessions.get(id) else { return };
        let earlier = self.sessions_where(|_, other| other.is_earlier_of(session));
        for other in earlier {
            self.reviews.supersede(&other, path);
            if let Some(other) = self.sessions.get_mut(&other) {
                other.outbox.supersede(path);
            }
        }
    }

    /// The bytes of messages that clients have not read.
    fn undelivered_bytes(&self) -> usize {
        self.sessions.values().map(|session| session.outbox.waiting_bytes()).sum()
    }

    /// Drops messages that are kept in case a stream breaks, the oldest ones of the least recently
    /// used sessions first, until all sessions together keep at most `limit` bytes.
    fn limit_kept(&mut self, limit: usize) {
        let mut sessions: Vec<_> =
            self.sessions.values_mut().filter(|session| session.outbox.kept_bytes() > 0).collect();
        sessions.sort_unstable_by_key(|session| session.last_used);
        let mut kept: usize = sessions.iter().map(|session| session.outbox.kept_bytes()).sum();
        for session in sessions {
            let before = session.outbox.kept_bytes();
            session.outbox.forget_kept(kept.saturating_sub(limit));
            kept -= before - session.outbox.kept_bytes();
        }
    }
}
