//! The bridge between the server's thread and Emacs's main thread.
//!
//! Events for Lisp go through a channel, which Lisp drains when its waker is called. A tool call that
//! needs Lisp waits here for its result. In the other direction Lisp calls `mcp::sessions` directly:
//! those calls are short and never block on the network, so they can report at once whether the
//! client was still connected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use tokio::sync::watch;

use crate::allowance::{Allowance, Quota};
use crate::host::Host;
use crate::ide::ReviewId;
use crate::limits::Limits;
use crate::lock::lock;

/// Messages of clients to the user that may be queued. More are dropped.
const MAX_WAITING_MESSAGES: usize = 64;
/// Trace events that may be queued. More are dropped.
const MAX_WAITING_TRACES: usize = 1000;

/// Identifies a tool call that waits for an answer of Lisp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub i64);

/// Identifies a wire to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireId(pub i64);

/// Why a wire has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum WireEnd {
    /// Its program could not be started.
    NotStarted(String),
    /// Its program has ended, with this status unless a signal has killed it.
    Exited(Option<i32>),
    /// The host has sent too much text.
    Flooded,
    /// The host has sent what is no frame.
    Broken,
    /// The host does not answer any more.
    Silent,
}

/// The result of a tool call that Lisp handles, or why it failed, in words for the client.
pub type CallResult = Result<Answer, String>;

/// Where that will be.
pub(crate) type Awaited = watch::Receiver<Option<CallResult>>;

/// What Lisp answers to a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of `closeDiff`, the final text of the review.
    pub text: Arc<String>,
    /// See `Outcome::Accepted`.
    pub may_omit: bool,
}

impl From<String> for Answer {
    fn from(text: String) -> Answer {
        Answer { text: text.into(), may_omit: false }
    }
}

/// The value of an argument of a tool for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are those of ArgumentKind")]
pub enum ArgumentValue {
    Text(String),
    Integer(i64),
    Flag(bool),
}

/// A message to Lisp.
#[allow(missing_docs, reason = "the comments on the variants name the fields")]
#[derive(Debug, PartialEq)]
pub enum Event {
    /// A client of `agent` proposes `content` for the file `path`. `client` describes it for the
    /// user; `info` is its name and version as it reports them; `process` is its process id where
    /// it is, if that is known and not shared with other clients.
    OpenReview {
        review: ReviewId,
        agent: String,
        client: String,
        info: (String, String),
        process: Option<u32>,
        path: String,
        content: String,
        /// Where the client and the file are, unless on this machine: `HostFile` came before.
        host: Option<Arc<Host>>,
        allowance: Arc<Allowance>,
    },
    /// A client on a host tells what a file there contains now.
    HostFile(HostFile),
    /// The review has ended without a decision of the user; `call` waits for its text.
    CloseReview { review: ReviewId, call: Option<CallId> },
    /// Which clients are connected, or where they work, has changed.
    ClientsChanged,
    /// `client` has answered a ping `after` this time.
    Pong { client: String, after: Duration },
    /// `client` has the message `text` for the user.
    Message { client: String, text: String },
    /// A client asks that the review be accepted or rejected; `call` waits for the answer.
    /// `directory` is where the client works, if that is known.
    DecideReview {
        review: ReviewId,
        accept: bool,
        call: CallId,
        directory: Option<String>,
        allowance: Arc<Allowance>,
    },
    /// A client wants the tools for the model, which Lisp has not registered.
    ToolsWanted,
    /// A model asks for `tool`, with `arguments` in the order in which Lisp has declared them;
    /// `call` waits for the answer. `directory` is where its client works, if that is known.
    CallTool {
        call: CallId,
        agent: String,
        tool: String,
        arguments: Vec<Option<ArgumentValue>>,
        directory: Option<String>,
        allowance: Arc<Allowance>,
    },
    /// Nobody waits for the answer to `call` any more, for which Lisp works.
    CancelCall { call: CallId },
    /// A message from or to the client of `session`, for the log.
    Trace { direction: Direction, session: String, text: String },
    /// The program of a wire, or the shell that it leads to, has written `line`.
    WireLine { wire: WireId, line: String },
    /// The keeper at the end of a wire has sent `message`, a JSON object.
    WireMessage { wire: WireId, message: String },
    /// The wire has ended, and Lisp has not ended it.
    WireEnded { wire: WireId, end: WireEnd },
    /// The thread of the server has died: `Companion::restart` starts another one.
    ServerDied,
    /// Something went wrong that the user may want to know.
    Warning(String),
}

