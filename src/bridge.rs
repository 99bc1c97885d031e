//! The crossing between the server's thread and Emacs's main thread.
//!
//! Events to Lisp go over a crossbeam channel, which Lisp drains; a bell (one byte on a pipe)
//! makes that prompt. A tool call that needs Lisp waits here for its answer. In the other
//! direction Lisp calls straight into `mcp::session`: those calls are short, never block on the
//! network, and can so tell at once whether somebody was still there to hear.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use tokio::sync::oneshot;

use crate::ide::ReviewId;
use crate::lock::lock;
use crate::quota::Quota;

/// Proposals that may wait for a busy Emacs, in number and bytes of content. More are refused;
/// every other event is bounded by these or held once.
const MAX_WAITING_PROPOSALS: usize = 256;
const MAX_WAITING_BYTES: usize = 256 << 20;
/// Decisions that clients ask for that may wait. More are refused.
const MAX_WAITING_DECISIONS: usize = 256;
/// What clients say to the user that may wait. More is left out.
const MAX_WAITING_WORDS: usize = 64;
/// Messages that may wait to be logged. More are left out.
const MAX_WAITING_TRACES: usize = 1000;

/// Our key for the answer to one tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub i64);

/// What Lisp answers to a tool call.
pub type Answer = Result<Answered, NoAnswer>;

#[derive(Debug, PartialEq, Eq)]
pub struct Answered {
    pub text: String,
    /// See `Outcome::Accepted`.
    pub may_omit: bool,
}

/// Why Lisp has no text, for whoever asked.
#[derive(Debug, PartialEq, Eq)]
pub struct NoAnswer(pub String);

impl From<String> for Answered {
    fn from(text: String) -> Answered {
        Answered { text, may_omit: false }
    }
}

/// One message to Lisp.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A client of `agent` proposes `content` for the file `path`. `client` is for the user, `info`
    /// its name and version as it says them, `process` its id, if it has a known one of its own.
    OpenReview {
        review: ReviewId,
        agent: String,
        client: String,
        info: (String, String),
        process: Option<u32>,
        path: String,
        content: String,
    },
    /// The review is over without the user; `call` waits for its text.
    CloseReview { review: ReviewId, call: Option<CallId> },
    /// The number of sessions changed.
    Clients,
    /// A client that was asked for a sign of life gave one.
    Pong { client: String, after: Duration },
    /// A client has something to say to the user.
    Said { client: String, text: String },
    /// The user shall have accepted or rejected the review; `call` waits for that.
    /// `directory` is where the client works, if that is known.
    DecideReview { review: ReviewId, accept: bool, call: CallId, directory: Option<String> },
    /// A message of `session`, for the log.
    Trace { direction: Direction, session: String, text: String },
    /// The server's thread has ended by itself.
    Died,
    /// Something went wrong that the user may want to know.
    Warning(String),
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    FromClient,
    ToClient,
}

pub struct Bridge {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
    /// What waits for Lisp, where that has a bound: see `quotas`.
    proposals: Quota,
    proposal_bytes: Quota,
    decisions: Quota,
    words: Quota,
    traces: Quota,
    lost_traces: AtomicUsize,
    /// An `Event::Clients` is queued: the next one would say the same.
    clients_queued: AtomicBool,
    /// The user wants to see the messages.
    tracing: AtomicBool,
    /// The bell was rung since Lisp last drained.
    rung: AtomicBool,
    bell: Mutex<Option<Bell>>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    last: i64,
    waiting: HashMap<CallId, oneshot::Sender<Answer>>,
    /// Lisp answers nothing any more.
    over: bool,
}

impl Bridge {
    pub fn new() -> Bridge {
        let (sender, receiver) = unbounded();
        Bridge {
            sender,
            receiver,
            proposals: Quota::new(MAX_WAITING_PROPOSALS),
            proposal_bytes: Quota::new(MAX_WAITING_BYTES),
            decisions: Quota::new(MAX_WAITING_DECISIONS),
            words: Quota::new(MAX_WAITING_WORDS),
            traces: Quota::new(MAX_WAITING_TRACES),
            lost_traces: AtomicUsize::new(0),
            clients_queued: AtomicBool::new(false),
            tracing: AtomicBool::new(false),
            rung: AtomicBool::new(false),
            bell: Mutex::new(None),
            calls: Mutex::default(),
        }
    }

