//! What clients may not do too much of, and what happens to those who try.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use gemini_companion::ide::Outcome;
use gemini_companion::{Event, Limits};
use serde_json::{Value, json};

use crate::support::{DEADLINE, Session, TestCompanion, request, wait_for};
use crate::wire::{Next, Wire};

/// As short as a limit can be that a test waits for.
const SHORT: Duration = Duration::from_millis(100);

fn server(limits: impl FnOnce(&mut Limits)) -> TestCompanion {
    let mut changed = Limits::default();
    limits(&mut changed);
    TestCompanion::with(changed)
}

/// What comes until the server hangs up; a reset ends it, too.
fn read_to_end(mut connection: TcpStream) -> String {
    let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = connection.read(&mut chunk) {
        text.extend_from_slice(&chunk[..length]);
    }
    String::from_utf8(text).unwrap()
}

fn is_served(session: &Session) {
    assert_eq!(session.request("ping", json!({}))["result"], json!({}));
}

/// A connection that its client keeps for one request after another.
struct Kept {
    wire: Wire,
    ping: String,
}

impl Kept {
    /// One on which a request was answered.
    fn open(server: &TestCompanion, session: &Session) -> Kept {
        let changes = [("Mcp-Session-Id", session.id.as_str()), ("Connection", "")];
        let (head, body) = (server.head("POST", "/mcp", &changes), request(1, "ping", json!({})));
        let ping = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let mut kept = Kept { wire: Wire::connect(server.companion.port()).unwrap(), ping };
        assert!(kept.is_served());
        kept
    }

    fn is_served(&mut self) -> bool {
        let sent = self.wire.send(self.ping.as_bytes());
        match sent.map(|()| self.wire.reply(DEADLINE, false)) {
            Ok(Next::Got(reply)) => reply.status == 200,
            Ok(Next::Silent) => panic!("no answer, and not closed"),
            _ => false,
        }
    }
}

#[test]
fn headers_have_to_come_in_time() {
    let server = server(|limits| limits.header_time = SHORT);
    let session = server.open_session();
    for start in ["", "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1"] {
        let mut connection = server.connect();
        connection.write_all(start.as_bytes()).unwrap();
        assert!(!read_to_end(connection).contains(" 200 "));
    }
    is_served(&session);
}

#[test]
fn an_open_stream_is_not_taken_for_an_idle_connection() {
    let server = server(|limits| {
        limits.header_time = SHORT;
        limits.keep_alive = 2 * SHORT;
    });
    let mut stream = server.open_session().open_stream();
    for _ in 0..3 {
        assert_eq!(stream.next_block().as_deref(), Some(": keep-alive"));
    }
}

#[test]
fn a_connection_may_have_other_requests_before_a_stream_and_after_it() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let changes = [("Mcp-Session-Id", session.id.as_str()), ("Connection", "")];
    let mut connection = server.connect();
    let (ping, body) = (server.head("POST", "/mcp", &changes), request(7, "ping", json!({})));
    let ping = format!("{ping}Content-Length: {}\r\n\r\n{body}", body.len());
    let stream = server.head("GET", "/mcp", &changes);
    write!(connection, "{ping}{stream}\r\n").unwrap();
    let mut text = String::new();
    let mut read_until = |end: &str, connection: &mut TcpStream| {
        let mut chunk = [0; 4096];
        while !text.contains(end) {
            let length = connection.read(&mut chunk).unwrap();
            assert_ne!(length, 0, "no {end} in {text}");
            text.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
        }
        std::mem::take(&mut text)
    };
    let start = read_until(": connected", &mut connection).to_ascii_lowercase();
    let (answer, _) = start.split_once("}http/1.1 200 ok").expect("two answers");
    assert!(answer.contains("\"id\":7"), "{answer}");
    let gone = [("Mcp-Session-Id", session.id.as_str())];
    assert_eq!(server.request("DELETE", "/mcp", &gone, "").status, 200);
    read_until("0\r\n\r\n", &mut connection);
    connection.write_all(ping.as_bytes()).unwrap();
    read_until("HTTP/1.1 404", &mut connection);
}

