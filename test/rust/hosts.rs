//! Clients on hosts, as their relays speak for them: what they may do, and that what comes from one
//! host reaches neither this machine nor another host.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gemini_companion::ide::{File, IdeContext, Outcome, ReviewId};
use gemini_companion::{Contents, Event, Host, HostFile, Limits, ModelTool, Place};
use serde_json::{Value, json};

use crate::support::{Response, Stream, TestCompanion, notification, request};

const BUILD: &str = "/ssh:build:";

/// A client on a host.
struct Client<'a> {
    server: &'a TestCompanion,
    bearer: String,
    id: String,
}

/// The header with the token of Gemini CLI on a host, which is opened.
fn bearer(server: &TestCompanion, prefix: &str) -> String {
    let agents = server.companion.open_host(prefix).unwrap();
    format!("Bearer {}", agents.iter().find(|it| it.name == "gemini").unwrap().token.reveal())
}

fn host(server: &TestCompanion) -> Arc<Host> {
    server.companion.host(BUILD).unwrap()
}

fn hello() -> String {
    let params = json!({ "protocolVersion": "2025-06-18", "clientInfo": { "name": "far" } });
    request(0, "initialize", params)
}

impl Client<'_> {
    /// A client that works in `directory`, percent-encoded, on the host with `prefix`.
    fn connect<'a>(server: &'a TestCompanion, prefix: &str, directory: &str) -> Client<'a> {
        let bearer = bearer(server, prefix);
        let changes = [("Authorization", &*bearer), ("Gemini-Companion-Directory", directory)];
        let id = server.post(&changes, &hello()).header("mcp-session-id").unwrap();
        let client = Client { server, bearer, id };
        assert_eq!(client.post(&notification("notifications/initialized")).status, 202);
        client
    }

    fn post(&self, body: &str) -> Response {
        self.server.post(&[("Authorization", &self.bearer), ("Mcp-Session-Id", &self.id)], body)
    }

    /// The result of a call: its text if it failed.
    fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.post(&request(7, "tools/call", params)).json();
        let text = &answer["result"]["content"][0]["text"];
        match &answer["result"] {
            Value::Null => Err(answer["error"]["message"].as_str().unwrap().to_owned()),
            result if result["isError"] == true => Err(text.as_str().unwrap().to_owned()),
            result => Ok(result["content"].clone()),
        }
    }

    fn open_diff(&self, path: &str, current: Value) -> Result<Value, String> {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        self.propose(path, current, &LAST.fetch_add(1, Ordering::Relaxed).to_string())
    }

    fn propose(&self, path: &str, current: Value, proposal: &str) -> Result<Value, String> {
        self.call(
            "openDiff",
            json!({
                "filePath": path, "newContent": "new", "proposal": proposal,
                "current": current, "stamp": "1", "modified": 2,
            }),
        )
    }

    /// Opens a review, of which Lisp is told.
    fn review(&self, path: &str) -> ReviewId {
        self.open_diff(path, json!({ "text": "old" })).unwrap();
        assert!(matches!(self.server.next_event(), Event::HostFile(_)));
        self.server.opened()
    }

    fn stream(&self) -> Stream {
        let session = self.server.session(self.id.clone());
        session.open_stream_after(&[("Authorization", &self.bearer)])
    }
}

#[test]
fn a_proposal_comes_after_what_the_file_contains() {
    let server = TestCompanion::start();
    let client = Client::connect(&server, BUILD, "");
    for (current, contents) in [
        (json!(null), Contents::Missing),
        (json!({ "text": "ä\r\n" }), Contents::Bytes("ä\r\n".into())),
        (json!({ "base64": "/wCA" }), Contents::Bytes(vec![0xff, 0, 0x80])),
        (json!({ "unreadable": "EACCES" }), Contents::Unreadable),
    ] {
        client.open_diff("/src/a.c", current).unwrap();
        let event = server.events().into_iter().find(|it| matches!(it, Event::HostFile(_)));
        let path = "/src/a.c".to_owned();
        let (stamp, modified) = (Some("1".to_owned()), Some(2));
        let file = HostFile { host: host(&server), path, contents, stamp, modified };
        assert_eq!(event, Some(Event::HostFile(file)));
    }
    client.open_diff("/src/b.c", json!({ "text": "" })).unwrap();
    let [Event::HostFile(_), Event::OpenReview { host: Some(host), path, process, .. }] =
        &server.events()[..]
    else {
        panic!("a file and a review")
    };
    assert_eq!((host.name_of(path).as_str(), *process), ("/ssh:build:/src/b.c", None));
}

