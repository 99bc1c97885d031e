//! Readers of `GET /events`, the stream of document 004. They have no session: each is sent the
//! context of its place, and the outcomes of all reviews of its agent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::time::Instant;

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

struct Listener {
    number: u64,
    agent: Arc<Agent>,
    place: Place,
    begun: Instant,
    waiting: VecDeque<Event>,
    waker: Option<Waker>,
}

#[derive(Clone)]
enum Event {
    Context(Arc<str>),
    Outcome(Arc<str>),
}

impl Listeners {
    /// Adds a listener of `agent` in `place`, whose first event is `context` if there is one.
    /// Returns its number.
    pub fn add(&mut self, agent: Arc<Agent>, place: Place, context: Option<Arc<str>>) -> u64 {
        self.last += 1;
        let waiting = context.map(Event::Context).into_iter().collect();
        self.listeners.push(Listener {
            number: self.last,
            agent,
            place,
            begun: Instant::now(),
            waiting,
            waker: None,
        });
        self.last
    }

    /// Ends the stream of a listener, if it still exists.
    pub fn remove(&mut self, number: u64) {
        let Some(index) = self.listeners.iter().position(|it| it.number == number) else { return };
        if let Some(waker) = self.listeners.remove(index).waker {
            waker.wake();
        }
    }

    /// The number of each, its agent and place, and when it began.
    pub fn describe(&self) -> impl Iterator<Item = (u64, &Arc<Agent>, &Place, Instant)> {
        self.listeners.iter().map(|it| (it.number, &it.agent, &it.place, it.begun))
    }

    /// Whether there are listeners in `place`.
    pub fn any_in(&self, place: &Place) -> bool {
        self.listeners.iter().any(|listener| listener.place == *place)
    }

    pub fn count(&self) -> usize {
        self.listeners.len()
    }

    /// Whether there is a listener of `agent`.
    pub fn any_of(&self, agent: &Agent) -> bool {
        self.count_of(agent) > 0
    }

    pub fn count_of(&self, agent: &Agent) -> usize {
        self.listeners.iter().filter(|listener| *listener.agent == *agent).count()
    }

    /// Queues a context for the listeners in `place`, replacing one that waits.
    pub fn queue_context(&mut self, place: &Place, message: &Arc<str>) {
        for listener in self.listeners.iter_mut().filter(|it| it.place == *place) {
            listener.waiting.retain(|event| !matches!(event, Event::Context(_)));
            listener.queue(Event::Context(message.clone()));
        }
    }

    /// Queues the outcome of a review for the listeners of `agent`.
    pub fn queue_outcome(&mut self, agent: &Agent, message: &Arc<str>) {
        for listener in self.listeners.iter_mut().filter(|it| *it.agent == *agent) {
            listener.queue(Event::Outcome(message.clone()));
        }
    }

    /// Queues an outcome for one listener, which connected after the decision.
    pub fn queue_outcome_for(&mut self, number: u64, outcome: Arc<str>) {
        if let Some(listener) = self.listeners.iter_mut().find(|it| it.number == number) {
            listener.queue(Event::Outcome(outcome));
        }
    }

