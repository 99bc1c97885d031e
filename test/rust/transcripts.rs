//! Transcripts made from the owner's documents, one for each kind of client, replayed against a
//! companion. Every answer is compared in full.
//!
//! A transcript consists of blocks, separated by empty lines:
//!
//!   POST /mcp [without session]     a request, its body and the whole answer; GET and DELETE, too
//!   BODY
//!   => STATUS
//!   BODY
//!
//!   POST /mcp, NAME waits           a request whose answer comes later
//!   NAME gets STATUS                that answer
//!   NAME listens at PATH            a stream is opened
//!   NAME receives                      its next event
//!   NAME receives nothing              before a ping of the server, nothing comes
//!   Emacs shows                     what the user looks at, as a list of files
//!   Emacs accepts TEXT, Emacs rejects     the review that came last
//!   Emacs is asked                  the next event for Lisp
//!   Emacs answers TEXT              the call that waits

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use gemini_companion::ide::{Cursor, File, IdeContext, Outcome, ReviewId};
use gemini_companion::{CallId, Event, Limits};
use serde_json::{Value, json};

use crate::support::{TestCompanion, wait_for};

struct Replay<'a> {
    server: &'a TestCompanion,
    agent: &'static str,
    session: Option<String>,
    waiting: HashMap<String, TcpStream>,
    streams: HashMap<String, BufReader<TcpStream>>,
    review: Option<ReviewId>,
    call: Option<CallId>,
}

/// Replays `transcript` as a client of `agent`.
fn replay(server: &TestCompanion, agent: &'static str, transcript: &str) {
    let mut replay = Replay::new(server, agent);
    #[cfg(windows)]
    let transcript = transcript.replace("/no/", local!("/no/"));
    for block in transcript.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        let block: Vec<&str> = block.lines().filter(|line| !line.starts_with('#')).collect();
        if let Some((head, rest)) = block.split_first() {
            replay.step(head, rest);
        }
    }
}

impl<'a> Replay<'a> {
    fn new(server: &'a TestCompanion, agent: &'static str) -> Replay<'a> {
        Replay {
            server,
            agent,
            session: None,
            waiting: HashMap::new(),
            streams: HashMap::new(),
            review: None,
            call: None,
        }
    }

    fn step(&mut self, head: &str, rest: &[&str]) {
        let words: Vec<&str> = head.split(' ').collect();
        match words[..] {
            [method @ ("POST" | "GET" | "DELETE"), path, ..] => {
                let path = path.trim_end_matches(',');
                let arrow = rest.iter().position(|line| line.starts_with("=> "));
                let body = rest[..arrow.unwrap_or(rest.len())].join("");
                let connection = self.send(method, path, &body, !head.ends_with("without session"));
                match arrow {
                    None => {
                        self.waiting.insert(words[2].to_owned(), connection);
                    }
                    Some(arrow) => {
                        let expected = rest[arrow + 1..].join("");
                        self.compare(head, connection, &rest[arrow][3..], &expected);
                    }
                }
            }
            [name, "gets", status] => {
                let connection = self.waiting.remove(name).expect(head);
                self.compare(head, connection, status, &rest.join(""));
            }
            [name, "listens", "at", path] => {
                let connection = self.send("GET", path, "", path == "/mcp");
                let mut stream = BufReader::new(connection);
                let (status, _) = read_head(&mut stream);
                assert_eq!(status, 200, "{head}");
                self.streams.insert(name.to_owned(), stream);
            }
            [name, "receives"] => {
                let stream = self.streams.get_mut(name).expect(head);
                assert_eq!(next_event(stream), parse(&rest.join("")), "{head}");
            }
            [name, "receives", "nothing"] => {
                self.server.companion.sessions().ping();
                let stream = self.streams.get_mut(name).expect(head);
                assert_eq!(next_event(stream)["method"], "ping", "{head}");
            }
            ["Emacs", "shows"] => self.show(&parse(&rest.join(""))),
            ["Emacs", "accepts", ..] => {
                let content = parse(&head["Emacs accepts ".len()..]);
                let content = content.as_str().unwrap().to_owned();
                self.decide(Outcome::accepted(content));
            }
            ["Emacs", "rejects"] => self.decide(Outcome::Rejected),
            ["Emacs", "is", "asked"] => {
                let asked = self.next_event_of_lisp();
                assert_eq!(asked, parse(&rest.join("")), "{head}");
            }
            ["Emacs", "answers", ..] => {
                let text = parse(&head["Emacs answers ".len()..]);
                let answer = Ok(text.as_str().unwrap().to_owned());
                assert!(self.server.companion.bridge().answer(self.call.expect(head), answer));
            }
            _ => panic!("what is {head:?}?"),
        }
    }

    fn send(&self, method: &str, path: &str, body: &str, in_session: bool) -> TcpStream {
        let token = self.server.companion.token(self.agent).unwrap();
        let token = format!("Bearer {token}");
        let mut changes = vec![("Authorization", token.as_str()), ("Accept", "*/*")];
        if let Some(session) = self.session.as_deref().filter(|_| in_session) {
            changes.push(("Mcp-Session-Id", session));
        }
        let mut connection = self.server.connect();
        let head = self.server.head(method, path, &changes);
        write!(connection, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        connection
    }

    fn compare(&mut self, head: &str, connection: TcpStream, status: &str, expected: &str) {
        let mut reader = BufReader::new(connection);
        let (given, headers) = read_head(&mut reader);
        let body = read_body(&mut reader, &headers);
        assert_eq!(given.to_string(), status, "{head}: {body}");
        if expected.is_empty() {
            assert_eq!(body, "", "{head}");
        } else {
            assert_eq!(parse(&body), parse(expected), "{head}");
        }
        if let Some(session) = header(&headers, "mcp-session-id") {
            self.session = Some(session);
        }
    }

    fn show(&self, files: &Value) {
        let files = files.as_array().unwrap().iter().map(|file| {
            let cursor = file["cursor"].as_array().map(|cursor| Cursor {
                line: cursor[0].as_i64().unwrap(),
                character: cursor[1].as_i64().unwrap(),
            });
            File {
                path: file["path"].as_str().unwrap().to_owned(),
                timestamp: file["timestamp"].as_i64().unwrap(),
                is_active: file["active"].as_bool(),
                cursor,
                selected_text: file["selection"].as_str().map(str::to_owned),
            }
        });
        self.server.publish_context(IdeContext::new(files.collect()));
    }

    fn decide(&mut self, outcome: Outcome) {
        let review = self.review.take().expect("a review");
        assert!(self.server.companion.sessions().decide(review, outcome));
    }

    /// The next event for Lisp, as JSON.
    fn next_event_of_lisp(&mut self) -> Value {
        let event = wait_for("an event for Lisp", || {
            std::iter::from_fn(|| self.server.companion.bridge().next_event())
                .find(|event| *event != Event::ClientsChanged)
        });
        match event {
            Event::OpenReview { review, agent, client, path, content, .. } => {
                self.review = Some(review);
                json!({ "review": path, "content": content, "client": client, "agent": agent })
            }
            Event::CloseReview { call, .. } => {
                self.call = call;
                json!({ "close": call.is_some() })
            }
            Event::DecideReview { review, accept, call, .. } => {
                (self.review, self.call) = (Some(review), Some(call));
                json!({ "accept": accept })
            }
            Event::Message { client, text } => json!({ "client": client, "says": text }),
            other => panic!("{other:?}"),
        }
    }
}

