//! Tools for the model, on `/mcp/tools`.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use gemini_companion::{Argument, ArgumentKind, ArgumentValue, CallId, Event, Limits, ModelTool};
use serde_json::{Value, json};

use crate::support::{Response, TestCompanion, notification, request, wait_for};

const PATH: &str = "/mcp/tools";

fn argument(name: &str, kind: ArgumentKind, is_required: bool) -> Argument {
    Argument { name: name.to_owned(), kind, description: format!("the {name}"), is_required }
}

fn tool(name: &str, arguments: Vec<Argument>) -> ModelTool {
    ModelTool {
        name: name.to_owned(),
        description: format!("does {name}"),
        is_read_only: true,
        is_listed: true,
        is_for_hosts: true,
        arguments,
    }
}

fn with_tools(limits: Limits) -> TestCompanion {
    let server = TestCompanion::with(limits);
    let find = tool(
        "find",
        vec![
            argument("path", ArgumentKind::Text, true),
            argument("line", ArgumentKind::Integer, false),
            argument("all", ArgumentKind::Flag, false),
        ],
    );
    let hidden = ModelTool { is_read_only: false, is_listed: false, ..tool("hidden", vec![]) };
    server.companion.model_tools().register(vec![find, hidden]);
    server
}

fn start() -> TestCompanion {
    with_tools(Limits::default())
}

fn call(tool: &str, arguments: Value) -> String {
    request(5, "tools/call", json!({ "name": tool, "arguments": arguments }))
}

impl TestCompanion {
    fn ask(&self, body: &str) -> Value {
        let response = self.request("POST", PATH, &[], body);
        assert_eq!(response.status, 200, "{}", response.body);
        response.json()
    }

