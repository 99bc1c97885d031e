//! Tools with which Emacs helps the model, on `/mcp/tools`. Lisp registers them when they are first
//! wanted, and answers calls.
//!
//! There are no sessions here: each request is complete, so that a client which goes on after Emacs
//! was restarted need not begin anew. Breaking the connection cancels the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Number, Value, json};
use tokio::sync::{Semaphore, watch};

use super::hello::{self, Hello};
use super::message::{LongText, Params, Reply, Request, RpcError, text_block, truncate};
use super::tools;
use crate::agent::Agent;
use crate::bridge::{ArgumentValue, Bridge, CallId, Event};
use crate::limits::Limits;
use crate::place::Place;

/// A tool that Lisp offers to the model.
#[derive(Clone, Debug)]
pub struct ModelTool {
    /// What the model calls it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// Whether it changes nothing. Clients may then call it without asking the user.
    pub is_read_only: bool,
    /// Whether it is listed. Those that are not are for programs, not for the model.
    pub is_listed: bool,
    /// Whether clients on hosts have it, too: it tells them nothing of this machine.
    pub is_for_hosts: bool,
    /// What it is called with.
    pub arguments: Vec<Argument>,
}

/// An argument of a tool.
#[derive(Clone, Debug)]
pub struct Argument {
    /// What the model calls it.
    pub name: String,
    /// What it may be.
    pub kind: ArgumentKind,
    /// What it means, for the model.
    pub description: String,
    /// Whether each call must have it.
    pub is_required: bool,
}

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A string.
    Text,
    /// A whole number.
    Integer,
    /// True or false.
    Flag,
}

impl ArgumentKind {
    /// The type with this name in JSON Schema.
    pub fn named(name: &str) -> Option<ArgumentKind> {
        let all = [ArgumentKind::Text, ArgumentKind::Integer, ArgumentKind::Flag];
        all.into_iter().find(|kind| kind.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            ArgumentKind::Text => "string",
            ArgumentKind::Integer => "integer",
            ArgumentKind::Flag => "boolean",
        }
    }

    fn read(self, json: &[u8]) -> Option<ArgumentValue> {
        match self {
            ArgumentKind::Text => {
                serde_json::from_slice(json).ok().map(|LongText(text)| ArgumentValue::Text(text))
            }
            ArgumentKind::Integer => {
                let number: Number = serde_json::from_slice(json).ok()?;
                // Models write 3.0, too.
                let whole = number.as_f64().filter(|float| float.fract() == 0.0);
                number.as_i64().or(whole.map(|float| float as i64)).map(ArgumentValue::Integer)
            }
            ArgumentKind::Flag => serde_json::from_slice(json).ok().map(ArgumentValue::Flag),
        }
    }
}

impl ModelTool {
    fn is_for(&self, agent: &Agent) -> bool {
        self.is_for_hosts || agent.host.is_none()
    }

    fn describe(&self) -> Value {
        let properties: Map<_, _> = self
            .arguments
            .iter()
            .map(|it| {
                let schema = json!({ "type": it.kind.name(), "description": it.description });
                (it.name.clone(), schema)
            })
            .collect();
        let required: Vec<_> =
            self.arguments.iter().filter(|it| it.is_required).map(|it| &it.name).collect();
        json!({
            "name": self.name,
            "description": self.description,
            "annotations": { "readOnlyHint": self.is_read_only, "openWorldHint": false },
            "inputSchema": { "type": "object", "properties": properties, "required": required },
        })
    }

    /// The values of the arguments, in their order, or why a call with them is wrong.
    fn read(&self, mut given: Params) -> Result<Vec<Option<ArgumentValue>>, String> {
        let values = self.arguments.iter().map(|argument| {
            let Argument { name, kind, is_required, .. } = argument;
            match given.take(name) {
                Some(value) => kind.read(&value).map(Some).ok_or_else(|| {
                    format!("the argument \"{name}\" must be of the type {}", kind.name())
                }),
                None if *is_required => Err(format!("the argument \"{name}\" is missing")),
                None => Ok(None),
            }
        });
        let values = values.collect::<Result<_, _>>()?;
        // Gemini CLI adds this argument to each tool, to say when to begin, and sends it, too.
        given.take("wait_for_previous");
        match given.any_name() {
            Some(name) => Err(format!("there is no argument \"{}\"", truncate(name))),
            None => Ok(values),
        }
    }
}

