//! Readers of `GET /events`, the stream of document 004. They have no session: each is sent the
//! context of its place, and the outcomes of all reviews of its agent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::time::Instant;

use super::outbox::{Decided, Form, Outgoing};
use crate::agent::Agent;
use crate::place::Place;

/// The most events that may wait for one reader. If it does not read, the oldest are dropped.
const MAX_WAITING: usize = 64;
const MAX_WAITING_BYTES: usize = 64 << 20;

#[derive(Default)]
pub struct Listeners {
    listeners: Vec<Listener>,
    last: u64,
}

/// When it is dropped, its stream ends.
pub struct Listener {
    pub number: u64,
    pub agent: Arc<Agent>,
    pub place: Place,
    pub begun: Instant,
    waiting: VecDeque<Outgoing>,
    waker: Option<Waker>,
}

impl Listeners {
    /// Adds a listener of `agent` in `place`, whose first event is `context` if there is one.
    /// Returns its number.
    pub fn add(&mut self, agent: Arc<Agent>, place: Place, context: Option<Arc<str>>) -> u64 {
        self.last += 1;
        let (number, begun) = (self.last, Instant::now());
        let waiting = context.map(Outgoing::Context).into_iter().collect();
        self.listeners.push(Listener { number, agent, place, begun, waiting, waker: None });
        number
    }

    pub fn remove(&mut self, number: u64) {
        self.listeners.retain(|listener| listener.number != number);
    }

    pub fn all(&self) -> &[Listener] {
        &self.listeners
    }

    pub fn of<'a>(&'a self, agent: &'a Agent) -> impl Iterator<Item = &'a Listener> {
        self.listeners.iter().filter(|listener| *listener.agent == *agent)
    }

    /// Queues a context for the listeners in `place`, replacing one that waits.
    pub fn queue_context(&mut self, place: &Place, message: &Arc<str>) {
        for listener in self.listeners.iter_mut().filter(|it| it.place == *place) {
            listener.waiting.retain(|event| !matches!(event, Outgoing::Context(_)));
            listener.queue(Outgoing::Context(message.clone()));
        }
    }

    /// Queues the outcome of a review for the listeners of `agent`.
    pub fn queue_outcome(&mut self, agent: &Agent, outcome: &Decided) {
        for listener in self.listeners.iter_mut().filter(|it| *it.agent == *agent) {
            listener.queue(Outgoing::Outcome(Decided { form: Form::Event, ..outcome.clone() }));
        }
    }

    /// Queues an outcome for one listener, which connected after the decision.
    pub fn queue_outcome_for(&mut self, number: u64, outcome: Outgoing) {
        if let Some(listener) = self.find(number) {
            listener.queue(outcome);
        }
    }

    /// The next message for a listener; `None` if the listener was removed.
    pub fn poll(&mut self, number: u64, waker: &Waker) -> Poll<Option<Outgoing>> {
        let Some(listener) = self.find(number) else { return Poll::Ready(None) };
        match listener.waiting.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None => {
                listener.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|listener| listener.number == number)
    }

    pub fn wake(&mut self) {
        self.listeners.iter_mut().for_each(Listener::wake);
    }

    /// Ends all streams properly.
    pub fn end(&mut self) {
        self.listeners.clear();
    }
}

impl Listener {
    fn queue(&mut self, event: Outgoing) {
        self.waiting.push_back(event);
        let bytes = |waiting: &VecDeque<Outgoing>| waiting.iter().map(Outgoing::len).sum::<usize>();
        while self.waiting.len() > MAX_WAITING
            || (self.waiting.len() > 1 && bytes(&self.waiting) > MAX_WAITING_BYTES)
        {
            self.waiting.pop_front();
        }
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::agent;
    use crate::ide::ReviewId;
    use crate::mcp::outbox::tests::{accepted, content};

    fn received(listeners: &mut Listeners, number: u64) -> Vec<String> {
        let next = || match listeners.poll(number, Waker::noop()) {
            Poll::Ready(Some(event)) => Some(content(event)),
            _ => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_stalled_listener_misses_the_oldest_events() {
        let mut listeners = Listeners::default();
        let gemini = Arc::new(agent("gemini"));
        let number = listeners.add(gemini.clone(), Place::Unknown, None);
        for outcome in 0..MAX_WAITING + 2 {
            listeners.queue_outcome(&gemini, &accepted(ReviewId(1), outcome.to_string()));
        }
        let received = received(&mut listeners, number);
        assert_eq!((received.len(), received[0].as_str()), (MAX_WAITING, "2"));
    }

    #[test]
    fn bytes_kept_for_a_stalled_listener_are_limited() {
        let mut listeners = Listeners::default();
        let gemini = Arc::new(agent("gemini"));
        let number = listeners.add(gemini.clone(), Place::Unknown, None);
        let half = accepted(ReviewId(1), "x".repeat(32 << 20));
        listeners.queue_outcome(&gemini, &half);
        listeners.queue_outcome(&gemini, &half);
        assert_eq!(received(&mut listeners, number).len(), 2);
        listeners.queue_outcome(&gemini, &half);
        listeners.queue_outcome(&gemini, &half);
        listeners.queue_outcome(&gemini, &accepted(ReviewId(1), "o"));
        assert_eq!(received(&mut listeners, number).len(), 2);
        // The last one is kept, however long it is.
        listeners.queue_outcome(&gemini, &accepted(ReviewId(1), "x".repeat((64 << 20) + 1)));
        assert_eq!(received(&mut listeners, number).len(), 1);
    }
}
