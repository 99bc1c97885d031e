//! Reviews of sessions, from the proposal to the delivery of the outcome.

use super::table::Table;
use super::{STOPPING, Sessions};
use crate::bridge::{CallId, Event, HostFile};
use crate::ide::{Outcome, ReviewId};
use crate::mcp::client::SessionId;
use crate::mcp::endings::LastText;
use crate::mcp::message::truncate;
use crate::mcp::outbox::{Decided, Form};
use crate::mcp::reviews::Review;
use crate::mcp::session::Session;
use crate::place::Place;
use tokio::time::Instant;

// Why a review cannot be opened or decided, in words for the client.
pub const BUSY: &str = "Emacs is busy: ask again later";
const UNREAD: &str = "too many outcomes wait for you: open your event stream and read them";
const OPEN: &str = "too many diffs wait for the user: decide some of them first";

impl Sessions {
    /// Opens a review and notifies Lisp. Replaces an open review of the same file and session. The
    /// file has `bytes_now` bytes, all of which Emacs reads.
    ///
    /// For a file on a host, `on_host` is what its client tells of it, which Lisp is told first, and what
    /// it calls the proposal. Nothing happens if the newest review of the file has the same name: its
    /// client repeats itself.
    pub(crate) fn open_review(
        &self,
        session: &SessionId,
        path: String,
        content: String,
        bytes_now: usize,
        on_host: Option<(HostFile, &str)>,
    ) -> Result<(), &'static str> {
        let mut table = self.table();
        let (file, name) = on_host.unzip();
        if name.is_some_and(|name| table.is_last_proposal(session, &path, name)) {
            return Ok(());
        }
        if table.ending {
            return Err(STOPPING); // no outcome could be delivered any more
        }
        let entry = table.sessions.get_mut(session).ok_or("the session has ended")?;
        let mut proposal = Event::OpenReview {
            review: ReviewId(0),
            agent: entry.client.agent.name.clone(),
            client: entry.client.describe(),
            info: (entry.client.name.clone(), entry.client.version.clone()),
            process: entry.own_process_id(),
            path: path.clone(),
            content,
            host: file.as_ref().map(|file| file.host.clone()),
            allowance: entry.allowance().clone(),
        };
        entry.endings.forget(&path);
        entry.outbox.forget_outcomes_of(&path);
        if entry.outbox.is_full() {
            return Err(UNREAD);
        }
        let bytes = proposal.size() + bytes_now;
        let told = file.filter(|file| !file.is_here()).map(Event::HostFile);
        if !(self.has_room_for_review(&table, session, &path, bytes)
            && self.bridge.has_room_for(told.iter().chain([&proposal])))
        {
            return Err(OPEN);
        }
        let (id, older) = table.reviews.open(session, &path, name.map(Into::into), bytes);
        self.notify_closed(older);
        if let Some(file) = told {
            self.bridge.send(file);
        }
        if let Event::OpenReview { review, .. } = &mut proposal {
            *review = id;
        }
        self.bridge.send(proposal);
        Ok(())
    }

    /// Whether a review of `path` with so many bytes may be opened, in place of the one there is.
    fn has_room_for_review(
        &self,
        table: &Table,
        session: &SessionId,
        path: &str,
        bytes: usize,
    ) -> bool {
        let limits = &self.limits;
        let others: Vec<_> =
            table.reviews.all().filter(|other| !other.is_of(session, path)).collect();
        let allowance = |id| table.sessions.get(id).map(Session::allowance);
        let is_own = |id| allowance(id) == allowance(session);
        let own = others.iter().filter(|other| is_own(&other.owner));
        let unread = table.sessions.iter().filter(|(id, _)| is_own(id));
        let unread: usize = unread.map(|(_, other)| other.outbox.undelivered_bytes()).sum();
        let bytes_of_all: usize = others.iter().map(|other| other.bytes).sum();
        let bytes_of_own: usize = own.clone().map(|other| other.bytes).sum();
        others.len() < limits.reviews
            && bytes_of_all + bytes <= limits.review_bytes
            && own.count() < limits.share_reviews
            && bytes_of_own + unread + bytes <= limits.share_review_bytes
    }

    /// Closes a review, as its client wishes. Unless `silent`, the session is notified that the review
    /// was rejected. Returns the final text, for which Lisp is asked, or what is known of the last
    /// review of the file.
    pub(crate) fn close_review(
        &self,
        session: &SessionId,
        path: &str,
        silent: bool,
    ) -> Option<LastText> {
        let mut table = self.table();
        if table.reviews.find(session, path).is_none() {
            self.hand_over_to(&mut table, session, path);
        }
        let Some(review) = table.reviews.find(session, path) else {
            let kept_time = self.limits.kept_time;
            return table.sessions.get(session)?.endings.last_text(path, kept_time).cloned();
        };
        let (review, by_proposer) = (review.id, review.owner == review.proposer);
        let ended = if silent {
            table.reviews.end(review)
        } else {
            table.settle(review, &Outcome::Rejected)
        };
        let (call, answer) = self.bridge.call();
        let last = LastText::Closed { answer, by_proposer };
        let Review { path, name, .. } = ended?;
        table.sessions.get_mut(session)?.endings.add(path, name, last.clone());
        table.limit_kept(self.limits.kept_bytes);
        self.bridge.send(Event::CloseReview { review, call: Some(call) });
        drop(table);
        self.changed.notify_one();
        Some(last)
    }

    /// Asks Lisp to decide a review in place of the user, for the client that proposed it, which
    /// works in `place`.
    pub(crate) fn request_decision(
        &self,
        session: &SessionId,
        path: &str,
        accept: bool,
        call: CallId,
        place: Place,
    ) -> Result<(), String> {
        let mut table = self.table();
        let review = table.reviews.find(session, path).ok_or_else(|| not_open(path))?.id;
        let entry = table.sessions.get(session).ok_or_else(|| not_open(path))?;
        let directory = place.directory().map(str::to_owned);
        let allowance = entry.allowance().clone();
        let event = Event::DecideReview { review, accept, call, directory, allowance };
        if !self.bridge.has_room_for([&event]) {
            return Err(BUSY.to_owned()); // events of cancelled calls may still be queued
        }
        if !table.reviews.begin_decision(review, call, |call| self.bridge.is_awaited(call)) {
            return Err("this diff is being decided already".to_owned());
        }
        self.bridge.send(event);
        Ok(())
    }

    /// Reports the user's decision to the session that owns the review. Returns false if the review
    /// is not open.
    pub fn decide(&self, review: ReviewId, outcome: Outcome) -> bool {
        let mut table = self.table();
        let settled = table.settle(review, &outcome).is_some();
        table.limit_kept(self.limits.kept_bytes);
        drop(table);
        self.changed.notify_one();
        // Emacs goes on working, perhaps on the only processor for the server's thread.
        std::thread::yield_now();
        settled
    }
}