impl Event {
    /// What limits the events of its client.
    fn allowance(&self) -> Option<&Allowance> {
        match self {
            Event::OpenReview { allowance, .. }
            | Event::DecideReview { allowance, .. }
            | Event::CallTool { allowance, .. } => Some(allowance),
            Event::HostFile(file) => Some(file.host.allowance()),
            _ => None,
        }
    }

    /// How many bytes its texts have, without names and the like, which are short.
    pub(crate) fn size(&self) -> usize {
        match self {
            Event::OpenReview { content, .. } => content.len(),
            Event::HostFile(file) => file.contents.size(),
            Event::CallTool { arguments, .. } => {
                let length = |argument: &Option<_>| match argument {
                    Some(ArgumentValue::Text(text)) => text.len(),
                    _ => 0,
                };
                arguments.iter().map(length).sum()
            }
            Event::Message { text, .. }
            | Event::Trace { text, .. }
            | Event::WireLine { line: text, .. }
            | Event::WireMessage { message: text, .. } => text.len(),
            _ => 0,
        }
    }
}

/// A file on a host, as a client there tells.
#[derive(Debug, PartialEq)]
pub struct HostFile {
    /// Where it is.
    pub host: Arc<Host>,
    /// Its name there.
    pub path: String,
    /// What it contains.
    pub contents: Contents,
    /// Changes when it is written; `None` if there is no file.
    pub stamp: Option<String>,
    /// When it was written, in seconds since 1970.
    pub modified: Option<i64>,
}

impl HostFile {
    /// Whether Emacs need not be told, since it can read the file itself.
    pub(crate) fn is_here(&self) -> bool {
        self.host.name_here(&self.path).is_some()
    }
}

/// What a file contains.
#[derive(Debug, PartialEq, Eq)]
pub enum Contents {
    /// There is no file.
    Missing,
    /// These bytes.
    Bytes(Vec<u8>),
    /// The client cannot tell.
    Unreadable,
}

impl Contents {
    /// The number of its bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Contents::Bytes(bytes) => bytes.len(),
            Contents::Missing | Contents::Unreadable => 0,
        }
    }
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    FromClient,
    /// Sent.
    ToClient,
}

/// The events for Lisp, and the tool calls that wait for it.
pub struct Bridge {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
    /// Limits on the events that wait for Lisp: see `quotas`. The number of others is bounded by
    /// these, or they are queued only once.
    bytes: Quota,
    messages: Quota,
    traces: Quota,
    lost_traces: AtomicUsize,
    /// An `Event::ClientsChanged` is queued; another one would be redundant.
    clients_queued: AtomicBool,
    /// Whether messages are logged.
    tracing: AtomicBool,
    /// Lisp has been woken since it last drained the queue.
    wake_pending: AtomicBool,
    waker: Mutex<Option<Waker>>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    last: i64,
    waiting: HashMap<CallId, watch::Sender<Option<CallResult>>>,
    /// The companion stops: Lisp will answer no more calls.
    over: bool,
}

impl Bridge {
    pub(crate) fn new(limits: &Limits) -> Bridge {
        let (sender, receiver) = unbounded();
        Bridge {
            sender,
            receiver,
            bytes: Quota::new(limits.queued_bytes),
            messages: Quota::new(MAX_WAITING_MESSAGES),
            traces: Quota::new(MAX_WAITING_TRACES),
            lost_traces: AtomicUsize::new(0),
            clients_queued: AtomicBool::new(false),
            tracing: AtomicBool::new(false),
            wake_pending: AtomicBool::new(false),
            waker: Mutex::new(None),
            calls: Mutex::default(),
        }
    }