#[test]
fn a_body_has_to_come_in_time() {
    let server = server(|limits| limits.body_time = SHORT);
    let session = server.open_session();
    let mut connection = server.connect();
    let head = server.head("POST", "/mcp", &[("Mcp-Session-Id", &session.id)]);
    write!(connection, "{head}Content-Length: 100\r\n\r\n{{").unwrap();
    let answer = read_to_end(connection);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("did not arrive in time"), "{answer}");
    is_served(&session);
}

#[test]
fn a_body_may_be_as_large_as_the_limit_and_no_larger() {
    let server = server(|limits| limits.body = 1000);
    let session = server.open_session();
    let ping = request(1, "ping", json!({}));
    let padded = |size: usize| format!("{ping}{}", " ".repeat(size - ping.len()));
    assert_eq!(session.post(&padded(1000)).status, 200);
    let refused = session.post(&padded(1001));
    assert_eq!((refused.status, refused.error_code()), (413, -32600));
    assert!(refused.body.contains("1000 bytes"), "{}", refused.body);
    let Event::Message { text, .. } = server.next_event() else { panic!("the user is not told") };
    assert!(text.contains("`gemini-companion-max-message-size'"), "{text}");
    // One that does not say beforehand how large it is.
    let changes = [("Mcp-Session-Id", session.id.as_str()), ("Transfer-Encoding", "chunked")];
    let mut connection = server.connect();
    let head = server.head("POST", "/mcp", &changes);
    write!(connection, "{head}\r\n3e9\r\n{}\r\n0\r\n\r\n", padded(1001)).unwrap();
    assert!(read_to_end(connection).starts_with("HTTP/1.1 413"));
    is_served(&session);
}

#[test]
fn all_bodies_together_are_limited() {
    let server = server(|limits| limits.bodies = 1000);
    let session = server.open_session();
    let named = [("Mcp-Session-Id", session.id.as_str())];
    let mut slow = server.connect();
    let head = server.head("POST", "/mcp", &named);
    write!(slow, "{head}Content-Length: 900\r\n\r\n{}", " ".repeat(800)).unwrap();
    let large = format!("{}{}", request(1, "ping", json!({})), " ".repeat(300));
    // The first has to arrive before the second is one too many.
    let refused = crate::support::wait_for("the refusal", || {
        Some(session.post(&large)).filter(|answer| answer.status != 200)
    });
    assert_eq!((refused.status, refused.error_code()), (503, -32600));
    drop(slow);
    crate::support::wait_for("room", || (session.post(&large).status == 200).then_some(()));
}

#[test]
fn a_message_counts_until_it_is_answered() {
    let server = server(|limits| limits.bodies = 1500);
    let session = server.open_session();
    session.open_diff(local!("/no/such/file"), "text");
    let junk = "x".repeat(800);
    let arguments = json!({ "filePath": local!("/no/such/file"), "junk": junk });
    let call = json!({ "name": "closeDiff", "arguments": arguments });
    let _waits = session.post_slowly(&[], &request(2, "tools/call", call));
    let call = crate::support::wait_for("closeDiff", || match server.next_event() {
        Event::CloseReview { call, .. } => call,
        _ => None,
    });
    let large = format!("{}{}", request(1, "ping", json!({})), " ".repeat(800));
    let refused = session.post(&large);
    assert_eq!((refused.status, refused.error_code()), (503, -32600));
    assert!(server.companion.bridge().answer(call, Ok("text".to_owned())));
    crate::support::wait_for("room", || (session.post(&large).status == 200).then_some(()));
}

#[test]
fn a_call_whose_client_has_hung_up_counts_until_it_ends() {
    let server = server(|limits| {
        limits.share_requests = 1;
        limits.stream_after = DEADLINE;
    });
    let session = server.open_session();
    session.open_diff(local!("/no/such/file"), "text");
    server.opened();
    let close =
        json!({ "name": "closeDiff", "arguments": { "filePath": local!("/no/such/file") } });
    let (head, body) = (
        server.head("POST", "/mcp", &[("Mcp-Session-Id", &session.id)]),
        request(2, "tools/call", close),
    );
    let mut gone = Wire::connect(server.companion.port()).unwrap();
    gone.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let Event::CloseReview { call: Some(call), .. } = server.next_event() else { panic!() };
    gone.finish();
    assert!(matches!(gone.reply(DEADLINE, false), Next::End));
    let ping = || session.post(&request(1, "ping", json!({}))).status;
    assert_eq!(ping(), 429);
    assert!(server.companion.bridge().answer(call, Ok("text".to_owned())));
    wait_for("room", || (ping() == 200).then_some(()));
}

