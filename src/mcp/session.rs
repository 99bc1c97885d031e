//! MCP sessions: who is connected, what each has still to hear, and which reviews are open.
//!
//! `Sessions` is shared between the server's thread and Emacs's main thread. Everything is behind
//! one short mutex, never held across an await or a call into Lisp. Sending an event to Lisp
//! while holding it is fine, and keeps events in the order of what they tell.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::listeners::Listeners;
use super::message::{Id, notification_json, ping_json};
use super::outbox::{Outbox, Outgoing};
use crate::agent::Agent;
use crate::bridge::{Bridge, CallId, Event, lock};
use crate::ide::{ActiveFile, IdeContext, Notification, Outcome, ReviewId};
use crate::limits::Limits;
use crate::process::Process;
use crate::token::random_hex;

/// A session without stream and requests is forgotten after this long.
const IDLE_LIMIT: Duration = Duration::from_secs(120);
/// A client counts as gone when its stream has been lost for this long: one that lives reopens it
/// after a second or two. Its reviews are closed then, unless its process is known to live.
const STREAM_GRACE: Duration = Duration::from_secs(5);
/// With many clients something changes all the time; one look is for all that changed meanwhile.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// How often to look whether the process of a client without stream still lives.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a client waits for the first context: less than after what an answer is a stream.
const FIRST_CONTEXT: Duration = Duration::from_millis(800);
/// The id of each ping of ours: one that is not answered is superseded by the next.
const PING: &str = "ping";
/// What a client hears that comes too late.
pub const STOPPING: &str = "the companion is stopping";

/// The `Mcp-Session-Id` of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(Arc<str>);

/// Who connected, as it says itself.
#[derive(Clone, Debug)]
pub struct Client {
    /// Whose token it has shown.
    pub agent: Arc<Agent>,
    pub name: String,
    pub version: String,
}

pub struct Sessions {
    bridge: Arc<Bridge>,
    limits: Limits,
    state: Mutex<State>,
    /// Wakes `expire_forever` when the next deadline may have come closer.
    changed: Notify,
    /// Wakes who waits for the first context.
    published: Notify,
}

#[derive(Default)]
struct State {
    sessions: HashMap<SessionId, Session>,
    reviews: BTreeMap<ReviewId, Review>,
    last_review: i64,
    /// The latest context, for those that come later.
    context: Option<Context>,
    listeners: Listeners,
    /// The number of connected sessions that Lisp was told last.
    announced: usize,
    /// The companion stops: streams end when they have sent what they hold.
    ending: bool,
    /// A test wants the server's thread to die.
    #[cfg(test)]
    broken: bool,
}

/// What the user looks at, and how the newest clients are told. The few of older kinds are told in
/// other words, which are made when there are any.
struct Context {
    snapshot: IdeContext,
    message: Arc<str>,
}

struct Session {
    client: Client,
    /// The process of the client, where that can be known.
    process: Option<Process>,
    batches: bool,
    begun: Instant,
    /// When it was asked for a sign of life that has not come.
    pinged: Option<Instant>,
    outbox: Outbox,
    /// The client has asked for the active file: it is of document 003, and hears of changes.
    wants_active_file: bool,
    stream: Stream,
    /// HTTP requests being answered.
    busy: usize,
    /// Calls being answered, by their JSON-RPC id, with the way to cancel each.
    calls: HashMap<Box<str>, oneshot::Sender<()>>,
    last_used: Instant,
}

enum Stream {
    /// The session has not opened one yet.
    Never,
    /// `number` tells a stream from the one that replaced it.
    Open {
        number: u64,
        waker: Option<Waker>,
    },
    Lost {
        since: Instant,
    },
}

/// What there is to tell of a session.
#[derive(Debug, PartialEq, Eq)]
pub struct Description {
    /// Enough of its id to tell it from the others, and no more: whoever knows the id and the token
    /// could speak in its name.
    pub key: String,
    /// In words for the user.
    pub client: String,
    pub process: Option<u32>,
    pub age: Duration,
    /// Whether the stream is open; None if it never was.
    pub listens: Option<bool>,
    pub reviews: Vec<ReviewId>,
    /// Outcomes that it has not heard.
    pub unheard: usize,
}

/// A review that awaits its outcome.
struct Review {
    session: SessionId,
    /// As the client wrote it: it knows the review by this very string.
    path: String,
    /// Length of the proposal.
    bytes: usize,
    /// The call by which a client has Lisp decide it.
    deciding: Option<CallId>,
}

/// What became of a client's wish that a review be decided.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Sent,
    NotOpen,
    /// Another call waits for that.
    Already,
}

/// An HTTP request in progress keeps its session alive.
pub struct Busy {
    sessions: Arc<Sessions>,
    session: SessionId,
}

/// A call in progress, which its client may cancel.
pub struct Call<'a> {
    session: &'a Busy,
    id: Box<str>,
    cancelled: oneshot::Receiver<()>,
}

/// The right to read the outgoing messages of one session, until a newer stream replaces it.
pub struct StreamReader {
    sessions: Arc<Sessions>,
    session: SessionId,
    number: u64,
}

