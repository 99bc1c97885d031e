//! How sessions end: at the wish of their client, of the user, of Emacs, or by the clock.

use std::time::Duration;

use tokio::time::Instant;

use super::Sessions;
use super::table::Table;
use crate::agent::Agent;
use crate::ide::Outcome;
use crate::mcp::client::{Peer, SessionId};
use crate::mcp::session::{LOOK_AGAIN, STREAM_GRACE, Session};

/// With many clients something changes all the time; one look is for all that changed meanwhile.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

impl Sessions {
    /// Ends a session at its client's wish. Its reviews are closed. False if there is none.
    pub fn close(&self, id: &str, agent: &Agent) -> bool {
        let mut table = self.table();
        let Some((id, _)) = table.find(id, agent) else { return false };
        table.disown_earlier(&id);
        self.remove(&mut table, &id);
        true
    }

    /// Forgets sessions whose client went away without a word. Sleeps while there is none.
    pub async fn expire_forever(&self) {
        loop {
            let next = self.expire(Instant::now());
            match next {
                None => self.changed.notified().await,
                Some(deadline) => tokio::select! {
                    () = tokio::time::sleep_until(deadline) => {}
                    () = self.changed.notified() => {}
                },
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Forgets what is due at `now`. Returns when to look again.
    pub(super) fn expire(&self, now: Instant) -> Option<Instant> {
        let mut table = self.table();
        for id in table.sessions_where(|_, session| session.is_dead()) {
            self.remove(&mut table, &id);
        }
        self.hand_on(&mut table, now);
        for id in table.sessions_where(|_, session| !session.may_return(now)) {
            self.close_reviews_of(&mut table, &id);
        }
        let idle = table.sessions_where(|id, session| {
            table.idle_until(id, session).is_some_and(|until| until <= now) && !table.is_owed(id)
        });
        for id in idle {
            self.remove(&mut table, &id);
        }
        self.announce(&mut table, now);
        table.next_deadline(now)
    }

    /// Before the server stops: rejects open reviews, and lets the streams end properly.
    pub fn end_all(&self) {
        let mut table = self.table();
        for review in table.reviews.all() {
            table.settle(review, &Outcome::Rejected);
        }
        // There is no time left to come back in.
        self.hand_on(&mut table, Instant::now() + STREAM_GRACE);
        table.ending = true;
        self.published.notify_waiters(); // no context will come
        table.listeners.wake();
        table.sessions.values_mut().for_each(Session::wake);
    }
}

impl Table {
    /// When to forget a session, unless it is used before. While a review of an unnamed one is open
    /// nothing tells that its client is gone, if that does not listen.
    fn idle_until(&self, id: &SessionId, session: &Session) -> Option<Instant> {
        let waits = session.is_unnamed && !self.reviews.of(id).is_empty();
        session.idle_until().filter(|_| !waits)
    }

    /// Whether a living client waits for something that this session has not heard.
    fn is_owed(&self, id: &SessionId) -> bool {
        let session = &self.sessions[id];
        matches!(&session.peer, Peer::Client(process) if process.is_alive())
            && (session.outbox.has_outcome() || !self.reviews.of(id).is_empty())
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let idle = self.sessions.iter().filter_map(|(id, session)| self.idle_until(id, session));
        let gone = self.sessions.values().filter_map(Session::gone_at).filter(|gone| *gone > now);
        let recognised = |session: &&Session| session.peer.process().is_some() && session.is_lost();
        let look = self.sessions.values().filter(recognised).map(|_| now + LOOK_AGAIN);
        // What is due and stays, for its client is owed something, is looked at again later.
        idle.chain(gone).map(|due| due.max(now + LOOK_AGAIN)).chain(look).min()
    }
}
