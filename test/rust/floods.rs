//! One agent, or host, uses up all that it may: others are served all the same.

use std::io::{Read, Write};
use std::net::TcpStream;

use gemini_companion::ide::Outcome;
use gemini_companion::{Event, Limits};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::support::{Stream, TestCompanion, request, wait_for};

/// The bytes of the largest message.
const BODY: usize = 64 << 10;
const BUILD: &str = "/ssh:build:";
const OTHER: &str = "/ssh:other:";

/// Much smaller than in production, and in the same proportions.
fn limits() -> Limits {
    Limits {
        body: BODY,
        share_bodies: 5 * BODY / 4,
        bodies: 3 * (5 * BODY / 4),
        sessions: 9,
        share_sessions: 3,
        connections: 36,
        share_connections: 12,
        share_requests: 8,
        reviews: 12,
        share_reviews: 4,
        review_bytes: 6 * BODY,
        share_review_bytes: 2 * BODY,
        share_events: 12,
        queued_bytes: 6 * BODY,
        share_queued_bytes: 2 * BODY,
        tool_calls: 6,
        share_tool_calls: 2,
        event_readers: 2,
        ..Limits::default()
    }
}

fn start() -> TestCompanion {
    let server = TestCompanion::with(limits());
    server.register_find();
    server
}

/// What may be used up.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sessions,
    Requests,
    Bodies,
    Reviews,
    ReviewBytes,
    Events,
    EventBytes,
    Outcomes,
    Calls,
    Readers,
}

const KINDS: [Kind; 10] = [
    Kind::Sessions,
    Kind::Requests,
    Kind::Bodies,
    Kind::Reviews,
    Kind::ReviewBytes,
    Kind::Events,
    Kind::EventBytes,
    Kind::Outcomes,
    Kind::Calls,
    Kind::Readers,
];

/// Who shares an allowance.
struct Party<'a> {
    server: &'a TestCompanion,
    bearer: String,
    /// The name of a local agent, or a host.
    name: &'static str,
    session: Option<String>,
    proposed: usize,
    /// What it holds, and does not read.
    held: Vec<TcpStream>,
    streams: Vec<Stream>,
}

