//! Reviews from openDiff to their outcomes; the test stands in for Lisp.

use gemini_companion::ide::{Outcome, ReviewId};
use gemini_companion::{Answer, CallId, CallResult, Event};
use serde_json::{Value, json};

use crate::support::{TestCompanion, request};

const PATH: &str = local!("/no/such/directory/файл 😀.txt");

fn closed(server: &TestCompanion) -> (ReviewId, Option<CallId>) {
    match server.next_event() {
        Event::CloseReview { review, call } => (review, call),
        other => panic!("{other:?}"),
    }
}

/// Accepted as proposed, so that the text may be omitted.
fn accepted_as_proposed(content: &str) -> Outcome {
    Outcome::Accepted { content: content.to_owned().into(), may_omit: true }
}

fn accepted(content: &str) -> Outcome {
    Outcome::accepted(content.to_owned())
}

#[test]
fn a_proposal_reaches_lisp_unchanged() {
    let server = TestCompanion::start();
    let content = "\u{feff}a\0b\r\nc\n\u{1f600}\u{2028} no newline";
    server.open_session().open_diff(PATH, content);
    let event = server.next_event();
    let Event::OpenReview { allowance, .. } = &event else { panic!("{event:?}") };
    let expected = Event::OpenReview {
        agent: "gemini".to_owned(),
        review: ReviewId(1),
        client: "test 1".to_owned(),
        info: ("test".to_owned(), "1".to_owned()),
        process: cfg!(any(target_os = "linux", target_os = "macos")).then(std::process::id),
        path: PATH.to_owned(),
        content: content.to_owned(),
        host: None,
        allowance: allowance.clone(),
    };
    assert_eq!(event, expected);
}

#[test]
fn only_the_proposing_session_receives_the_outcome() {
    let server = TestCompanion::start();
    let (one, other) = (server.open_session(), server.open_session());
    let (mut stream, mut other_stream) = (one.open_stream(), other.open_stream());
    one.open_diff(PATH, "new");
    other.open_diff(PATH, "other");
    let (first, second) = (server.opened(), server.opened());
    assert!(server.companion.sessions().decide(first, accepted("edited\r\n")));
    assert!(server.companion.sessions().decide(second, Outcome::Rejected));
    assert_eq!(
        stream.notification(),
        ("ide/diffAccepted".to_owned(), json!({ "filePath": PATH, "content": "edited\r\n" }))
    );
    assert_eq!(
        other_stream.notification(),
        ("ide/diffRejected".to_owned(), json!({ "filePath": PATH }))
    );
}

#[test]
fn the_text_is_omitted_only_for_the_proposing_session() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let (mut stream, mut reader) = (session.open_stream(), server.listen());
    session.open_diff(PATH, "new");
    assert!(server.companion.sessions().decide(server.opened(), accepted_as_proposed("new")));
    let params = |content| json!({ "filePath": PATH, "content": content });
    assert_eq!(stream.notification(), ("ide/diffAccepted".to_owned(), params("")));
    let event = "notifications/ide/diffAccepted".to_owned();
    assert_eq!(reader.event(), (event.clone(), params("new")));
    let unnamed = server.unnamed_session();
    unnamed.open_diff(PATH, "newer");
    assert!(server.companion.sessions().decide(server.opened(), accepted_as_proposed("newer")));
    assert_eq!(reader.event(), (event, params("newer")));
    let answer = unnamed.call("closeDiff", json!({ "filePath": PATH }));
    assert_eq!(answer["result"]["content"][0]["text"], "newer");
}

#[test]
fn an_omitted_text_is_null_in_an_answer() {
    let server = TestCompanion::start();
    let arguments = json!({ "filePath": PATH, "suppressNotification": true });
    let answer = || Ok(Answer { text: "proposed".to_owned().into(), may_omit: true });
    let result = close_diff(&server, arguments.clone(), answer());
    assert_eq!(result["content"][0]["text"], r#"{"content":null}"#);
    let unnamed = server.unnamed_session();
    unnamed.open_diff(PATH, "proposed");
    server.opened();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| unnamed.call("closeDiff", arguments));
        let (_, waiting) = closed(&server);
        assert!(server.companion.bridge().answer(waiting.unwrap(), answer()));
        assert_eq!(call.join().unwrap()["result"]["content"][0]["text"], "proposed");
    });
}

