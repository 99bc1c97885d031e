//! Logging of messages, for the user.

use gemini_companion::{
    Direction::{self, FromClient, ToClient},
    Event, Limits,
};
use serde_json::{Value, json};

use crate::support::{Session, TestCompanion, notification, request, wait_for};

/// The messages that were queued for the log.
fn traces(server: &TestCompanion) -> Vec<(Direction, String, String)> {
    let messages = server.events().into_iter().filter_map(|event| match event {
        Event::Trace { direction, session, text } => Some((direction, session, text)),
        _ => None,
    });
    messages.collect()
}

fn start_tracing() -> TestCompanion {
    let server = TestCompanion::start();
    server.companion.bridge().set_tracing(true);
    server
}

fn accept(server: &TestCompanion, session: &Session, path: &str) {
    session.open_diff(path, "text");
    let review = server.events().into_iter().find_map(|event| match event {
        Event::OpenReview { review, .. } => Some(review),
        _ => None,
    });
    let outcome = gemini_companion::ide::Outcome::accepted("mine".to_owned());
    assert!(server.companion.sessions().decide(review.unwrap(), outcome));
}

#[test]
fn both_directions_are_logged_with_their_session() {
    let server = start_tracing();
    let session = server.open_session();
    let key = session.id[..8].to_owned();
    let logged = traces(&server);
    let (direction, of, text) = &logged[0];
    assert_eq!((*direction, of.as_str()), (FromClient, ""));
    assert!(text.starts_with("POST {") && text.contains("\"initialize\""), "{text}");
    let (direction, of, text) = &logged[1];
    assert_eq!((*direction, of), (ToClient, &key));
    assert!(text.starts_with("200 {") && text.contains("protocolVersion"), "{text}");

    session.post(&notification("notifications/initialized"));
    let mut stream = session.open_stream();
    assert_eq!(traces(&server).last().unwrap(), &(FromClient, key.clone(), "GET".to_owned()));
    accept(&server, &session, local!("/a"));
    let (_, received) = stream.next().unwrap();
    let logged = wait_for("the event in the log", || {
        traces(&server).into_iter().find(|(_, _, text)| text.starts_with("event "))
    });
    assert_eq!((logged.0, &logged.1), (ToClient, &key));
    let logged: Value = serde_json::from_str(logged.2.strip_prefix("event ").unwrap()).unwrap();
    assert_eq!(logged, received);
}

#[test]
fn an_answer_without_a_body_is_logged_by_its_status() {
    let server = start_tracing();
    let session = server.open_session();
    session.post(&notification("notifications/initialized"));
    assert_eq!(traces(&server).last().unwrap().2, "202");
}

#[test]
fn a_message_that_is_refused_before_it_is_read_is_logged_too() {
    let server = TestCompanion::with(Limits { body: 1000, ..Limits::default() });
    server.companion.bridge().set_tracing(true);
    let (ping, large) = (request(1, "ping", json!({})), "x".repeat(1001));
    for (path, changes, body, status) in [
        ("/mcp", ("Accept", "text/html"), &ping, "406"),
        ("/mcp", ("Content-Type", "text/plain"), &ping, "415"),
        ("/mcp", ("Mcp-Protocol-Version", "x"), &ping, "400"),
        ("/mcp", ("Accept", ""), &large, "413"),
        ("/mcp/tools", ("Accept", "text/html"), &ping, "406"),
        ("/events", ("Accept", ""), &ping, "405"),
        ("/other", ("Accept", ""), &ping, "404"),
    ] {
        server.request("POST", path, &[changes], body);
        let logged: Vec<_> =
            traces(&server).into_iter().map(|(way, _, text)| (way, text)).collect();
        let [(FromClient, asked), (ToClient, answer)] = &logged[..] else { panic!("{logged:?}") };
        assert_eq!(asked.split(' ').nth(1).unwrap_or("/mcp"), path);
        assert!(answer.starts_with(status), "{answer}");
    }
}

#[test]
fn neither_secrets_nor_whole_files_are_logged() {
    let server = start_tracing();
    let token = server.companion.token("gemini").unwrap();
    let session = server.open_session();
    let content = format!("{token}{}", "x".repeat(100_000));
    session.call("openDiff", json!({ "filePath": local!("/a"), "newContent": content }));
    let wrong = format!("Bearer {token}x");
    assert_eq!(server.post(&[("Authorization", &wrong)], &token).status, 401);
    let logged = traces(&server);
    assert!(logged.iter().any(|(_, _, text)| text.starts_with("401 ")), "{logged:?}");
    let (_, _, call) = logged.iter().find(|(_, _, text)| text.contains("openDiff")).unwrap();
    assert!(call.contains("TOKENxxx") && call.contains("... (100005 bytes)"), "{call}");
    for (_, _, text) in &logged {
        assert!(!text.contains(&token) && text.len() < 5_000, "{text}");
        assert!(!text.contains(&session.id), "{text}");
    }
}

#[test]
fn nothing_is_logged_unless_asked_for() {
    let server = TestCompanion::start();
    server.open_session().post(&notification("notifications/initialized"));
    assert_eq!(traces(&server), []);
}