    /// Whether a proposal of `bytes` may be queued for Emacs.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.proposals.has_room_for(1) && self.proposal_bytes.has_room_for(bytes)
    }

    /// Whether Emacs may be asked for one more decision.
    pub fn has_room_for_decision(&self) -> bool {
        self.decisions.has_room_for(1)
    }

    /// Queues an event for Lisp and rings the bell.
    pub fn send(&self, event: Event) {
        if event == Event::Clients && self.clients_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        for (quota, amount) in self.quotas(&event) {
            quota.add(amount);
        }
        // Cannot fail: this bridge owns a receiver.
        let _ = self.sender.send(event);
        self.ring();
    }

    /// Queues what a client says to the user, unless so much waits that nobody would read it.
    pub fn say(&self, client: String, text: String) {
        if self.words.has_room_for(1) {
            self.send(Event::Said { client, text });
        }
    }

    /// Begins to queue the messages of clients for the log, or ceases.
    pub fn set_tracing(&self, on: bool) {
        self.tracing.store(on, Ordering::Relaxed);
    }

    pub fn is_tracing(&self) -> bool {
        self.tracing.load(Ordering::Relaxed)
    }

    /// Queues a message for the log, if the user wants to see it. `text` is made only then.
    pub fn trace(&self, direction: Direction, session: &str, text: impl FnOnce() -> String) {
        if !self.is_tracing() {
            return;
        }
        if !self.traces.has_room_for(1) {
            self.lost_traces.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let lost = self.lost_traces.swap(0, Ordering::Relaxed);
        let mut text = text();
        if lost > 0 {
            text = format!("({lost} messages before this one are left out) {text}");
        }
        self.send(Event::Trace { direction, session: session.to_owned(), text });
    }

    /// The next event for Lisp. Called on Emacs's main thread until it returns `None`.
    pub fn next_event(&self) -> Option<Event> {
        // Before looking, so that an event queued in between rings again.
        self.rung.store(false, Ordering::Release);
        let event = self.receiver.try_recv().ok()?;
        if event == Event::Clients {
            self.clients_queued.store(false, Ordering::Release);
        }
        for (quota, amount) in self.quotas(&event) {
            quota.remove(amount);
        }
        Some(event)
    }

    /// What an event takes of which quotas while it waits.
    fn quotas(&self, event: &Event) -> impl Iterator<Item = (&Quota, usize)> {
        let (count, bytes) = match event {
            Event::OpenReview { content, .. } => {
                (Some(&self.proposals), Some((&self.proposal_bytes, content.len())))
            }
            Event::DecideReview { .. } => (Some(&self.decisions), None),
            Event::Said { .. } => (Some(&self.words), None),
            Event::Trace { .. } => (Some(&self.traces), None),
            _ => (None, None),
        };
        count.map(|quota| (quota, 1)).into_iter().chain(bytes)
    }

    /// Registers a tool call that waits for Lisp.
    pub fn call(&self) -> (CallId, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let mut calls = lock(&self.calls);
        // Calls that gave up waiting have dropped their receiver.
        calls.waiting.retain(|_, waiting| !waiting.is_closed());
        calls.last += 1;
        let id = CallId(calls.last);
        if !calls.over {
            calls.waiting.insert(id, sender);
        }
        (id, receiver)
    }

    /// Ends all tool calls that wait for Lisp, and those to come: they find that nobody will answer.
    pub fn end_calls(&self) {
        let mut calls = lock(&self.calls);
        calls.over = true;
        calls.waiting.clear();
    }

    /// Passes Lisp's answer to the waiting tool call, if it still waits.
    pub fn answer(&self, call: CallId, answer: Result<impl Into<Answered>, NoAnswer>) -> bool {
        let waiting = lock(&self.calls).waiting.remove(&call);
        waiting.is_some_and(|waiting| waiting.send(answer.map(Into::into)).is_ok())
    }

    /// Whether somebody still waits for the answer to `call`.
    pub fn is_awaited(&self, call: CallId) -> bool {
        lock(&self.calls).waiting.get(&call).is_some_and(|waiting| !waiting.is_closed())
    }

    /// Makes `bell` the bell, or none. Lisp drains once afterwards.
    pub fn attach(&self, bell: impl Into<Option<Bell>>) {
        *lock(&self.bell) = bell.into();
        self.rung.store(false, Ordering::Release);
    }

    fn ring(&self) {
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(bell) = &*lock(&self.bell) {
            bell.ring();
        }
    }
}

