//! The requests of sessions that are being answered.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::Instant;

use super::Sessions;
use super::context::context_json;
use crate::agent::Agent;
use crate::bridge::Event;
use crate::host::{Host, IgnoreFile};
use crate::ide::IdeContext;
use crate::mcp::client::SessionId;
use crate::mcp::hello::Revision;
use crate::mcp::message::Id;
use crate::mcp::outbox::Outgoing;
use crate::mcp::session::{PING, Session};
use crate::place::Place;

/// Finds out where the client of a request works: too costly to be done for every request.
pub type FindPlace = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Place> + Send>> + Send + Sync>;

/// A session with an HTTP request in progress, which keeps it alive.
pub struct ActiveSession {
    sessions: Arc<Sessions>,
    pub session: SessionId,
    pub revision: Revision,
    /// Where its client is, unless on this machine.
    pub host: Option<Arc<Host>>,
    /// Finds out where the client works, if the request names no session.
    unnamed: Option<FindPlace>,
}

impl Sessions {
    /// Finds the session of a request of `agent`, and keeps it alive until the request is answered.
    pub(crate) fn enter(self: &Arc<Self>, id: &str, agent: &Agent) -> Option<ActiveSession> {
        let mut table = self.table();
        let (id, session) = table.find(id, agent)?;
        Some(self.occupy(session, id, None))
    }

    /// Finds, or begins, the session of a request that names none, like those of document 004. All
    /// clients with the token of `agent` share it: they cannot be distinguished.
    pub(crate) fn enter_unnamed(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        place: FindPlace,
    ) -> anyhow::Result<ActiveSession> {
        let mut table = self.table();
        let id = match table.unnamed(agent) {
            Some(id) => id,
            None => self.begin(&mut table, Session::unnamed(agent))?,
        };
        let session = table.sessions.get_mut(&id).expect("it has just been found");
        Ok(self.occupy(session, id, Some(place)))
    }

    /// Keeps `session`, whose id is `id`, alive until a request is answered.
    fn occupy(
        self: &Arc<Self>,
        session: &mut Session,
        id: SessionId,
        unnamed: Option<FindPlace>,
    ) -> ActiveSession {
        session.busy += 1;
        let host = session.client.agent.host.clone();
        ActiveSession {
            sessions: self.clone(),
            session: id,
            revision: session.revision,
            host,
            unnamed,
        }
    }
}

impl ActiveSession {
    fn change<T>(&self, change: impl FnOnce(&mut Session) -> T) -> Option<T> {
        self.sessions.table().sessions.get_mut(&self.session).map(change)
    }

    /// Records that its client knows the tools. Returns whether its user decides in its own front end.
    pub fn note_tools(&self) -> bool {
        let note = |session: &mut Session| {
            session.knows_tools = true;
            session.origin.has_own_front
        };
        self.change(note).unwrap_or(false)
    }

    /// Whether the request names no session.
    pub fn is_unnamed(&self) -> bool {
        self.unnamed.is_some()
    }

    /// Finds out where the client works.
    pub async fn find_place(&self) -> Place {
        match &self.unnamed {
            Some(find) => find().await,
            None => self.change(|session| session.origin.place.clone()).unwrap_or_default(),
        }
    }

    /// Begins the call with this id. The receiver gets a value if the client cancels it.
    pub fn begin(&self, id: &Id) -> oneshot::Receiver<()> {
        self.change(|session| session.begin_call(id)).unwrap_or_else(|| oneshot::channel().1)
    }

    /// Waits until the session has handled what its client has asked of a diff of `path` before. Later
    /// requests wait until the value is dropped.
    pub async fn in_turn(&self, path: &str) -> Option<OwnedMutexGuard<()>> {
        let turns = self.change(|session| session.turns(path))?;
        Some(turns.lock_owned().await)
    }

    pub fn cancel(&self, id: &Id) {
        self.change(|session| session.cancel_call(id));
    }

    /// Handles the client's answer to a request of ours, which can only be a ping.
    pub fn pong(&self, id: &Id) {
        self.change(|session| {
            if let Some(pinged) = session.pinged.take_if(|_| id.is_text(PING)) {
                let client = session.client.describe();
                self.sessions.bridge.send(Event::Pong { client, after: pinged.elapsed() });
            }
        });
    }

    /// Sends the client an empty context if there is none yet. After a `ping` some clients wait for
    /// a context, and disconnect if none comes, however busy Emacs is.
    pub fn ensure_context(&self) {
        let mut table = self.sessions.table();
        if table.context_of(&self.session).is_none()
            && let Some(session) = table.sessions.get_mut(&self.session)
            && !session.is_unnamed
        {
            session.push(Outgoing::Context(context_json(&IdeContext::new(Vec::new()))));
        }
    }

    /// Records an ignore file on the client's host. Notifies Lisp if it differs from the one before.
    pub fn set_ignore_file(&self, directory: &str, file: IgnoreFile) {
        let is_new = self.host.as_ref().is_some_and(|host| host.set_ignore_file(directory, file));
        if is_new {
            self.sessions.bridge.send(Event::ClientsChanged);
        }
    }

    /// Passes a message of the client on to the user, unless too many are waiting.
    pub fn forward_to_user(&self, text: &str) {
        self.change(|session| {
            let (client, text) = (session.client.describe(), text.to_owned());
            self.sessions.bridge.send_if_room(Event::Message { client, text });
        });
    }
}

impl Drop for ActiveSession {
    fn drop(&mut self) {
        self.change(|session| {
            session.busy -= 1;
            session.turns.retain(|_, turns| Arc::strong_count(turns) > 1); // names may be long
            session.last_used = Instant::now();
            if session.is_idle() {
                self.sessions.changed.notify_one();
            }
        });
    }
}
