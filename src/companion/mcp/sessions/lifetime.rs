//! How sessions end: closed by their client, expired, or with the companion.

use std::time::Duration;

use tokio::time::Instant;

use super::Sessions;
use super::table::Table;
use crate::host::Host;
use crate::ide::Outcome;
use crate::limits::Limits;
use crate::mcp::client::SessionId;
use crate::mcp::session::{RECHECK_INTERVAL, STREAM_GRACE, Session, Stream};
use crate::process::Process;

/// Between two checks: with many clients something changes all the time.
const MIN_EXPIRE_INTERVAL: Duration = Duration::from_millis(100);

impl Sessions {
    /// Ends a session, as its client wishes. Closes its reviews.
    pub(crate) fn close(&self, id: &SessionId) {
        self.remove(&mut self.table(), id);
    }

    /// Removes sessions whose clients have gone. Sleeps until a session can be due.
    pub(crate) async fn expire_forever(&self) {
        loop {
            let next = self.expire(Instant::now());
            match next {
                None => self.changed.notified().await,
                Some(deadline) => tokio::select! {
                    () = tokio::time::sleep_until(deadline) => {}
                    () = self.changed.notified() => {}
                },
            }
            tokio::time::sleep(MIN_EXPIRE_INTERVAL).await;
        }
    }

    /// Finds out anew when a session can be due.
    pub(crate) fn reschedule(&self) {
        self.changed.notify_one();
    }

    /// Removes what is due at `now`. Returns when to check again.
    pub(super) fn expire(&self, now: Instant) -> Option<Instant> {
        let mut table = self.table();
        for id in table.sessions_where(|_, session| session.is_dead()) {
            self.remove(&mut table, &id);
        }
        self.hand_over(&mut table, now);
        for id in table.sessions_where(|_, session| !session.may_return(now)) {
            self.close_reviews_of(&mut table, &id);
        }
        let idle = table.sessions_where(|id, session| {
            let until = table.idle_until(id, session, &self.limits);
            until.is_some_and(|until| until <= now) && !table.is_owed(id)
        });
        for id in idle {
            self.remove(&mut table, &id);
        }
        self.announce(&mut table, now);
        table.next_deadline(now, &self.limits)
    }

    /// Ends the sessions of clients on `host`, which is served no longer. Closes their reviews.
    pub(crate) fn leave(&self, host: &Host) {
        let mut table = self.table();
        host.close(); // a request to begin a session may be under way
        for id in table.sessions_where(|_, session| session.host() == Some(host)) {
            self.remove(&mut table, &id);
        }
    }

    /// Before the server stops: rejects open reviews, and lets the streams end properly.
    pub(crate) fn end_all(&self) {
        let mut table = self.table();
        let open: Vec<_> = table.reviews.all().map(|review| review.id).collect();
        for review in open {
            table.settle(review, &Outcome::Rejected);
        }
        // Lost sessions have no time left to come back.
        self.hand_over(&mut table, Instant::now() + STREAM_GRACE);
        table.ending = true;
        self.published.notify_waiters(); // no context will come
        table.listeners.wake();
        table.sessions.values_mut().for_each(Session::wake);
    }
}

impl Table {
    /// When to remove a session, unless it is used before. An unnamed one with an open review stays
    /// for `unnamed_time`: without a listener nothing shows whether its client is gone.
    fn idle_until(&self, id: &SessionId, session: &Session, limits: &Limits) -> Option<Instant> {
        let waits = session.is_unnamed && !self.reviews.of(id).is_empty();
        let until = session.idle_until(limits)?;
        Some(if waits { until.max(session.last_used + limits.unnamed_time) } else { until })
    }

    /// Whether a living client waits for something that this session has not been sent. One that has
    /// never opened a stream waits for nothing.
    fn is_owed(&self, id: &SessionId) -> bool {
        let session = &self.sessions[id];
        !matches!(session.stream, Stream::Never)
            && session.own_process().is_some_and(Process::is_alive)
            && (session.outbox.waiting() > 0 || !self.reviews.of(id).is_empty())
    }

    fn next_deadline(&self, now: Instant, limits: &Limits) -> Option<Instant> {
        let idle =
            self.sessions.iter().filter_map(|(id, session)| self.idle_until(id, session, limits));
        let gone = self.sessions.values().filter_map(Session::gone_at).filter(|gone| *gone > now);
        let recognized = |session: &&Session| session.process().is_some() && session.is_lost();
        let look = self.sessions.values().filter(recognized).map(|_| now + RECHECK_INTERVAL);
        // A session that is due, but whose client awaits something, is checked again later.
        idle.chain(gone).map(|due| due.max(now + RECHECK_INTERVAL)).chain(look).min()
    }
}