/// The write end of Emacs's wake pipe.
pub struct Bell {
    #[cfg(unix)]
    descriptor: std::os::fd::OwnedFd,
}

#[cfg(unix)]
impl Bell {
    /// Takes over `descriptor`: not inherited by subprocesses, and never blocking.
    pub fn new(descriptor: std::os::fd::OwnedFd) -> std::io::Result<Bell> {
        use std::os::fd::AsRawFd;
        let raw = descriptor.as_raw_fd();
        // Safety: `raw` is open, `descriptor` owns it; fcntl changes flags only.
        let result = unsafe {
            libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC)
                | libc::fcntl(raw, libc::F_SETFL, libc::O_WRONLY | libc::O_NONBLOCK)
        };
        if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(Bell { descriptor }) }
    }

    fn ring(&self) {
        use std::os::fd::AsRawFd;
        let byte = b'!';
        // Safety: the descriptor is open and the buffer is one byte long. A full pipe (EAGAIN)
        // already has bytes for Emacs to wake up to; other errors mean that Emacs closed it.
        unsafe { libc::write(self.descriptor.as_raw_fd(), (&raw const byte).cast(), 1) };
    }
}

#[cfg(not(unix))]
impl Bell {
    fn ring(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(bytes: usize) -> Event {
        Event::OpenReview {
            review: ReviewId(1),
            agent: String::new(),
            client: String::new(),
            info: Default::default(),
            process: None,
            path: "/a".to_owned(),
            content: "x".repeat(bytes),
        }
    }

    #[test]
    fn proposals_that_wait_for_emacs_are_bounded() {
        let bridge = Bridge::new();
        assert!(bridge.has_room_for(MAX_WAITING_BYTES));
        bridge.send(proposal(1));
        assert!(!bridge.has_room_for(MAX_WAITING_BYTES));
        bridge.next_event();
        assert!(bridge.has_room_for(MAX_WAITING_BYTES));
        for _ in 0..MAX_WAITING_PROPOSALS {
            bridge.send(proposal(0));
        }
        assert!(!bridge.has_room_for(0));
    }

    #[test]
    fn client_events_are_queued_once() {
        let bridge = Bridge::new();
        bridge.send(Event::Clients);
        bridge.send(Event::Clients);
        assert_eq!(bridge.next_event(), Some(Event::Clients));
        assert_eq!(bridge.next_event(), None);
        bridge.send(Event::Clients);
        assert_eq!(bridge.next_event(), Some(Event::Clients));
    }

    #[test]
    fn messages_are_queued_for_the_log_on_demand_and_within_bounds() {
        let bridge = Bridge::new();
        let trace = |text: &str| {
            bridge.trace(Direction::FromClient, "s", || text.to_owned());
        };
        let next = || match bridge.next_event() {
            Some(Event::Trace { text, .. }) => Some(text),
            _ => None,
        };
        trace("unseen");
        assert_eq!(next(), None);
        bridge.set_tracing(true);
        for _ in 0..MAX_WAITING_TRACES + 2 {
            trace("x");
        }
        for _ in 0..MAX_WAITING_TRACES {
            assert_eq!(next().as_deref(), Some("x"));
        }
        assert_eq!(next(), None);
        trace("y");
        assert_eq!(next().as_deref(), Some("(2 messages before this one are left out) y"));
        bridge.set_tracing(false);
        trace("unseen");
        assert_eq!(next(), None);
    }

    #[test]
    fn a_late_or_repeated_answer_reaches_nobody() {
        let bridge = Bridge::new();
        let (call, mut receiver) = bridge.call();
        assert!(bridge.answer(call, Ok("text".to_owned())));
        assert_eq!(receiver.try_recv(), Ok(Ok("text".to_owned().into())));
        assert!(!bridge.answer(call, Ok("again".to_owned())));
        let (call, receiver) = bridge.call();
        drop(receiver);
        assert!(!bridge.answer(call, Ok("late".to_owned())));
    }
}
