//! The table of sessions, and the state that they share: open reviews, contexts, and readers of
//! `/events`. It knows neither the lock nor Emacs.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::agent::Agent;
use crate::ide::IdeContext;
use crate::mcp::client::SessionId;
use crate::mcp::listeners::Listeners;
use crate::mcp::outbox::{Decided, Outgoing};
use crate::mcp::reviews::Reviews;
use crate::mcp::session::{Session, Stream};
use crate::place::Place;

#[derive(Default)]
pub struct Table {
    pub sessions: HashMap<SessionId, Session>,
    pub reviews: Reviews,
    /// The latest context of each place where clients work. Lisp decides which belongs to which.
    pub contexts: HashMap<Place, IdeContext>,
    pub listeners: Listeners,
    /// The number of connected clients that Lisp was last notified of.
    pub announced: usize,
    /// The companion is stopping: streams end when they have sent what is queued.
    pub ending: bool,
}

impl Table {
    pub fn find(&mut self, id: &str, agent: &Agent) -> Option<(SessionId, &mut Session)> {
        let id = SessionId::from(id);
        let session = self.sessions.get_mut(&id)?;
        // One agent must not speak for another.
        if *session.client.agent != *agent {
            return None;
        }
        session.last_used = Instant::now();
        Some((id, session))
    }

    /// Whether the last proposal of `path` in a session is called `name`.
    pub fn is_last_proposal(&self, id: &SessionId, path: &str, name: &str) -> bool {
        let open = self.reviews.find(id, path).map(|review| &review.name);
        let ended = || Some(&self.sessions.get(id)?.endings.find(path)?.name);
        open.or_else(ended).is_some_and(|last| last.as_deref() == Some(name))
    }

    pub fn unnamed(&self, agent: &Agent) -> Option<SessionId> {
        let mut all = self.sessions.iter();
        let found = all.find(|(_, session)| session.is_unnamed && *session.client.agent == *agent);
        found.map(|(id, _)| id.clone())
    }

    pub fn sessions_where(&self, matches: impl Fn(&SessionId, &Session) -> bool) -> Vec<SessionId> {
        let found = self.sessions.iter().filter(|(id, session)| matches(id, session));
        found.map(|(id, _)| id.clone()).collect()
    }

    /// The session to remove in favor of a new one of `agent`: one that is not in use. Sessions
    /// that await nothing go first, and those of the same agent; those of other agents that await
    /// an outcome stay, and so do those that `counts` does not select.
    pub fn least_used(
        &self,
        agent: &Agent,
        counts: impl Fn(&Session) -> bool,
    ) -> Option<SessionId> {
        let unused =
            self.sessions.iter().filter(|(_, session)| session.is_idle() && counts(session));
        let ranked = unused.filter_map(|(id, session)| {
            let owed = session.outbox.waiting() > 0 || !self.reviews.of(id).is_empty();
            let own = *session.client.agent == *agent;
            (own || !owed).then_some((id, (owed, !own, session.last_used)))
        });
        ranked.min_by_key(|(_, rank)| *rank).map(|(id, _)| id.clone())
    }

    /// Notes whether there are listeners for unnamed sessions, which have them instead of a stream.
    pub fn update_unnamed_streams(&mut self) {
        for session in self.sessions.values_mut().filter(|session| session.is_unnamed) {
            if self.listeners.of(&session.client.agent).next().is_some() {
                session.stream = Stream::Events;
            } else if let Stream::Events = session.stream {
                session.stream = Stream::Lost { since: Instant::now() };
            }
        }
    }

    /// Drops all contexts, including those that wait for sessions that may come back.
    pub fn forget_context(&mut self) {
        self.contexts.clear();
        for session in self.sessions.values_mut() {
            session.outbox.forget_context();
        }
    }

    /// Queues outcomes for a session, except those that it would take for that of a newer review.
    pub fn deliver(&mut self, id: &SessionId, outcomes: impl IntoIterator<Item = Decided>) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        for decided in outcomes {
            if self.reviews.find(id, &decided.path).is_none_or(|open| open.id < decided.review) {
                session.push(Outgoing::Outcome(decided));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::agent;
    use crate::mcp::outbox::tests::accepted;

    /// A table with a session "one" of Gemini CLI.
    fn table() -> Table {
        let session = Session::unnamed(&agent("gemini").into());
        Table { sessions: HashMap::from([(SessionId::from("one"), session)]), ..Table::default() }
    }

    #[test]
    fn a_session_is_found_only_by_its_own_agent() {
        let mut table = table();
        assert!(table.find("one", &agent("gemini")).is_some());
        assert!(table.find("one", &agent("qwen")).is_none());
        assert!(table.find("other", &agent("gemini")).is_none());
    }

    #[test]
    fn an_outcome_is_not_delivered_while_a_newer_review_of_the_file_is_open() {
        let mut table = table();
        let id = SessionId::from("one");
        let (older, _) = table.reviews.open(&id, "/a", None, 0);
        let (newer, _) = table.reviews.open(&id, "/a", None, 0);
        let outcome = |review| Decided { path: "/a".into(), ..accepted(review, "text") };
        table.deliver(&id, [outcome(older)]);
        assert_eq!(table.sessions[&id].outbox.waiting(), 0);
        table.reviews.end(newer);
        table.deliver(&id, [outcome(newer)]);
        assert_eq!(table.sessions[&id].outbox.waiting(), 1);
    }
}
