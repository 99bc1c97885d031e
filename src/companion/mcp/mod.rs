//! The Model Context Protocol: answers incoming messages.
//!
//! Revisions up to 2025-11-25: later ones have no sessions and no custom notifications, on which
//! companions depend.

pub mod model_tools;
pub mod sessions;
mod tools;

mod session;

mod client;
mod endings;
mod hello;
mod host_tools;
mod listeners;
pub mod message;
mod outbox;
mod reviews;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::bridge::Bridge;
use hello::Hello;
pub use hello::Revision;
use message::{Message, Output, Params, Reply, Request, RpcError};
use model_tools::ModelTools;
use sessions::{ActiveSession, Client, Origin, SessionId, Sessions};
use tools::Tools;

pub struct Protocol {
    pub bridge: Arc<Bridge>,
    pub sessions: Arc<Sessions>,
    tools: Tools,
    pub model_tools: Arc<ModelTools>,
}

impl Protocol {
    pub fn new(
        bridge: Arc<Bridge>,
        sessions: Arc<Sessions>,
        model_tools: Arc<ModelTools>,
    ) -> Protocol {
        let tools = Tools::new(bridge.clone(), sessions.clone());
        Protocol { bridge, sessions, tools, model_tools }
    }

    /// Answers `initialize`, the request that starts a session.
    pub fn initialize(
        &self,
        request: Request,
        agent: Arc<Agent>,
        origin: Origin,
    ) -> (Reply, Option<SessionId>) {
        match self.open_session(request.params, agent, origin) {
            Ok((result, session)) => (Reply::new(request.id, Ok(result.into())), Some(session)),
            Err(failure) => (Reply::new(request.id, Err(failure)), None),
        }
    }

    fn open_session(
        &self,
        params: Params,
        agent: Arc<Agent>,
        origin: Origin,
    ) -> Result<(Value, SessionId), RpcError> {
        let hello: Hello = params.read()?;
        let revision = hello.revision();
        let (name, version) = hello.client();
        let session = self.sessions.open(Client { agent, name, version }, revision, origin);
        Ok((hello::answer(revision), session.map_err(RpcError::internal)?))
    }

    /// Answers one request of a session; `None` if the client has cancelled it in the meantime.
    pub async fn serve(&self, session: &ActiveSession, request: Request) -> Option<Reply> {
        let Request { id, method, params } = request;
        tokio::select! {
            // Disabled if the session has ended, or the client reuses the id: the call goes on.
            Ok(()) = session.begin(&id) => None,
            outcome = self.answer(session, &method, params) => Some(Reply::new(id, outcome)),
        }
    }

    /// Handles a message that gets no answer.
    pub fn handle(&self, session: &ActiveSession, message: &Message) {
        match message {
            Message::Cancelled(id) => session.cancel(id),
            Message::Response(id) => session.pong(id),
            Message::ForUser(text) => session.forward_to_user(text),
            Message::Request(_) | Message::Notification => {}
        }
    }

    async fn answer(
        &self,
        session: &ActiveSession,
        method: &str,
        params: Params,
    ) -> Result<Output, RpcError> {
        match method {
            "ping" => {
                session.ensure_context();
                Ok(json!({}).into())
            }
            "tools/list" => {
                let has_own_front = session.note_tools();
                Ok(Output::Ready(Tools::list(session.host.is_some(), has_own_front)))
            }
            "tools/call" => self.tools.call(session, params).await,
            "initialize" => Err(RpcError::invalid_request("this session is initialized already")),
            _ => Err(RpcError::method_not_found(method)),
        }
    }
}
