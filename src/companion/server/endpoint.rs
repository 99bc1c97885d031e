//! `/mcp` and `/events`: turns HTTP requests into calls of the protocol, and results into
//! responses.
//!
//! Statuses are those of contract 2 and of MCP's Streamable HTTP transport.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::answer::{
    CallResult, EVENT_STREAM, HttpError, InUse, JSON, Sending, accepted, closing, empty,
    event_stream, json, large_json, method_not_allowed, refuse,
};
use super::body::{BodyReader, Reservation};
use super::guard::{Guard, Refusal};
use super::headers::{
    LAST_EVENT_ID, SESSION_ID, accepts, directory, has_json, has_own_front, named_revision,
    names_no_session, prefers_stream, session_id, session_key,
};
use super::peer::{Finder, Peer};
use super::sse::{EventStream, LateReply};
use crate::agent::Agent;
use crate::bridge::{Direction, Event};
use crate::limits::Limits;
use crate::mcp::Protocol;
use crate::mcp::message::{self, Message, Response as Reply, RpcError};
use crate::mcp::sessions::ActiveSession;
use crate::panics;
use crate::trace::{TracedBody, Tracer};

/// For a client with a valid token, when no connection can be closed for its own.
const FULL: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "too many connections, all of them with an event stream or a request that is being \
             answered: close some",
};

/// For an agent, or a host, with too many requests.
const BUSY: Refusal = Refusal {
    status: StatusCode::TOO_MANY_REQUESTS,
    reason: "too many requests of clients like this one are being answered: try again later",
};

/// Methods for clients of document 004, which have no sessions.
const METHODS_WITHOUT_SESSION: [&str; 3] = ["tools/list", "tools/call", "ping"];

const METHODS: &str = "GET, POST, DELETE";

pub struct Endpoint {
    guard: Guard,
    protocol: Protocol,
    finder: Arc<Finder>,
    limits: Limits,
    bodies: BodyReader,
    retired: AtomicBool,
}

impl Endpoint {
    pub fn new(guard: Guard, protocol: Protocol, limits: Limits) -> Endpoint {
        Endpoint {
            guard,
            protocol,
            finder: Arc::default(),
            bodies: BodyReader::new(limits.clone()),
            limits,
            retired: AtomicBool::new(false),
        }
    }