/// Parses JSON, in which placeholders stand for what the documents do not say.
fn parse(json: &str) -> Value {
    let json = json.replace("COMPANION-VERSION", env!("CARGO_PKG_VERSION"));
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn read_head(reader: &mut impl BufRead) -> (u16, Vec<String>) {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "cut off: {lines:?}");
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    (status, lines)
}

fn header(headers: &[String], name: &str) -> Option<String> {
    headers.iter().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

fn read_body(reader: &mut impl Read, headers: &[String]) -> String {
    let length = header(headers, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// The next event of a stream, without comments.
fn next_event(stream: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream was cut");
        if let Some(data) = line.strip_prefix("data: ") {
            return parse(data);
        }
    }
}

#[test]
fn the_newest_client() {
    replay(&TestCompanion::start(), "gemini", include_str!("transcripts/000-newest-client.txt"));
}

#[test]
fn the_client_of_document_003() {
    replay(&TestCompanion::start(), "gemini", include_str!("transcripts/003-older-client.txt"));
}

#[test]
fn the_client_of_document_004() {
    replay(&TestCompanion::start(), "gemini", include_str!("transcripts/004-dialect.txt"));
}

#[test]
fn a_client_of_document_004_that_knows_sessions() {
    replay(&TestCompanion::start(), "gemini", include_str!("transcripts/004-in-a-session.txt"));
}

#[test]
fn a_reader_of_events_is_a_client_that_can_be_disconnected() {
    let server = TestCompanion::start();
    let sessions = server.companion.sessions();
    let mut replay = Replay::new(&server, "gemini");
    replay.step("reader listens at /events", &[]);
    assert_eq!(sessions.count(), 1);
    let [reader] = sessions.describe().try_into().unwrap();
    assert_eq!((reader.client.as_str(), reader.listens), ("Gemini CLI (event stream)", Some(true)));
    assert!(sessions.disconnect(&reader.key));
    let mut rest = String::new();
    let stream = replay.streams.get_mut("reader").unwrap();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "{rest}"); // a proper end
    wait_for("the reader to be gone", || (sessions.count() == 0).then_some(()));
    assert!(!sessions.disconnect(&reader.key));
}

#[test]
fn a_client_of_document_003_is_answered_even_if_emacs_is_busy() {
    let first_context = std::time::Duration::from_millis(20);
    let server = TestCompanion::with(Limits { first_context, ..Limits::default() });
    let session = server.open_session();
    let answer = session.call("getActiveFile", json!({}));
    assert_eq!(answer["result"]["content"][0]["text"], "No file is currently active");
}

#[test]
fn qwen_code() {
    replay(&TestCompanion::start(), "qwen", include_str!("transcripts/000-qwen-code.txt"));
}

#[test]
fn llxprt_code() {
    replay(&TestCompanion::start(), "llxprt", include_str!("transcripts/000-llxprt-code.txt"));
}
