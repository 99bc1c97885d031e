//! One session: its outbox, its stream, its calls, and whether its client is still there.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

use super::client::{Client, Origin};
use super::endings::Endings;
use super::hello::Revision;
use super::message::Id;
use super::outbox::{Outbox, Outgoing};
use crate::agent::Agent;
use crate::allowance::Allowance;
use crate::host::Host;
use crate::limits::Limits;
use crate::place::Place;
use crate::process::Process;

/// A client counts as gone when its stream has been lost for this long: a live one reopens it after
/// a second or two. Its reviews are closed then, unless its process is known to live.
pub const STREAM_GRACE: Duration = Duration::from_secs(5);
/// How often to check whether the process of a client without a stream still lives.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The id of all our pings: each supersedes the one before.
pub const PING: &str = "ping";

pub struct Session {
    pub client: Client,
    /// The requests of its clients name no session: see `enter_unnamed`.
    pub is_unnamed: bool,
    /// Where its client came from. Its place determines which context it is sent.
    pub origin: Origin,
    pub revision: Revision,
    pub begun: Instant,
    /// When the ping was sent that it has not answered.
    pub pinged: Option<Instant>,
    pub outbox: Outbox,
    /// The client has asked for the active file, as document 003 says, and is told of changes.
    pub wants_active_file: bool,
    /// The client has asked for the tools.
    pub knows_tools: bool,
    pub stream: Stream,
    /// How many streams it has had.
    streams: u64,
    /// HTTP requests being answered.
    pub busy: usize,
    /// What cancels its calls, by their ids. Some may be over.
    calls: HashMap<Box<str>, oneshot::Sender<()>>,
    /// What requests about a diff of each path lock one after the other, in their order.
    pub turns: HashMap<Box<str>, Arc<Mutex<()>>>,
    /// How its last reviews have ended.
    pub endings: Endings,
    pub last_used: Instant,
}

pub enum Stream {
    /// The session has not opened one yet.
    Never,
    /// `number` distinguishes a stream from the one that replaced it.
    Open {
        number: u64,
        waker: Option<Waker>,
    },
    Lost {
        since: Instant,
    },
    /// The clients of an unnamed session read `/events` instead.
    Events,
}

impl Session {
    pub fn new(client: Client, revision: Revision, origin: Origin) -> Session {
        let now = Instant::now();
        Session {
            client,
            is_unnamed: false,
            origin,
            revision,
            begun: now,
            pinged: None,
            outbox: Outbox::default(),
            wants_active_file: false,
            knows_tools: false,
            stream: Stream::Never,
            streams: 0,
            busy: 0,
            calls: HashMap::new(),
            turns: HashMap::new(),
            endings: Endings::default(),
            last_used: now,
        }
    }

    pub fn unnamed(agent: &Arc<Agent>) -> Session {
        let (name, version) = (agent.title.clone(), String::new());
        let client = Client { agent: agent.clone(), name, version };
        Session { is_unnamed: true, ..Session::new(client, Revision::NEWEST, Origin::default()) }
    }

    /// What its client and others like it may use.
    pub fn allowance(&self) -> &Arc<Allowance> {
        &self.client.agent.allowance
    }

    /// Bytes that are kept in case the stream or the connection was broken.
    pub fn kept_bytes(&self) -> usize {
        self.outbox.kept_bytes() + self.endings.bytes()
    }

    /// Drops `excess` of these bytes, as far as possible. Returns how many remain to be dropped.
    pub fn forget_kept(&mut self, excess: usize) -> usize {
        let excess = self.endings.forget_texts(excess);
        self.outbox.forget_kept(excess)
    }

    /// Where its client is, unless on this machine.
    pub fn host(&self) -> Option<&Host> {
        self.client.agent.host.as_deref()
    }

    /// Where the client is now, as far as is known.
    pub fn place_now(&self) -> Place {
        match Place::of(self.process()) {
            Place::Unknown => self.origin.place.clone(),
            place => place,
        }
    }

    /// Begins the call with this id. The receiver gets a value when the client cancels it.
    pub fn begin_call(&mut self, id: &Id) -> oneshot::Receiver<()> {
        self.calls.retain(|_, cancel| !cancel.is_closed());
        let (cancel, cancelled) = oneshot::channel();
        self.calls.insert(id.as_str().into(), cancel);
        cancelled
    }

