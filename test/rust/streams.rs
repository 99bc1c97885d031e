//! What a session receives on its event stream, and when.

use gemini_companion::ide::{Cursor, File, IdeContext, Outcome};
use serde_json::json;

use crate::support::{TestCompanion, wait_for};

fn context(path: &str, line: i64) -> IdeContext {
    let file = File {
        path: path.to_owned(),
        timestamp: 1,
        is_active: Some(true),
        cursor: Some(Cursor { line, character: 1 }),
        selected_text: None,
    };
    IdeContext::new(vec![file])
}

fn publish(server: &TestCompanion, line: i64) {
    server.publish_context(context("/a", line));
}

fn line_of(message: (String, serde_json::Value)) -> i64 {
    assert_eq!(message.0, "ide/contextUpdate");
    message.1["workspaceState"]["openFiles"][0]["cursor"]["line"].as_i64().unwrap()
}

#[test]
fn a_context_has_the_documented_form() {
    let server = TestCompanion::start();
    let mut stream = server.open_session().open_stream();
    publish(&server, 3);
    let file = json!({
        "path": "/a", "timestamp": 1, "isActive": true, "cursor": { "line": 3, "character": 1 },
    });
    let params = json!({ "workspaceState": { "openFiles": [file] } });
    assert_eq!(stream.notification(), ("ide/contextUpdate".to_owned(), params));
}

#[test]
fn every_session_receives_each_context_once() {
    let server = TestCompanion::start();
    let (one, other) = (server.open_session(), server.open_session());
    let mut streams = [one.open_stream(), other.open_stream()];
    publish(&server, 1);
    for stream in &mut streams {
        assert_eq!(line_of(stream.notification()), 1);
    }
    publish(&server, 1);
    publish(&server, 2);
    for stream in &mut streams {
        assert_eq!(line_of(stream.notification()), 2);
    }
}

#[test]
fn a_new_stream_begins_with_the_current_context() {
    let server = TestCompanion::start();
    let session = server.open_session();
    publish(&server, 1);
    publish(&server, 2);
    assert_eq!(line_of(session.open_stream().notification()), 2);
    assert_eq!(line_of(server.open_session().open_stream().notification()), 2);
    // So does one whose session has received it before: its client may have lost it.
    assert_eq!(line_of(session.open_stream().notification()), 2);
}

#[test]
fn a_context_published_to_nobody_is_not_kept() {
    let server = TestCompanion::start();
    publish(&server, 1);
    let mut stream = server.open_session().open_stream();
    publish(&server, 2);
    assert_eq!(line_of(stream.notification()), 2);
}

#[test]
fn a_second_stream_replaces_the_first() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut first = session.open_stream();
    publish(&server, 1);
    assert_eq!(line_of(first.notification()), 1);
    let mut second = session.open_stream();
    assert_eq!(first.next(), None);
    assert_eq!(line_of(second.notification()), 1);
    publish(&server, 2);
    assert_eq!(line_of(second.notification()), 2);
}

#[test]
fn a_stream_resumes_after_the_last_event_received() {
    let server = TestCompanion::start();
    let session = server.open_session();
    for name in ["a", "b", "c"] {
        session.open_diff(&format!(local!("/no/such/{}"), name), "");
        let review = match server.next_event() {
            gemini_companion::Event::OpenReview { review, .. } => review,
            other => panic!("{other:?}"),
        };
        server.companion.sessions().decide(review, gemini_companion::ide::Outcome::Rejected);
    }
    let mut stream = session.open_stream();
    let numbers: Vec<u64> = (0..3).map(|_| stream.next().unwrap().0).collect();
    assert_eq!(numbers, [1, 2, 3]);
    drop(stream);
    let mut resumed = session.open_stream_after(&[("Last-Event-ID", "1")]);
    assert_eq!(resumed.notification().1["filePath"], local!("/no/such/b"));
    assert_eq!(resumed.notification().1["filePath"], local!("/no/such/c"));
}

#[test]
fn a_long_outcome_that_the_client_did_not_receive_is_sent_again_after_a_context() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut stream = session.open_stream();
    session.open_diff(local!("/no/such/file"), "");
    let content = "x".repeat(17 << 20);
    let accepted = Outcome::accepted(content.clone());
    server.companion.sessions().decide(server.opened(), accepted);
    let (number, _) = stream.next().unwrap();
    publish(&server, 1);
    assert_eq!(line_of(stream.notification()), 1);
    // What was read here was lost on the way to a client on a host.
    drop(stream);
    let before = (number - 1).to_string();
    let mut resumed = session.open_stream_after(&[("Last-Event-ID", &before)]);
    let (method, params) = resumed.notification();
    assert_eq!(method, "ide/diffAccepted");
    assert!(params["content"] == *content);
}

#[test]
fn clients_are_pinged_and_their_answers_counted_once() {
    let server = TestCompanion::start();
    let (session, _without_stream) = (server.open_session(), server.open_session());
    assert_eq!(server.companion.sessions().ping(), 0);
    let mut stream = session.open_stream();
    assert_eq!(server.companion.sessions().ping(), 1);
    let (_, ping) = stream.next().unwrap();
    assert_eq!(ping, json!({ "jsonrpc": "2.0", "id": ping["id"], "method": "ping" }));
    let answer = |id: &serde_json::Value| {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": {} });
        assert_eq!(session.post(&answer.to_string()).status, 202);
    };
    answer(&json!("another"));
    assert_eq!(server.events(), []);
    answer(&ping["id"]);
    assert!(matches!(server.next_event(), gemini_companion::Event::Pong { .. }));
    answer(&ping["id"]); // once is enough
    assert_eq!(server.events(), []);
}

#[test]
fn delete_ends_the_stream_properly() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut stream = session.open_stream();
    let named = [("Mcp-Session-Id", session.id.as_str())];
    server.request("DELETE", "/mcp", &named, "");
    assert_eq!(stream.next(), None);
}

#[test]
fn a_stalled_reader_delays_nobody() {
    let server = TestCompanion::start();
    let stopped = server.open_session();
    let _never_read = stopped.open_stream();
    let mut stream = server.open_session().open_stream();
    let path = format!("/{}", "x".repeat(100_000));
    for line in 1..=200 {
        server.publish_context(context(&path, line));
    }
    wait_for("the last context", || (line_of(stream.notification()) == 200).then_some(()));
    assert_eq!(stopped.request("ping", json!({}))["result"], json!({}));
}