impl<'a> Party<'a> {
    fn new(server: &'a TestCompanion, name: &'static str) -> Party<'a> {
        let token = if name.starts_with('/') {
            let agents = server.companion.open_host(name).unwrap();
            agents[0].token.reveal().to_owned()
        } else {
            server.companion.token(name).unwrap()
        };
        Party {
            server,
            bearer: format!("Bearer {token}"),
            name,
            session: None,
            proposed: 0,
            held: Vec::new(),
            streams: Vec::new(),
        }
    }

    fn is_on_host(&self) -> bool {
        self.name.starts_with('/')
    }

    fn may(&self, kind: Kind) -> bool {
        !(self.is_on_host() && matches!(kind, Kind::Calls | Kind::Readers))
    }

    fn head(&self, method: &str, path: &str, session: &str, accept: &str) -> String {
        let changes =
            [("Authorization", &*self.bearer), ("Mcp-Session-Id", session), ("Accept", accept)];
        self.server.head(method, path, &changes)
    }

    /// Sends a request, whatever becomes of it.
    fn send(&self, path: &str, session: &str, body: &str) -> TcpStream {
        let mut connection = self.server.connect();
        let head = self.head("POST", path, session, "application/json, text/event-stream");
        let _ = write!(connection, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        connection
    }

    /// The status and the text of an answer; 0 if there is none.
    fn post(&self, session: &str, body: &str) -> (u16, String) {
        read(self.send("/mcp", session, body))
    }

    /// The id of a new session.
    fn initialize(&self) -> Option<String> {
        let (_, text) = self.post("", &request(0, "initialize", json!({})));
        let id = text.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        id.map(|id| id.trim().to_owned())
    }

    fn listen(&self, path: &str, session: &str) -> Result<Stream, u16> {
        let mut connection = self.server.connect();
        let head = self.head("GET", path, session, "text/event-stream");
        let _ = write!(connection, "{head}\r\n");
        let mut status = [0; "HTTP/1.1 200".len()];
        connection.read_exact(&mut status).map_err(|_| 0_u16)?;
        match std::str::from_utf8(&status[9..]).unwrap().parse().unwrap() {
            200 => Ok(Stream::of(connection)),
            refused => Err(refused),
        }
    }

    /// Its one session, if it is served.
    fn own_session(&mut self) -> Option<String> {
        let known =
            self.session.take().filter(|id| self.post(id, &request(1, "ping", json!({}))).0 == 200);
        self.session = known.or_else(|| self.initialize());
        self.session.clone()
    }

    /// What this flood calls a file.
    fn file(&self, name: impl std::fmt::Display) -> String {
        let drive = if self.is_on_host() { "" } else { local!("") };
        format!("{drive}/no/such/{name}")
    }

    /// Proposes a change. None if that is refused.
    fn open_diff(&mut self, session: &str, path: &str, content: &str) -> Option<()> {
        self.proposed += 1;
        let arguments = json!({
            "filePath": path, "newContent": content, "current": null,
            "proposal": self.proposed.to_string(),
        });
        let call = json!({ "name": "openDiff", "arguments": arguments });
        let (status, text) = self.post(session, &request(1, "tools/call", call));
        (status == 200 && !text.contains("isError")).then_some(())
    }

    /// Uses some more. None if it is refused.
    fn step(&mut self, kind: Kind) -> Option<()> {
        let large = "x".repeat(BODY - 1000);
        match kind {
            Kind::Sessions => {
                let session = self.initialize()?;
                self.streams.push(self.listen("/mcp", &session).ok()?);
            }
            Kind::Requests => {
                let mut half = self.server.connect();
                let head = self.head("POST", "/mcp", "", "*/*");
                let _ = write!(half, "{head}Content-Length: 9\r\n\r\n");
                self.held.push(half);
                return self.is_served();
            }
            Kind::Bodies => {
                let mut half = self.server.connect();
                let head = self.head("POST", "/mcp", "", "*/*");
                let _ = write!(half, "{head}Content-Length: {BODY}\r\n\r\n{large}");
                self.held.push(half);
                let padding = " ".repeat(BODY / 2);
                return (self.post("", &format!("{{{padding}}}")).0 == 400).then_some(());
            }
            Kind::Reviews | Kind::ReviewBytes => {
                self.server.events();
                let session = self.own_session()?;
                let path = self.file(self.proposed);
                let content = if kind == Kind::Reviews { "" } else { &large };
                return self.open_diff(&session, &path, content);
            }
            Kind::Events | Kind::EventBytes => {
                let session = self.own_session()?;
                let content = if kind == Kind::Events { "" } else { &large };
                return self.open_diff(&session, &self.file("same"), content);
            }
            Kind::Outcomes => {
                self.server.events();
                let session = self.own_session()?;
                let path = self.file(self.proposed);
                self.open_diff(&session, &path, "")?;
                for event in self.server.events() {
                    if let Event::OpenReview { review, .. } = event {
                        // Six times as long, as JSON.
                        let accepted = Outcome::accepted("\u{1}".repeat(BODY));
                        self.server.companion.sessions().decide(review, accepted);
                    }
                }
            }
            Kind::Calls => {
                let call = request(1, "tools/call", json!({ "name": "find" }));
                let connection = self.send("/mcp/tools", "", &call);
                let asked = self.await_call_or_answer(&connection);
                self.held.push(connection);
                return asked.then_some(());
            }
            Kind::Readers => self.streams.push(self.listen("/events", "").ok()?),
        }
        Some(())
    }

    fn is_served(&self) -> Option<()> {
        (self.post("", "{}").0 == 400).then_some(())
    }

    /// Whether Lisp is asked; if not, there is an answer.
    fn await_call_or_answer(&self, connection: &TcpStream) -> bool {
        connection.set_nonblocking(true).unwrap();
        let asked = wait_for("a call or an answer", || {
            let is_call = |event: &Event| matches!(event, Event::CallTool { .. });
            if self.server.events().iter().any(is_call) {
                return Some(true);
            }
            connection.peek(&mut [0]).is_ok().then_some(false)
        });
        connection.set_nonblocking(false).unwrap();
        asked
    }

    fn flood(&mut self, kind: Kind) {
        let refused = (0..100).any(|_| self.step(kind).is_none());
        assert!(refused, "{kind:?} of {} has no limit", self.name);
    }

    /// Does what a client does, and leaves nothing. Says what was refused.
    fn live(&mut self) -> Result<(), &'static str> {
        let session = self.initialize().ok_or("initialize")?;
        let mut stream = self.listen("/mcp", &session).map_err(|_| "a stream")?;
        assert!(stream.rest_of_head().contains("text/event-stream"));
        assert_eq!(stream.next_block().as_deref(), Some(": connected"));
        let content = "x".repeat(BODY / 2);
        let file = self.file("file");
        self.open_diff(&session, &file, &content).ok_or("openDiff")?;
        let review = self.server.events().into_iter().rev().find_map(|event| match event {
            Event::OpenReview { review, path, .. } if path == file => Some(review),
            _ => None,
        });
        let review = review.ok_or("the event of openDiff")?;
        assert!(self.server.companion.sessions().decide(review, Outcome::accepted(content)));
        while stream.notification().0 != "ide/diffAccepted" {}
        if !self.is_on_host() {
            self.call_tool()?;
        }
        let head = self.head("DELETE", "/mcp", &session, "*/*");
        let mut connection = self.server.connect();
        let _ = write!(connection, "{head}\r\n");
        if read(connection).0 == 200 { Ok(()) } else { Err("DELETE") }
    }

    fn call_tool(&self) -> Result<(), &'static str> {
        let call = request(1, "tools/call", json!({ "name": "find" }));
        let connection = self.send("/mcp/tools", "", &call);
        let own = wait_for("a call", || {
            self.server.events().into_iter().find_map(|event| match event {
                Event::CallTool { call, agent, .. } if agent == self.name => Some(call),
                _ => None,
            })
        });
        self.server.companion.bridge().answer(own, Ok("found".to_owned()));
        if read(connection).1.contains("found") { Ok(()) } else { Err("a tool of the model") }
    }

    /// Hangs up, and ends what it has begun, as the user may do.
    fn leave(&mut self) {
        self.held.clear();
        self.streams.clear();
        let sessions = self.server.companion.sessions();
        for described in sessions.describe() {
            sessions.disconnect(&described.key);
        }
        self.server.events();
    }
}

