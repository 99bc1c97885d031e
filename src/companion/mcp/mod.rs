//! The Model Context Protocol: answers incoming messages.
//!
//! Revisions up to 2025-11-25: later ones have no sessions and no custom notifications, on which
//! companions depend.

pub mod model_tools;
pub mod sessions;
mod tools;

mod session;

mod calls;
mod client;
mod endings;
mod host_tools;
mod listeners;
pub mod message;
mod outbox;
mod places;
mod reviews;
pub mod revision;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::bridge::Bridge;
use message::{Message, Output, Params, Request, Response, RpcError};
use model_tools::ModelTools;
use revision::Revision;
use sessions::{ActiveSession, Client, SessionId, Sessions};
use tools::Tools;

pub struct Protocol {
    bridge: Arc<Bridge>,
    sessions: Arc<Sessions>,
    tools: Tools,
    model_tools: Arc<ModelTools>,
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

    pub fn bridge(&self) -> &Arc<Bridge> {
        &self.bridge
    }

    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    pub fn model_tools(&self) -> &ModelTools {
        &self.model_tools
    }

    /// Answers `initialize`, the request that starts a session.
    pub fn initialize(&self, request: Request, agent: Arc<Agent>) -> (Response, Option<SessionId>) {
        match self.open_session(request.params, agent) {
            Ok((result, session)) => (Response::new(request.id, Ok(result.into())), Some(session)),
            Err(failure) => (Response::new(request.id, Err(failure)), None),
        }
    }

    fn open_session(
        &self,
        params: Params,
        agent: Arc<Agent>,
    ) -> Result<(Value, SessionId), RpcError> {
        let hello: InitializeParams = params.read()?;
        let revision = hello.revision();
        let ClientInfo { name, version: own_version } = hello.client_info;
        let client = Client { agent, name: sanitize(&name), version: sanitize(&own_version) };
        let session = self.sessions.open(client, revision).map_err(|error| RpcError {
            code: RpcError::internal_error().code,
            message: error.to_string(),
        })?;
        let result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": { "tools": {} },
            "serverInfo": server_info(),
        });
        Ok((result, session))
    }

    /// Answers one request of a session; `None` if the client has cancelled it in the meantime.
    pub async fn serve(&self, session: &ActiveSession, request: Request) -> Option<Response> {
        let Request { id, method, params } = request;
        let mut call = session.begin(&id);
        tokio::select! {
            outcome = self.answer(session, &method, params) => {
                Some(Response::new(id, outcome))
            }
            () = call.cancelled() => None,
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
                let has_own_front = session.has_own_front();
                Ok(Output::Ready(Tools::list(session.host().is_some(), has_own_front)))
            }
            "tools/call" => self.tools.call(session, params).await.map(Output::from),
            "initialize" => Err(RpcError::invalid_request("this session is initialized already")),
            _ => Err(RpcError::method_not_found(method)),
        }
    }
}

fn server_info() -> Value {
    json!({
        "name": "gemini-companion",
        "title": "Emacs",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The parameters of `initialize`, all of them optional.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InitializeParams {
    protocol_version: Option<String>,
    #[serde(deserialize_with = "client_info")]
    client_info: ClientInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClientInfo {
    name: String,
    version: String,
}

impl InitializeParams {
    /// The requested revision if we support it, else our newest, which the client may then refuse.
    fn revision(&self) -> Revision {
        self.protocol_version.as_deref().and_then(Revision::named).unwrap_or(Revision::NEWEST)
    }
}

fn client_info<'de, D: serde::Deserializer<'de>>(from: D) -> Result<ClientInfo, D::Error> {
    let info = Params::deserialize(from)?.read();
    info.map_err(|failure| serde::de::Error::custom(failure.message))
}

/// A name as it is shown to the user: shortened, and without control characters, line separators
/// and changes of the writing direction.
fn sanitize(name: &str) -> String {
    let disturbs = |character: char| {
        character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(character, '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    name.chars().filter(|character| !disturbs(*character)).take(64).collect()
}
