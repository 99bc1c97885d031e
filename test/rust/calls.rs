//! Requests that take long: their answers, cancelling, and clients that disconnect.

use std::time::Duration;

use gemini_companion::{Event, Limits};
use serde_json::{Value, json};

use crate::support::{Session, Stream, TestCompanion, faulty_waker, request, wait_for};

const PATH: &str = local!("/no/such/file");
const SHORT: Duration = Duration::from_millis(20);

/// A server whose answers become streams almost at once.
fn start_with_early_streams() -> TestCompanion {
    TestCompanion::with(Limits { stream_after: SHORT, ..Limits::default() })
}

fn cancel(session: &Session, id: Value) {
    let cancelled = json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": id, "reason": "no time" },
    });
    assert_eq!(session.post(&cancelled.to_string()).status, 202);
}

fn assert_is_stream(answer: &mut Stream) -> String {
    let head = answer.read_head().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    head
}

#[test]
fn a_late_answer_is_one_event_without_an_id() {
    let server = start_with_early_streams();
    let session = server.open_session();
    let (mut answer, call) = session.begin_close_diff(PATH);
    // Its headers come while Emacs is still busy.
    assert_is_stream(&mut answer);
    assert!(server.companion.bridge().answer(call, Ok("late".to_owned())));
    let event = answer.next_block().unwrap();
    let reply: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(reply["id"], 7);
    assert_eq!(reply["result"]["content"][0]["text"], r#"{"content":"late"}"#);
    assert_eq!(answer.next_block(), None);
}

#[test]
fn a_cancelled_call_has_no_answer() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let (mut answer, call) = session.begin_close_diff(PATH);
    cancel(&session, json!(7));
    assert!(assert_is_stream(&mut answer).contains("content-length: 0"));
    // The review is closed all the same, and the text is there for who asks again.
    assert!(server.companion.bridge().answer(call, Ok("too late".to_owned())));
    let again = session.call("closeDiff", json!({ "filePath": PATH }));
    assert_eq!(again["result"]["content"][0]["text"], r#"{"content":"too late"}"#);
}

#[test]
fn a_call_can_be_cancelled_after_its_stream_has_begun() {
    let server = start_with_early_streams();
    let session = server.open_session();
    let (mut answer, _) = session.begin_close_diff(PATH);
    assert_is_stream(&mut answer);
    cancel(&session, json!(7));
    assert_eq!(answer.next_block(), None);
}

#[test]
fn only_the_named_call_of_the_same_session_is_cancelled() {
    let server = TestCompanion::start();
    let (session, other) = (server.open_session(), server.open_session());
    let (mut answer, call) = session.begin_close_diff(PATH);
    for id in [json!(8), json!("7"), json!(null), json!({})] {
        cancel(&session, id);
    }
    cancel(&other, json!(7));
    assert!(server.companion.bridge().answer(call, Ok("text".to_owned())));
    assert!(answer.read_head().to_ascii_lowercase().contains("application/json"));
}

#[test]
fn hanging_up_cancels_nothing() {
    let server = TestCompanion::with(Limits { connections: 1, ..Limits::default() });
    let session = server.open_session();
    let (answer, call) = session.begin_close_diff(PATH);
    drop(answer);
    // The server has noticed once there is room for another connection.
    let ping = request(1, "ping", json!({}));
    wait_for("room for a connection", || (session.post(&ping).status == 200).then_some(()));
    assert!(server.companion.bridge().answer(call, Ok("text".to_owned())));
}

#[test]
fn a_call_whose_client_has_hung_up_can_be_cancelled() {
    let server = TestCompanion::start();
    let session = server.open_session();
    session.open_diff(PATH, "text");
    server.opened();
    let accept = json!({ "name": "acceptDiff", "arguments": { "filePath": PATH } });
    let answer = session.post_slowly(&[], &request(7, "tools/call", accept));
    let Event::DecideReview { call, .. } = server.next_event() else { panic!("no decision") };
    drop(answer);
    cancel(&session, json!(7));
    wait_for("the end of the call", || (!server.companion.bridge().is_awaited(call)).then_some(()));
}

#[test]
fn a_panic_in_a_call_is_an_error_and_the_server_goes_on() {
    let server = TestCompanion::start();
    let session = server.open_session();
    server.companion.bridge().set_waker(Some(faulty_waker()));
    let arguments = json!({ "filePath": PATH, "newContent": "text" });
    let call = json!({ "name": "openDiff", "arguments": arguments });
    let answer = session.post(&request(7, "tools/call", call));
    assert_eq!((answer.status, answer.error_code()), (200, -32603));
    assert_eq!(answer.json()["id"], 7);
    server.opened();
    let Event::Warning(text) = server.next_event() else { panic!("no warning") };
    assert!(text.starts_with("a request failed because of a fault"), "{text}");
    assert_eq!(session.request("ping", json!({}))["result"], json!({}));
}