fn read(mut connection: TcpStream) -> (u16, String) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = connection.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..length]);
    }
    let text = String::from_utf8(bytes).unwrap();
    (text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), text)
}

fn assert_others_are_served(flooder: &'static str, others: &[&'static str]) {
    for kind in KINDS {
        let server = start();
        let mut flooder = Party::new(&server, flooder);
        if !flooder.may(kind) {
            continue;
        }
        flooder.flood(kind);
        for other in others {
            let mut other = Party::new(&server, other);
            assert_eq!(other.live(), Ok(()), "{} after {kind:?} of {}", other.name, flooder.name);
        }
        flooder.leave();
        wait_for("room for who has flooded", || flooder.live().ok());
    }
}

#[test]
fn an_agent_leaves_other_agents_theirs() {
    assert_others_are_served("gemini", &["qwen", "llxprt", BUILD]);
}

#[test]
fn a_host_leaves_others_theirs() {
    assert_others_are_served(BUILD, &["gemini", OTHER]);
}

/// Two of them flood in random order, and a third is served at any time.
#[test]
fn two_floods_leave_a_third_agent_its_own() {
    let base = std::env::var("FLOOD_SEED").map_or(0, |seed| seed.parse().unwrap());
    for seed in base..base + 6 {
        let server = start();
        let mut random = SmallRng::seed_from_u64(seed);
        let second = *["qwen", BUILD].choose(&mut random).unwrap();
        let mut floods = [Party::new(&server, "gemini"), Party::new(&server, second)];
        let mut third = Party::new(&server, "llxprt");
        for step in 0..40 {
            let flood = &mut floods[random.random_range(0..2)];
            let kinds: Vec<Kind> = KINDS.into_iter().filter(|kind| flood.may(*kind)).collect();
            let kind = *kinds.choose(&mut random).unwrap();
            for _ in 0..random.random_range(1..5) {
                if flood.step(kind).is_none() {
                    break;
                }
            }
            let served = third.live();
            assert_eq!(
                served,
                Ok(()),
                "FLOOD_SEED={seed}, step {step}: {kind:?} of {}",
                flood.name
            );
        }
        for flood in &mut floods {
            flood.leave();
        }
        for flood in &mut floods {
            wait_for("room for who has flooded", || flood.live().ok());
        }
    }
}

/// Those who share an allowance: what one of them uses up is refused to the others, by name.
#[test]
fn who_is_refused_is_told_why() {
    let server = start();
    let mut one = Party::new(&server, "gemini");
    one.flood(Kind::Requests);
    let (status, text) = one.post("", "{}");
    assert_eq!(status, 429);
    assert!(text.contains("retry-after: 1") && text.contains("too many requests"), "{text}");
    assert!(text.contains("connection: close"), "{text}");
    one.leave();
    wait_for("room", || one.is_served());
    one.flood(Kind::Sessions);
    let (status, text) = one.post("", &request(0, "initialize", json!({})));
    let body: Value = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((status, &body["error"]["message"]), (200, &json!("too many sessions")));
}