#[test]
fn what_a_host_tells_must_be_complete_and_name_a_file_there() {
    let server = TestCompanion::start();
    let client = Client::connect(&server, BUILD, "");
    for path in ["a", "/:/a", "/ssh:evil:/a", "/a/../b", "/~root/a", "/a//b", "/a/", "/a\0"] {
        let refused = client.open_diff(path, json!(null)).unwrap_err();
        assert!(refused.starts_with("filePath"), "{path}: {refused}");
        let written = json!({ "filePath": path, "current": null });
        assert!(client.call("fileWritten", written).unwrap_err().starts_with("filePath"));
    }
    let partial = json!({ "filePath": "/a", "newContent": "", "proposal": "" });
    assert!(client.call("openDiff", partial).unwrap_err().contains("current"));
    assert!(client.open_diff("/a", json!({ "base64": "?" })).unwrap_err().contains("base64"));
    assert_eq!(server.events(), []);
}

#[test]
fn a_written_file_is_told() {
    let server = TestCompanion::start();
    let client = Client::connect(&server, BUILD, "");
    let written = json!({
        "filePath": "/a", "current": { "text": "b" }, "stamp": "s", "modified": 5
    });
    client.call("fileWritten", written.clone()).unwrap();
    let Event::HostFile(file) = server.next_event() else { panic!("a file") };
    assert_eq!((file.contents, file.modified), (Contents::Bytes(b"b".into()), Some(5)));
    // Emacs looks at files of this machine itself.
    let local = server.open_session().call("fileWritten", written);
    assert!(local["error"]["message"].as_str().unwrap().ends_with("unknown tool fileWritten"));
}

