//! MCP sessions: who is connected, what each has still to hear, and who takes the place of whom.
//!
//! `Sessions` is shared between the server's thread and Emacs's main thread. Everything is behind
//! one short mutex, never held across an await or a call into Lisp. Sending an event to Lisp
//! while holding it is fine, and keeps events in the order of what they tell.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::Revision;
use super::listeners::Listeners;
use super::message::{Id, notification_json, ping_json};
use super::outbox::{Decided, Outbox, Outgoing};
use super::places::{Context, Contexts, Place};
use super::reviews::{Ended, Reviews};
use crate::agent::Agent;
use crate::bridge::{Bridge, CallId, Event};
use crate::ide::{ActiveFile, IdeContext, Notification, Outcome, ReviewId};
use crate::limits::Limits;
use crate::lock::lock;
use crate::process::Process;
use crate::socket::Connection;
use crate::token::random_hex;

/// A session without stream and requests is forgotten after this long.
const IDLE_LIMIT: Duration = Duration::from_secs(120);
/// A client counts as gone when its stream has been lost for this long: one that lives reopens it
/// after a second or two. Its reviews are closed then, unless its process is known to live.
const STREAM_GRACE: Duration = Duration::from_secs(5);
/// Clients may go to another directory. To ask where they are costs some microseconds for each.
const BETWEEN_PLACES: Duration = Duration::from_secs(1);
/// Of how many clients that is asked at once, for Emacs waits meanwhile.
const MAX_LOOKS: usize = 16;
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

/// Who connected, as it says itself.
#[derive(Clone, Debug, PartialEq)]
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
    reviews: Reviews,
    contexts: Contexts,
    listeners: Listeners,
    /// The number of connected sessions, and readers of events, that Lisp was told last.
    announced: usize,
    /// The companion stops: streams end when they have sent what they hold.
    ending: bool,
    /// A test wants the server's thread to die.
    #[cfg(test)]
    broken: bool,
}

struct Session {
    client: Client,
    /// Its clients name no session in their requests: see `enter_unnamed`.
    is_unnamed: bool,
    peer: Peer,
    /// Which context it hears. None, and it hears none, while it is being found out who it is.
    place: Option<Place>,
    /// When `place` was found out.
    placed: Instant,
    revision: Revision,
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
    /// When the client sent a request last.
    last_heard: Instant,
    /// Another session has taken the place of this one, whose client was taken to be gone.
    replaced: bool,
}

/// The process at the other end of a session's connections.
enum Peer {
    Unknown,
    /// The client, as far as we know: another session of it is the same client's.
    Client(Process),
    /// It speaks for several clients, as a proxy does: that it lives tells nothing of any of them.
    Shared(Process),
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
    /// The clients of an unnamed session read `/events` instead.
    Events,
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
    /// None while it is being found out.
    pub place: Option<Place>,
    pub age: Duration,
    /// Whether the stream is open; None if it never was.
    pub listens: Option<bool>,
    pub reviews: Vec<ReviewId>,
    /// Outcomes that it has not heard.
    pub unheard: usize,
}

/// What became of a client's wish that a review be decided.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Sent,
    NotOpen,
    /// Another call waits for that.
    Already,
    /// Emacs has not come to look at those before.
    TooMany,
}

/// A review that its client has closed.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed {
    pub review: ReviewId,
    /// The session that opened it has closed it, not another one of the same client.
    pub by_proposer: bool,
}