pub fn not_open(path: &str) -> String {
    format!("no diff of {} is open", truncate(path))
}

impl Table {
    /// Ends a review and queues its outcome for the session that owns it. None if it has ended.
    pub(super) fn settle(&mut self, review: ReviewId, outcome: &Outcome) -> Option<Review> {
        let ended = self.reviews.end(review)?;
        let Review { id, owner, proposer, path, name, .. } = &ended;
        let Some(session) = self.sessions.get_mut(owner) else { return Some(ended) };
        let (agent, is_unnamed) = (session.client.agent.clone(), session.is_unnamed);
        let may_omit = matches!(outcome, Outcome::Accepted { may_omit: true, .. });
        let form = match owner == proposer && may_omit {
            _ if is_unnamed => Form::Event,
            true => Form::Brief,
            false => Form::Whole,
        };
        let last = match outcome {
            Outcome::Rejected => LastText::Rejected,
            Outcome::Accepted { content, .. } => {
                LastText::Accepted(Some(content.clone()).filter(|_| form != Form::Brief))
            }
        };
        session.endings.add(path.clone(), name.clone(), last);
        if is_unnamed {
            session.last_used = Instant::now();
        }
        let (path, name, outcome) = (path.clone(), name.clone(), outcome.clone());
        let decided = Decided { review: *id, path, name, outcome, form };
        let has_readers = self.listeners.of(&agent).next().is_some();
        self.listeners.queue_outcome(&agent, &decided);
        if !(is_unnamed && has_readers) {
            self.deliver(owner, [decided]);
        }
        Some(ended)
    }

    /// Drops messages that are kept in case a stream breaks, the oldest ones of the least recently
    /// used sessions first, until all sessions together keep at most `limit` bytes.
    fn limit_kept(&mut self, limit: usize) {
        let mut sessions: Vec<_> = self.sessions.values_mut().collect();
        sessions.sort_unstable_by_key(|session| session.last_used);
        let kept: usize = sessions.iter().map(|session| session.kept_bytes()).sum();
        sessions
            .into_iter()
            .fold(kept.saturating_sub(limit), |excess, session| session.forget_kept(excess));
    }
}
