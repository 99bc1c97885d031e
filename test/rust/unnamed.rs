//! Clients of document 004, which name no session: all with the token of one agent count as one.

use gemini_companion::ide::Outcome;
use gemini_companion::{CallId, Event};
use serde_json::{Value, json};

use crate::support::{TestCompanion, request};

const PATH: &str = local!("/no/such/file.txt");

/// The text of a tool's answer, and whether it is an error.
fn answer_text(answer: &Value) -> (&str, bool) {
    let result = &answer["result"];
    (result["content"][0]["text"].as_str().unwrap(), result["isError"] == true)
}

fn this_file() -> Value {
    json!({ "filePath": PATH })
}

#[test]
fn an_outcome_waits_for_the_first_reader() {
    let server = TestCompanion::start();
    let client = server.unnamed_session();
    client.open_diff(PATH, "new");
    client.request("ping", json!({})); // brings a session a context
    let content = "edited\r\n".to_owned();
    server.companion.sessions().decide(server.opened(), Outcome::accepted(content));
    let event = "notifications/ide/diffAccepted".to_owned();
    let accepted = (event, json!({ "filePath": PATH, "content": "edited\r\n" }));
    assert_eq!(server.listen().event(), accepted);
    let mut late = server.listen();
    client.open_diff(PATH, "newer");
    server.companion.sessions().decide(server.opened(), Outcome::Rejected);
    assert_eq!(late.event().0, "notifications/ide/diffRejected"); // and nothing before it
}

#[test]
fn a_reader_makes_emacs_publish_a_context() {
    let server = TestCompanion::start();
    server.unnamed_session().open_diff(PATH, "new"); // counts as a client from now on
    server.opened();
    let _reader = server.listen();
    assert_eq!(server.companion.bridge().next_event(), Some(Event::ClientsChanged));
}

#[test]
fn a_reader_and_its_requests_count_as_one_client() {
    let server = TestCompanion::start();
    let _reader = server.listen();
    server.unnamed_session().open_diff(PATH, "new");
    assert_eq!(server.companion.sessions().count(), 1);
}

#[test]
fn the_final_text_is_available_after_the_decision() {
    let server = TestCompanion::start();
    let client = server.unnamed_session();
    for listener in [None, Some(server.listen())] {
        client.open_diff(PATH, "new");
        let content = "edited \u{1f600}".to_owned();
        server.companion.sessions().decide(server.opened(), Outcome::accepted(content));
        let answer = client.call("closeDiff", this_file());
        assert_eq!(answer_text(&answer), ("edited \u{1f600}", false), "{}", listener.is_some());
        client.open_diff(PATH, "newer");
        server.companion.sessions().decide(server.opened(), Outcome::Rejected);
        let answer = client.call("closeDiff", this_file());
        assert_eq!(answer_text(&answer), (&*format!("the diff of {PATH} was rejected"), true));
    }
    let other = client.call("closeDiff", json!({ "filePath": local!("/no/other") }));
    assert_eq!(
        answer_text(&other),
        (concat!("no diff of ", local!("/no/other"), " is open"), true)
    );
}

#[test]
fn unnamed_clients_and_sessions_decide_no_reviews_of_each_other() {
    let server = TestCompanion::start();
    let (unnamed, session) = (server.unnamed_session(), server.open_session());
    for (number, (proposer, other)) in
        [(&unnamed, &session), (&session, &unnamed)].into_iter().enumerate()
    {
        let path = format!("{PATH}{number}");
        proposer.open_diff(&path, "new");
        server.opened();
        for tool in ["acceptDiff", "rejectDiff", "closeDiff"] {
            let answer = other.call(tool, json!({ "filePath": path }));
            let refused = format!("no diff of {path} is open");
            assert_eq!(answer_text(&answer), (refused.as_str(), true), "{tool}");
        }
        let silently = json!({ "filePath": path, "suppressNotification": true });
        let close = json!({ "name": "closeDiff", "arguments": silently });
        let _answer = proposer.post_slowly(&[], &request(1, "tools/call", close));
        assert!(matches!(server.next_event(), Event::CloseReview { call: Some(_), .. }));
    }
}

#[test]
fn calls_cannot_be_cancelled_without_a_session() {
    let server = TestCompanion::start();
    let client = server.unnamed_session();
    client.open_diff(PATH, "new");
    server.opened();
    let close = json!({ "name": "closeDiff", "arguments": this_file() });
    let mut answer = client.post_slowly(&[], &request(1, "tools/call", close));
    let Event::CloseReview { call: Some(call), .. } = server.next_event() else { panic!() };
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(client.post(cancel).status, 202);
    assert_eq!(client.post(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).status, 202);
    assert!(server.companion.bridge().answer(call, Ok("final".to_owned())));
    assert!(answer.rest().contains("final"));
}

#[test]
fn unnamed_clients_are_shown_as_one_that_can_be_disconnected() {
    let server = TestCompanion::start();
    let client = server.unnamed_session();
    client.open_diff(PATH, "new");
    let review = server.opened();
    let sessions = server.companion.sessions();
    let [only] = sessions.describe().try_into().unwrap();
    assert_eq!((only.client.as_str(), only.listens), ("Gemini CLI", None));
    assert_eq!((only.reviews, sessions.count()), (vec![review], 1));
    let _reader = server.listen();
    assert_eq!(sessions.count(), 1); // the reader is not another client
    assert_eq!(sessions.describe()[0].listens, Some(true));
    assert!(sessions.disconnect(&only.key));
    assert_eq!(server.next_event(), Event::CloseReview { review, call: None::<CallId> });
}