    /// The next message for a listener; `None` if the listener was removed.
    pub fn poll(&mut self, number: u64, waker: &Waker) -> Poll<Option<Arc<str>>> {
        let Some(listener) = self.listeners.iter_mut().find(|it| it.number == number) else {
            return Poll::Ready(None);
        };
        match listener.waiting.pop_front() {
            Some(event) => Poll::Ready(Some(event.text().clone())),
            None => {
                listener.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Wakes all listeners.
    pub fn wake(&mut self) {
        self.listeners
            .iter_mut()
            .filter_map(|listener| listener.waker.take())
            .for_each(Waker::wake);
    }

    /// Ends all streams properly.
    pub fn end(&mut self) {
        self.wake();
        self.listeners.clear();
    }
}

impl Listener {
    fn queue(&mut self, event: Event) {
        self.waiting.push_back(event);
        let bytes = |waiting: &VecDeque<Event>| -> usize {
            waiting.iter().map(|event| event.text().len()).sum()
        };
        while self.waiting.len() > MAX_WAITING
            || (self.waiting.len() > 1 && bytes(&self.waiting) > MAX_WAITING_BYTES)
        {
            self.waiting.pop_front();
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Event {
    fn text(&self) -> &Arc<str> {
        match self {
            Event::Context(text) | Event::Outcome(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::agent::tests::agent;

    /// Counts how often the server would poll a stream again.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Wakes {
        /// How often since the last call of this function.
        fn count(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    impl Listeners {
        fn exists(&self, number: u64) -> bool {
            self.describe().any(|(other, ..)| other == number)
        }
    }

    fn received(listeners: &mut Listeners, number: u64) -> Vec<String> {
        let next = || match listeners.poll(number, Waker::noop()) {
            Poll::Ready(Some(text)) => Some(text.to_string()),
            _ => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn each_listener_receives_all_outcomes_and_the_latest_context() {
        let mut listeners = Listeners::default();
        let gemini = Arc::new(agent("gemini"));
        let one = listeners.add(gemini.clone(), Place::Unknown, Some("c1".into()));
        let other = listeners.add(gemini.clone(), Place::Unknown, None);
        listeners.queue_outcome(&gemini, &"o1".into());
        listeners.queue_outcome(&agent("qwen"), &"o2".into());
        listeners.queue_context(&Place::Unknown, &"c2".into());
        listeners.queue_context(&Place::Unknown, &"c3".into());
        assert_eq!(received(&mut listeners, one), ["o1", "c3"]);
        assert_eq!(received(&mut listeners, other), ["o1", "c3"]);
        listeners.remove(one);
        assert_eq!(listeners.count(), 1);
        assert!(matches!(listeners.poll(one, Waker::noop()), Poll::Ready(None)));
    }

    #[test]
    fn a_stalled_listener_misses_the_oldest_events() {
        let mut listeners = Listeners::default();
        let gemini = Arc::new(agent("gemini"));
        let number = listeners.add(gemini.clone(), Place::Unknown, None);
        for outcome in 0..MAX_WAITING + 2 {
            listeners.queue_outcome(&gemini, &outcome.to_string().into());
        }
        let received = received(&mut listeners, number);
        assert_eq!((received.len(), received[0].as_str()), (MAX_WAITING, "2"));
    }

    #[test]
    fn bytes_kept_for_a_stalled_listener_are_limited() {
        let mut listeners = Listeners::default();
        let gemini = Arc::new(agent("gemini"));
        let number = listeners.add(gemini.clone(), Place::Unknown, None);
        let half: Arc<str> = "x".repeat(32 << 20).into();
        listeners.queue_outcome(&gemini, &half);
        listeners.queue_outcome(&gemini, &half);
        assert_eq!(received(&mut listeners, number).len(), 2);
        listeners.queue_outcome(&gemini, &half);
        listeners.queue_outcome(&gemini, &half);
        listeners.queue_outcome(&gemini, &"o".into());
        assert_eq!(received(&mut listeners, number).len(), 2);
        // The last one is kept, however long it is.
        listeners.queue_outcome(&gemini, &"x".repeat((64 << 20) + 1).into());
        assert_eq!(received(&mut listeners, number).len(), 1);
    }

    #[test]
    fn a_waiting_listener_is_woken_by_each_change() {
        let mut listeners = Listeners::default();
        let gemini = Arc::new(agent("gemini"));
        let [one, other] = [(); 2].map(|()| listeners.add(gemini.clone(), Place::Unknown, None));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let changes: [&dyn Fn(&mut Listeners); 5] = [
            &|listeners| listeners.queue_context(&Place::Unknown, &"c".into()),
            &|listeners| listeners.queue_outcome(&gemini, &"o".into()),
            &|listeners| listeners.wake(),
            &|listeners| listeners.remove(one),
            &|listeners| listeners.end(),
        ];
        for (change, expected) in changes.into_iter().zip([2, 2, 2, 1, 1]) {
            for number in [one, other] {
                while listeners.poll(number, &waker).is_ready() && listeners.exists(number) {}
            }
            change(&mut listeners);
            assert_eq!(wakes.count(), expected);
        }
        assert_eq!(listeners.count(), 0);
    }

    #[test]
    fn listeners_are_described() {
        let mut listeners = Listeners::default();
        let gemini = listeners.add(Arc::new(agent("gemini")), Place::Unknown, None);
        let qwen = listeners.add(Arc::new(agent("qwen")), Place::Unknown, None);
        let described = listeners.describe().map(|(number, agent, ..)| (number, &*agent.name));
        assert!(described.eq([(gemini, "gemini"), (qwen, "qwen")]));
        assert_eq!(listeners.count(), 2);
    }
}