#[test]
fn hosts_have_only_the_tools_of_the_newest_document() {
    let server = TestCompanion::start();
    let client = Client::connect(&server, BUILD, "");
    let list = client.post(&request(1, "tools/list", json!({}))).json();
    let names = list["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    assert!(names.eq(["openDiff", "closeDiff"]));
    client.review("/a");
    for tool in ["getActiveFile", "acceptDiff", "rejectDiff"] {
        let refused = client.call(tool, json!({ "filePath": "/a" })).unwrap_err();
        assert!(refused.contains("machine of Emacs"), "{refused}");
    }
    let as_client = [("Authorization", client.bearer.as_str())];
    assert_eq!(server.request("GET", "/events", &as_client, "").status, 403);
    let tools = request(1, "tools/list", json!({}));
    assert_eq!(server.post(&as_client, &tools).status, 400); // names no session
}

#[test]
fn a_model_on_a_host_has_the_tools_for_hosts_and_works_there() {
    let server = TestCompanion::start();
    let tool = |name: &str, is_for_hosts| ModelTool {
        name: name.to_owned(),
        description: String::new(),
        is_read_only: true,
        is_listed: true,
        is_for_hosts,
        arguments: Vec::new(),
    };
    server.companion.model_tools().register(vec![tool("here", false), tool("there", true)]);
    let bearer = bearer(&server, BUILD);
    let ask = |directory: &str, body: &str| {
        let head = [("Authorization", &*bearer), ("Gemini-Companion-Directory", directory)];
        server.request("POST", "/mcp/tools", &head, body).json()
    };
    let list = ask("", &request(1, "tools/list", json!({})));
    let names = list["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    assert!(names.eq(["there"]));
    let refused = ask("", &request(2, "tools/call", json!({ "name": "here" })));
    assert_eq!(refused["error"]["message"], "Invalid params: unknown tool here");
    for (told, place) in [("%2Fhome%2Fme", "/ssh:build:/home/me"), ("%2F..%2Fa", "/ssh:build:/")] {
        std::thread::scope(|scope| {
            let answer =
                scope.spawn(|| ask(told, &request(3, "tools/call", json!({ "name": "there" }))));
            let Event::CallTool { call, directory, .. } = server.next_event() else { panic!() };
            assert_eq!(directory.as_deref(), Some(place));
            server.companion.bridge().answer(call, Ok("yes".to_owned()));
            assert_eq!(answer.join().unwrap()["result"]["content"][0]["text"], "yes");
        });
    }
}

#[test]
fn the_process_of_a_client_is_one_of_its_host() {
    let server = TestCompanion::start();
    let bearer = bearer(&server, BUILD);
    for (told, process) in [("1", Some(1)), ("-1", None), ("x", None)] {
        let head = [("Authorization", &*bearer), ("Gemini-Companion-Process", told)];
        let id = server.post(&head, &hello()).header("mcp-session-id").unwrap();
        let client = Client { server: &server, bearer: bearer.clone(), id };
        client.open_diff("/src/b.c", json!({ "text": "" })).unwrap();
        let mut events = server.events().into_iter();
        let opened = events.find_map(|event| match event {
            Event::OpenReview { process, .. } => Some(process),
            _ => None,
        });
        assert_eq!(opened, Some(process));
        let sessions = server.companion.sessions().describe();
        let session = sessions.last().unwrap();
        assert_eq!((session.process, &session.host), (process, &Some(host(&server))));
    }
}

#[test]
fn a_session_is_that_of_its_host() {
    let server = TestCompanion::start();
    let client = Client::connect(&server, BUILD, "");
    let local = server.open_session();
    let other = bearer(&server, "/ssh:other:");
    for (token, session) in [(&other, &client.id), (&other, &local.id), (&client.bearer, &local.id)]
    {
        let headers = [("Authorization", token.as_str()), ("Mcp-Session-Id", session.as_str())];
        assert_eq!(server.post(&headers, &request(1, "ping", json!({}))).status, 404);
    }
    assert_eq!(local.session_status(&client.id), 404);
}

#[test]
fn each_machine_receives_its_own_context() {
    let server = TestCompanion::start();
    let sessions = server.companion.sessions();
    let far = Client::connect(&server, BUILD, "%2Fhome%2Fme%2Fa%20b");
    let farther = Client::connect(&server, "/ssh:other:", "relative");
    let local = server.open_session();
    let places = ["/ssh:build:/home/me/a b", "/ssh:other:/"].map(|name| Place::from(Some(name)));
    for place in &places {
        assert!(sessions.places().contains(place), "{:?}", sessions.places());
    }
    let streams = [far.stream(), farther.stream(), local.open_stream()];
    let looking_at =
        |path: &str| IdeContext::new(vec![File { path: path.to_owned(), ..File::default() }]);
    let [one, other] = places;
    sessions.publish_contexts(vec![
        (one, looking_at("/far")),
        (other, looking_at("/farther")),
        (Place::Unknown, looking_at("/local")),
    ]);
    for (mut stream, path) in streams.into_iter().zip(["/far", "/farther", "/local"]) {
        let (_, params) = stream.notification();
        assert_eq!(params["workspaceState"]["openFiles"][0]["path"], path);
    }
}

#[test]
fn an_outcome_reaches_the_host_and_nobody_else() {
    let server = TestCompanion::start();
    let (far, local) = (Client::connect(&server, BUILD, ""), server.open_session());
    let (mut far_stream, mut local_stream) = (far.stream(), local.open_stream());
    let review = far.review("/a");
    local.open_diff(local!("/a"), "mine");
    let mine = server.opened();
    let accepted = Outcome::accepted("edited");
    assert!(server.companion.sessions().decide(review, accepted));
    assert!(server.companion.sessions().decide(mine, Outcome::Rejected));
    let (method, params) = far_stream.notification();
    assert_eq!(method, "ide/diffAccepted");
    assert_eq!((&params["filePath"], &params["content"]), (&json!("/a"), &json!("edited")));
    assert_eq!(
        local_stream.notification(),
        ("ide/diffRejected".to_owned(), json!({ "filePath": local!("/a") }))
    );
}

#[test]
fn a_proposal_that_is_repeated_is_the_same_one() {
    let server = TestCompanion::start();
    let client = Client::connect(&server, BUILD, "");
    let mut stream = client.stream();
    let propose = |name| client.propose("/a", json!({ "text": "old" }), name).unwrap();
    propose("one");
    assert!(matches!(server.next_event(), Event::HostFile(_)));
    let review = server.opened();
    propose("one");
    assert_eq!(server.events(), []);
    // The user has decided before the client repeats it, and the outcome is on its way.
    assert!(server.companion.sessions().decide(review, Outcome::Rejected));
    propose("one");
    assert_eq!(server.events(), []);
    let rejected = json!({ "filePath": "/a", "_meta": { "proposal": "one" } });
    assert_eq!(stream.notification(), ("ide/diffRejected".to_owned(), rejected));
    propose("two");
    assert!(matches!(server.next_event(), Event::HostFile(_)));
    server.opened();
    propose("one"); // again, after another one
    assert!(server.events().len() > 1);
}

#[test]
fn a_proposal_is_known_by_its_name_however_many_follow() {
    let server = TestCompanion::start();
    let client = Client::connect(&server, BUILD, "");
    let mut stream = client.stream();
    let propose = |path: &str, name: &str| {
        client.propose(path, json!({ "text": "old" }), name).unwrap();
        let events = server.events();
        let opened = |event: Event| match event {
            Event::OpenReview { review, .. } => Some(review),
            _ => None,
        };
        events.into_iter().find_map(opened)
    };
    let decide = |review| assert!(server.companion.sessions().decide(review, Outcome::Rejected));
    let open = propose("/open", "open").unwrap();
    decide(propose("/decided", "decided").unwrap());
    assert_eq!(stream.notification().1["filePath"], "/decided");
    for number in 0..100 {
        let path = format!("/{number}");
        decide(propose(&path, &path).unwrap());
        let meta = json!({ "proposal": path });
        assert_eq!(stream.notification().1, json!({ "filePath": path, "_meta": meta }));
    }
    assert_eq!(propose("/open", "open"), None);
    assert_eq!(propose("/decided", "decided"), None);
    decide(open);
    let meta = json!({ "proposal": "open" });
    assert_eq!(stream.notification().1, json!({ "filePath": "/open", "_meta": meta }));
    assert!(propose("/decided", "another").is_some());
}

#[test]
fn names_and_stamps_have_at_most_128_bytes() {
    let server = TestCompanion::start();
    let client = Client::connect(&server, BUILD, "");
    for (length, refused) in [(128, false), (129, true)] {
        let long = "x".repeat(length);
        let named = client.propose("/a", json!(null), &long);
        assert_eq!(named.is_err(), refused, "{named:?}");
        let written = json!({ "filePath": "/a", "current": null, "stamp": long });
        let stamped = client.call("fileWritten", written);
        assert_eq!(stamped.is_err(), refused, "{stamped:?}");
        if refused {
            assert_eq!(named.unwrap_err(), "proposal is longer than 128 bytes");
            assert_eq!(stamped.unwrap_err(), "stamp is longer than 128 bytes");
        }
    }
}

#[test]
fn a_client_with_a_front_of_its_own_says_so() {
    let server = TestCompanion::start();
    let bearer = bearer(&server, BUILD);
    for (front, tools) in [("own", 0), ("", 2), ("terminal", 2)] {
        let changes = [("Authorization", &*bearer), ("Gemini-Companion-Front", front)];
        let id = server.post(&changes, &hello()).header("mcp-session-id").unwrap();
        let client = Client { server: &server, bearer: bearer.clone(), id };
        let list = client.post(&request(1, "tools/list", json!({}))).json();
        assert_eq!(list["result"]["tools"].as_array().unwrap().len(), tools, "{front}");
    }
    // Here the process tells; what a client says is not believed.
    let local = [("Gemini-Companion-Front", "own")];
    let id = server.post(&local, &hello()).header("mcp-session-id").unwrap();
    let list = server.session(id).request("tools/list", json!({}));
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 5);
}

#[test]
fn a_session_that_begins_while_its_host_is_closed_is_refused() {
    let server = TestCompanion::start();
    let bearer = bearer(&server, BUILD);
    let body = hello();
    let head = server.head("POST", "/mcp", &[("Authorization", &bearer)]);
    let mut connection = server.connect();
    // Its token is valid when its request begins.
    write!(connection, "{head}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", body.len())
        .unwrap();
    let mut continues = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    connection.read_exact(&mut continues).unwrap();
    server.companion.close_host(BUILD);
    connection.write_all(body.as_bytes()).unwrap();
    let answer = Response::read(connection);
    assert_eq!(answer.error_code(), -32603);
    assert!(answer.body.contains("Emacs has disconnected from this machine"), "{}", answer.body);
    assert_eq!(answer.header("mcp-session-id"), None);
    assert_eq!(server.companion.sessions().describe(), []);
}

#[test]
fn a_host_that_is_closed_is_served_no_longer() {
    let server = TestCompanion::start();
    let (far, other) =
        (Client::connect(&server, BUILD, ""), Client::connect(&server, "/ssh:other:", ""));
    assert_eq!(bearer(&server, BUILD), far.bearer);
    let mut stream = far.stream();
    let review = far.review("/a");
    server.companion.close_host(BUILD);
    assert_eq!(server.events(), [Event::CloseReview { review, call: None }]);
    assert_eq!(stream.next(), None);
    assert_eq!(far.post(&request(1, "ping", json!({}))).status, 401);
    assert_eq!(other.post(&request(1, "ping", json!({}))).status, 200);
    assert_ne!(bearer(&server, BUILD), far.bearer);
    assert_eq!(far.post(&request(1, "ping", json!({}))).status, 401);
}

#[test]
fn hosts_survive_a_new_server_thread() {
    let server = TestCompanion::start();
    let far = Client::connect(&server, BUILD, "");
    server.companion.restart().unwrap();
    assert_eq!(far.post(&request(1, "ping", json!({}))).status, 200);
}

#[test]
fn ignore_files_are_as_the_host_tells() {
    let server = TestCompanion::start();
    let client = Client::connect(&server, BUILD, "");
    let host = host(&server);
    let ignores = |path| host.ignores("/p", path).map_err(|error| error.to_string());
    assert_eq!(ignores("/p/a"), Err("is not known yet".to_owned()));
    let tell = |rules: Value| {
        let known = client.call("ignoreRules", rules);
        let told = std::iter::from_fn(|| server.companion.bridge().next_event())
            .any(|event| event == Event::ClientsChanged);
        known.map(|_| told)
    };
    let _ = server.events();
    assert_eq!(tell(json!({ "directory": "/p", "text": "secret\n/b/*.c\n" })), Ok(true));
    assert_eq!((ignores("/p/d/secret"), ignores("/p/b/a.c")), (Ok(true), Ok(true)));
    assert_eq!(ignores("/p/b/d/a.c"), Ok(false));
    assert!(ignores("/q/secret").is_err());
    assert_eq!(tell(json!({ "directory": "/p", "text": "secret\n/b/*.c\n" })), Ok(false));
    assert_eq!(tell(json!({ "directory": "/p", "text": null, "reason": "EACCES" })), Ok(true));
    assert_eq!(ignores("/p/a"), Err("cannot be read: EACCES".to_owned()));
    assert_eq!(tell(json!({ "directory": "/p", "text": "x".repeat(1 << 16) })), Ok(true));
    assert!(ignores("/p/a").unwrap_err().contains("larger than"));
    assert_eq!(tell(json!({ "directory": "/p", "text": null })), Ok(true));
    assert_eq!(ignores("/p/secret"), Ok(false));
    assert!(tell(json!({ "directory": "/p/../q", "text": null })).is_err());
}

#[test]
fn what_one_host_uses_is_limited() {
    let limits = Limits {
        share_sessions: 2,
        share_reviews: 2,
        share_requests: 2,
        share_bodies: 10_000,
        ..Limits::default()
    };
    let server = TestCompanion::with(limits);
    let local = server.open_session();
    let clients: Vec<_> = (0..3).map(|_| Client::connect(&server, BUILD, "")).collect();
    assert_eq!(clients[0].post(&request(1, "ping", json!({}))).status, 404); // made room
    assert_eq!(local.session_status(&local.id), 200);
    let [_, one, other] = &clients[..] else { unreachable!() };
    one.review("/a");
    other.review("/b");
    assert!(one.open_diff("/c", json!(null)).unwrap_err().contains("too many diffs"));
    local.open_diff(local!("/c"), "still");
    let large = json!({ "text": "x".repeat(10_000) });
    let params = json!({ "name": "openDiff", "arguments": { "current": large } });
    assert_eq!(one.post(&request(1, "tools/call", params)).status, 503);
    let _streams = [one.stream(), other.stream()];
    let refused = one.post(&request(1, "ping", json!({})));
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1".to_owned())));
    assert_eq!(local.session_status(&local.id), 200);
}