/// The right to read the events of document 004.
pub struct EventReader {
    sessions: Arc<Sessions>,
    number: u64,
}

impl SessionId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// See `Description`.
    fn key(&self) -> &str {
        &self.0[..8]
    }
}

impl Sessions {
    pub fn new(bridge: Arc<Bridge>, limits: Limits) -> Sessions {
        Sessions {
            bridge,
            limits,
            state: Mutex::default(),
            changed: Notify::new(),
            published: Notify::new(),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Starts a session. `batches`: its revision of MCP has JSON-RPC batches.
    pub fn open(&self, client: Client, batches: bool) -> anyhow::Result<SessionId> {
        let id = SessionId(random_hex::<16>()?.into());
        let session = Session {
            client,
            process: None,
            batches,
            begun: Instant::now(),
            pinged: None,
            outbox: Outbox::default(),
            wants_active_file: false,
            stream: Stream::Never,
            busy: 0,
            calls: HashMap::new(),
            last_used: Instant::now(),
        };
        let mut state = self.state();
        if state.ending {
            anyhow::bail!(STOPPING);
        }
        if state.sessions.len() >= self.limits.sessions {
            let Some(oldest) = state.least_used() else { anyhow::bail!("too many sessions") };
            self.remove(&mut state, &oldest);
        }
        state.sessions.insert(id.clone(), session);
        self.announce(&mut state, Instant::now());
        self.changed.notify_one();
        Ok(id)
    }

    /// Notes which process the client of a session is.
    ///
    /// What a session of the same process that lost its stream has not heard, and the reviews it
    /// waits for, become this one's: the client lost its connection and waits for them still.
    pub fn recognise(&self, id: &SessionId, process: Process) {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(id) else { return };
        session.process = Some(process.clone());
        let agent = session.client.agent.clone();
        for left in state.sessions_where(|other, session| {
            other != id
                && session.is_lost()
                && session.process.as_ref() == Some(&process)
                && session.client.agent == agent
        }) {
            state.inherit(id, &left);
        }
        self.changed.notify_one();
    }

    /// The processes of all clients, each once.
    pub fn processes(&self) -> Vec<Process> {
        let mut processes: Vec<Process> = Vec::new();
        for process in self.state().sessions.values().filter_map(|session| session.process.clone())
        {
            if !processes.contains(&process) {
                processes.push(process);
            }
        }
        processes
    }

    /// All sessions, the oldest first, and the event streams behind them.
    pub fn describe(&self) -> Vec<Description> {
        let state = self.state();
        let mut sessions: Vec<_> = state.sessions.iter().collect();
        sessions.sort_by_key(|(_, session)| session.begun);
        let describe = |(id, session): (&SessionId, &Session)| Description {
            key: id.key().to_owned(),
            client: session.client.describe(),
            process: session.process.as_ref().map(Process::id),
            age: session.begun.elapsed(),
            listens: match session.stream {
                Stream::Never => None,
                Stream::Open { .. } => Some(true),
                Stream::Lost { .. } => Some(false),
            },
            reviews: state.reviews_of(id).collect(),
            unheard: session.outbox.waiting(),
        };
        let listeners = state.listeners.describe().map(|(number, agent, begun)| Description {
            key: listener_key(number),
            client: format!("{} (event stream)", agent.title),
            process: None,
            age: begun.elapsed(),
            listens: Some(true),
            reviews: Vec::new(),
            unheard: 0,
        });
        sessions.into_iter().map(describe).chain(listeners).collect()
    }

    /// Ends the session, or event stream, with this key at the user's wish. Its reviews are closed.
    pub fn disconnect(&self, key: &str) -> bool {
        let mut state = self.state();
        let numbers: Vec<u64> = state.listeners.describe().map(|(number, ..)| number).collect();
        if let Some(number) = numbers.into_iter().find(|number| listener_key(*number) == key) {
            state.listeners.remove(number);
            self.announce(&mut state, Instant::now());
            return true;
        }
        let Some(id) = state.sessions.keys().find(|id| id.key() == key).cloned() else {
            return false;
        };
        self.remove(&mut state, &id);
        true
    }

    /// Finds the session of a request of `agent`, and keeps it alive until the request is answered.
    pub fn enter(self: &Arc<Self>, id: &str, agent: &Agent) -> Option<Busy> {
        let mut state = self.state();
        let (id, session) = state.find(id, agent)?;
        session.busy += 1;
        Some(Busy { sessions: self.clone(), session: id })
    }

    /// Ends a session at its client's wish. Its reviews are closed.
    pub fn close(&self, session: &SessionId) {
        let mut state = self.state();
        self.remove(&mut state, session);
    }

    /// The number of sessions whose client is there, as far as we know.
    pub fn count(&self) -> usize {
        self.state().announced
    }

    /// Opens the stream of a session, in place of an older one. `last_event` is the number of
    /// the last event that the client received, if it says so.
    pub fn open_stream(
        self: &Arc<Self>,
        session: &SessionId,
        last_event: Option<u64>,
    ) -> Option<StreamReader> {
        let mut state = self.state();
        let context = state.context.as_ref().map(|context| context.message.clone());
        let entry = state.sessions.get_mut(session)?;
        // One that only began the session, as a command line does, says nothing about its client.
        entry.process.take_if(|process| !process.is_alive());
        let number = entry.stream.replace();
        entry.outbox.resume(last_event);
        if let Some(context) = context.filter(|_| !entry.outbox.has_context()) {
            entry.outbox.push(Outgoing::Context(context));
        }
        self.announce(&mut state, Instant::now());
        Some(StreamReader { sessions: self.clone(), session: session.clone(), number })
    }

    /// Tells every session what the user looks at, unless it is what they know already.
    pub fn publish_context(&self, snapshot: IdeContext) {
        let message: Arc<str> = notification_json(&Notification::ContextUpdate(&snapshot)).into();
        let mut state = self.state();
        let known = state.context.as_ref().is_some_and(|context| context.message == message);
        if known || state.is_deserted() {
            return;
        }
        for session in state.sessions.values_mut() {
            session.push(Outgoing::Context(message.clone()));
        }
        state.tell_older_clients(&snapshot);
        state.context = Some(Context { snapshot, message });
        drop(state);
        self.published.notify_waiters();
    }

    /// The active file, for a client of document 003, who hears from now on when it changes. One
    /// that has just come waits a moment until Emacs has said what it is.
    pub async fn active_file(&self, session: &SessionId) -> Option<ActiveFile> {
        let published = self.published.notified();
        {
            let mut state = self.state();
            if let Some(session) = state.sessions.get_mut(session) {
                session.wants_active_file = true;
            }
            if let Some(context) = &state.context {
                return context.snapshot.active_file();
            }
            if state.ending {
                return None;
            }
        }
        let _ = tokio::time::timeout(FIRST_CONTEXT, published).await;
        self.state().context.as_ref()?.snapshot.active_file()
    }

    /// Opens a stream of document 004.
    pub fn listen(self: &Arc<Self>, agent: Arc<Agent>) -> EventReader {
        let mut state = self.state();
        let context = state.context.as_ref().map(|context| event_json(&context.snapshot));
        let number = state.listeners.add(agent, context);
        self.announce(&mut state, Instant::now());
        EventReader { sessions: self.clone(), number }
    }

    /// Asks every client that has a stream for a sign of life. Returns how many there are.
    pub fn ping(&self) -> usize {
        let message: Arc<str> = ping_json(PING).into();
        let mut state = self.state();
        let reachable = |session: &&mut Session| matches!(session.stream, Stream::Open { .. });
        let asked = state.sessions.values_mut().filter(reachable);
        asked.map(|session| session.ping(message.clone())).count()
    }

    /// Opens a review and tells Lisp. An open review of the same file and session is replaced.
    pub fn open_review(
        &self,
        session: &SessionId,
        path: String,
        content: String,
    ) -> Result<ReviewId, &'static str> {
        let mut state = self.state();
        if state.ending {
            return Err(STOPPING); // no outcome could follow
        }
        let Some(entry) = state.sessions.get_mut(session) else {
            return Err("the session has ended");
        };
        let (client, agent) = (entry.client.describe(), entry.client.agent.name.clone());
        entry.outbox.forget_outcomes_of(&path);
        if entry.outbox.is_full() {
            return Err("too many outcomes wait for you: open your event stream and read them");
        }
        let (bytes, older) = (content.len(), state.review_of(session, &path));
        if !self.has_room_for(&state, older, bytes) || !self.bridge.has_room_for(bytes) {
            return Err("too many reviews wait for the user: decide some of them first");
        }
        if let Some(older) = older {
            self.forget(&mut state, older);
        }
        state.last_review += 1;
        let review = ReviewId(state.last_review);
        state.reviews.insert(
            review,
            Review { session: session.clone(), path: path.clone(), bytes, deciding: None },
        );
        self.bridge.send(Event::OpenReview { review, agent, client, path, content });
        Ok(review)
    }

    /// Closes a review at its client's wish; Lisp answers `call` with the final text. Unless
    /// `silent`, whoever waits for the outcome hears that it was rejected.
    pub fn close_review(
        &self,
        session: &SessionId,
        path: &str,
        silent: bool,
        call: CallId,
    ) -> Option<ReviewId> {
        let mut state = self.state();
        let review = state.review_of(session, path)?;
        if silent {
            state.reviews.remove(&review);
        } else {
            state.settle(review, &Outcome::Rejected);
        }
        self.bridge.send(Event::CloseReview { review, call: Some(call) });
        Some(review)
    }

    /// Asks Lisp to decide a review as the user would, at a client's wish: its own of the file
    /// `path`, else the newest of that file of the same agent.
    pub fn ask_to_decide(
        &self,
        session: &SessionId,
        path: &str,
        accept: bool,
        call: CallId,
    ) -> Asked {
        let mut state = self.state();
        let own = state.review_of(session, path);
        let Some(id) = own.or_else(|| state.newest_of_agent(session, path)) else {
            return Asked::NotOpen;
        };
        let Some(review) = state.reviews.get_mut(&id) else { return Asked::NotOpen };
        if review.deciding.is_some_and(|call| self.bridge.is_awaited(call)) {
            return Asked::Already;
        }
        review.deciding = Some(call);
        self.bridge.send(Event::DecideReview { review: id, accept, call });
        Asked::Sent
    }

    /// Reports the user's decision to the session that asked. False if it was no longer open.
    pub fn decide(&self, review: ReviewId, outcome: Outcome) -> bool {
        self.state().settle(review, &outcome)
    }

    /// Before the server stops: rejects open reviews, and lets the streams end properly.
    pub fn end_all(&self) {
        let mut state = self.state();
        let open: Vec<ReviewId> = state.reviews.keys().copied().collect();
        for review in open {
            state.settle(review, &Outcome::Rejected);
        }
        // There is no time left to come back in.
        state.hand_on(Instant::now() + STREAM_GRACE);
        state.ending = true;
        self.published.notify_waiters(); // no context will come
        state.listeners.wake();
        state.sessions.values_mut().for_each(Session::wake);
    }

    /// Before the server restarts: ends the streams properly. Their clients open them again.
    pub fn interrupt_streams(&self) {
        let since = Instant::now();
        let mut state = self.state();
        state.listeners.end();
        for session in state.sessions.values_mut() {
            session.wake();
            if let Stream::Open { .. } = session.stream {
                session.stream = Stream::Lost { since };
            }
        }
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

    #[cfg(test)]
    pub fn break_server(&self) {
        self.state().broken = true;
        self.changed.notify_one();
    }

    /// Forgets what is due at `now`. Returns when to look again.
    fn expire(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        #[cfg(test)]
        assert!(!std::mem::take(&mut state.broken), "broken by a test");
        for id in state.sessions_where(|_, session| session.is_dead()) {
            self.remove(&mut state, &id);
        }
        state.hand_on(now);
        let gone = state.sessions_where(|_, session| !session.may_return(now));
        for review in gone.iter().flat_map(|id| state.reviews_of(id)).collect::<Vec<_>>() {
            self.forget(&mut state, review);
        }
        let idle = state.sessions_where(|id, session| {
            session.idle_until().is_some_and(|until| until <= now) && !state.is_owed(id)
        });
        for id in idle {
            self.remove(&mut state, &id);
        }
        self.announce(&mut state, now);
        state.next_deadline(now)
    }

    fn remove(&self, state: &mut State, id: &SessionId) {
        let Some(mut session) = state.sessions.remove(id) else { return };
        session.wake();
        let open: Vec<ReviewId> = state.reviews_of(id).collect();
        for review in open {
            self.forget(state, review);
        }
        state.forget_context();
        self.announce(state, Instant::now());
    }

    /// Tells Lisp how many clients there are if that has changed.
    fn announce(&self, state: &mut State, now: Instant) {
        let sessions = state.sessions.values().filter(|session| session.is_connected(now)).count();
        let connected = sessions + state.listeners.count();
        if connected != state.announced {
            state.announced = connected;
            self.bridge.send(Event::Clients);
        }
    }

    /// Whether a review of `bytes` may be opened, in place of the `older` one.
    fn has_room_for(&self, state: &State, older: Option<ReviewId>, bytes: usize) -> bool {
        let others = state.reviews.iter().filter(|(id, _)| Some(**id) != older);
        let (count, used) =
            others.fold((0, 0), |(count, used), (_, review)| (count + 1, used + review.bytes));
        count < self.limits.reviews && used + bytes <= self.limits.review_bytes
    }

    /// Closes a review that nobody waits for any more.
    fn forget(&self, state: &mut State, review: ReviewId) {
        if state.reviews.remove(&review).is_some() {
            self.bridge.send(Event::CloseReview { review, call: None });
        }
    }
}

impl State {
    fn is_deserted(&self) -> bool {
        self.sessions.is_empty() && self.listeners.count() == 0
    }

    /// While nobody is there Emacs does not say what the user looks at.
    fn forget_context(&mut self) {
        if self.is_deserted() {
            self.context = None;
        }
    }

    /// Tells clients of documents 003 and 004, if there are any, of a context that is new.
    fn tell_older_clients(&mut self, snapshot: &IdeContext) {
        if self.listeners.count() > 0 {
            self.listeners.tell_context(&event_json(snapshot));
        }
        let mut wanting = self.sessions.values_mut().filter(|it| it.wants_active_file).peekable();
        if wanting.peek().is_none() {
            return;
        }
        let active = snapshot.active_file();
        let before = self.context.as_ref().map(|context| context.snapshot.active_file());
        if before.as_ref() != Some(&active) {
            let message = active_file_json(active.as_ref());
            wanting.for_each(|session| session.push(Outgoing::ActiveFile(message.clone())));
        }
    }

    fn find(&mut self, id: &str, agent: &Agent) -> Option<(SessionId, &mut Session)> {
        let id = SessionId(id.into());
        let session = self.sessions.get_mut(&id)?;
        // One agent must not speak for another.
        if *session.client.agent != *agent {
            return None;
        }
        session.last_used = Instant::now();
        Some((id, session))
    }

    /// The newest review of the file `path` by another session of the same agent.
    fn newest_of_agent(&self, session: &SessionId, path: &str) -> Option<ReviewId> {
        let agent = self.agent_of(session)?;
        let of_agent = |review: &Review| self.agent_of(&review.session) == Some(agent);
        let mut newest = self.reviews.iter().rev();
        newest.find(|(_, review)| review.path == path && of_agent(review)).map(|(id, _)| *id)
    }

    fn agent_of(&self, session: &SessionId) -> Option<&Arc<Agent>> {
        self.sessions.get(session).map(|session| &session.client.agent)
    }

    fn least_used(&self) -> Option<SessionId> {
        let unused = self.sessions.iter().filter(|(_, session)| session.idle_until().is_some());
        unused.min_by_key(|(_, session)| session.last_used).map(|(id, _)| id.clone())
    }

    fn reviews_of(&self, session: &SessionId) -> impl Iterator<Item = ReviewId> {
        self.reviews.iter().filter(move |(_, review)| review.session == *session).map(|(id, _)| *id)
    }

    fn review_of(&self, session: &SessionId, path: &str) -> Option<ReviewId> {
        self.reviews_of(session).find(|id| self.reviews[id].path == path)
    }

    /// Takes a review off the list and queues its outcome for the session that asked.
    fn settle(&mut self, review: ReviewId, outcome: &Outcome) -> bool {
        let Some(Review { session, path, .. }) = self.reviews.remove(&review) else { return false };
        if let Some(agent) = self.agent_of(&session).cloned()
            && self.listeners.count() > 0
        {
            let event = notification_json(&Notification::event_of_outcome(&path, outcome));
            self.listeners.tell_outcome(&agent, &event.into());
        }
        if let Some(session) = self.sessions.get_mut(&session) {
            let message = notification_json(&Notification::of_outcome(&path, outcome));
            session.push(Outgoing::Outcome { path: path.into(), text: message.into() });
        }
        true
    }

    fn sessions_where(&self, matches: impl Fn(&SessionId, &Session) -> bool) -> Vec<SessionId> {
        let found = self.sessions.iter().filter(|(id, session)| matches(id, session));
        found.map(|(id, _)| id.clone()).collect()
    }

    /// Whether a living client waits for something that this session has not heard.
    fn is_owed(&self, id: &SessionId) -> bool {
        let session = &self.sessions[id];
        session.process.as_ref().is_some_and(Process::is_alive)
            && (session.outbox.has_outcome() || self.reviews_of(id).next().is_some())
    }

    /// Gives what sessions wait for that did not come back to those that took their place: their
    /// loss may have been noticed after the other had begun.
    fn hand_on(&mut self, now: Instant) {
        for left in self.sessions_where(|_, session| !session.is_connected(now)) {
            if let Some(heir) = self.heir_of(&left) {
                self.inherit(&heir, &left);
            }
        }
    }

    /// The newest session of the same process that began when the stream was lost or later: a
    /// process may have several clients, which have nothing to do with each other.
    fn heir_of(&self, left: &SessionId) -> Option<SessionId> {
        let Session { client, process: Some(process), stream: Stream::Lost { since }, .. } =
            &self.sessions[left]
        else {
            return None;
        };
        let heirs = self.sessions.iter().filter(|(id, heir)| {
            *id != left
                && heir.process.as_ref() == Some(process)
                && heir.client.agent == client.agent
                && heir.begun + LOOK_AGAIN > *since
                && !heir.is_lost()
        });
        heirs.max_by_key(|(_, heir)| heir.begun).map(|(id, _)| id.clone())
    }

    fn inherit(&mut self, heir: &SessionId, left: &SessionId) {
        let Some(session) = self.sessions.get_mut(left) else { return };
        let outcomes = session.outbox.take_outcomes();
        for review in self.reviews.values_mut().filter(|review| review.session == *left) {
            review.session = heir.clone();
        }
        if let Some(heir) = self.sessions.get_mut(heir) {
            outcomes.for_each(|outcome| heir.push(outcome));
        }
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let idle = self.sessions.values().filter_map(Session::idle_until);
        let gone = self.sessions.values().filter_map(Session::gone_at).filter(|gone| *gone > now);
        let recognised = |session: &&Session| session.process.is_some() && session.is_lost();
        let look = self.sessions.values().filter(recognised).map(|_| now + LOOK_AGAIN);
        // What is due and stays, for its client is owed something, is looked at again later.
        idle.chain(gone).map(|due| due.max(now + LOOK_AGAIN)).chain(look).min()
    }
}

impl Session {
    fn push(&mut self, message: Outgoing) {
        self.outbox.push(message);
        self.wake();
    }

    fn ping(&mut self, message: Arc<str>) {
        self.pinged = Some(Instant::now());
        self.push(Outgoing::Ping(message));
    }

    fn wake(&mut self) {
        if let Stream::Open { waker, .. } = &mut self.stream
            && let Some(waker) = waker.take()
        {
            waker.wake();
        }
    }

    /// When to forget this session, unless it is used before.
    fn idle_until(&self) -> Option<Instant> {
        match self.stream {
            Stream::Open { .. } => None,
            _ if self.busy > 0 => None,
            Stream::Never => Some(self.last_used + IDLE_LIMIT),
            Stream::Lost { since } => Some(self.last_used.max(since) + IDLE_LIMIT),
        }
    }

    /// When the client is taken to be gone, unless its stream returns before.
    fn gone_at(&self) -> Option<Instant> {
        match self.stream {
            Stream::Lost { since } => Some(since + STREAM_GRACE),
            _ => None,
        }
    }

    fn is_connected(&self, now: Instant) -> bool {
        self.gone_at().is_none_or(|gone| gone > now)
    }

    /// Whether the client can still come back for its reviews.
    fn may_return(&self, now: Instant) -> bool {
        self.is_connected(now) || self.process.as_ref().is_some_and(Process::is_alive)
    }

    /// Whether the client had a stream that broke, and has not come back.
    fn is_lost(&self) -> bool {
        matches!(self.stream, Stream::Lost { .. })
    }

    /// Whether the client's process is known to have ended.
    fn is_dead(&self) -> bool {
        self.is_lost() && self.process.as_ref().is_some_and(|process| !process.is_alive())
    }
}

impl Stream {
    /// Makes the stream open, ends the one that was. Returns the number of the new one.
    fn replace(&mut self) -> u64 {
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let older = std::mem::replace(self, Stream::Open { number, waker: None });
        if let Stream::Open { waker: Some(waker), .. } = older {
            waker.wake();
        }
        number
    }
}

impl Client {
    /// The client in words for the user. Gemini CLI, and its forks, give the name of their
    /// transport.
    fn describe(&self) -> String {
        let name = match self.name.as_str() {
            "streamable-http-client" => &self.agent.title,
            "" => "A client",
            name => name,
        };
        format!("{name} {}", self.version).trim_end().to_owned()
    }
}

/// As a session has one.
fn listener_key(number: u64) -> String {
    format!("events-{number}")
}

/// What readers of `/events` are told.
fn event_json(snapshot: &IdeContext) -> Arc<str> {
    notification_json(&Notification::ContextEvent(&snapshot.event())).into()
}

fn active_file_json(active: Option<&ActiveFile>) -> Arc<str> {
    let params = active.map_or_else(|| json!({}), |active| json!(active));
    notification_json(&Notification::ActiveFile(&params)).into()
}

impl Busy {
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Begins the call with this id.
    pub fn begin(&self, id: &Id) -> Call<'_> {
        let (cancel, cancelled) = oneshot::channel();
        if let Some(session) = self.sessions.state().sessions.get_mut(&self.session) {
            session.calls.insert(id.as_str().into(), cancel);
        }
        Call { session: self, id: id.as_str().into(), cancelled }
    }

    /// Ends the call with this id, without an answer.
    pub fn cancel(&self, id: &Id) {
        let mut state = self.sessions.state();
        let session = state.sessions.get_mut(&self.session);
        if let Some(cancel) = session.and_then(|session| session.calls.remove(id.as_str())) {
            let _ = cancel.send(());
        }
    }

    /// Takes the client's answer to a request of ours, which can only be a ping.
    pub fn pong(&self, id: &Id) {
        let mut state = self.sessions.state();
        let Some(session) = state.sessions.get_mut(&self.session) else { return };
        if let Some(pinged) = session.pinged.take_if(|_| id.is_text(PING)) {
            let client = session.client.describe();
            self.sessions.bridge.send(Event::Pong { client, after: pinged.elapsed() });
        }
    }

    /// Passes on what the client has to say to the user.
    pub fn say(&self, text: &str) {
        let state = self.sessions.state();
        let Some(session) = state.sessions.get(&self.session) else { return };
        self.sessions.bridge.say(session.client.describe(), text.to_owned());
    }

    /// Whether the session's revision of MCP has JSON-RPC batches.
    pub fn has_batches(&self) -> bool {
        self.sessions.state().sessions.get(&self.session).is_some_and(|session| session.batches)
    }
}

impl Call<'_> {
    /// Waits until the client cancels the call; for ever if it does not.
    pub async fn cancelled(&mut self) {
        if (&mut self.cancelled).await.is_err() {
            // The session has ended, or the client reused the id: the call goes on.
            std::future::pending().await
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.cancelled.close();
        let mut state = self.session.sessions.state();
        if let Some(session) = state.sessions.get_mut(&self.session.session)
            && session.calls.get(&self.id).is_some_and(oneshot::Sender::is_closed)
        {
            session.calls.remove(&self.id);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.sessions.state();
        if let Some(session) = state.sessions.get_mut(&self.session) {
            session.busy -= 1;
            session.last_used = Instant::now();
            if session.idle_until().is_some() {
                self.sessions.changed.notify_one();
            }
        }
    }
}

impl StreamReader {
    /// The next message and its event number; `None` when the stream is over.
    pub fn poll_next(&self, current: &Waker) -> Poll<Option<(u64, Arc<str>)>> {
        let mut state = self.sessions.state();
        let ending = state.ending;
        let Some(session) = state.sessions.get_mut(&self.session) else { return Poll::Ready(None) };
        let Stream::Open { number, waker } = &mut session.stream else { return Poll::Ready(None) };
        if *number != self.number {
            return Poll::Ready(None);
        }
        match session.outbox.next() {
            Some(message) => Poll::Ready(Some(message)),
            None if ending => Poll::Ready(None),
            None => {
                *waker = Some(current.clone());
                Poll::Pending
            }
        }
    }
}

impl EventReader {
    /// The next event; `None` when the stream is over.
    pub fn poll_next(&self, current: &Waker) -> Poll<Option<Arc<str>>> {
        let mut state = self.sessions.state();
        match state.listeners.poll(self.number, current) {
            Poll::Pending if state.ending => Poll::Ready(None),
            polled => polled,
        }
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let mut state = self.sessions.state();
        state.listeners.remove(self.number);
        state.forget_context();
        self.sessions.announce(&mut state, Instant::now());
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.sessions.state();
        if let Some(session) = state.sessions.get_mut(&self.session)
            && matches!(session.stream, Stream::Open { number, .. } if number == self.number)
        {
            session.stream = Stream::Lost { since: Instant::now() };
        }
        drop(state);
        self.sessions.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> (Arc<Bridge>, Arc<Sessions>) {
        let bridge = Arc::new(Bridge::new());
        (bridge.clone(), Arc::new(Sessions::new(bridge, Limits::default())))
    }

    fn events(bridge: &Bridge) -> Vec<Event> {
        std::iter::from_fn(|| bridge.next_event()).collect()
    }

    fn gemini() -> Agent {
        Agent::gemini(Vec::new())
    }

    fn client(name: &str) -> Client {
        let version = if name.is_empty() { "" } else { "1" };
        Client { agent: gemini().into(), name: name.to_owned(), version: version.to_owned() }
    }

    /// Opens a session of this very process, and its stream.
    fn open_here(sessions: &Arc<Sessions>) -> (SessionId, StreamReader) {
        let session = sessions.open(client(""), false).unwrap();
        sessions.recognise(&session, Process::with_id(std::process::id()).unwrap());
        let stream = sessions.open_stream(&session, None).unwrap();
        (session, stream)
    }

    fn open_review(sessions: &Sessions, session: &SessionId) -> ReviewId {
        sessions.open_review(session, "/a".to_owned(), String::new()).unwrap()
    }

    #[test]
    fn a_client_whose_stream_does_not_return_is_gone() {
        let (bridge, sessions) = sessions();
        let session = sessions.open(client(""), false).unwrap();
        let stream = sessions.open_stream(&session, None);
        let review = open_review(&sessions, &session);
        events(&bridge);
        drop(stream);
        let lost = Instant::now();
        let deadline = sessions.expire(lost).unwrap();
        assert!(deadline <= lost + STREAM_GRACE);
        assert_eq!(events(&bridge), []);
        sessions.expire(lost + STREAM_GRACE);
        let closed = Event::CloseReview { review, call: None };
        assert_eq!(events(&bridge), [closed, Event::Clients]);
        assert_eq!(sessions.count(), 0);
        assert!(!sessions.decide(review, Outcome::Rejected));
        // It may still come back.
        let _stream = sessions.open_stream(&session, None);
        assert_eq!(sessions.count(), 1);
    }

    #[test]
    fn a_stream_that_returns_in_time_keeps_its_reviews() {
        let (_, sessions) = sessions();
        let session = sessions.open(client(""), false).unwrap();
        drop(sessions.open_stream(&session, None));
        let review = open_review(&sessions, &session);
        let _stream = sessions.open_stream(&session, None);
        assert_eq!(sessions.expire(Instant::now() + 2 * IDLE_LIMIT), None);
        assert!(sessions.decide(review, Outcome::Rejected));
    }

    #[test]
    fn a_session_that_nobody_uses_is_forgotten_and_its_reviews_with_it() {
        let (bridge, sessions) = sessions();
        let session = sessions.open(client(""), false).unwrap();
        let review = open_review(&sessions, &session);
        assert_eq!(sessions.count(), 1);
        events(&bridge);
        let busy = sessions.enter(session.as_str(), &gemini());
        assert_eq!(sessions.expire(Instant::now() + 2 * IDLE_LIMIT), None);
        drop(busy);
        assert_eq!(sessions.expire(Instant::now() + 2 * IDLE_LIMIT), None);
        let closed = Event::CloseReview { review, call: None };
        assert_eq!(events(&bridge), [closed, Event::Clients]);
        assert_eq!(sessions.count(), 0);
        assert!(sessions.enter(session.as_str(), &gemini()).is_none());
    }

    #[test]
    fn a_process_that_lives_is_waited_for_and_its_next_session_inherits() {
        let (bridge, sessions) = sessions();
        let open = || sessions.open(client(""), false).unwrap();
        let process = Process::with_id(std::process::id()).unwrap();
        let old = open();
        sessions.recognise(&old, process.clone());
        drop(sessions.open_stream(&old, None));
        let decided = sessions.open_review(&old, "/decided".to_owned(), String::new()).unwrap();
        let open_one = open_review(&sessions, &old);
        events(&bridge);
        sessions.expire(Instant::now() + 2 * IDLE_LIMIT);
        assert_eq!(events(&bridge), [Event::Clients]);
        assert!(sessions.decide(decided, Outcome::Rejected));
        let (stranger, heir) = (open(), open());
        sessions.recognise(&heir, process);
        sessions.expire(Instant::now() + STREAM_GRACE);
        assert!(sessions.decide(open_one, Outcome::Rejected));
        let heard = |session| {
            let reader = sessions.open_stream(session, None).unwrap();
            let next = || match reader.poll_next(Waker::noop()) {
                Poll::Ready(Some((_, message))) => Some(message.to_string()),
                _ => None,
            };
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        let rejected = |path| {
            let notification = Notification::DiffRejected { file_path: path };
            notification_json(&notification)
        };
        assert_eq!(heard(&heir), [rejected("/decided"), rejected("/a")]);
        assert_eq!(heard(&stranger), [""; 0]);
        assert_eq!(heard(&old), [""; 0]);
    }

    #[test]
    fn of_two_clients_in_one_process_each_keeps_its_own() {
        let (_, sessions) = sessions();
        let (one, stream) = open_here(&sessions);
        let (_, other) = open_here(&sessions);
        sessions.state().sessions.values_mut().for_each(|session| {
            session.begun -= 2 * STREAM_GRACE; // long before the stream is lost
        });
        let review = open_review(&sessions, &one);
        drop(stream);
        sessions.expire(Instant::now() + STREAM_GRACE);
        assert!(sessions.decide(review, Outcome::Rejected));
        assert!(matches!(other.poll_next(Waker::noop()), Poll::Pending));
        let back = sessions.open_stream(&one, None).unwrap();
        assert!(matches!(back.poll_next(Waker::noop()), Poll::Ready(Some(_))));
    }

    #[test]
    fn before_the_end_a_later_session_hears_what_the_lost_one_waits_for() {
        let (_, sessions) = sessions();
        let (lost, stream) = open_here(&sessions);
        open_review(&sessions, &lost);
        drop(stream);
        let (_, heir) = open_here(&sessions);
        sessions.end_all();
        assert!(matches!(heir.poll_next(Waker::noop()), Poll::Ready(Some(_))));
        assert!(matches!(heir.poll_next(Waker::noop()), Poll::Ready(None)));
    }

    #[test]
    fn a_process_that_only_began_the_session_is_not_its_client() {
        let (_, sessions) = sessions();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let session = sessions.open(client(""), false).unwrap();
        sessions.recognise(&session, Process::with_id(child.id()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        drop(sessions.open_stream(&session, None));
        sessions.expire(Instant::now());
        assert!(sessions.enter(session.as_str(), &gemini()).is_some());
    }

    #[test]
    fn a_process_that_ended_is_not_waited_for() {
        let (bridge, sessions) = sessions();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let session = sessions.open(client(""), false).unwrap();
        sessions.recognise(&session, Process::with_id(child.id()).unwrap());
        drop(sessions.open_stream(&session, None));
        let review = open_review(&sessions, &session);
        events(&bridge);
        sessions.expire(Instant::now());
        assert_eq!(events(&bridge), []);
        child.kill().unwrap();
        child.wait().unwrap();
        sessions.expire(Instant::now());
        let closed = Event::CloseReview { review, call: None };
        assert_eq!(events(&bridge), [closed, Event::Clients]);
    }

    #[test]
    fn sessions_are_described_and_can_be_ended() {
        let (bridge, sessions) = sessions();
        let first = sessions.open(client("cli"), false).unwrap();
        let second = sessions.open(client(""), false).unwrap();
        sessions.recognise(&first, Process::with_id(std::process::id()).unwrap());
        let stream = sessions.open_stream(&first, None);
        let (decided, open) = (
            sessions.open_review(&first, "/decided".to_owned(), String::new()).unwrap(),
            open_review(&sessions, &first),
        );
        sessions.decide(decided, Outcome::Rejected);
        let [one, other] = &sessions.describe()[..] else { panic!("two sessions") };
        assert_eq!((one.client.as_str(), one.process), ("cli 1", Some(std::process::id())));
        assert_eq!((one.listens, &one.reviews[..], one.unheard), (Some(true), &[open][..], 1));
        assert_eq!((other.listens, other.reviews.len(), other.unheard), (None, 0, 0));
        drop(stream);
        assert_eq!(sessions.describe()[0].listens, Some(false));
        events(&bridge);
        assert!(sessions.disconnect(&one.key));
        let closed = Event::CloseReview { review: open, call: None };
        assert_eq!(events(&bridge), [closed, Event::Clients]);
        assert!(!sessions.disconnect(&one.key));
        assert!(sessions.enter(first.as_str(), &gemini()).is_none());
        assert!(sessions.enter(second.as_str(), &gemini()).is_some());
    }

    #[test]
    fn the_session_unused_longest_makes_room() {
        let limits = Limits { sessions: 4, ..Limits::default() };
        let sessions = Arc::new(Sessions::new(Arc::new(Bridge::new()), limits));
        let first = sessions.open(client(""), false).unwrap();
        let _stream = sessions.open_stream(&first, None);
        let second = sessions.open(client(""), false).unwrap();
        for _ in 0..3 {
            sessions.open(client(""), false).unwrap();
        }
        assert_eq!(sessions.count(), 4);
        assert!(sessions.enter(first.as_str(), &gemini()).is_some());
        assert!(sessions.enter(second.as_str(), &gemini()).is_none());
    }
}
