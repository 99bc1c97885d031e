//! `/mcp`, `/mcp/tools` and `/events`: turns HTTP requests into calls of the protocol, and results
//! into responses.
//!
//! Statuses are those of the contract and of MCP's Streamable HTTP transport.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::watch;

use super::answer::{
    HttpAnswer, Uses, accepted, closing, empty, event_stream, json, large_json, method_not_allowed,
};
use super::body::{BodyReader, Reservation};
use super::error::HttpError;
use super::guard::Guard;
use super::headers::{
    EVENT_STREAM, JSON, LAST_EVENT_ID, SESSION_ID, accepts, directory, has_json, has_own_front,
    named_revision, process, session_id, session_key,
};
use super::peer::{Peer, Way, origin_of};
use super::sse::EventStream;
use super::trace::Tracer;
use crate::agent::Agent;
use crate::bridge::Event;
use crate::limits::Limits;
use crate::mcp::Protocol;
use crate::mcp::message::{self, Message, Reply, RpcError};
use crate::mcp::sessions::{ActiveSession, Origin};
use crate::panics;

/// For a client with a valid token, when no connection can be closed for its own.
const FULL: &str = "too many connections, each with a stream or an unanswered request: close some";
/// For an agent, or a host, with too many requests.
const BUSY: &str = "too many requests of clients like this one are being answered: try again later";

/// Methods for clients of document 004, which have no sessions.
const METHODS_WITHOUT_SESSION: [&str; 3] = ["tools/list", "tools/call", "ping"];

pub struct Endpoint {
    pub guard: Guard,
    pub protocol: Protocol,
    pub limits: Limits,
    bodies: BodyReader,
    tracer: Tracer,
    phase: watch::Receiver<Phase>,
}

/// Which phase of its life the server is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Serving,
    /// Another server takes new connections.
    Retired,
    Stopping,
    /// Ended by a panic.
    Died,
}

impl Endpoint {
    pub fn new(
        guard: Guard,
        protocol: Protocol,
        limits: Limits,
        phase: watch::Receiver<Phase>,
    ) -> Endpoint {
        let tracer = Tracer::new(protocol.bridge.clone(), guard.roster.clone());
        Endpoint { guard, protocol, bodies: BodyReader::new(limits.clone()), tracer, limits, phase }
    }

    /// Whether each further answer closes its connection, and each further stream ends at once.
    fn is_retired(&self) -> bool {
        *self.phase.borrow() == Phase::Retired
    }

