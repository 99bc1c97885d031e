//! Starting and stopping: nothing is left behind, and clients are told.

use std::fs;
use std::time::Instant;

use serde_json::json;

use super::support::{DEADLINE, TestCompanion, wait_for};
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
    let again = Companion::start(server.directory.clone(), port, &[], Limits::default()).unwrap();
    assert_eq!(again.port(), port);
}

#[test]
fn a_restart_keeps_port_token_sessions_and_reviews() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut stream = session.open_stream();
    session.open_diff("/no/such/a", "new");
    let Event::OpenReview { review, .. } = server.next_event() else { panic!() };
    let before = (server.companion.port(), server.companion.token().to_owned());
    server.companion.restart().unwrap();
    assert_eq!(stream.next(), None);
    assert_eq!((server.companion.port(), server.companion.token().to_owned()), before);
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
fn a_restart_finds_another_port_if_it_must_and_says_so() {
    let server = TestCompanion::start();
    let port = server.companion.port();
    server.companion.sessions().break_server();
    assert_eq!(server.next_event(), Event::Died);
    // If this fails somebody else has it, which is as good.
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port));
    server.companion.restart().unwrap();
    assert_ne!(server.companion.port(), port);
    let mut files = fs::read_dir(&server.directory).unwrap();
    let name = files.next().unwrap().unwrap().file_name().into_string().unwrap();
    assert!(name.ends_with(&format!("-{}.json", server.companion.port())), "{name}");
    assert!(files.next().is_none());
    server.open_session();
}

#[test]
fn a_port_that_is_taken_is_a_clear_error() {
    let server = TestCompanion::start();
    let taken =
        Companion::start(server.directory.clone(), server.companion.port(), &[], Limits::default());
    let reason = format!("{:#}", taken.err().unwrap());
    assert!(reason.contains(&format!("cannot listen on 127.0.0.1:{}", server.companion.port())));
}