    /// Whether all `events`, which are of one client, may be queued.
    pub(crate) fn has_room_for<'a>(&self, events: impl IntoIterator<Item = &'a Event>) -> bool {
        let events: Vec<&Event> = events.into_iter().collect();
        let bytes = events.iter().map(|event| event.size()).sum();
        let mut quotas = events.iter().flat_map(|event| self.quotas(event, events.len(), bytes));
        quotas.all(|(quota, amount)| quota.has_room_for(amount))
    }

    /// Queues an event unless too much is waiting. Returns whether it was queued.
    pub(crate) fn send_if_room(&self, event: Event) -> bool {
        let has_room = self.has_room_for([&event]);
        if has_room {
            self.send(event);
        }
        has_room
    }

    /// Queues an event for Lisp and wakes it up.
    pub(crate) fn send(&self, event: Event) {
        if event == Event::ClientsChanged && self.clients_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        for (quota, amount) in self.quotas(&event, 1, event.size()) {
            quota.add(amount);
        }
        // Cannot fail: this bridge owns a receiver.
        let _ = self.sender.send(event);
        self.wake_lisp();
    }

    /// Turns the logging of messages on or off.
    pub fn set_tracing(&self, on: bool) {
        self.tracing.store(on, Ordering::Relaxed);
    }

    /// Queues a message for the log if that is wanted. Only then `message` is called, which returns the
    /// key of the session and the text.
    pub(crate) fn trace(&self, direction: Direction, message: impl FnOnce() -> (String, String)) {
        if !self.tracing.load(Ordering::Relaxed) {
            return;
        }
        if !self.traces.has_room_for(1) {
            self.lost_traces.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let lost = self.lost_traces.swap(0, Ordering::Relaxed);
        let (session, mut text) = message();
        if lost > 0 {
            text = format!("({lost} messages before this one are left out) {text}");
        }
        self.send(Event::Trace { direction, session, text });
    }

    /// The next event for Lisp. Called on Emacs's main thread until it returns `None`.
    pub fn next_event(&self) -> Option<Event> {
        // Before receiving, so that an event queued in between wakes Lisp again. That is no `store`: if
        // somebody has queued one and not woken Lisp, it must be seen here.
        self.wake_pending.swap(false, Ordering::AcqRel);
        let event = self.receiver.try_recv().ok()?;
        if event == Event::ClientsChanged {
            self.clients_queued.store(false, Ordering::Release);
        }
        for (quota, amount) in self.quotas(&event, 1, event.size()) {
            quota.remove(amount);
        }
        Some(event)
    }

    /// What that many `events`, all like `event` and of `bytes` in all, use of each quota.
    fn quotas<'a>(
        &'a self,
        event: &'a Event,
        events: usize,
        bytes: usize,
    ) -> impl Iterator<Item = (&'a Quota, usize)> {
        let kind = match event {
            Event::Message { .. } => Some((&self.messages, events)),
            Event::Trace { .. } => Some((&self.traces, events)),
            _ => None,
        };
        let own = event.allowance();
        let own = own.map(|own| [(&own.events, events), (&own.event_bytes, bytes)]);
        [(&self.bytes, bytes)].into_iter().chain(kind).chain(own.into_iter().flatten())
    }

    /// Registers a tool call that waits for Lisp.
    pub(crate) fn call(&self) -> (CallId, Awaited) {
        let (sender, receiver) = watch::channel(None);
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

    /// Ends all current and future tool calls without an answer.
    pub(crate) fn end_calls(&self) {
        let mut calls = lock(&self.calls);
        calls.over = true;
        calls.waiting.clear();
    }

    /// Stops waiting for the answer to `call`. Returns whether Lisp had not answered it yet.
    pub(crate) fn give_up(&self, call: CallId) -> bool {
        lock(&self.calls).waiting.remove(&call).is_some()
    }

    /// Passes Lisp's answer to the waiting tool call, if it still waits.
    pub fn answer(&self, call: CallId, answer: Result<impl Into<Answer>, String>) -> bool {
        let waiting = lock(&self.calls).waiting.remove(&call);
        let is_passed = waiting.is_some_and(|it| it.send(Some(answer.map(Into::into))).is_ok());
        std::thread::yield_now(); // see `Sessions::decide`
        is_passed
    }

    /// Whether `call` still waits for its answer.
    pub fn is_awaited(&self, call: CallId) -> bool {
        lock(&self.calls).waiting.get(&call).is_some_and(|waiting| !waiting.is_closed())
    }

    /// From now on, wakes Lisp by `waker`, or not at all. Lisp drains the queue once afterwards.
    pub fn set_waker(&self, waker: Option<Waker>) {
        *lock(&self.waker) = waker;
        self.wake_pending.swap(false, Ordering::AcqRel);
    }

    fn wake_lisp(&self) {
        if self.wake_pending.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proposal with so many bytes.
    fn proposal(allowance: &Arc<Allowance>, bytes: usize) -> Event {
        Event::OpenReview {
            review: ReviewId(1),
            agent: String::new(),
            client: String::new(),
            info: Default::default(),
            process: None,
            path: String::new(),
            content: "x".repeat(bytes),
            host: None,
            allowance: allowance.clone(),
        }
    }

    #[test]
    fn what_waits_for_emacs_is_bounded_for_each_agent_and_for_all() {
        let limits = Limits {
            queued_bytes: 150,
            share_queued_bytes: 100,
            share_events: 3,
            ..Limits::default()
        };
        let bridge = Bridge::new(&limits);
        let [one, other] = [(); 2].map(|()| Arc::new(Allowance::new(&limits)));
        assert!(!bridge.send_if_room(proposal(&one, 101)));
        assert!(bridge.send_if_room(proposal(&one, 100)));
        assert!(!bridge.send_if_room(proposal(&one, 1)));
        assert!(!bridge.send_if_room(proposal(&other, 51)));
        assert!(bridge.send_if_room(proposal(&other, 50)));
        bridge.next_event();
        assert!(!bridge.has_room_for(&[proposal(&one, 50), proposal(&one, 51)]));
        assert!(bridge.has_room_for(&[proposal(&one, 50), proposal(&one, 50)]));
        for _ in 0..3 {
            assert!(bridge.send_if_room(proposal(&one, 0)));
        }
        assert!(!bridge.send_if_room(proposal(&one, 0)));
        assert!(bridge.send_if_room(proposal(&other, 0)));
    }

    #[test]
    fn client_events_are_queued_once() {
        let bridge = Bridge::new(&Limits::default());
        bridge.send(Event::ClientsChanged);
        bridge.send(Event::ClientsChanged);
        assert_eq!(bridge.next_event(), Some(Event::ClientsChanged));
        assert_eq!(bridge.next_event(), None);
        bridge.send(Event::ClientsChanged);
        assert_eq!(bridge.next_event(), Some(Event::ClientsChanged));
    }

    #[test]
    fn messages_are_queued_for_the_log_on_demand_and_within_bounds() {
        let bridge = Bridge::new(&Limits::default());
        let trace = |text: &str| {
            bridge.trace(Direction::FromClient, || ("s".to_owned(), text.to_owned()));
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
    fn a_late_or_repeated_answer_is_discarded() {
        let bridge = Bridge::new(&Limits::default());
        let (call, receiver) = bridge.call();
        assert!(bridge.answer(call, Ok("text".to_owned())));
        assert_eq!(*receiver.borrow(), Some(Ok("text".to_owned().into())));
        assert!(!bridge.answer(call, Ok("again".to_owned())));
        let (call, receiver) = bridge.call();
        drop(receiver);
        assert!(!bridge.answer(call, Ok("late".to_owned())));
    }

    #[test]
    fn a_call_after_the_end_does_not_wait() {
        let bridge = Bridge::new(&Limits::default());
        bridge.end_calls();
        let (call, answer) = bridge.call();
        assert!(answer.has_changed().is_err());
        assert!(!bridge.is_awaited(call));
    }
}