    /// Answers one HTTP request. The answer is logged as it is sent, and until then its connection
    /// counts as in use.
    pub async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        from: Peer,
    ) -> Response<impl Body<Data = Bytes, Error = Infallible>> {
        let named = session_key(request.headers());
        let (answer, in_use) = match self.admit(&request, &from) {
            Ok((agent, in_use)) => {
                let outcome = self.catch_panic(self.route(request, agent, &from, &in_use));
                let outcome = outcome.await.unwrap_or_else(|failure| {
                    Err(HttpError { status: StatusCode::INTERNAL_SERVER_ERROR, failure })
                });
                (outcome.unwrap_or_else(HttpError::into_answer), Some(in_use))
            }
            // The rest of the request is not read, so the connection cannot be reused.
            Err(refusal) => (closing(refusal.into_answer()), None),
        };
        let answer = if self.is_retired() { closing(answer) } else { answer };
        // `initialize` has just begun one.
        let session = named.or_else(|| session_key(answer.headers())).unwrap_or_default();
        let status = answer.status();
        if answer.body().is_end_stream() {
            self.tracer.sent(&session, status, b"");
        }
        answer.map(|body| {
            body.inspect_frame(move |frame| {
                let _until_sent = &in_use;
                if let Some(data) = frame.data_ref() {
                    self.tracer.sent(&session, status, data);
                }
            })
        })
    }

    /// The agent whose token a request shows, or by whose socket it came from a host.
    fn admit(
        &self,
        request: &Request<Incoming>,
        from: &Peer,
    ) -> Result<(Arc<Agent>, Uses), HttpError> {
        let agent = match &from.way {
            Way::Loopback(_) => self.guard.check(request.uri(), request.headers())?,
            Way::Wire(agent) => agent.clone(),
        };
        let full = || HttpError::new(StatusCode::SERVICE_UNAVAILABLE, FULL);
        let in_use = from.admission.begin_request(&agent.allowance).ok_or_else(full)?;
        let busy = |_| HttpError::new(StatusCode::TOO_MANY_REQUESTS, BUSY);
        let share = agent.allowance.requests.clone().try_acquire_owned().map_err(busy)?;
        Ok((agent, Uses { _connection: in_use, share: share.into() }))
    }

    /// Runs `work`; a panic in it is reported to Emacs, and becomes an internal error.
    fn catch_panic<F: Future>(&self, work: F) -> impl Future<Output = Result<F::Output, RpcError>> {
        let caught = panics::caught(work);
        async {
            caught.await.map_err(|panic| {
                self.protocol.bridge.send(Event::Warning(format!(
                    "a request failed because of a fault in the companion: {panic}"
                )));
                RpcError::internal("Internal error")
            })
        }
    }

    async fn route(
        self: &Arc<Self>,
        request: Request<Incoming>,
        agent: Arc<Agent>,
        from: &Peer,
        in_use: &Uses,
    ) -> Result<HttpAnswer, HttpError> {
        let (head, body) = request.into_parts();
        // Messages are logged when they are read.
        if head.method != Method::POST || !["/mcp", "/mcp/tools"].contains(&head.uri.path()) {
            self.tracer.received(&head, b"");
        }
        match (head.uri.path(), &head.method) {
            ("/events", _) if agent.host.is_some() => Err(HttpError::new(
                StatusCode::FORBIDDEN,
                "/events is not for clients on other machines",
            )),
            ("/mcp/tools", &Method::POST) => self.tools(head, body, &agent, from).await,
            ("/mcp/tools", _) => Ok(method_not_allowed("POST")),
            ("/events", &Method::GET) => self.events(agent, from).await,
            ("/events", _) => Ok(method_not_allowed("GET")),
            ("/mcp", &Method::POST) => self.post(head, body, agent, from, in_use).await,
            ("/mcp", &Method::GET) => self.get(&head.headers, &agent),
            ("/mcp", &Method::DELETE) => self.delete(&head.headers, &agent),
            ("/mcp", _) => Ok(method_not_allowed("GET, POST, DELETE")),
            _ => Err(HttpError::new(
                StatusCode::NOT_FOUND,
                "the paths here are /mcp, /mcp/tools and /events",
            )),
        }
    }

    /// The stream of document 004.
    async fn events(&self, agent: Arc<Agent>, from: &Peer) -> Result<HttpAnswer, HttpError> {
        let place = origin_of(from.connection()).await.place;
        if self.is_retired() {
            return Ok(retired_stream()); // before what waits for a reader is given to this one
        }
        let reader = self.protocol.sessions.listen(agent, place).ok_or_else(|| {
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
        head: Parts,
        body: Incoming,
        agent: &Agent,
        from: &Peer,
    ) -> Result<HttpAnswer, HttpError> {
        let (message, mut reservation) = self.read_post(&head, body, agent).await?;
        let Message::Request(request) = message else { return Ok(accepted()) };
        let place = match &agent.host {
            Some(host) => host.place(directory(&head.headers).as_deref()),
            None => origin_of(from.connection()).await.place,
        };
        let reply = self.protocol.model_tools.serve(request, agent, place).await;
        let text = into_json(reply, &mut reservation);
        Ok(large_json(text, reservation))
    }

    async fn post(
        self: &Arc<Self>,
        head: Parts,
        body: Incoming,
        agent: Arc<Agent>,
        from: &Peer,
        in_use: &Uses,
    ) -> Result<HttpAnswer, HttpError> {
        let (message, reservation) = self.read_post(&head, body, &agent).await?;
        let headers = &head.headers;
        match message {
            Message::Request(request) if request.method == "initialize" => {
                self.initialize(headers, request, agent, from).await
            }
            Message::Request(request) => {
                let session = self.session_of(&request, headers, &agent, from)?;
                Ok(self.serve(session, request, reservation, in_use).await)
            }
            _ if !headers.contains_key(SESSION_ID) => {
                // Clients of document 004 may send notifications. None is about a call that it could
                // name: it might be another client's.
                Ok(accepted())
            }
            message => {
                let session = self.session(headers, &agent)?;
                self.protocol.handle(&session, &message);
                Ok(accepted())
            }
        }
    }

    /// The message of a POST of `agent`, and the reservation for its body.
    async fn read_post(
        &self,
        head: &Parts,
        body: Incoming,
        agent: &Agent,
    ) -> Result<(Message, Reservation), HttpError> {
        let read = self.read_body(&head.headers, body, agent).await;
        // The log also shows what was refused, if without its body.
        self.tracer.received(head, read.as_ref().map_or(b"", |(body, _)| body));
        // The message has its part of the body, which may be large, and drops it when it is parsed:
        // the call may wait.
        let (body, reservation) = read?;
        Ok((message::parse(&body).map_err(HttpError::bad_request)?, reservation))
    }

    async fn read_body(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        agent: &Agent,
    ) -> Result<(Bytes, Reservation), HttpError> {
        if !(accepts(headers, JSON) && accepts(headers, EVENT_STREAM)) {
            return Err(not_acceptable("Accept must list application/json and text/event-stream"));
        }
        if !has_json(headers) {
            return Err(HttpError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Content-Type must be application/json",
            ));
        }
        named_revision(headers)?;
        let read = self.bodies.read(body, &agent.allowance).await;
        if read.as_ref().is_err_and(|error| error.status == StatusCode::PAYLOAD_TOO_LARGE) {
            // Gemini CLI then gives up the connection, and the user waits for a change.
            let text = format!(
                "a message of {} was larger than `gemini-companion-max-message-size' allows: raise that, \
                 turn the mode off and on, and type /ide enable there",
                agent.title
            );
            self.protocol.bridge.send_if_room(Event::Message { client: "Emacs".into(), text });
        }
        let (body, reservation) = read?;
        if let Some(host) = &agent.host {
            host.slow_down(body.len()).await;
        }
        Ok((body, reservation))
    }

    async fn initialize(
        &self,
        headers: &HeaderMap,
        request: message::Request,
        agent: Arc<Agent>,
        from: &Peer,
    ) -> Result<HttpAnswer, HttpError> {
        if headers.contains_key(SESSION_ID) {
            return Err(HttpError::bad_request(RpcError::invalid_request(
                "initialize must not name a session",
            )));
        }
        let origin = match &agent.host {
            // At the other end of the connection there is the local ssh.
            Some(host) => Origin {
                place: host.place(directory(headers).as_deref()),
                process_there: process(headers),
                has_own_front: has_own_front(headers),
                ..Origin::default()
            },
            // Others are served while it is looked for.
            None => origin_of(from.connection()).await,
        };
        let (response, session) = self.protocol.initialize(request, agent, origin);
        let mut answer = json(StatusCode::OK, &response);
        if let Some(session) = session {
            let id = HeaderValue::from_str(session.as_str()).expect("session ids are hexadecimal");
            answer.headers_mut().insert(SESSION_ID, id);
        }
        Ok(answer)
    }

    /// Answers one request of a session: as an event stream if that takes long, which is empty if the
    /// request was cancelled. The work goes on if the client disconnects, since by MCP that does not
    /// cancel it.
    async fn serve(
        self: &Arc<Self>,
        session: ActiveSession,
        request: message::Request,
        mut reservation: Reservation,
        in_use: &Uses,
    ) -> HttpAnswer {
        let (endpoint, share) = (self.clone(), in_use.share.clone());
        let mut work = tokio::spawn(async move {
            let _until_done = share;
            let text = into_json(endpoint.reply(&session, request).await?, &mut reservation);
            Some((text, reservation))
        });
        match tokio::time::timeout(self.limits.stream_after, &mut work).await {
            Ok(Ok(Some((text, reservation)))) => large_json(text, reservation),
            Ok(_) => event_stream(Full::default()),
            Err(_) => event_stream(EventStream::late(work, self.limits.keep_alive)),
        }
    }

    /// Answers one request; `None` if the client has cancelled it.
    async fn reply(&self, session: &ActiveSession, request: message::Request) -> Option<Reply> {
        let id = request.id.clone();
        let reply = self.catch_panic(self.protocol.serve(session, request)).await;
        reply.unwrap_or_else(|failure| Some(Reply::new(id, Err(failure))))
    }

    fn get(&self, headers: &HeaderMap, agent: &Agent) -> Result<HttpAnswer, HttpError> {
        if !accepts(headers, EVENT_STREAM) {
            return Err(not_acceptable("Accept must list text/event-stream"));
        }
        let session = self.session(headers, agent)?;
        let last_event = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse().ok());
        let reader = self
            .protocol
            .sessions
            .open_stream(&session.session, last_event)
            .ok_or_else(HttpError::unknown_session)?;
        if self.is_retired() {
            return Ok(retired_stream());
        }
        Ok(event_stream(EventStream::new(reader, self.limits.keep_alive)))
    }

    fn delete(&self, headers: &HeaderMap, agent: &Agent) -> Result<HttpAnswer, HttpError> {
        let session = self.session(headers, agent)?;
        self.protocol.sessions.close(&session.session);
        Ok(empty(StatusCode::OK))
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
            || headers.contains_key(SESSION_ID)
            || !METHODS_WITHOUT_SESSION.contains(&&*request.method)
        {
            return self.session(headers, agent);
        }
        // Not the admission, which the request may outlive.
        let connection = from.connection();
        let find_place =
            Box::new(move || Box::pin(async move { origin_of(connection).await.place }) as _);
        self.protocol
            .sessions
            .enter_unnamed(agent, find_place)
            .map_err(|error| HttpError::new(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()))
    }

    /// The session that a request names. If the request also names a revision, it must be that of
    /// the session.
    fn session(&self, headers: &HeaderMap, agent: &Agent) -> Result<ActiveSession, HttpError> {
        let session = self.protocol.sessions.enter(session_id(headers)?, agent);
        let session = session.ok_or_else(HttpError::unknown_session)?;
        if named_revision(headers)?.is_some_and(|named| named != session.revision) {
            return Err(HttpError::new(
                StatusCode::BAD_REQUEST,
                "this session was initialized with another revision of MCP",
            ));
        }
        Ok(session)
    }
}

/// A reply as JSON, for which `reservation` grows; if there is no room for it, it is an error.
fn into_json(reply: Reply, reservation: &mut Reservation) -> String {
    let text = reply.to_json();
    if reservation.admit_answer(text.len()) {
        return text;
    }
    let busy = "too many large messages and answers at once: ask again";
    reply.refused(RpcError::internal(busy)).to_json()
}

fn not_acceptable(reason: &str) -> HttpError {
    HttpError::new(StatusCode::NOT_ACCEPTABLE, reason)
}

/// A stream that ends at once: the client reconnects, to another server.
fn retired_stream() -> HttpAnswer {
    event_stream(Full::default())
}