#[test]
fn a_review_is_decided_once() {
    let server = TestCompanion::start();
    let session = server.open_session();
    session.open_diff(PATH, "new");
    let review = server.opened();
    assert!(server.companion.sessions().decide(review, accepted("new")));
    assert!(!server.companion.sessions().decide(review, Outcome::Rejected));
    let mut stream = session.open_stream();
    assert_eq!(stream.notification().0, "ide/diffAccepted");
    server.companion.stop();
    assert_eq!(stream.next(), None);
}

#[test]
fn an_outcome_waits_for_a_stream() {
    let server = TestCompanion::start();
    let session = server.open_session();
    session.open_diff(PATH, "new");
    server.companion.sessions().decide(server.opened(), accepted("late"));
    assert_eq!(session.open_stream().notification().1["content"], "late");
}

/// Calls closeDiff while another thread stands in for Lisp and answers with `text`.
fn close_diff(server: &TestCompanion, arguments: Value, answer: CallResult) -> Value {
    let session = server.open_session();
    session.open_diff(PATH, "proposed");
    let review = server.opened();
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let (closed, call) = closed(server);
            assert_eq!(closed, review);
            assert!(server.companion.bridge().answer(call.unwrap(), answer));
        });
        let mut stream = session.open_stream();
        let result = session.call("closeDiff", arguments.clone());
        answering.join().unwrap();
        if arguments["suppressNotification"] != true {
            assert_eq!(stream.notification().0, "ide/diffRejected");
        }
        // What comes next is not about this review.
        assert!(!server.companion.sessions().decide(review, Outcome::Rejected));
        server.publish_context(gemini_companion::ide::IdeContext::new(Vec::new()));
        assert_eq!(stream.notification().0, "ide/contextUpdate");
        result["result"].clone()
    })
}

#[test]
fn close_diff_answers_with_the_text_of_the_review_as_json() {
    let server = TestCompanion::start();
    let arguments = json!({ "filePath": PATH, "suppressNotification": true });
    let result = close_diff(&server, arguments, Ok("edited \"text\"\n".to_owned().into()));
    let text = json!({ "content": "edited \"text\"\n" }).to_string();
    assert_eq!(result, json!({ "content": [{ "type": "text", "text": text }] }));
}

#[test]
fn close_diff_sends_a_rejection_unless_suppressed() {
    let server = TestCompanion::start();
    let result = close_diff(&server, json!({ "filePath": PATH }), Ok("text".to_owned().into()));
    assert_eq!(result["content"][0]["text"], r#"{"content":"text"}"#);
}

#[test]
fn close_diff_reports_an_error_of_lisp() {
    let server = TestCompanion::start();
    let arguments = json!({ "filePath": PATH, "suppressNotification": false });
    let text = json!({ "type": "text", "text": "cannot say" });
    assert_eq!(
        close_diff(&server, arguments, Err("cannot say".to_owned())),
        json!({ "content": [text], "isError": true })
    );
}

#[test]
fn close_diff_without_a_review_is_a_tool_error() {
    let server = TestCompanion::start();
    let other = server.open_session();
    other.open_diff(PATH, "of another session");
    let result = &server.open_session().call("closeDiff", json!({ "filePath": PATH }))["result"];
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("no diff"));
}

#[test]
fn no_session_decides_reviews_of_another() {
    let server = TestCompanion::start();
    let (owner, other) = (server.open_session(), server.open_session());
    owner.open_diff(PATH, "new");
    let review = server.opened();
    for tool in ["acceptDiff", "rejectDiff", "closeDiff"] {
        let result = &other.call(tool, json!({ "filePath": PATH }))["result"];
        assert_eq!(result["isError"], true, "{tool}");
    }
    assert_eq!(server.events(), []);
    assert!(server.companion.sessions().decide(review, Outcome::Rejected));
}