#[test]
fn the_connection_that_is_idle_for_longest_makes_room() {
    let server = server(|limits| limits.connections = 3);
    let session = server.open_session();
    let mut stream = session.open_stream();
    let mut kept = [(); 2].map(|()| Kept::open(&server, &session));
    assert!(kept[0].is_served());
    is_served(&session);
    let [mut used, mut unused] = kept;
    assert!(used.is_served());
    assert!(!unused.is_served());
    server.companion.sessions().ping();
    while stream.notification().0 != "ping" {}
}

#[test]
fn no_connection_makes_room_that_has_a_stream_or_a_request() {
    let server = server(|limits| limits.connections = 3);
    let session = server.open_session();
    let mut stream = session.open_stream();
    let mut events = server.listen();
    session.open_diff(local!("/no/such/file"), "text");
    let close =
        json!({ "name": "closeDiff", "arguments": { "filePath": local!("/no/such/file") } });
    let mut waits = session.post_slowly(&[], &request(2, "tools/call", close));
    let call = crate::support::wait_for("closeDiff", || match server.next_event() {
        Event::CloseReview { call, .. } => call,
        _ => None,
    });
    let refused = session.post(&request(1, "ping", json!({})));
    assert_eq!((refused.status, refused.error_code()), (503, -32600));
    assert!(refused.body.contains("request: close some"), "{}", refused.body);
    assert!(server.companion.bridge().answer(call, Ok("text".to_owned())));
    assert!(waits.read_head().starts_with("HTTP/1.1 200"));
    crate::support::wait_for("a place", || {
        (session.post(&request(1, "ping", json!({}))).status == 200).then_some(())
    });
    assert_eq!(stream.notification().0, "ide/diffRejected");
    assert_eq!(events.event().0, "notifications/ide/diffRejected");
}

#[test]
fn hundreds_of_connections_of_a_client_leave_the_streams_of_others() {
    let server = server(|limits| limits.connections = 50);
    let session = server.open_session();
    let mut streams = [(); 3].map(|()| server.open_session().open_stream());
    let mut kept: Vec<_> = (0..300).map(|_| Kept::open(&server, &session)).collect();
    let served = kept.iter_mut().rev().map(Kept::is_served).collect::<Vec<_>>();
    assert_eq!(served.iter().position(|served| !served), Some(50 - streams.len()));
    assert_eq!(served.iter().filter(|served| **served).count(), 50 - streams.len());
    server.companion.sessions().ping();
    for stream in &mut streams {
        assert_eq!(stream.notification().0, "ping");
    }
}

#[test]
fn connections_without_token_close_none_of_a_client() {
    let server = server(|limits| {
        limits.unauthenticated = 2;
        limits.connections = 2;
    });
    let session = server.open_session();
    let mut kept = [(); 2].map(|()| Kept::open(&server, &session));
    let silent: Vec<_> = (0..10).map(|_| server.connect()).collect();
    assert_eq!(server.post(&[("Authorization", "")], "").status, 401);
    assert!(kept.iter_mut().all(Kept::is_served));
    drop(silent);
}

#[test]
fn connections_without_token_take_no_place_of_a_client() {
    let server = server(|limits| {
        limits.unauthenticated = 2;
        limits.connections = 1;
    });
    let session = server.open_session();
    let silent = [server.connect(), server.connect(), server.connect()];
    let [oldest, ..] = silent;
    assert_eq!(read_to_end(oldest), "");
    is_served(&session);
    let unauthorised = server.post(&[("Authorization", "")], "");
    assert_eq!(unauthorised.status, 401);
    is_served(&session);
}

#[test]
fn close_diff_waits_so_long_for_emacs_and_says_so() {
    let server = server(|limits| limits.emacs_time = SHORT);
    let session = server.open_session();
    session.open_diff(local!("/no/such/file"), "text");
    let answer = session.call("closeDiff", json!({ "filePath": local!("/no/such/file") }));
    let text = json!({ "type": "text", "text": "Emacs did not answer for 100ms" });
    assert_eq!(answer["result"], json!({ "content": [text], "isError": true }));
    is_served(&session);
}

