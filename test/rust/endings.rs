//! How a review has ended, for a client that asks once more because it did not get the answer.

use std::time::Duration;

use gemini_companion::ide::Outcome;
use gemini_companion::{Answer, CallId, Event, Limits};
use serde_json::{Value, json};

use crate::support::{Response, Session, Stream, TestCompanion, request, wait_for};

const PATH: &str = local!("/no/such/file");

fn closing(path: &str) -> String {
    request(7, "tools/call", json!({ "name": "closeDiff", "arguments": { "filePath": path } }))
}

/// The text that a `closeDiff` gets: what was made of the review, or why there is none.
fn text_of(answer: &Value) -> Result<Option<String>, String> {
    let text = answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
    if answer["result"]["isError"] == true {
        return Err(text);
    }
    let content: Value = serde_json::from_str(&text).expect("an object");
    Ok(content["content"].as_str().map(str::to_owned))
}

fn close(session: &Session, path: &str) -> Result<Option<String>, String> {
    text_of(&session.post(&closing(path)).json())
}

fn text(text: &str) -> Result<Option<String>, String> {
    Ok(Some(text.to_owned()))
}

fn not_open(path: &str) -> Result<Option<String>, String> {
    Err(format!("no diff of {path} is open"))
}

fn read(mut answer: Stream) -> Result<Option<String>, String> {
    let head = answer.read_head();
    let body = answer.rest();
    text_of(&Response { status: 200, head, body }.json())
}

fn answer(server: &TestCompanion, call: CallId, text: &str) {
    assert!(server.companion.bridge().answer(call, Ok(text.to_owned())));
}

#[test]
fn close_diff_that_is_repeated_while_the_first_waits_waits_for_the_same() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let (first, call) = session.begin_close_diff(PATH);
    let second = session.post_slowly(&[], &closing(PATH));
    assert_eq!(session.session_status(&session.id), 200);
    assert_eq!(server.events(), []); // Lisp is asked once
    answer(&server, call, "edited");
    assert_eq!([read(first), read(second)], [text("edited"), text("edited")]);
}

#[test]
fn close_diff_that_is_repeated_after_the_answer_has_the_same_until_the_next_proposal() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let (first, call) = session.begin_close_diff(PATH);
    answer(&server, call, "edited");
    assert_eq!(read(first), text("edited"));
    assert_eq!([close(&session, PATH), close(&session, PATH)], [text("edited"), text("edited")]);
    assert_eq!(close(&server.open_session(), PATH), not_open(PATH));
    session.open_diff(local!("/no/such/other"), "text");
    assert_eq!(close(&session, PATH), text("edited"));
    session.open_diff(PATH, "another");
    server.opened();
    let review = server.opened();
    assert!(server.companion.sessions().decide(review, Outcome::Rejected));
    assert_eq!(close(&session, PATH), Err(format!("the diff of {PATH} was rejected")));
}

#[test]
fn close_diff_whose_connection_was_cut_can_be_repeated() {
    let server = TestCompanion::start();
    let session = server.open_session();
    for when in ["before the answer", "after it"] {
        let (cut, call) = session.begin_close_diff(PATH);
        if when == "before the answer" {
            drop(cut);
            answer(&server, call, when);
        } else {
            answer(&server, call, when);
            drop(cut);
        }
        assert_eq!(close(&session, PATH), text(when));
    }
}

#[test]
fn a_failure_of_lisp_is_repeated_too() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let (first, call) = session.begin_close_diff(PATH);
    let failure = Err::<String, _>("no text".to_owned());
    assert!(server.companion.bridge().answer(call, failure));
    assert_eq!(read(first), Err("no text".to_owned()));
    assert_eq!(close(&session, PATH), Err("no text".to_owned()));
}

#[test]
fn endings_have_an_age() {
    let kept_time = Duration::from_millis(1);
    let server = TestCompanion::with(Limits { kept_time, ..Limits::default() });
    let session = server.open_session();
    session.open_diff(PATH, "text");
    let review = server.opened();
    assert!(server.companion.sessions().decide(review, Outcome::accepted("edited".to_owned())));
    wait_for("the end of an ending", || (close(&session, PATH) == not_open(PATH)).then_some(()));
}

#[test]
fn endings_are_limited_in_number() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut stream = session.open_stream();
    let path = |number: usize| format!(local!("/no/such/{}"), number);
    for number in 0..=256 {
        session.open_diff(&path(number), "text");
        let content = number.to_string();
        assert!(server.companion.sessions().decide(server.opened(), Outcome::accepted(content)));
        stream.notification();
    }
    assert_eq!(close(&session, &path(0)), not_open(&path(0)));
    assert_eq!(close(&session, &path(1)), text("1"));
}

#[test]
fn close_diff_after_the_user_has_accepted_gets_the_text_unless_the_client_knows_it() {
    let server = TestCompanion::start();
    let session = server.open_session();
    for (may_omit, known) in [(false, Some("edited")), (true, None)] {
        session.open_diff(PATH, "text");
        let outcome = Outcome::Accepted { content: "edited".to_owned().into(), may_omit };
        assert!(server.companion.sessions().decide(server.opened(), outcome));
        assert_eq!(close(&session, PATH), Ok(known.map(str::to_owned)));
    }
}

#[test]
fn close_diff_after_the_user_has_rejected_says_so() {
    let server = TestCompanion::start();
    let session = server.open_session();
    session.open_diff(PATH, "text");
    assert!(server.companion.sessions().decide(server.opened(), Outcome::Rejected));
    for _ in 0..2 {
        assert_eq!(close(&session, PATH), Err(format!("the diff of {PATH} was rejected")));
    }
}

#[test]
fn a_text_that_may_be_omitted_is_omitted_each_time() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let (first, call) = session.begin_close_diff(PATH);
    let proposed = Answer { text: "text".to_owned().into(), may_omit: true };
    assert!(server.companion.bridge().answer(call, Ok(proposed)));
    assert_eq!([read(first), close(&session, PATH)], [Ok(None), Ok(None)]);
}

#[test]
fn a_decision_that_a_client_has_asked_for_is_an_ending() {
    let server = TestCompanion::start();
    let session = server.open_session();
    session.open_diff(PATH, "text");
    let review = server.opened();
    let accept = json!({ "name": "acceptDiff", "arguments": { "filePath": PATH } });
    let asked = session.post_slowly(&[], &request(7, "tools/call", accept));
    let Event::DecideReview { call, .. } = server.next_event() else { panic!("no decision") };
    assert!(server.companion.sessions().decide(review, Outcome::accepted("edited".to_owned())));
    answer(&server, call, "done");
    drop(asked);
    assert_eq!(close(&session, PATH), text("edited"));
}