    /// Cancels the call with this id, which gets no answer.
    pub fn cancel_call(&mut self, id: &Id) {
        if let Some(cancel) = self.calls.remove(id.as_str()) {
            let _ = cancel.send(());
        }
    }

    /// What a request about a diff of `path` has to lock, to take its turn.
    pub fn turns(&mut self, path: &str) -> Arc<Mutex<()>> {
        self.turns.entry(path.into()).or_default().clone()
    }

    pub fn push(&mut self, message: Outgoing) {
        self.outbox.push(message);
        self.wake();
    }

    pub fn ping(&mut self, message: Arc<str>) {
        self.pinged = Some(Instant::now());
        self.push(Outgoing::Ping(message));
    }

    /// Opens its stream and ends the one that was. Returns the number of the new one.
    pub fn open_stream(&mut self) -> u64 {
        self.wake();
        self.streams += 1;
        self.stream = Stream::Open { number: self.streams, waker: None };
        self.streams
    }

    pub fn wake(&mut self) {
        if let Stream::Open { waker, .. } = &mut self.stream
            && let Some(waker) = waker.take()
        {
            waker.wake();
        }
    }

    /// Whether it has neither a stream nor a request.
    pub fn is_idle(&self) -> bool {
        self.busy == 0 && matches!(self.stream, Stream::Never | Stream::Lost { .. })
    }

    /// When to remove this session, unless it is used before.
    pub fn idle_until(&self, limits: &Limits) -> Option<Instant> {
        let lost = match self.stream {
            _ if !self.is_idle() => return None,
            Stream::Lost { since } => since,
            _ => return Some(self.last_used + limits.idle_time),
        };
        let since = self.last_used.max(lost);
        Some(match self.host().map(Host::reachable_since) {
            None => since + limits.idle_time,
            Some(None) => since + limits.host_time,
            Some(Some(reachable)) => since.max(reachable) + limits.reachable_time,
        })
    }

    /// When the client counts as gone, unless it reopens its stream before.
    pub fn gone_at(&self) -> Option<Instant> {
        match self.stream {
            Stream::Lost { since } => Some(since + STREAM_GRACE),
            _ => None,
        }
    }

    pub fn is_connected(&self, now: Instant) -> bool {
        self.gone_at().is_none_or(|gone| gone > now)
    }

    /// Whether the client can still come back for its reviews.
    pub fn may_return(&self, now: Instant) -> bool {
        self.is_connected(now)
            || self.process().is_some_and(Process::is_alive)
            || self.host().is_some() // until its session ends
    }

    /// The process at the other end of its connections.
    pub fn process(&self) -> Option<&Process> {
        self.origin.process.as_ref()
    }

    /// The process of the client itself, as far as we know: all its sessions are that client's.
    pub fn own_process(&self) -> Option<&Process> {
        self.process().filter(|_| !self.origin.is_forwarded)
    }

    /// The id of that process for Lisp: one on its host, if it is on one.
    pub fn own_process_id(&self) -> Option<u32> {
        self.own_process().map(Process::id).or(self.origin.process_there)
    }

    pub fn is_open(&self) -> bool {
        matches!(self.stream, Stream::Open { .. })
    }

    /// Whether the client had a stream that broke, and has not come back.
    pub fn is_lost(&self) -> bool {
        matches!(self.stream, Stream::Lost { .. })
    }

    /// Whether the client's process is known to have ended.
    pub fn is_dead(&self) -> bool {
        self.is_lost() && self.process().is_some_and(|process| !process.is_alive())
    }

    /// Whether `later` is of the same client, and began when this session's stream was lost or later.
    pub fn may_be_replaced_by(&self, later: &Session) -> bool {
        matches!(self.stream, Stream::Lost { since } if later.begun + RECHECK_INTERVAL > since)
            && self.is_earlier_of(later)
    }

    /// Whether `later` is a later session of the same client, as far as we know.
    pub fn is_earlier_of(&self, later: &Session) -> bool {
        self.begun < later.begun
            && self.client == later.client
            && self.own_process().is_some()
            && self.own_process() == later.own_process()
    }
}