fn try_open_diff(session: &Session, path: &str) -> Value {
    session.call("openDiff", json!({ "filePath": path, "newContent": "text" }))["result"].clone()
}

#[test]
fn reviews_are_limited_in_number_and_bytes() {
    for (reviews, bytes) in [(2, usize::MAX), (9, 2 * "text".len() + 3)] {
        let server = server(|limits| {
            limits.reviews = reviews;
            limits.review_bytes = bytes;
        });
        let session = server.open_session();
        for path in [local!("/no/such/1"), local!("/no/such/2")] {
            assert_eq!(try_open_diff(&session, path), json!({ "content": [] }));
        }
        let refused = try_open_diff(&session, local!("/no/such/3"));
        assert_eq!(refused["isError"], true);
        assert!(refused.to_string().contains("too many diffs"), "{refused}");
        // Instead of one that is open already it is none too many.
        assert_eq!(try_open_diff(&session, local!("/no/such/2")), json!({ "content": [] }));
    }
}

#[test]
fn who_does_not_read_outcomes_gets_no_more_reviews_and_loses_none() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut decided = Vec::new();
    let refused = loop {
        let path = format!(local!("/no/such/{}"), decided.len());
        let result = try_open_diff(&session, &path);
        if result["isError"] == true {
            break result;
        }
        let review = server.opened();
        assert!(server.companion.sessions().decide(review, Outcome::Rejected));
        decided.push(path);
        assert!(decided.len() < 1000, "no limit");
    };
    assert!(refused.to_string().contains("read them"), "{refused}");
    let mut stream = session.open_stream();
    for path in decided {
        assert_eq!(stream.notification().1["filePath"], path);
    }
    assert_eq!(try_open_diff(&session, local!("/no/such/more")), json!({ "content": [] }));
}

#[test]
fn outcomes_that_nobody_reads_leave_less_room_for_reviews() {
    let server = server(|limits| limits.share_review_bytes = 1000);
    let session = server.open_session();
    assert_eq!(try_open_diff(&session, local!("/no/such/1")), json!({ "content": [] }));
    let review = server.opened();
    let content = "x".repeat(1000);
    assert!(server.companion.sessions().decide(review, Outcome::accepted(content)));
    assert_eq!(try_open_diff(&session, local!("/no/such/2"))["isError"], true);
    assert_eq!(session.open_stream().notification().0, "ide/diffAccepted");
    assert_eq!(try_open_diff(&session, local!("/no/such/2")), json!({ "content": [] }));
}

#[test]
fn the_file_as_it_is_counts_for_its_review() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let server = server(|limits| limits.review_bytes = "text".len() + 1000);
    let session = server.open_session();
    file.as_file().set_len(1001).unwrap();
    let refused = try_open_diff(&session, path);
    assert!(refused.to_string().contains("too many diffs"), "{refused}");
    file.as_file().set_len(1000).unwrap();
    assert_eq!(try_open_diff(&session, path), json!({ "content": [] }));
    assert_eq!(try_open_diff(&session, local!("/no/such/2"))["isError"], true);
}

#[test]
fn what_sessions_keep_for_broken_streams_is_limited_for_all_together() {
    // The notification of each acceptance, and its text, are kept.
    let server = server(|limits| limits.kept_bytes = 3500);
    let sessions = [(); 3].map(|()| server.open_session());
    let mut streams = sessions.each_ref().map(Session::open_stream);
    for (session, stream) in sessions.iter().zip(&mut streams) {
        session.open_diff(local!("/no/such/file"), "text");
        let review = server.opened();
        let content = "x".repeat(1000);
        server.companion.sessions().decide(review, Outcome::accepted(content));
        assert_eq!(stream.notification().0, "ide/diffAccepted");
    }
    // One more, which is short, is an occasion to look.
    sessions[2].open_diff(local!("/no/such/other"), "text");
    let review = server.opened();
    server.companion.sessions().decide(review, Outcome::Rejected);
    drop(streams);
    let [first, second, third] = sessions.each_ref().map(|session| {
        let mut again = session.open_stream_after(&[("Last-Event-ID", "0")]);
        server.companion.sessions().ping();
        std::iter::from_fn(|| again.next()).take_while(|(_, it)| it["method"] != "ping").count()
    });
    assert_eq!((first, second, third), (0, 1, 2));
    let last = sessions.each_ref().map(|session| {
        let answer = session.call("closeDiff", json!({ "filePath": local!("/no/such/file") }));
        answer["result"]["content"][0]["text"].as_str().unwrap().len() > 1000
    });
    assert_eq!(last, [false, false, true]);
}