    /// Makes each further answer close its connection, and each further stream end at once.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Answers one HTTP request.
    pub async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        from: Peer,
    ) -> Response<Sending> {
        let mut tracer = self.tracer(request.headers());
        let (answer, in_use) = match self.admit(&request, &from) {
            Ok((agent, in_use)) => {
                let route = self.route(request, agent, &from, &tracer);
                let outcome = self.catch_panic(route).await.unwrap_or_else(|failure| {
                    Err(HttpError { status: StatusCode::INTERNAL_SERVER_ERROR, failure })
                });
                (outcome.unwrap_or_else(HttpError::into_answer), Some(in_use))
            }
            Err(refusal) => (refuse(&refusal), None),
        };
        let answer = if self.is_retired() { closing(answer) } else { answer };
        if tracer.session.is_empty() {
            tracer.session = session_key(answer.headers()); // initialize has just begun it
        }
        let status = answer.status().as_u16();
        if answer.body().is_end_stream() {
            tracer.log(Direction::ToClient, answer.status().as_str(), b"");
        }
        answer.map(|body| Sending { body: TracedBody { body, tracer, status }, _in_use: in_use })
    }

    /// The agent whose token a request shows.
    fn admit(
        &self,
        request: &Request<Incoming>,
        from: &Peer,
    ) -> Result<(Arc<Agent>, InUse), Refusal> {
        let agent = self.guard.check(request.uri(), request.headers())?;
        let in_use = from.admission.begin_request(&agent.allowance).ok_or(FULL)?;
        let share = agent.allowance.begin_request().ok_or(BUSY)?;
        Ok((agent, InUse { _connection: in_use, _share: share }))
    }

    fn tracer(&self, headers: &HeaderMap) -> Tracer {
        Tracer {
            bridge: self.protocol.bridge().clone(),
            agents: self.guard.agents(),
            session: session_key(headers),
        }
    }

    /// Runs `work`; a panic in it is reported to Emacs, and becomes an internal error.
    fn catch_panic<F: Future>(&self, work: F) -> impl Future<Output = Result<F::Output, RpcError>> {
        let caught = panics::caught(work);
        async {
            caught.await.map_err(|panic| {
                self.protocol.bridge().send(Event::Warning(format!(
                    "a request failed because of a fault in the companion: {panic}"
                )));
                RpcError::internal_error()
            })
        }
    }

    async fn route(
        self: &Arc<Self>,
        request: Request<Incoming>,
        agent: Arc<Agent>,
        from: &Peer,
        tracer: &Tracer,
    ) -> Result<CallResult, HttpError> {
        match request.uri().path() {
            "/mcp" => {}
            "/mcp/tools" | "/events" if agent.host.is_some() => {
                return Err(HttpError::new(
                    StatusCode::FORBIDDEN,
                    "only /mcp is for clients on other machines",
                ));
            }
            "/mcp/tools" => return self.tools(request, &agent, from, tracer).await,
            "/events" => {
                return self.events(request.method(), agent, from, tracer).await;
            }
            _ => {
                return Err(HttpError::new(
                    StatusCode::NOT_FOUND,
                    "the paths here are /mcp, /mcp/tools and /events",
                ));
            }
        }
        if *request.method() == Method::POST {
            return self.post(request, agent, from, tracer).await;
        }
        tracer.log(Direction::FromClient, request.method().as_str(), b"");
        match *request.method() {
            Method::GET => self.get(request.headers(), &agent),
            Method::DELETE => self.delete(request.headers(), &agent),
            _ => Ok(method_not_allowed(METHODS)),
        }
    }

    /// The stream of document 004.
    async fn events(
        &self,
        method: &Method,
        agent: Arc<Agent>,
        from: &Peer,
        tracer: &Tracer,
    ) -> Result<CallResult, HttpError> {
        tracer.log(Direction::FromClient, &format!("{method} /events"), b"");
        if *method != Method::GET {
            return Ok(method_not_allowed("GET"));
        }
        let place = self.finder.clone().place_of(from.connection).await;
        if self.is_retired() {
            return Ok(retired_stream()); // before what waits for a reader is given to this one
        }
        let reader = self.protocol.sessions().listen(agent, place).ok_or_else(|| {
            HttpError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many readers of /events: close some of them",
            )
        })?;
        if self.is_retired() {
            return Ok(retired_stream()); // the others may have been ended before this one began
        }
        Ok(event_stream(EventStream::new(reader, self.limits.keep_alive)))
    }

    /// The tools for the model. If the client disconnects, its call is cancelled: without a session,
    /// it could not get the answer any more.
    async fn tools(
        &self,
        request: Request<Incoming>,
        agent: &Agent,
        from: &Peer,
        tracer: &Tracer,
    ) -> Result<CallResult, HttpError> {
        if *request.method() != Method::POST {
            tracer.log(Direction::FromClient, &format!("{} /mcp/tools", request.method()), b"");
            return Ok(method_not_allowed("POST"));
        }
        let (_, incoming, mut reservation) =
            self.read_post(request, "POST /mcp/tools", agent, tracer).await?;
        match incoming {
            message::Incoming::One(Message::Request(request)) => {
                let place = self.finder.clone().place_of(from.connection).await;
                let reply = self.protocol.model_tools().serve(request, agent, place).await;
                let text = Replies::One(reply).into_json(&mut reservation);
                Ok(large_json(text, reservation))
            }
            message::Incoming::One(_) => Ok(accepted()),
            message::Incoming::Batch(_) => {
                Err(HttpError::bad_request(RpcError::invalid_request("there are no batches here")))
            }
        }
    }

    async fn post(
        self: &Arc<Self>,
        request: Request<Incoming>,
        agent: Arc<Agent>,
        from: &Peer,
        tracer: &Tracer,
    ) -> Result<CallResult, HttpError> {
        let (headers, incoming, reservation) =
            self.read_post(request, "POST", &agent, tracer).await?;
        match incoming {
            message::Incoming::One(Message::Request(request)) if request.method == "initialize" => {
                self.initialize(&headers, request, agent, from).await
            }
            message::Incoming::One(Message::Request(request)) => {
                let session = self.session_of(&request, &headers, &agent, from)?;
                let stream = prefers_stream(&headers);
                Ok(self.clone().serve(session, request, reservation, stream).await)
            }
            message::Incoming::One(_) if names_no_session(&headers) => {
                // Clients of document 004 may send notifications. None is about a call that it could
                // name: it might be another client's.
                Ok(accepted())
            }
            message::Incoming::One(message) => {
                let session = self.session(&headers, &agent)?;
                self.protocol.handle(&session, &message);
                Ok(accepted())
            }
            message::Incoming::Batch(items) => {
                let session = self.session(&headers, &agent)?;
                let stream = prefers_stream(&headers);
                self.clone().batch(session, items, reservation, stream).await
            }
        }
    }

    /// The headers and the message of a POST of `agent`, which is logged as `what`, and the
    /// reservation for its body.
    async fn read_post(
        &self,
        request: Request<Incoming>,
        what: &str,
        agent: &Agent,
        tracer: &Tracer,
    ) -> Result<(HeaderMap, message::Incoming, Reservation), HttpError> {
        let (head, body) = request.into_parts();
        if !(accepts(&head.headers, JSON) && accepts(&head.headers, EVENT_STREAM)) {
            return Err(HttpError::new(
                StatusCode::NOT_ACCEPTABLE,
                "Accept must list application/json and text/event-stream",
            ));
        }
        if !has_json(&head.headers) {
            return Err(HttpError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Content-Type must be application/json",
            ));
        }
        named_revision(&head.headers)?;
        let (body, reservation) = self.bodies.read(body, &agent.allowance).await?;
        if let Some(host) = &agent.host {
            host.slow_down(body.len()).await;
        }
        tracer.log(Direction::FromClient, what, &body);
        let incoming = message::parse(&body).map_err(HttpError::bad_request)?;
        // The message has its part of the body, which may be large, and drops it when it is parsed:
        // the call may wait.
        Ok((head.headers, incoming, reservation))
    }

    async fn initialize(
        &self,
        headers: &HeaderMap,
        request: message::Request,
        agent: Arc<Agent>,
        from: &Peer,
    ) -> Result<CallResult, HttpError> {
        if headers.contains_key(SESSION_ID) {
            return Err(HttpError::bad_request(RpcError::invalid_request(
                "initialize must not name a session",
            )));
        }
        let host = agent.host.clone();
        let (response, session) = self.protocol.initialize(request, agent);
        let mut answer = json(StatusCode::OK, &response);
        if let Some(session) = session {
            let sessions = self.protocol.sessions();
            match host {
                // At the other end of the connection there is the local ssh.
                Some(host) => {
                    let place = host.place(directory(headers).as_deref());
                    sessions.place_at(&session, place, has_own_front(headers));
                }
                None => from.identify(&self.finder, sessions, &session).await,
            }
            let id = HeaderValue::from_str(session.as_str()).expect("session ids are hexadecimal");
            answer.headers_mut().insert(SESSION_ID, id);
        }
        Ok(answer)
    }

    /// Answers one request of a session. If it was cancelled, the answer is an empty stream.
    async fn serve(
        self: Arc<Self>,
        session: ActiveSession,
        request: message::Request,
        reservation: Reservation,
        stream: bool,
    ) -> CallResult {
        let endpoint = self.clone();
        let work = async move { endpoint.reply(&session, request).await.map(Replies::One) };
        let answer = self.work(work, reservation, stream).await;
        answer.unwrap_or_else(|| event_stream(Full::default()))
    }

    /// Answers the messages of a batch, one after another: a request may depend on the one before.
    async fn batch(
        self: Arc<Self>,
        session: ActiveSession,
        items: Vec<Result<Message, RpcError>>,
        reservation: Reservation,
        stream: bool,
    ) -> Result<CallResult, HttpError> {
        if !session.revision().has_batches() {
            return Err(HttpError::bad_request(RpcError::invalid_request(
                "the revision of this session has no batches",
            )));
        }
        let wants_answer = |item: &Result<_, _>| matches!(item, Ok(Message::Request(_)) | Err(_));
        let stream = stream && items.iter().any(wants_answer);
        let endpoint = self.clone();
        let work = async move {
            let mut replies = Vec::new();
            for item in items {
                match item {
                    Ok(Message::Request(request)) => {
                        replies.extend(endpoint.reply(&session, request).await);
                    }
                    Ok(message) => endpoint.protocol.handle(&session, &message),
                    Err(failure) => replies.push(Reply::failure(failure)),
                }
            }
            (!replies.is_empty()).then_some(Replies::Batch(replies))
        };
        Ok(self.work(work, reservation, stream).await.unwrap_or_else(accepted))
    }

    /// Answers one request; `None` if the client has cancelled it.
    async fn reply(&self, session: &ActiveSession, request: message::Request) -> Option<Reply> {
        let id = request.id.clone();
        let reply = self.catch_panic(self.protocol.serve(session, request)).await;
        reply.unwrap_or_else(|failure| Some(Reply::new(id, Err(failure))))
    }

    /// Answers with the JSON that `work` returns, if any: as an event stream if it takes long or
    /// the client prefers one. The work goes on if the client disconnects, since by MCP that does
    /// not cancel it.
    async fn work(
        &self,
        work: impl Future<Output = Option<Replies>> + Send + 'static,
        mut reservation: Reservation,
        stream: bool,
    ) -> Option<CallResult> {
        let work = tokio::spawn(async move {
            let text = work.await?.into_json(&mut reservation);
            Some((text, reservation))
        });
        // It fails only if the server stops.
        let mut work = Box::pin(async move { work.await.unwrap_or_default() });
        if !stream
            && let Ok(answer) = tokio::time::timeout(self.limits.stream_after, work.as_mut()).await
        {
            return answer.map(|(text, reservation)| large_json(text, reservation));
        }
        Some(event_stream(LateReply::new(work, self.limits.keep_alive)))
    }

    fn get(&self, headers: &HeaderMap, agent: &Agent) -> Result<CallResult, HttpError> {
        if !accepts(headers, EVENT_STREAM) {
            return Err(HttpError::new(
                StatusCode::NOT_ACCEPTABLE,
                "Accept must list text/event-stream",
            ));
        }
        let session = self.session(headers, agent)?;
        let last_event = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse().ok());
        let reader = self
            .protocol
            .sessions()
            .open_stream(session.session(), last_event)
            .ok_or_else(HttpError::unknown_session)?;
        if self.is_retired() {
            return Ok(retired_stream());
        }
        Ok(event_stream(EventStream::new(reader, self.limits.keep_alive)))
    }

    fn delete(&self, headers: &HeaderMap, agent: &Agent) -> Result<CallResult, HttpError> {
        let is_known = self.protocol.sessions().close(self.session_id(headers, agent)?, agent);
        if is_known { Ok(empty(StatusCode::OK)) } else { Err(HttpError::unknown_session()) }
    }

    /// The session of a request. If the request names none, as those of document 004, that is the
    /// unnamed session of the agent.
    fn session_of(
        &self,
        request: &message::Request,
        headers: &HeaderMap,
        agent: &Arc<Agent>,
        from: &Peer,
    ) -> Result<ActiveSession, HttpError> {
        if agent.host.is_some()
            || !names_no_session(headers)
            || !METHODS_WITHOUT_SESSION.contains(&&*request.method)
        {
            return self.session(headers, agent);
        }
        // Not the admission, which the request may outlive.
        let (finder, connection) = (self.finder.clone(), from.connection);
        let find_place = Box::new(move || Box::pin(finder.clone().place_of(connection)) as _);
        self.protocol
            .sessions()
            .enter_unnamed(agent, find_place)
            .map_err(|error| HttpError::new(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()))
    }

    fn session(&self, headers: &HeaderMap, agent: &Agent) -> Result<ActiveSession, HttpError> {
        let id = self.session_id(headers, agent)?;
        self.protocol.sessions().enter(id, agent).ok_or_else(HttpError::unknown_session)
    }

    /// The session that a request names. If the request also names a revision, it must be that of
    /// the session.
    fn session_id<'a>(&self, headers: &'a HeaderMap, agent: &Agent) -> Result<&'a str, HttpError> {
        let id = session_id(headers)?;
        let revision = self.protocol.sessions().revision(id, agent);
        let revision = revision.ok_or_else(HttpError::unknown_session)?;
        if named_revision(headers)?.is_some_and(|named| named != revision) {
            return Err(HttpError::new(
                StatusCode::BAD_REQUEST,
                "this session was initialized with another revision of MCP",
            ));
        }
        Ok(id)
    }
}

/// The answers to a message, or to a batch of them.
enum Replies {
    One(Reply),
    Batch(Vec<Reply>),
}

impl Replies {
    /// As JSON, for which `reservation` grows; if there is no room for it, they are errors.
    fn into_json(self, reservation: &mut Reservation) -> String {
        let text = self.to_json();
        if reservation.admit_answer(text.len()) {
            return text;
        }
        let refuse = |reply: Reply| reply.refused(RpcError::too_large_an_answer());
        match self {
            Replies::One(reply) => Replies::One(refuse(reply)),
            Replies::Batch(replies) => Replies::Batch(replies.into_iter().map(refuse).collect()),
        }
        .to_json()
    }

    fn to_json(&self) -> String {
        match self {
            Replies::One(reply) => reply.to_json(),
            Replies::Batch(replies) => message::batch_json(replies),
        }
    }
}

/// A stream that ends at once: the client reconnects, to another server.
fn retired_stream() -> CallResult {
    event_stream(Full::default())
}