/// The user may answer in the client at once, or before an Emacs that was suspended goes on.
#[test]
fn close_diff_waits_for_the_proposal_whose_file_is_being_checked() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let path = format!("/none{}", "/x".repeat(1500)); // it takes some time to look for all of these
    let mut answers = Vec::new();
    for (tool, arguments) in [
        ("openDiff", json!({ "filePath": path, "newContent": "first" })),
        ("openDiff", json!({ "filePath": path, "newContent": "new" })),
        ("closeDiff", json!({ "filePath": path })),
    ] {
        let params = json!({ "name": tool, "arguments": arguments });
        answers.push(session.post_slowly(&[], &request(7, "tools/call", params)));
    }
    let proposed = || match server.next_event() {
        Event::OpenReview { review, content, .. } => (review, content),
        other => panic!("{other:?}"),
    };
    let (first, content) = proposed();
    assert_eq!((content.as_str(), closed(&server)), ("first", (first, None)));
    let (second, content) = proposed();
    let (review, call) = closed(&server);
    assert_eq!((content.as_str(), review), ("new", second));
    assert!(server.companion.bridge().answer(call.unwrap(), Ok("new".to_owned())));
}

#[test]
fn a_second_proposal_for_a_file_replaces_the_first() {
    let server = TestCompanion::start();
    let session = server.open_session();
    session.open_diff(PATH, "first");
    session.open_diff(PATH, "second");
    let first = server.opened();
    assert_eq!(closed(&server), (first, None));
    let second = server.opened();
    assert!(!server.companion.sessions().decide(first, Outcome::Rejected));
    assert!(server.companion.sessions().decide(second, Outcome::Rejected));
}

#[test]
fn a_session_that_ends_closes_its_reviews_and_no_others() {
    let server = TestCompanion::start();
    let (one, other) = (server.open_session(), server.open_session());
    one.open_diff(PATH, "new");
    other.open_diff(PATH, "other");
    let (first, second) = (server.opened(), server.opened());
    let named = [("Mcp-Session-Id", one.id.as_str())];
    assert_eq!(server.request("DELETE", "/mcp", &named, "").status, 200);
    assert_eq!(closed(&server), (first, None));
    assert!(!server.companion.sessions().decide(first, Outcome::Rejected));
    assert!(server.companion.sessions().decide(second, Outcome::Rejected));
}

#[test]
fn in_the_newest_revision_invalid_arguments_are_tool_errors() {
    let server = TestCompanion::start();
    let id = server.initialize("2025-11-25").header("mcp-session-id").unwrap();
    let call = |name, arguments| {
        let params = json!({ "name": name, "arguments": arguments });
        let body = crate::support::request(1, "tools/call", params);
        server.post(&[("Mcp-Session-Id", &id)], &body).json()
    };
    let answer = call("openDiff", json!({ "filePath": local!("/a") }));
    assert_eq!(answer["result"]["isError"], true);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("newContent"), "{text}");
    assert_eq!(call("writeFile", json!({}))["error"]["code"], -32602);
}

#[test]
fn invalid_arguments_are_rpc_errors_and_impossible_files_tool_errors() {
    let server = TestCompanion::start();
    let session = server.open_session();
    for (tool, arguments) in [
        ("openDiff", json!({})),
        ("openDiff", json!({ "filePath": local!("/a") })),
        ("openDiff", json!({ "filePath": local!("/a"), "newContent": null })),
        ("openDiff", json!({ "filePath": 7, "newContent": "" })),
        ("closeDiff", json!({})),
        ("closeDiff", json!({ "filePath": local!("/a"), "suppressNotification": "yes" })),
        ("writeFile", json!({})),
    ] {
        assert_eq!(session.call(tool, arguments.clone())["error"]["code"], -32602, "{arguments}");
    }
    for path in ["relative", "/ssh:host:/file", "/", "/dev/null", "/a\0b"] {
        let arguments = json!({ "filePath": path, "newContent": "" });
        let result = &session.call("openDiff", arguments)["result"];
        assert_eq!(result["isError"], true, "{path}");
        assert_eq!(result["content"][0]["type"], "text");
    }
    assert_eq!(server.events(), []);
}