/// The tools that Lisp has registered, and their calls.
pub struct ModelTools {
    bridge: Arc<Bridge>,
    /// `None` until Lisp has registered some.
    registered: watch::Sender<Option<Arc<[ModelTool]>>>,
    wanted: AtomicBool,
    running: Semaphore,
    time: Duration,
}

impl ModelTools {
    pub(crate) fn new(bridge: Arc<Bridge>, limits: &Limits) -> ModelTools {
        ModelTools {
            bridge,
            registered: watch::Sender::default(),
            wanted: AtomicBool::new(false),
            running: Semaphore::new(limits.tool_calls),
            time: limits.tool_time,
        }
    }

    /// Offers `tools` from now on, and no others.
    pub fn register(&self, tools: Vec<ModelTool>) {
        self.registered.send_replace(Some(tools.into()));
    }

    /// The tools; there are none if Lisp registers none in time.
    async fn registered(&self) -> Arc<[ModelTool]> {
        let mut registered = self.registered.subscribe();
        if registered.borrow().is_none() && !self.wanted.swap(true, Ordering::Relaxed) {
            self.bridge.send(Event::ToolsWanted);
        }
        let found = tokio::time::timeout(self.time, registered.wait_for(Option::is_some)).await;
        let tools = found.ok().and_then(Result::ok).and_then(|found| found.clone());
        if tools.is_none() {
            self.wanted.store(false, Ordering::Relaxed); // the next client wants them, too
        }
        tools.unwrap_or_default()
    }

    /// Answers a request of a client of `agent` that works in `place`.
    pub(crate) async fn serve(&self, request: Request, agent: &Agent, place: Place) -> Reply {
        let Request { id, method, params } = request;
        let outcome = match &*method {
            "initialize" => params.read::<Hello>().map(|hello| hello::answer(hello.revision())),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.list(agent).await),
            "tools/call" => self.call(params, agent, place).await,
            _ => Err(RpcError::method_not_found(&method)),
        };
        Reply::new(id, outcome.map(Into::into))
    }

    async fn list(&self, agent: &Agent) -> Value {
        let tools = self.registered().await;
        let listed = tools.iter().filter(|tool| tool.is_listed && tool.is_for(agent));
        let listed: Vec<_> = listed.map(ModelTool::describe).collect();
        json!({ "tools": listed })
    }

    async fn call(&self, params: Params, agent: &Agent, place: Place) -> Result<Value, RpcError> {
        let (name, arguments) = params.read_call()?;
        let tools = self.registered().await;
        let Some(tool) = tools.iter().find(|tool| tool.name == name && tool.is_for(agent)) else {
            return Err(RpcError::invalid_params(format!("unknown tool {}", truncate(&name))));
        };
        // The model reads what was wrong, and can mend it.
        let outcome = match tool.read(arguments) {
            Ok(arguments) => self.ask_emacs(tool, arguments, agent, place).await,
            Err(reason) => Err(reason),
        };
        let failed = outcome.is_err();
        let text = outcome.unwrap_or_else(Into::into);
        Ok(json!({ "content": [text_block(&text)], "isError": failed }))
    }

    async fn ask_emacs(
        &self,
        tool: &ModelTool,
        arguments: Vec<Option<ArgumentValue>>,
        agent: &Agent,
        place: Place,
    ) -> Result<Arc<String>, String> {
        let event = |call| Event::CallTool {
            call,
            agent: agent.name.clone(),
            allowance: agent.allowance.clone(),
            tool: tool.name.clone(),
            arguments,
            directory: place.directory().map(str::to_owned),
        };
        // A program, such as a hook, would not call again.
        let running = tool
            .is_listed
            .then(|| (agent.allowance.calls.try_acquire(), self.running.try_acquire()));
        if let Some((Err(_), _) | (_, Err(_))) = running {
            return Err("Emacs answers as many calls as it can: call again later".to_owned());
        }
        let (call, answer) = self.bridge.call();
        if !self.bridge.send_if_room(event(call)) {
            return Err("Emacs is busy: call again later".to_owned());
        }
        let _waiting = Waiting { bridge: &self.bridge, call, tool };
        Ok(tools::answer_within(self.time, answer).await?.text)
    }
}

/// A call for which Lisp works. If it is dropped before the answer, nobody waits for that, and Lisp
/// need not go on, unless the call tells it something.
struct Waiting<'a> {
    bridge: &'a Bridge,
    call: CallId,
    tool: &'a ModelTool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.bridge.give_up(self.call) && self.tool.is_listed {
            self.bridge.send(Event::CancelCall { call: self.call });
        }
    }
}