    /// Posts `body` without waiting for the answer.
    fn ask_slowly(&self, body: &str) -> TcpStream {
        let mut connection = self.connect();
        let head = self.head("POST", PATH, &[]);
        write!(connection, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        connection
    }

    /// The next call of a tool, with its arguments and where its client works.
    fn called(&self) -> (CallId, Vec<Option<ArgumentValue>>, Option<String>) {
        match self.next_event() {
            Event::CallTool { call, agent, tool, arguments, directory, .. } => {
                assert_eq!((&*agent, &*tool), ("gemini", "find"));
                (call, arguments, directory)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn outcome(answer: &Value) -> (&str, bool) {
    let result = &answer["result"];
    assert_eq!(result["content"][0]["type"], "text", "{answer}");
    (result["content"][0]["text"].as_str().unwrap(), result["isError"].as_bool().unwrap())
}

#[test]
fn a_client_needs_no_session() {
    let server = start();
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
    let answer = server.request("POST", PATH, &[], &request(0, "initialize", hello));
    assert_eq!(answer.header("mcp-session-id"), None);
    assert_eq!(answer.json()["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answer.json()["result"]["capabilities"], json!({ "tools": {} }));
    let note = server.request("POST", PATH, &[], &notification("notifications/initialized"));
    assert_eq!(note.status, 202);
    assert_eq!(server.ask(&request(1, "ping", json!({})))["result"], json!({}));
    // A session that is named, of an Emacs before, does not matter.
    let named = &[("Mcp-Session-Id", "0123456789abcdef")];
    let answer = server.request("POST", PATH, named, &request(1, "ping", json!({})));
    assert_eq!(answer.status, 200);
    assert_eq!(server.companion.sessions().count(), 0);
}

#[test]
fn tools_are_listed_as_lisp_declares_them() {
    let server = start();
    let answer = server.ask(&request(1, "tools/list", json!({})));
    let listed = &answer["result"]["tools"];
    assert_eq!(
        *listed,
        json!([{
            "name": "find",
            "description": "does find",
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
            "inputSchema": {
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "the path" },
                    "line": { "type": "integer", "description": "the line" },
                    "all": { "type": "boolean", "description": "the all" },
                },
                "required": ["path"],
            },
        }])
    );
    server.companion.model_tools().register(Vec::new());
    let answer = server.ask(&request(1, "tools/list", json!({})));
    assert_eq!(answer["result"]["tools"], json!([]));
    // They are not those of the IDE.
    let session = server.open_session();
    let names = session.request("tools/list", json!({}))["result"]["tools"].to_string();
    assert!(!names.contains("find"), "{names}");
}

#[test]
fn lisp_answers_a_call() {
    let server = start();
    let reply = server.ask_slowly(&call("find", json!({ "line": 3, "path": "/a\u{e4}" })));
    let (id, arguments, place) = server.called();
    let path = ArgumentValue::Text("/a\u{e4}".to_owned());
    assert_eq!(arguments, [Some(path), Some(ArgumentValue::Integer(3)), None]);
    assert_eq!(place, None); // the client is in this process itself
    assert!(server.companion.bridge().answer(id, Ok("found \u{1f600}".to_owned())));
    let answer = Response::read(reply).json();
    assert_eq!((&answer["id"], outcome(&answer)), (&json!(5), ("found \u{1f600}", false)));

    let reply = server.ask_slowly(&call("find", json!({ "path": "/b", "line": 4.0, "all": true })));
    let (id, arguments, _) = server.called();
    assert_eq!(arguments[1..], [Some(ArgumentValue::Integer(4)), Some(ArgumentValue::Flag(true))]);
    let failure = Err::<String, _>("it is withheld".to_owned());
    assert!(server.companion.bridge().answer(id, failure));
    assert_eq!(outcome(&Response::read(reply).json()), ("it is withheld", true));
    assert_eq!(server.events(), []); // nothing was cancelled
}

/// A hook tells what a model has written: JavaScript may have half of a character, and Node writes U+FFFD.
#[test]
fn half_of_a_character_in_an_argument_is_replaced() {
    let server = start();
    let body = call("find", json!({ "path": "HALF" })).replace("HALF", r"a\ud83d");
    let _reply = server.ask_slowly(&body);
    let (_, arguments, _) = server.called();
    assert_eq!(arguments[0], Some(ArgumentValue::Text("a\u{fffd}".to_owned())));
}

#[test]
fn an_argument_may_have_any_name() {
    let server = TestCompanion::with(Limits::default());
    let names = ["name", "arguments"];
    let arguments = names.map(|name| argument(name, ArgumentKind::Text, true));
    server.companion.model_tools().register(vec![tool("find", arguments.to_vec())]);
    let call = call("find", json!({ "name": "ls", "arguments": "-l" }));
    let _reply = server.ask_slowly(&call);
    let texts = ["ls", "-l"].map(|text| Some(ArgumentValue::Text(text.to_owned())));
    assert_eq!(server.called().1, texts);
}

#[test]
fn when_gemini_cli_was_to_begin_the_call_is_ignored() {
    let server = start();
    let call = call("find", json!({ "path": "/a", "wait_for_previous": true }));
    let _reply = server.ask_slowly(&call);
    assert_eq!(server.called().1, [Some(ArgumentValue::Text("/a".to_owned())), None, None]);
}

#[test]
fn the_model_is_told_what_is_wrong_with_a_call() {
    let server = start();
    for (arguments, reason) in [
        (json!({}), "the argument \"path\" is missing"),
        (json!({ "path": null }), "the argument \"path\" is missing"),
        (json!({ "path": 1 }), "the argument \"path\" must be of the type string"),
        (json!({ "path": "", "line": 1.5 }), "the argument \"line\" must be of the type integer"),
        (json!({ "path": "", "line": "1" }), "the argument \"line\" must be of the type integer"),
        (json!({ "path": "", "all": "yes" }), "the argument \"all\" must be of the type boolean"),
        (json!({ "path": "", "file": "" }), "there is no argument \"file\""),
        (json!({ "path": [[0], [0]] }), "the argument \"path\" must be of the type string"),
    ] {
        let answer = server.ask(&call("find", arguments));
        let (text, failed) = outcome(&answer);
        assert!(failed && text.starts_with(reason), "{text}");
    }
    let refused = server.request("POST", PATH, &[], &call("find", json!([])));
    assert_eq!((refused.status, refused.error_code()), (400, -32600));
    let answer = server.ask(&call("other", json!({})));
    assert_eq!(
        answer["error"],
        json!({ "code": -32602, "message": "Invalid params: unknown tool other" })
    );
    let answer = server.ask(&request(1, "resources/list", json!({})));
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(server.events(), []);
}

#[test]
fn what_is_not_listed_can_be_called() {
    let server = start();
    let reply = server.ask_slowly(&call("hidden", json!({})));
    let Event::CallTool { call, tool, .. } = server.next_event() else { panic!() };
    assert_eq!(tool, "hidden");
    server.companion.bridge().answer(call, Ok(String::new()));
    assert_eq!(outcome(&Response::read(reply).json()), ("", false));
}

#[test]
fn the_same_clients_are_admitted_as_elsewhere() {
    let server = start();
    let list = request(1, "tools/list", json!({}));
    for (change, status) in [
        (("Authorization", ""), 401),
        (("Authorization", "Bearer x"), 401),
        (("Host", "example.com"), 403),
        (("Origin", "https://example.com"), 403),
        (("Content-Type", "text/plain"), 415),
        (("Accept", "text/html"), 406),
    ] {
        assert_eq!(server.request("POST", PATH, &[change], &list).status, status, "{change:?}");
    }
    for method in ["GET", "DELETE", "PUT"] {
        let answer = server.request(method, PATH, &[], "");
        assert_eq!((answer.status, answer.header("allow").as_deref()), (405, Some("POST")));
    }
    assert_eq!(server.request("POST", PATH, &[], &format!("[{list}]")).status, 400);
    assert_eq!(server.request("POST", PATH, &[], "{").status, 400);
}

#[test]
fn a_call_is_cancelled_when_its_client_disconnects() {
    let server = start();
    let reply = server.ask_slowly(&call("find", json!({ "path": "/a" })));
    let (id, ..) = server.called();
    drop(reply);
    assert_eq!(server.next_event(), Event::CancelCall { call: id });
    assert!(!server.companion.bridge().answer(id, Ok("late".to_owned())));
}

#[test]
fn a_call_that_tells_emacs_something_goes_on_when_its_client_disconnects() {
    let server = start();
    let [told, asked] = [call("hidden", json!({})), call("find", json!({ "path": "/a" }))]
        .map(|body| server.ask_slowly(&body));
    let ids: Vec<_> = (0..2)
        .map(|_| match server.next_event() {
            Event::CallTool { call, tool, .. } => (tool, call),
            other => panic!("{other:?}"),
        })
        .collect();
    let id_of = |name: &str| ids.iter().find(|(tool, _)| tool == name).unwrap().1;
    drop(told);
    drop(asked);
    assert_eq!(server.next_event(), Event::CancelCall { call: id_of("find") });
    // Lisp need not answer it.
    wait_for("nobody to wait", || {
        (!server.companion.bridge().is_awaited(id_of("hidden"))).then_some(())
    });
    assert_eq!(server.events(), []);
}

#[test]
fn a_call_that_lisp_does_not_answer_fails_in_time() {
    let server = with_tools(Limits { tool_time: Duration::from_millis(10), ..Limits::default() });
    let answer = server.ask(&call("find", json!({ "path": "/a" })));
    assert_eq!(outcome(&answer), ("Emacs did not answer for 10ms", true));
    let (id, ..) = server.called();
    assert_eq!(server.next_event(), Event::CancelCall { call: id });
}

#[test]
fn calls_at_the_same_time_are_limited() {
    let server = with_tools(Limits { tool_calls: 2, ..Limits::default() });
    let body = call("find", json!({ "path": "/a" }));
    let replies = [server.ask_slowly(&body), server.ask_slowly(&body)];
    let calls = [server.called().0, server.called().0];
    let refused = "Emacs answers as many calls as it can: call again later";
    assert_eq!(outcome(&server.ask(&body)), (refused, true));
    // Listing them is no call.
    assert_eq!(server.ask(&request(1, "tools/list", json!({})))["error"], Value::Null);
    // A hook tells something meanwhile.
    let told = server.ask_slowly(&call("hidden", json!({})));
    let Event::CallTool { call: id, .. } = server.next_event() else { panic!() };
    server.companion.bridge().answer(id, Ok("heard".to_owned()));
    assert_eq!(outcome(&Response::read(told).json()), ("heard", false));
    for id in calls {
        server.companion.bridge().answer(id, Ok("done".to_owned()));
    }
    for reply in replies {
        assert_eq!(outcome(&Response::read(reply).json()), ("done", false));
    }
    let reply = server.ask_slowly(&body);
    server.companion.bridge().answer(server.called().0, Ok("again".to_owned()));
    assert_eq!(outcome(&Response::read(reply).json()), ("again", false));
}

#[test]
fn all_calls_of_an_answer_are_taken() {
    let server = with_tools(Limits::default());
    let body = call("find", json!({ "path": "/a" }));
    let replies: Vec<_> = (0..12).map(|_| server.ask_slowly(&body)).collect();
    for _ in &replies {
        server.companion.bridge().answer(server.called().0, Ok("done".to_owned()));
    }
    for reply in replies {
        assert_eq!(outcome(&Response::read(reply).json()), ("done", false));
    }
}

#[test]
fn calls_that_wait_for_a_busy_emacs_are_limited() {
    let server = start();
    let body = call("find", json!({ "path": "/a" }));
    let mut queued = 0;
    // Each client disconnects, so that there is always room for one more call.
    let refused = wait_for("a call that is refused", || {
        let reply = server.ask_slowly(&body);
        queued += 1;
        reply.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut start = [0; 12];
        std::io::Read::read_exact(&mut &reply, &mut start).is_ok().then_some(reply)
    });
    refused.set_read_timeout(Some(crate::support::DEADLINE)).unwrap();
    assert!(queued > 60, "{queued}");
    let calls = server.events().into_iter();
    let calls = calls.filter(|event| matches!(event, Event::CallTool { .. })).count();
    assert_eq!(calls, Limits::default().share_events);
}

#[test]
fn a_call_ends_with_the_companion() {
    let server = start();
    let reply = server.ask_slowly(&call("find", json!({ "path": "/a" })));
    server.called();
    server.companion.stop();
    assert_eq!(outcome(&Response::read(reply).json()), ("the companion is stopping", true));
}

#[test]
fn each_client_wants_tools_until_there_are_some() {
    let tool_time = Duration::from_millis(1);
    let server = TestCompanion::with(Limits { tool_time, ..Limits::default() });
    for _ in 0..2 {
        let none = server.ask(&request(1, "tools/list", json!({})));
        assert_eq!(none["result"]["tools"], json!([]));
        assert_eq!(server.next_event(), Event::ToolsWanted);
    }
}

#[test]
fn lisp_registers_tools_when_they_are_wanted() {
    let server = TestCompanion::start();
    let list = request(1, "tools/list", json!({}));
    let replies = [server.ask_slowly(&list), server.ask_slowly(&call("find", json!({})))];
    assert_eq!(server.next_event(), Event::ToolsWanted);
    server.companion.model_tools().register(vec![tool("find", Vec::new())]);
    let [listed, called] = replies;
    let Event::CallTool { call: id, .. } = server.next_event() else { panic!() };
    server.companion.bridge().answer(id, Ok("found".to_owned()));
    assert_eq!(outcome(&Response::read(called).json()), ("found", false));
    assert_eq!(Response::read(listed).json()["result"]["tools"][0]["name"], "find");
    assert_eq!(server.events(), []);
}

#[test]
fn there_are_no_tools_if_lisp_registers_none_in_time() {
    let server =
        TestCompanion::with(Limits { tool_time: Duration::from_millis(10), ..Limits::default() });
    let answer = server.ask(&request(1, "tools/list", json!({})));
    assert_eq!(answer["result"], json!({ "tools": [] }));
}

#[test]
fn tools_survive_a_restart_of_the_server() {
    let server = start();
    server.companion.restart().unwrap();
    let answer = server.ask(&request(1, "tools/list", json!({})));
    assert_eq!(answer["result"]["tools"][0]["name"], "find");
}