/// An HTTP request in progress keeps its session alive.
pub struct Busy {
    sessions: Arc<Sessions>,
    session: SessionId,
    revision: Revision,
    /// Where the request comes from, if it names no session.
    unnamed: Option<Connection>,
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

impl From<&str> for SessionId {
    fn from(id: &str) -> SessionId {
        SessionId(id.into())
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

    /// Starts a session.
    pub fn open(&self, client: Client, revision: Revision) -> anyhow::Result<SessionId> {
        self.begin(&mut self.state(), Session::new(client, revision))
    }

    fn begin(&self, state: &mut State, session: Session) -> anyhow::Result<SessionId> {
        if state.ending {
            anyhow::bail!(STOPPING);
        }
        let id = SessionId(random_hex::<16>()?.into());
        if state.sessions.len() >= self.limits.sessions {
            let least_used = state.least_used(&session.client.agent);
            let Some(least_used) = least_used else { anyhow::bail!("too many sessions") };
            self.remove(state, &least_used);
        }
        state.sessions.insert(id.clone(), session);
        state.note_readers();
        self.announce(state, Instant::now());
        self.changed.notify_one();
        Ok(id)
    }

    /// Notes that it is being found out which process the client of a session is.
    pub fn expect_recognition(&self, id: &SessionId) {
        if let Some(session) = self.state().sessions.get_mut(id) {
            (session.place, session.placed) = (None, Instant::now());
        }
    }

    /// Notes which process the client of a session is, if that could be found out.
    ///
    /// What a session of the same process that lost its stream has not heard, and the reviews it
    /// waits for, may become this one's: the client lost its connection and waits for them still.
    pub fn recognise(&self, id: &SessionId, process: Option<Process>) {
        let place = Place::of(process.as_ref());
        let forwards = process.as_ref().is_some_and(Process::forwards);
        let mut state = self.state();
        self.settle_in(&mut state, id, place);
        let Some(process) = process else { return };
        let shared = forwards || state.sessions.values().any(|other| other.peer.shares(&process));
        let Some(session) = state.sessions.get_mut(id) else { return };
        session.peer = if shared { Peer::Shared(process) } else { Peer::Client(process) };
        self.hand_on(&mut state, Instant::now());
        self.changed.notify_one();
    }

    /// Where clients work, each place once.
    pub fn places(&self) -> Vec<Place> {
        let mut state = self.state();
        self.look_for_moves(&mut state);
        state.places()
    }

    /// Notes where clients are by now, those first of which that was found out longest ago.
    fn look_for_moves(&self, state: &mut State) {
        let mut due: Vec<_> =
            state.sessions.iter().filter(|(_, session)| session.may_have_moved()).collect();
        due.sort_unstable_by_key(|(_, session)| session.placed);
        due.truncate(MAX_LOOKS);
        let found: Vec<_> =
            due.into_iter().map(|(id, session)| (id.clone(), session.place_now())).collect();
        for (id, place) in found {
            self.settle_in(state, &id, place);
        }
    }

    /// Notes where the client of a session works: that is whose context it hears from now on.
    fn settle_in(&self, state: &mut State, id: &SessionId, place: Place) {
        let context = state.contexts.get(&place).map(|context| context.message.clone());
        let Some(session) = state.sessions.get_mut(id) else { return };
        session.placed = Instant::now();
        if session.place.as_ref() == Some(&place) {
            return;
        }
        session.place = Some(place);
        session.outbox.forget_context();
        if let Some(context) = context {
            session.push(Outgoing::Context(context));
        }
        self.bridge.send(Event::Clients); // Lisp says what there is to hear in a new place
    }

    /// The processes of all clients, each once.
    pub fn processes(&self) -> Vec<Process> {
        let mut processes: Vec<Process> = Vec::new();
        for process in self.state().sessions.values().filter_map(|session| session.peer.process()) {
            if !processes.contains(process) {
                processes.push(process.clone());
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
            process: session.peer.process().map(Process::id),
            place: session.place.clone(),
            age: session.begun.elapsed(),
            listens: match session.stream {
                Stream::Never => None,
                Stream::Open { .. } | Stream::Events => Some(true),
                Stream::Lost { .. } => Some(false),
            },
            reviews: state.reviews.of(id),
            unheard: session.outbox.waiting(),
        };
        let listeners =
            state.listeners.describe().map(|(number, agent, place, begun)| Description {
                key: listener_key(number),
                client: format!("{} (event stream)", agent.title),
                process: None,
                place: Some(place.clone()),
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
            self.remove_listener(&mut state, number);
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
        let busy = session.occupy(self, &id, None);
        if std::mem::take(&mut session.replaced) {
            self.give_back(&mut state, &id);
        }
        Some(busy)
    }

    /// Finds, or begins, the session of a request that names none, as those of document 004. All
    /// clients that show the token of `agent` share it: they cannot be told from one another.
    pub fn enter_unnamed(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        from: Connection,
    ) -> anyhow::Result<Busy> {
        let mut state = self.state();
        let id = match state.unnamed(agent) {
            Some(id) => id,
            None => self.begin(&mut state, Session::unnamed(agent))?,
        };
        let session = state.sessions.get_mut(&id).expect("it has just been found");
        Ok(session.occupy(self, &id, Some(from)))
    }

    /// Of which revision the session of a request of `agent` is.
    pub fn revision(&self, id: &str, agent: &Agent) -> Option<Revision> {
        self.state().find(id, agent).map(|(_, session)| session.revision)
    }

    /// Ends a session at its client's wish. Its reviews are closed. False if there is none.
    pub fn close(&self, id: &str, agent: &Agent) -> bool {
        let mut state = self.state();
        let Some((id, _)) = state.find(id, agent) else { return false };
        state.disown_earlier(&id);
        self.remove(&mut state, &id);
        true
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
        self.look_for_moves(&mut state);
        let context = state.context_of(session).map(|context| context.message.clone());
        let entry = state.sessions.get_mut(session)?;
        // One that only began the session, as a command line does, says nothing about its client.
        if entry.peer.process().is_some_and(|process| !process.is_alive()) {
            entry.peer = Peer::Unknown;
        }
        let number = entry.stream.replace();
        entry.outbox.resume(last_event);
        if let Some(context) = context.filter(|_| !entry.outbox.has_context()) {
            entry.outbox.push(Outgoing::Context(context));
        }
        self.announce(&mut state, Instant::now());
        Some(StreamReader { sessions: self.clone(), session: session.clone(), number })
    }

    /// Tells the clients in each of these places what the user looks at, unless they know it already.
    pub fn publish_contexts(&self, contexts: Vec<(Place, IdeContext)>) {
        let contexts: Vec<_> =
            contexts.into_iter().map(|(place, snapshot)| (place, Context::new(snapshot))).collect();
        let mut state = self.state();
        if state.announced == 0 {
            return;
        }
        for (place, context) in contexts {
            if !state.contexts.is_known(&place, &context) {
                state.tell_context(place, context);
            }
        }
        let places = state.places();
        state.contexts.keep(&places);
        drop(state);
        self.published.notify_waiters();
    }

    /// Tells all clients the same.
    #[cfg(test)]
    pub fn publish_context(&self, snapshot: IdeContext) {
        let places = self.places().into_iter();
        self.publish_contexts(places.map(|place| (place, snapshot.clone())).collect());
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
            if let Some(context) = state.context_of(session) {
                return context.snapshot.active_file();
            }
            if state.ending {
                return None;
            }
        }
        let _ = tokio::time::timeout(FIRST_CONTEXT, published).await;
        self.state().context_of(session)?.snapshot.active_file()
    }

    /// Opens a stream of document 004.
    pub fn listen(self: &Arc<Self>, agent: Arc<Agent>, place: Place) -> EventReader {
        let mut state = self.state();
        let context = state.contexts.get(&place).map(|context| event_json(&context.snapshot));
        if context.is_none() {
            self.bridge.send(Event::Clients); // as in `settle_in`
        }
        let number = state.listeners.add(agent.clone(), place, context);
        state.note_readers();
        state.tell_unheard(&agent, number);
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

    /// Opens a review and tells Lisp. An open review of the same file and session is replaced. The
    /// file has `bytes_now`, which Emacs reads.
    pub fn open_review(
        &self,
        session: &SessionId,
        path: String,
        content: String,
        bytes_now: usize,
    ) -> Result<ReviewId, &'static str> {
        let mut state = self.state();
        if state.ending {
            return Err(STOPPING); // no outcome could follow
        }
        let Some(entry) = state.sessions.get_mut(session) else {
            return Err("the session has ended");
        };
        let (client, info) = (entry.client.describe(), entry.client.info());
        let agent = entry.client.agent.name.clone();
        let process = entry.peer.own_process().map(Process::id);
        entry.outbox.forget_outcomes_of(&path);
        if entry.outbox.is_full() {
            return Err("too many outcomes wait for you: open your event stream and read them");
        }
        let bytes = content.len() + bytes_now;
        let load = state.reviews.load_without(session, &path);
        let fits = load.count < self.limits.reviews
            && load.bytes + state.unheard_bytes() + bytes <= self.limits.review_bytes
            && self.bridge.has_room_for(bytes);
        if !fits {
            return Err("too many reviews wait for the user: decide some of them first");
        }
        state.supersede(session, &path);
        let (review, older) = state.reviews.open(session, &path, bytes);
        self.tell_closed(older);
        self.bridge.send(Event::OpenReview { review, agent, client, info, process, path, content });
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
    ) -> Option<Closed> {
        let mut state = self.state();
        self.claim(&mut state, session, path);
        let review = state.reviews.find(session, path)?;
        let by_proposer = state.reviews.is_with_proposer(review);
        if silent {
            state.reviews.end(review);
        } else {
            state.settle(review, &Outcome::Rejected);
        }
        self.bridge.send(Event::CloseReview { review, call: Some(call) });
        Some(Closed { review, by_proposer })
    }

    /// Asks Lisp to decide a review as the user would, at the wish of the client that opened it.
    /// The client works in `place`, if the session does not tell.
    pub fn ask_to_decide(
        &self,
        session: &SessionId,
        path: &str,
        accept: bool,
        call: CallId,
        place: Option<Place>,
    ) -> Asked {
        let mut state = self.state();
        let Some(review) = state.reviews.find(session, path) else { return Asked::NotOpen };
        if !self.bridge.has_room_for_decision() {
            return Asked::TooMany; // calls that were cancelled leave their events behind
        }
        if !state.reviews.begin_decision(review, call, |call| self.bridge.is_awaited(call)) {
            return Asked::Already;
        }
        let own = || state.sessions.get(session).and_then(|session| session.place.clone());
        let place = place.or_else(own).unwrap_or(Place::Unknown);
        let directory = place.directory().map(str::to_owned);
        self.bridge.send(Event::DecideReview { review, accept, call, directory });
        Asked::Sent
    }

    /// Reports the user's decision to the session that asked. False if it was no longer open.
    pub fn decide(&self, review: ReviewId, outcome: Outcome) -> bool {
        let mut state = self.state();
        let settled = state.settle(review, &outcome);
        state.limit_kept(self.limits.kept_bytes);
        drop(state);
        self.changed.notify_one();
        settled
    }

    /// How the latest review of `path` ended that an unnamed session had, if that is known still.
    pub fn outcome(&self, session: &SessionId, path: &str) -> Option<Outcome> {
        let state = self.state();
        let session = state.sessions.get(session).filter(|session| session.is_unnamed)?;
        session.outbox.outcome_of(path).map(|decided| Outcome::of_event(&decided.text))
    }

    /// Before the server stops: rejects open reviews, and lets the streams end properly.
    pub fn end_all(&self) {
        let mut state = self.state();
        for review in state.reviews.all() {
            state.settle(review, &Outcome::Rejected);
        }
        // There is no time left to come back in.
        self.hand_on(&mut state, Instant::now() + STREAM_GRACE);
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
        state.note_readers();
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
        self.hand_on(&mut state, now);
        for id in state.sessions_where(|_, session| !session.may_return(now)) {
            self.close_reviews_of(&mut state, &id);
        }
        let idle = state.sessions_where(|id, session| {
            state.idle_until(id, session).is_some_and(|until| until <= now) && !state.is_owed(id)
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
        self.close_reviews_of(state, id);
        self.announce(state, Instant::now());
    }

    fn remove_listener(&self, state: &mut State, number: u64) {
        state.listeners.remove(number);
        state.note_readers();
        self.announce(state, Instant::now());
        self.changed.notify_one();
    }

    /// Tells Lisp how many clients there are if that has changed. While there is none Lisp does not
    /// say what the user looks at, nor that he does not want it told any more.
    fn announce(&self, state: &mut State, now: Instant) {
        // Readers of events are counted themselves.
        let counts = |session: &&Session| {
            session.is_connected(now) && !matches!(session.stream, Stream::Events)
        };
        let connected = state.sessions.values().filter(counts).count() + state.listeners.count();
        if connected != state.announced {
            state.announced = connected;
            if connected == 0 {
                state.forget_context();
            }
            self.bridge.send(Event::Clients);
        }
    }

    /// Closes the reviews of a session for which nobody waits any more.
    fn close_reviews_of(&self, state: &mut State, id: &SessionId) {
        for review in state.reviews.of(id) {
            state.reviews.end(review);
            self.tell_closed([review]);
        }
    }

    /// Tells Lisp that reviews are over without the user.
    fn tell_closed(&self, reviews: impl IntoIterator<Item = ReviewId>) {
        for review in reviews {
            self.bridge.send(Event::CloseReview { review, call: None });
        }
    }

    /// Moves what lost sessions wait for to the sessions that replaced them. Not at once: a session
    /// that comes back keeps its own.
    fn hand_on(&self, state: &mut State, now: Instant) {
        state.note_shared_processes();
        for lost in state.sessions_where(|_, session| !session.is_connected(now)) {
            if let Some(heir) = state.heir_of(&lost) {
                self.tell_closed(state.inherit(&heir, &lost));
            }
        }
    }

    /// A client that closes a review which a lost session of its process has open is the same client:
    /// there is no need to wait whether that session comes back.
    fn claim(&self, state: &mut State, session: &SessionId, path: &str) {
        if state.reviews.find(session, path).is_some() {
            return;
        }
        state.note_shared_processes();
        let Some(claimant) = state.sessions.get(session) else { return };
        let lost = state.sessions_where(|id, lost| {
            state.reviews.find(id, path).is_some() && lost.may_be_replaced_by(claimant)
        });
        for lost in lost {
            self.tell_closed(state.inherit(session, &lost));
        }
    }

    /// A session came back, for which another one was taken to speak: so these are two clients.
    fn give_back(&self, state: &mut State, id: &SessionId) {
        self.tell_closed(state.reviews.give_back(id));
        let others = state.sessions.iter_mut().filter(|(other, _)| *other != id);
        let owed: Vec<Decided> = others
            .flat_map(|(_, other)| other.outbox.take_outcomes(|decided| decided.proposer == *id))
            .collect();
        state.deliver(id, owed);
    }
}

impl State {
    /// Forgets what the user has looked at, also what waits for sessions that may come back.
    fn forget_context(&mut self) {
        self.contexts.forget();
        for session in self.sessions.values_mut() {
            session.outbox.forget_context();
        }
    }

    /// Where clients work, each place once.
    fn places(&self) -> Vec<Place> {
        let named = self.sessions.values().filter(|session| !session.is_unnamed);
        let of_sessions = named.filter_map(|session| session.place.as_ref());
        let of_listeners = self.listeners.describe().map(|(_, _, place, _)| place);
        let mut places: Vec<Place> = Vec::new();
        for place in of_sessions.chain(of_listeners) {
            if !places.contains(place) {
                places.push(place.clone());
            }
        }
        places
    }

    /// What a session is told.
    fn context_of(&self, id: &SessionId) -> Option<&Context> {
        self.contexts.get(self.sessions.get(id)?.place.as_ref()?)
    }

    /// Tells the clients in `place` of a context that is new, each in its words.
    fn tell_context(&mut self, place: Place, context: Context) {
        if self.listeners.are_in(&place) {
            self.listeners.tell_context(&place, &event_json(&context.snapshot));
        }
        let before = self.contexts.get(&place).map(|context| context.snapshot.active_file());
        let active = context.snapshot.active_file();
        let active_is_new = before.as_ref() != Some(&active);
        let mut active_message = None;
        for session in self.sessions.values_mut().filter(|session| session.hears_in(&place)) {
            session.push(Outgoing::Context(context.message.clone()));
            if session.wants_active_file && active_is_new {
                let message =
                    active_message.get_or_insert_with(|| active_file_json(active.as_ref()));
                session.push(Outgoing::ActiveFile(message.clone()));
            }
        }
        self.contexts.set(place, context);
    }

    fn find(&mut self, id: &str, agent: &Agent) -> Option<(SessionId, &mut Session)> {
        let id = SessionId::from(id);
        let session = self.sessions.get_mut(&id)?;
        // One agent must not speak for another.
        if *session.client.agent != *agent {
            return None;
        }
        session.last_used = Instant::now();
        Some((id, session))
    }

    /// The unnamed session of `agent`.
    fn unnamed(&self, agent: &Agent) -> Option<SessionId> {
        let mut all = self.sessions.iter();
        let found = all.find(|(_, session)| session.is_unnamed && *session.client.agent == *agent);
        found.map(|(id, _)| id.clone())
    }

    /// Notes whether the clients of unnamed sessions read `/events`: those are their streams.
    fn note_readers(&mut self) {
        for session in self.sessions.values_mut().filter(|session| session.is_unnamed) {
            if self.listeners.has_reader_of(&session.client.agent) {
                session.stream = Stream::Events;
            } else if let Stream::Events = session.stream {
                session.stream = Stream::Lost { since: Instant::now() };
            }
        }
    }

    /// Tells a listener what was decided for the unnamed session of `agent` while nobody listened.
    fn tell_unheard(&mut self, agent: &Agent, listener: u64) {
        let unnamed = self.unnamed(agent);
        let Some(session) = unnamed.and_then(|id| self.sessions.get_mut(&id)) else { return };
        while let Some((_, outcome)) = session.outbox.next() {
            self.listeners.tell_one(listener, outcome);
        }
    }

    /// When to forget a session, unless it is used before. While a review of an unnamed one is open
    /// nothing tells that its client is gone, if that does not listen.
    fn idle_until(&self, id: &SessionId, session: &Session) -> Option<Instant> {
        let waits = session.is_unnamed && !self.reviews.of(id).is_empty();
        session.idle_until().filter(|_| !waits)
    }

    /// The session that makes room for a new one of `agent`: one that nobody uses, and to which
    /// nothing is owed unless it is of the same agent, whose own such sessions come first.
    fn least_used(&self, agent: &Agent) -> Option<SessionId> {
        let unused = self.sessions.iter().filter(|(_, session)| session.idle_until().is_some());
        let ranked = unused.filter_map(|(id, session)| {
            let owed = session.outbox.has_outcome() || !self.reviews.of(id).is_empty();
            let own = *session.client.agent == *agent;
            (own || !owed).then_some((id, (owed, !own, session.last_used)))
        });
        ranked.min_by_key(|(_, rank)| *rank).map(|(id, _)| id.clone())
    }

    /// Bytes of outcomes that clients have not read.
    fn unheard_bytes(&self) -> usize {
        self.sessions.values().map(|session| session.outbox.waiting_bytes()).sum()
    }

    /// Takes a review off the list and queues its outcome for the session that asked.
    fn settle(&mut self, review: ReviewId, outcome: &Outcome) -> bool {
        let Some(ended) = self.reviews.end(review) else { return false };
        let Ended { id, owner, proposer, path, superseded } = ended;
        let Some(session) = self.sessions.get(&owner) else { return true };
        let (agent, is_unnamed) = (session.client.agent.clone(), session.is_unnamed);
        let has_readers = self.listeners.has_reader_of(&agent);
        let event = (has_readers || is_unnamed)
            .then(|| notification_json(&Notification::event_of_outcome(&path, outcome)).into());
        if let Some(event) = &event {
            self.listeners.tell_outcome(&agent, event);
        }
        let text = match event.filter(|_| is_unnamed) {
            Some(event) => event,
            None => notification_json(&Notification::of_outcome(&path, outcome)).into(),
        };
        let brief = Notification::of_outcome_in_brief(&path, outcome)
            .filter(|_| owner == proposer && !is_unnamed)
            .map(|notification| notification_json(&notification).into());
        self.deliver(&owner, [Decided { review: id, proposer, path, text, brief, superseded }]);
        if let Some(session) = self.sessions.get_mut(&owner).filter(|_| is_unnamed) {
            session.last_used = Instant::now();
            if has_readers {
                session.outbox.hand_out();
            }
        }
        true
    }

    /// Forgets what the sessions unused longest keep for streams that broke, until all together keep
    /// no more than `limit` bytes.
    fn limit_kept(&mut self, limit: usize) {
        let mut sessions: Vec<_> =
            self.sessions.values_mut().filter(|session| session.outbox.kept_bytes() > 0).collect();
        sessions.sort_unstable_by_key(|session| session.last_used);
        let mut kept: usize = sessions.iter().map(|session| session.outbox.kept_bytes()).sum();
        for session in sessions {
            if kept <= limit {
                break;
            }
            kept -= session.outbox.kept_bytes();
            session.outbox.forget_kept();
        }
    }

    /// Queues outcomes for a session, but none that it would take for that of a newer review.
    fn deliver(&mut self, id: &SessionId, outcomes: impl IntoIterator<Item = Decided>) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        for decided in outcomes {
            if self.reviews.find(id, &decided.path).is_none_or(|open| open < decided.review) {
                session.push(Outgoing::Outcome(decided));
            }
        }
    }

    /// The client of a session proposes a change of `path`: it does not wait any more for what it has
    /// asked in sessions before.
    fn supersede(&mut self, id: &SessionId, path: &str) {
        let Some(session) = self.sessions.get(id) else { return };
        let earlier = self.sessions_where(|_, other| other.is_earlier_of(session));
        for other in earlier {
            self.reviews.supersede(&other, path);
            if let Some(other) = self.sessions.get_mut(&other) {
                other.outbox.supersede(path);
            }
        }
    }

    fn sessions_where(&self, matches: impl Fn(&SessionId, &Session) -> bool) -> Vec<SessionId> {
        let found = self.sessions.iter().filter(|(id, session)| matches(id, session));
        found.map(|(id, _)| id.clone()).collect()
    }

    /// Whether a living client waits for something that this session has not heard.
    fn is_owed(&self, id: &SessionId) -> bool {
        let session = &self.sessions[id];
        matches!(&session.peer, Peer::Client(process) if process.is_alive())
            && (session.outbox.has_outcome() || !self.reviews.of(id).is_empty())
    }

    /// The newest session of the same client that began when the stream was lost or later.
    fn heir_of(&self, id: &SessionId) -> Option<SessionId> {
        let lost = &self.sessions[id];
        let heirs = self
            .sessions
            .iter()
            .filter(|(_, heir)| lost.may_be_replaced_by(heir) && !heir.is_lost());
        heirs.max_by_key(|(_, heir)| heir.begun).map(|(id, _)| id.clone())
    }

    /// The client of a session takes leave: a session that its process begins later has nothing to do
    /// with what earlier ones wait for.
    fn disown_earlier(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let earlier =
            self.sessions_where(|_, other| other.is_lost() && other.is_earlier_of(session));
        for other in earlier {
            if let Some(other) = self.sessions.get_mut(&other) {
                other.peer = Peer::Unknown;
            }
        }
    }

    /// Moves what `lost` waits for to `heir`. Returns the reviews that end by it.
    fn inherit(&mut self, heir: &SessionId, lost: &SessionId) -> Vec<ReviewId> {
        let Some(session) = self.sessions.get_mut(lost) else { return Vec::new() };
        session.replaced = true;
        let mut outcomes = session.outbox.take_outcomes(|_| true);
        outcomes.retain(|decided| !decided.superseded);
        let closed = self.reviews.inherit(heir, lost);
        self.deliver(heir, outcomes);
        closed
    }

    /// Notes which processes speak for several clients: those of which an earlier session is in use
    /// after a later one has begun, which one client would have replaced it by.
    fn note_shared_processes(&mut self) {
        let mut known: HashMap<&Process, Vec<&Session>> = HashMap::new();
        for session in self.sessions.values() {
            if let Peer::Client(process) = &session.peer {
                known.entry(process).or_default().push(session);
            }
        }
        known.retain(|_, sessions| {
            sessions.sort_unstable_by_key(|session| session.begun);
            sessions.windows(2).any(|pair| pair[0].outlived(pair[1]))
        });
        let shared: Vec<Process> = known.into_keys().cloned().collect();
        for session in self.sessions.values_mut() {
            session.peer.share(&shared);
        }
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

impl Session {
    fn new(client: Client, revision: Revision) -> Session {
        let now = Instant::now();
        Session {
            client,
            is_unnamed: false,
            peer: Peer::Unknown,
            place: Some(Place::Unknown),
            placed: now,
            revision,
            begun: now,
            pinged: None,
            outbox: Outbox::default(),
            wants_active_file: false,
            stream: Stream::Never,
            busy: 0,
            calls: HashMap::new(),
            last_used: now,
            last_heard: now,
            replaced: false,
        }
    }

    fn unnamed(agent: &Arc<Agent>) -> Session {
        let (name, version) = (agent.title.clone(), String::new());
        let client = Client { agent: agent.clone(), name, version };
        Session { is_unnamed: true, ..Session::new(client, Revision::NEWEST) }
    }

    /// Keeps this session, which is `id`, alive until a request is answered.
    fn occupy(
        &mut self,
        sessions: &Arc<Sessions>,
        id: &SessionId,
        unnamed: Option<Connection>,
    ) -> Busy {
        self.busy += 1;
        self.last_heard = Instant::now();
        let (sessions, session) = (sessions.clone(), id.clone());
        Busy { sessions, session, revision: self.revision, unnamed }
    }

    /// Whether it is told the context of `place`.
    fn hears_in(&self, place: &Place) -> bool {
        !self.is_unnamed && self.place.as_ref() == Some(place)
    }

    /// Whether it is time to look where the client is. Who looked for the process may have ended with
    /// a server that was replaced.
    fn may_have_moved(&self) -> bool {
        match &self.place {
            None => self.placed.elapsed() >= STREAM_GRACE,
            Some(Place::Unknown) => false,
            Some(Place::Directory(_)) => self.placed.elapsed() >= BETWEEN_PLACES,
        }
    }

    /// Where the client is now, as far as is known.
    fn place_now(&self) -> Place {
        match Place::of(self.peer.process()) {
            Place::Unknown => self.place.clone().unwrap_or(Place::Unknown),
            place => place,
        }
    }

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
            Stream::Open { .. } | Stream::Events => None,
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
        self.is_connected(now) || self.peer.process().is_some_and(Process::is_alive)
    }

    /// Whether the client had a stream that broke, and has not come back.
    fn is_lost(&self) -> bool {
        matches!(self.stream, Stream::Lost { .. })
    }

    /// Whether the client's process is known to have ended.
    fn is_dead(&self) -> bool {
        self.is_lost() && self.peer.process().is_some_and(|process| !process.is_alive())
    }

    /// Whether `later` is of the same client, and began when this session's stream was lost or after.
    fn may_be_replaced_by(&self, later: &Session) -> bool {
        matches!(self.stream, Stream::Lost { since } if later.begun + LOOK_AGAIN > since)
            && self.is_earlier_of(later)
    }

    /// Whether `later` is of the same client, as far as we know.
    fn is_earlier_of(&self, later: &Session) -> bool {
        self.begun < later.begun
            && self.client == later.client
            && match (&self.peer, &later.peer) {
                (Peer::Client(process), Peer::Client(other)) => process == other,
                _ => false,
            }
    }

    /// Whether this session was in use well after `later` had begun.
    fn outlived(&self, later: &Session) -> bool {
        let last_sign = match self.stream {
            Stream::Open { .. } | Stream::Events => Instant::now(),
            Stream::Lost { since } => since.max(self.last_heard),
            Stream::Never => self.last_heard,
        };
        last_sign > later.begun + LOOK_AGAIN
    }
}

impl Peer {
    fn process(&self) -> Option<&Process> {
        match self {
            Peer::Unknown => None,
            Peer::Client(process) | Peer::Shared(process) => Some(process),
        }
    }

    /// The process, if it is not known to speak for several clients.
    fn own_process(&self) -> Option<&Process> {
        match self {
            Peer::Client(process) => Some(process),
            Peer::Unknown | Peer::Shared(_) => None,
        }
    }

    /// Whether this is `process`, and known to speak for several clients.
    fn shares(&self, process: &Process) -> bool {
        matches!(self, Peer::Shared(shared) if shared == process)
    }

    /// Notes that the processes `shared` speak for several clients.
    fn share(&mut self, shared: &[Process]) {
        if let Peer::Client(process) = self
            && shared.contains(process)
        {
            *self = Peer::Shared(process.clone());
        }
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

    /// Its name and version as it says them.
    fn info(&self) -> (String, String) {
        (self.name.clone(), self.version.clone())
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

    /// Ends the call with this id, without an answer. Of clients that name no session, one might
    /// end what another one asked.
    pub fn cancel(&self, id: &Id) {
        if self.unnamed.is_some() {
            return;
        }
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

    /// Tells the client that no file is open if nobody has told what the user looks at. After
    /// `ping` one of them waits for that, and disconnects if it does not come, whatever Emacs does.
    pub fn ensure_context(&self) {
        let mut state = self.sessions.state();
        if state.context_of(&self.session).is_none()
            && let Some(session) = state.sessions.get_mut(&self.session)
            && !session.is_unnamed
        {
            let no_file = Context::new(IdeContext::new(Vec::new()));
            session.push(Outgoing::Context(no_file.message));
        }
    }

    /// Passes on what the client has to say to the user.
    pub fn say(&self, text: &str) {
        let state = self.sessions.state();
        let Some(session) = state.sessions.get(&self.session) else { return };
        self.sessions.bridge.say(session.client.describe(), text.to_owned());
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Where the request comes from, if it names no session.
    pub fn unnamed(&self) -> Option<Connection> {
        self.unnamed
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
        self.sessions.remove_listener(&mut self.sessions.state(), self.number);
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
#[path = "../../test/rust/handover.rs"]
mod handover;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ide::File;

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
        let session = sessions.open(client(""), Revision::NEWEST).unwrap();
        sessions.recognise(&session, Process::with_id(std::process::id()));
        let stream = sessions.open_stream(&session, None).unwrap();
        (session, stream)
    }

    fn open_review(sessions: &Sessions, session: &SessionId) -> ReviewId {
        sessions.open_review(session, "/a".to_owned(), String::new(), 0).unwrap()
    }

    #[test]
    fn a_client_whose_stream_does_not_return_is_gone() {
        let (bridge, sessions) = sessions();
        let session = sessions.open(client(""), Revision::NEWEST).unwrap();
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
    fn who_comes_back_hears_no_context_from_when_nobody_was_there() {
        let (_, sessions) = sessions();
        let publish = |path: &str| {
            let file = File { path: path.to_owned(), is_active: Some(true), ..File::default() };
            sessions.publish_context(IdeContext::new(vec![file]));
        };
        let session = sessions.open(client(""), Revision::NEWEST).unwrap();
        sessions.state().sessions.get_mut(&session).unwrap().wants_active_file = true;
        let stream = sessions.open_stream(&session, None).unwrap();
        publish("/heard");
        assert_eq!(heard(&stream), 2);
        publish("/waits");
        drop(stream);
        pass(&sessions, STREAM_GRACE);
        publish("/told-to-nobody");
        for last_event in [None, Some(0)] {
            let back = sessions.open_stream(&session, last_event).unwrap();
            assert_eq!(heard(&back), 0);
        }
        publish("/now");
        let back = sessions.open_stream(&session, None).unwrap();
        assert_eq!(heard(&back), 2);
    }

    #[test]
    fn who_is_being_looked_for_hears_nothing_yet_and_not_for_ever() {
        let (_, sessions) = sessions();
        let session = sessions.open(client(""), Revision::NEWEST).unwrap();
        sessions.expect_recognition(&session);
        let stream = sessions.open_stream(&session, None).unwrap();
        let publish = || {
            let contexts = vec![(Place::Unknown, IdeContext::new(Vec::new()))];
            sessions.publish_contexts(contexts);
        };
        assert_eq!(sessions.places(), []);
        publish();
        assert_eq!(heard(&stream), 0);
        pass(&sessions, STREAM_GRACE);
        assert_eq!(sessions.places(), [Place::Unknown]);
        publish();
        assert_eq!(heard(&stream), 1);
    }

    #[test]
    fn a_stream_that_returns_in_time_keeps_its_reviews() {
        let (_, sessions) = sessions();
        let session = sessions.open(client(""), Revision::NEWEST).unwrap();
        drop(sessions.open_stream(&session, None));
        let review = open_review(&sessions, &session);
        let _stream = sessions.open_stream(&session, None);
        assert_eq!(sessions.expire(Instant::now() + 2 * IDLE_LIMIT), None);
        assert!(sessions.decide(review, Outcome::Rejected));
    }

    #[test]
    fn a_session_that_nobody_uses_is_forgotten_and_its_reviews_with_it() {
        let (bridge, sessions) = sessions();
        let session = sessions.open(client(""), Revision::NEWEST).unwrap();
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
        let open = || sessions.open(client(""), Revision::NEWEST).unwrap();
        let process = Process::with_id(std::process::id()).unwrap();
        let old = open();
        sessions.recognise(&old, Some(process.clone()));
        drop(sessions.open_stream(&old, None));
        let decided = sessions.open_review(&old, "/decided".to_owned(), String::new(), 0).unwrap();
        let open_one = open_review(&sessions, &old);
        events(&bridge);
        sessions.expire(Instant::now() + 2 * IDLE_LIMIT);
        assert_eq!(events(&bridge), [Event::Clients]);
        assert!(sessions.decide(decided, Outcome::Rejected));
        let (stranger, heir) = (open(), open());
        sessions.recognise(&heir, Some(process));
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

    fn listen(sessions: &Arc<Sessions>, agent: Agent) -> EventReader {
        sessions.listen(agent.into(), Place::Unknown)
    }

    fn enter_unnamed(sessions: &Arc<Sessions>) -> Busy {
        let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let from = Connection { client: nowhere, server: nowhere };
        sessions.enter_unnamed(&gemini().into(), from).unwrap()
    }

    #[test]
    fn reviews_of_a_client_without_session_end_when_it_does_not_listen_any_more() {
        let (bridge, sessions) = sessions();
        let review = open_review(&sessions, enter_unnamed(&sessions).session());
        drop(listen(&sessions, Agent::qwen(Vec::new())));
        pass(&sessions, 2 * IDLE_LIMIT); // it may be one that never listens
        drop((listen(&sessions, gemini()), listen(&sessions, gemini())));
        pass(&sessions, STREAM_GRACE / 2);
        let reader = listen(&sessions, gemini());
        pass(&sessions, STREAM_GRACE);
        sessions.interrupt_streams();
        drop(reader);
        pass(&sessions, STREAM_GRACE / 2);
        let reader = listen(&sessions, gemini());
        pass(&sessions, STREAM_GRACE);
        assert_eq!(sessions.describe()[0].reviews, [review]);
        drop(reader);
        events(&bridge);
        pass(&sessions, STREAM_GRACE);
        assert_eq!(events(&bridge), [Event::CloseReview { review, call: None }, Event::Clients]);
        pass(&sessions, IDLE_LIMIT);
        assert_eq!(sessions.describe(), []);
    }

    #[test]
    fn what_a_client_without_session_has_not_heard_is_kept_for_a_while() {
        let (_, sessions) = sessions();
        let session = enter_unnamed(&sessions).session().clone();
        let review = open_review(&sessions, &session);
        pass(&sessions, 2 * IDLE_LIMIT);
        assert!(sessions.decide(review, Outcome::Rejected));
        pass(&sessions, IDLE_LIMIT / 2);
        assert_eq!(sessions.outcome(&session, "/a"), Some(Outcome::Rejected));
        pass(&sessions, IDLE_LIMIT);
        assert_eq!(sessions.outcome(&session, "/a"), None);
    }

    /// All that was is so much longer ago.
    fn pass(sessions: &Sessions, time: Duration) {
        for session in sessions.state().sessions.values_mut() {
            let Session { begun, last_used, last_heard, placed, .. } = session;
            for moment in [begun, last_used, last_heard, placed] {
                *moment -= time;
            }
            if let Stream::Lost { since } = &mut session.stream {
                *since -= time;
            }
        }
        sessions.expire(Instant::now());
    }

    fn heard(stream: &StreamReader) -> usize {
        std::iter::from_fn(|| next(stream)).count()
    }

    fn next(stream: &StreamReader) -> Option<String> {
        match stream.poll_next(Waker::noop()) {
            Poll::Ready(next) => next.map(|(_, text)| text.to_string()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn another_client_behind_the_same_proxy_takes_nothing() {
        let (_, sessions) = sessions();
        let (one, stream) = open_here(&sessions);
        let review = open_review(&sessions, &one);
        drop(stream);
        let (_, other) = open_here(&sessions); // as soon as it begins
        let back = sessions.open_stream(&one, None).unwrap();
        assert!(sessions.decide(review, Outcome::Rejected));
        assert_eq!((heard(&back), heard(&other)), (1, 0));
    }

    #[test]
    fn who_comes_back_late_has_what_another_was_given() {
        for decided_before in [true, false] {
            let (_, sessions) = sessions();
            let (one, stream) = open_here(&sessions);
            let review = open_review(&sessions, &one);
            drop(stream);
            let (_, other) = open_here(&sessions);
            pass(&sessions, STREAM_GRACE);
            let decide = || assert!(sessions.decide(review, Outcome::Rejected));
            if decided_before {
                decide();
            }
            let back = sessions.enter(one.as_str(), &gemini()).unwrap();
            let back = sessions.open_stream(back.session(), None).unwrap();
            if !decided_before {
                decide();
            }
            assert_eq!((heard(&back), heard(&other)), (1, 0));
            // From now on both are known for what they are.
            let review = open_review(&sessions, &one);
            drop(back);
            pass(&sessions, STREAM_GRACE);
            assert!(sessions.decide(review, Outcome::Rejected));
            assert_eq!(heard(&other), 0);
        }
    }

    #[test]
    fn an_heir_hears_the_text_that_is_left_out_for_the_proposer() {
        for decided_before in [true, false] {
            let (_, sessions) = sessions();
            let (lost, stream) = open_here(&sessions);
            let review = open_review(&sessions, &lost);
            let outcome = Outcome::Accepted { content: "text".to_owned(), may_omit: true };
            let decide = || assert!(sessions.decide(review, outcome.clone()));
            if decided_before {
                decide();
                assert!(!next(&stream).unwrap().contains("text"));
            }
            drop(stream);
            let (_, heir) = open_here(&sessions);
            pass(&sessions, STREAM_GRACE);
            if !decided_before {
                decide();
            }
            assert!(next(&heir).unwrap().contains("text"));
        }
    }

    #[test]
    fn an_heir_recognised_late_hears_no_outcome_of_what_it_has_proposed_anew() {
        let (_, sessions) = sessions();
        let (lost, stream) = open_here(&sessions);
        let stale = open_review(&sessions, &lost);
        drop(stream);
        assert!(sessions.decide(stale, Outcome::Rejected));
        let heir = sessions.open(client(""), Revision::NEWEST).unwrap();
        let review = open_review(&sessions, &heir);
        sessions.recognise(&heir, Process::with_id(std::process::id()));
        pass(&sessions, STREAM_GRACE);
        let stream = sessions.open_stream(&heir, None).unwrap();
        assert_eq!(heard(&stream), 0);
        assert!(sessions.decide(review, Outcome::Rejected));
        assert_eq!(heard(&stream), 1);
    }

    #[test]
    fn a_client_that_just_began_anew_may_close_what_it_has_opened_before() {
        let (_, sessions) = sessions();
        let (lost, stream) = open_here(&sessions);
        let review = open_review(&sessions, &lost);
        let close = |session| sessions.close_review(session, "/a", true, CallId(1));
        let stranger = sessions.open(client(""), Revision::NEWEST).unwrap();
        let (heir, heirs_stream) = open_here(&sessions);
        assert_eq!(close(&heir), None);
        drop((stream, heirs_stream));
        assert_eq!(close(&stranger), None);
        assert_eq!(close(&heir), Some(Closed { review, by_proposer: false }));
    }

    #[test]
    fn who_took_leave_hears_nothing_of_what_was_before() {
        let (bridge, sessions) = sessions();
        let (lost, stream) = open_here(&sessions);
        let decided = sessions.open_review(&lost, "/b".to_owned(), String::new(), 0).unwrap();
        let open = open_review(&sessions, &lost);
        assert!(sessions.decide(decided, Outcome::Rejected));
        assert_eq!(heard(&stream), 1);
        drop(stream);
        let (last, _stream) = open_here(&sessions);
        assert!(sessions.close(last.as_str(), &gemini()));
        let (_, stream) = open_here(&sessions);
        events(&bridge);
        pass(&sessions, STREAM_GRACE);
        assert_eq!(heard(&stream), 0);
        assert!(events(&bridge).contains(&Event::CloseReview { review: open, call: None }));
    }

    #[test]
    fn reviews_of_a_client_behind_a_proxy_end_though_the_proxy_lives() {
        let (bridge, sessions) = sessions();
        let (one, stream) = open_here(&sessions);
        let (_, _other) = open_here(&sessions);
        pass(&sessions, 2 * LOOK_AGAIN);
        let review = open_review(&sessions, &one);
        drop(stream);
        events(&bridge);
        pass(&sessions, IDLE_LIMIT);
        assert_eq!(events(&bridge), [Event::CloseReview { review, call: None }, Event::Clients]);
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
        let session = sessions.open(client(""), Revision::NEWEST).unwrap();
        sessions.recognise(&session, Process::with_id(child.id()));
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
        let session = sessions.open(client(""), Revision::NEWEST).unwrap();
        sessions.recognise(&session, Process::with_id(child.id()));
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
        let first = sessions.open(client("cli"), Revision::NEWEST).unwrap();
        let second = sessions.open(client(""), Revision::NEWEST).unwrap();
        sessions.recognise(&first, Process::with_id(std::process::id()));
        let stream = sessions.open_stream(&first, None);
        let (decided, open) = (
            sessions.open_review(&first, "/decided".to_owned(), String::new(), 0).unwrap(),
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
        let first = sessions.open(client(""), Revision::NEWEST).unwrap();
        let _stream = sessions.open_stream(&first, None);
        let second = sessions.open(client(""), Revision::NEWEST).unwrap();
        for _ in 0..3 {
            sessions.open(client(""), Revision::NEWEST).unwrap();
        }
        assert_eq!(sessions.count(), 4);
        assert!(sessions.enter(first.as_str(), &gemini()).is_some());
        assert!(sessions.enter(second.as_str(), &gemini()).is_none());
    }

    #[test]
    fn what_is_owed_to_a_session_is_safe_from_the_flood_of_another_agent() {
        let limits = Limits { sessions: 4, ..Limits::default() };
        let sessions = Arc::new(Sessions::new(Arc::new(Bridge::new()), limits));
        let owed = [
            sessions.open(client(""), Revision::NEWEST),
            sessions.open(client(""), Revision::NEWEST),
        ];
        let [waits, open] = owed.map(Result::unwrap);
        let decided = open_review(&sessions, &waits);
        sessions.decide(decided, Outcome::Rejected);
        open_review(&sessions, &open);
        let idle = sessions.open(client(""), Revision::NEWEST).unwrap();
        let qwen = || Client { agent: Agent::qwen(Vec::new()).into(), ..client("") };
        let flood: Vec<_> =
            (0..5).map(|_| sessions.open(qwen(), Revision::NEWEST).unwrap()).collect();
        assert!(sessions.state().sessions.contains_key(&idle));
        assert_eq!(sessions.state().sessions.len(), 4);
        // Where the flood leaves none of its own to go, one goes to which nothing is owed.
        open_review(&sessions, &flood[4]);
        sessions.open(qwen(), Revision::NEWEST).unwrap();
        let known = |id: &SessionId| sessions.enter(id.as_str(), &gemini()).is_some();
        assert_eq!([&waits, &open, &idle].map(known), [true, true, false]);
    }
}
