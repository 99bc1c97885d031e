//! Starting and stopping: nothing is left behind, and clients are told.

use std::fs;
use std::time::Instant;

use serde_json::json;

use super::support::{DEADLINE, TestCompanion, request, wait_for};
use super::wire::{Next, Wire};
use crate::bridge::Event;
use crate::companion::Companion;
use crate::ide::Outcome;
use crate::limits::Limits;

#[test]
fn stopping_rejects_open_reviews_and_ends_streams_properly() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut stream = session.open_stream();
    session.open_diff("/no/such/a", "new");
    session.open_diff("/no/such/b", "new");
    server.companion.stop();
    for path in ["/no/such/a", "/no/such/b"] {
        let rejected = ("ide/diffRejected".to_owned(), json!({ "filePath": path }));
        assert_eq!(stream.notification(), rejected);
    }
    assert_eq!(stream.next(), None);
    assert_eq!(fs::read_dir(&server.directory).unwrap().count(), 0);
}

#[test]
fn stopping_does_not_wait_for_a_client_or_for_lisp() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let _never_read = session.open_stream();
    session.open_diff("/no/such/a", &"x".repeat(10_000_000));
    std::thread::scope(|scope| {
        // Lisp never answers this one.
        let waiting = scope.spawn(|| {
            session.post(&super::support::request(
                1,
                "tools/call",
                json!({ "name": "closeDiff", "arguments": { "filePath": "/no/such/a" } }),
            ))
        });
        wait_for("closeDiff", || {
            server
                .events()
                .iter()
                .any(|event| matches!(event, Event::CloseReview { .. }))
                .then_some(())
        });
        let start = Instant::now();
        server.companion.stop();
        assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
        let _ = waiting.join();
    });
}

#[test]
fn a_review_that_comes_while_stopping_is_refused() {
    let server = TestCompanion::start();
    let session = server.open_session();
    server.companion.sessions().end_all();
    let arguments = json!({ "filePath": "/no/such/a", "newContent": "" });
    let result = &session.call("openDiff", arguments)["result"];
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "the companion is stopping");
    assert_eq!(server.events(), []);
}

#[test]
fn stopping_twice_is_harmless_and_frees_the_port() {
    let server = TestCompanion::start();
    let port = server.companion.port();
    server.companion.stop();
    server.companion.stop();
    let again =
        Companion::start(super::support::agents(&server.directory), port, &[], Limits::default())
            .unwrap();
    assert_eq!(again.port(), port);
}

#[test]
fn a_restart_keeps_port_token_sessions_and_reviews() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut stream = session.open_stream();
    session.open_diff("/no/such/a", "new");
    let Event::OpenReview { review, .. } = server.next_event() else { panic!() };
    let before = (server.companion.port(), server.companion.token("gemini").unwrap().to_owned());
    server.companion.restart().unwrap();
    assert_eq!(stream.next(), None);
    assert_eq!(
        (server.companion.port(), server.companion.token("gemini").unwrap().to_owned()),
        before
    );
    assert_eq!(fs::read_dir(&server.directory).unwrap().count(), 1);
    assert!(server.companion.sessions().decide(review, Outcome::Rejected));
    assert_eq!(session.open_stream().notification().0, "ide/diffRejected");
    assert_eq!(session.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_thread_that_dies_is_reported_and_can_be_replaced() {
    let server = TestCompanion::start();
    let session = server.open_session();
    server.companion.sessions().break_server();
    assert_eq!(server.next_event(), Event::Died);
    server.companion.restart().unwrap();
    assert_eq!(session.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_thread_that_dies_cuts_no_stream_and_refuses_nobody() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut stream = session.open_stream();
    server.companion.sessions().break_server();
    assert_eq!(server.next_event(), Event::Died);
    assert_eq!(stream.next(), None); // the proper end
    let port = server.companion.port();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.request("ping", json!({})));
        // It connects though no server is there yet.
        std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        server.companion.restart().unwrap();
        assert_eq!(waiting.join().unwrap()["result"], json!({}));
    });
}

#[test]
fn a_connection_outlives_a_restart_until_its_next_answer() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut wire = Wire::connect(server.companion.port()).unwrap();
    let ping = |wire: &mut Wire| {
        let body = request(1, "ping", json!({}));
        let named = [("Mcp-Session-Id", session.id.as_str()), ("Connection", "")];
        let head = server.head("POST", "/mcp", &named);
        let message = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        wire.send(message.as_bytes()).unwrap();
        match wire.reply(DEADLINE, false) {
            Next::Got(reply) => reply,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ping(&mut wire).header("connection"), None);
    server.companion.restart().unwrap();
    let last = ping(&mut wire);
    assert_eq!((last.status, last.header("connection")), (200, Some("close")));
    server.companion.stop();
}

#[test]
fn in_place_of_a_port_that_is_taken_there_is_another_and_the_reason() {
    let server = TestCompanion::start();
    assert_eq!(server.companion.port_fault(), None);
    let taken = server.companion.port();
    let agents = super::support::agents(&server.directory);
    let other = Companion::start(agents, taken, &[], Limits::default()).unwrap();
    assert_ne!(other.port(), taken);
    let reason = other.port_fault().unwrap();
    assert!(reason.starts_with(&format!("cannot listen on 127.0.0.1:{taken}: ")), "{reason}");
}