#[test]
fn each_agent_has_so_many_readers_of_events() {
    let server = server(|limits| limits.event_readers = 2);
    let readers = [server.listen(), server.listen()];
    let refused = server.request("GET", "/events", &[], "");
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("too many readers"), "{}", refused.body);
    let qwen = format!("Bearer {}", server.companion.token("qwen").unwrap());
    let mut connection = server.connect();
    let head = server.head("GET", "/events", &[("Authorization", &qwen)]);
    write!(connection, "{head}\r\n").unwrap();
    let mut status = [0; 12];
    connection.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    drop(readers);
    wait_for("room for another reader", || {
        (server.companion.sessions().describe().len() == 1).then_some(())
    });
    server.listen();
}

#[test]
fn decisions_that_a_busy_emacs_has_not_seen_are_limited() {
    let server = server(|limits| limits.stream_after = Duration::from_millis(1));
    let session = server.open_session();
    session.open_diff(local!("/no/such/file"), "text");
    let arguments = json!({ "filePath": local!("/no/such/file") });
    let call = request(7, "tools/call", json!({ "name": "acceptDiff", "arguments": arguments }));
    let cancelled = json!({ "requestId": 7 });
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled });
    let mut asked = 0;
    let refused = loop {
        let mut answer = session.post_slowly(&[], &call);
        if !answer.read_head().contains("text/event-stream") {
            break answer.rest();
        }
        session.post(&cancel.to_string());
        if let Some(refused) = answer.next_block() {
            break refused;
        }
        asked += 1;
        assert!(asked < 1000, "no limit");
    };
    assert!(refused.contains("Emacs is busy"), "{refused}");
    let events = server.events();
    let decide = |event: &&Event| matches!(event, Event::DecideReview { .. });
    assert_eq!(events.iter().filter(decide).count(), asked);
    let mut answer = session.post_slowly(&[], &call);
    answer.read_head();
    assert!(matches!(server.next_event(), Event::DecideReview { .. }));
}

#[test]
fn a_burst_of_good_clients_is_served() {
    let clients = Limits::default().share_requests; // of one agent
    let server = TestCompanion::start();
    let body = request(1, "initialize", json!({}));
    let head = server.head("POST", "/mcp", &[]);
    let message = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    // Each has sent its token before the next one connects: one that has not may be evicted by those
    // that come later, and it depends on the machine how many these are.
    let connections: Vec<_> = (0..clients)
        .map(|_| {
            let mut connection = server.connect();
            connection.write_all(message.as_bytes()).unwrap();
            connection
        })
        .collect();
    for connection in connections {
        let answer = read_to_end(connection);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[test]
fn many_clients_with_a_stream_and_another_connection_each_are_held() {
    let usual = Limits::default();
    let clients = usual.sessions;
    // All of them are of one agent.
    let (share_sessions, share_connections) = (clients, usual.connections);
    let share_requests = 2 * clients;
    let server =
        TestCompanion::with(Limits { share_sessions, share_connections, share_requests, ..usual });
    let sessions: Vec<Session> = (0..clients).map(|_| server.open_session()).collect();
    let mut kept: Vec<_> = sessions.iter().map(|session| Kept::open(&server, session)).collect();
    let mut streams: Vec<_> = sessions.iter().map(Session::open_stream).collect();
    let file = gemini_companion::ide::File {
        path: "/a".to_owned(),
        ..gemini_companion::ide::File::default()
    };
    server.publish_context(gemini_companion::ide::IdeContext::new(vec![file]));
    for stream in &mut streams {
        assert_eq!(stream.notification().0, "ide/contextUpdate");
    }
    assert!(kept.iter_mut().all(Kept::is_served));
}
