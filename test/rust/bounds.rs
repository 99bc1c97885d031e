//! Bounds on single messages and on what waits, with what a client or the user sees beyond. The table
//! "Limits" of docs/connection.md names a test for each.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use gemini_companion::ide::Outcome;
use gemini_companion::{Event, Limits};
use serde_json::{Value, json};

use crate::support::{Response, Session, Stream, TestCompanion, request, wait_for};

const PATH: &str = local!("/no/such/file");
const BUILD: &str = "/ssh:build:";
/// As short as a limit can be.
const SHORT: Duration = Duration::from_millis(1);

fn server(limits: impl FnOnce(&mut Limits)) -> TestCompanion {
    let mut changed = Limits::default();
    limits(&mut changed);
    TestCompanion::with(changed)
}

fn is_served(session: &Session) {
    assert_eq!(session.request("ping", json!({}))["result"], json!({}));
}

/// A session of another agent.
fn bearer(server: &TestCompanion, agent: &str) -> String {
    format!("Bearer {}", server.companion.token(agent).unwrap())
}

/// The header with the token of Gemini CLI on a host, which is opened, and a session there.
fn session_on_host(server: &TestCompanion) -> (String, String) {
    let agents = server.companion.open_host(BUILD).unwrap();
    let bearer = format!("Bearer {}", agents[0].token.reveal());
    let hello = request(0, "initialize", json!({}));
    let answer = server.post(&[("Authorization", &bearer)], &hello);
    (bearer, answer.header("mcp-session-id").unwrap())
}

fn closing() -> String {
    request(7, "tools/call", json!({ "name": "closeDiff", "arguments": { "filePath": PATH } }))
}

#[test]
fn an_agent_has_so_many_connections() {
    let server = server(|limits| limits.share_connections = 2);
    let sessions = [server.open_session(), server.open_session()];
    let _streams = sessions.each_ref().map(|session| session.open_stream());
    let refused = server.post(&[], &request(1, "ping", json!({})));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1".to_owned())));
    assert!(refused.body.contains("too many connections"), "{}", refused.body);
    let qwen = bearer(&server, "qwen");
    let hello = request(0, "initialize", json!({}));
    assert_eq!(server.post(&[("Authorization", &qwen)], &hello).status, 200);
}

#[test]
fn headers_are_limited_in_size() {
    let server = TestCompanion::start();
    let long = "x".repeat(1 << 20);
    let mut connection = server.connect();
    let _ = write!(connection, "{}\r\n", server.head("GET", "/mcp", &[("X", &long)]));
    let mut status = [0; "HTTP/1.1 431".len()];
    connection.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 431");
}

#[test]
fn a_body_that_is_much_too_large_is_refused_before_it_comes() {
    let server = server(|limits| limits.body = 1000);
    let mut connection = server.connect();
    let head = server.head("POST", "/mcp", &[]);
    write!(connection, "{head}Content-Length: {}\r\n\r\n", (64 << 20) + 1001).unwrap();
    assert_eq!(Response::read(connection).status, 413);
}

#[test]
fn a_connection_ends_with_a_refusal() {
    let server = TestCompanion::start();
    for changes in [
        [("Authorization", "Bearer wrong"), ("Connection", "")].as_slice(),
        &[("Origin", "null"), ("Connection", "")],
    ] {
        let refused = server.post(changes, "{}"); // reads until the server hangs up
        assert!(matches!(refused.status, 401 | 403), "{}", refused.head);
        assert_eq!(refused.header("connection").as_deref(), Some("close"));
    }
}

#[test]
fn a_call_of_a_model_counts_until_it_is_answered() {
    let server = server(|limits| limits.bodies = 1500);
    server.register_find();
    let session = server.open_session();
    let params = json!({ "name": "find", "junk": "x".repeat(800) });
    let call = request(1, "tools/call", params);
    let mut waits = server.connect();
    let head = server.head("POST", "/mcp/tools", &[]);
    write!(waits, "{head}Content-Length: {}\r\n\r\n{call}", call.len()).unwrap();
    let Event::CallTool { call, .. } = server.next_event() else { panic!("no call") };
    let large = format!("{}{}", request(1, "ping", json!({})), " ".repeat(800));
    assert_eq!(session.post(&large).status, 503);
    assert!(server.companion.bridge().answer(call, Ok("found".to_owned())));
    assert_eq!(Response::read(waits).status, 200);
    wait_for("room", || (session.post(&large).status == 200).then_some(()));
}

/// Has the kernel keep little of what comes for a connection: it may keep 32 MiB.
fn keep_little(connection: &TcpStream) {
    socket2::SockRef::from(connection).set_recv_buffer_size(64 << 10).unwrap();
}

#[test]
fn a_large_answer_counts_until_it_is_read() {
    let size = 16 << 20;
    for early in [Duration::ZERO, Duration::from_secs(30)] {
        let server = server(|limits| {
            limits.share_bodies = size + (1 << 20);
            limits.stream_after = early;
        });
        let session = server.open_session();
        session.open_diff(PATH, "text");
        server.opened();
        let mut slow = server.connect();
        keep_little(&slow);
        let (head, body) =
            (server.head("POST", "/mcp", &[("Mcp-Session-Id", &session.id)]), closing());
        write!(slow, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut slow = Stream::of(slow);
        let Event::CloseReview { call: Some(call), .. } = server.next_event() else { panic!() };
        assert!(server.companion.bridge().answer(call, Ok("x".repeat(size))));
        slow.read_head();
        slow.await_body(); // the head may come before the answer is made
        let refused = wait_for("a refusal", || {
            let answer = session.post(&closing()).json();
            answer["error"]["message"].as_str().map(str::to_owned)
        });
        assert!(refused.contains("too many large messages and answers"), "{refused}");
        is_served(&session);
        assert!(slow.rest().len() > size);
        let large = format!("{}{}", request(1, "ping", json!({})), " ".repeat(2 << 20));
        wait_for("room", || (session.post(&large).status == 200).then_some(()));
    }
}

#[test]
fn sessions_are_limited_for_an_agent_and_for_all() {
    for (sessions, share_sessions) in [(2, 9), (9, 2)] {
        let server = server(|limits| {
            limits.sessions = sessions;
            limits.share_sessions = share_sessions;
        });
        let [first, second, third] = [(); 3].map(|()| server.open_session());
        assert_eq!(third.session_status(&first.id), 404);
        let _streams = [second.open_stream(), third.open_stream()];
        let refused = server.initialize("2025-06-18");
        assert_eq!(refused.json()["error"]["message"], "too many sessions");
        let qwen = bearer(&server, "qwen");
        let hello = request(0, "initialize", json!({}));
        let other = server.post(&[("Authorization", &qwen)], &hello).json();
        assert_eq!(other["error"].is_null(), sessions == 9, "{other}");
    }
}

/// What ends the one review that is open.
fn review_ends(server: &TestCompanion, open: impl FnOnce()) {
    open();
    let review = wait_for("a review", || {
        server.events().into_iter().find_map(|event| match event {
            Event::OpenReview { review, .. } => Some(review),
            _ => None,
        })
    });
    assert_eq!(server.next_event(), Event::CloseReview { review, call: None });
    assert!(!server.companion.sessions().decide(review, Outcome::Rejected));
}

#[test]
#[cfg(target_os = "linux")]
fn a_session_without_a_stream_ends_though_its_process_lives() {
    let server = server(|limits| limits.idle_time = SHORT);
    let (_client, session) = crate::process::Client::initialize(&server, Path::new("/"));
    review_ends(&server, || session.open_diff(PATH, "text"));
    assert_eq!(server.companion.sessions().describe(), []);
}

#[test]
fn reviews_of_unnamed_clients_have_an_age() {
    let server = server(|limits| {
        limits.idle_time = SHORT;
        limits.unnamed_time = SHORT;
    });
    review_ends(&server, || server.unnamed_session().open_diff(PATH, "text"));
}

#[test]
fn reviews_of_a_host_and_of_an_agent_are_limited_in_bytes() {
    let server = server(|limits| limits.share_review_bytes = 1500);
    let (there, here) = (session_on_host(&server), server.open_session());
    for (path, refused) in [("/a", false), ("/b", true), ("/a", false)] {
        let on_host = open_on_host(&server, &there, path);
        let path = format!("{}{path}", local!(""));
        let arguments = json!({ "filePath": path, "newContent": "x".repeat(1000) });
        for answer in [on_host, here.call("openDiff", arguments)] {
            assert_eq!(answer["result"]["isError"] == true, refused, "{answer}");
        }
    }
}

fn open_on_host(server: &TestCompanion, (bearer, id): &(String, String), path: &str) -> Value {
    let content = "x".repeat(1000);
    let arguments =
        json!({ "filePath": path, "newContent": content, "proposal": path, "current": null });
    let call = json!({ "name": "openDiff", "arguments": arguments });
    let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", id)];
    server.post(&headers, &request(1, "tools/call", call)).json()
}

#[test]
fn sessions_on_hosts_end_when_they_do_not_return() {
    for reachable in [false, true] {
        let server = server(|limits| {
            (limits.host_time, limits.reachable_time) =
                if reachable { (Duration::MAX / 4, SHORT) } else { (SHORT, Duration::MAX / 4) };
        });
        let there = session_on_host(&server);
        server.companion.set_host_reachable(BUILD, reachable);
        let headers = [("Authorization", there.0.as_str())];
        drop(server.session(there.1.clone()).open_stream_after(&headers));
        review_ends(&server, || drop(open_on_host(&server, &there, "/a")));
    }
}

#[test]
fn messages_of_hosts_come_only_so_fast() {
    const MESSAGES: u32 = 75;
    let server = TestCompanion::start();
    let (bearer, id) = session_on_host(&server);
    let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", id.as_str())];
    let begun = Instant::now();
    for _ in 0..MESSAGES {
        assert_eq!(server.post(&headers, &request(1, "ping", json!({}))).status, 200);
    }
    // No sooner: 25 in a second, after a burst of 50.
    assert!(begun.elapsed() > Duration::from_millis(800), "{:?}", begun.elapsed());
}

#[test]
fn files_that_hosts_tell_of_wait_for_emacs_only_in_limits() {
    for bytes in [false, true] {
        let server = server(|limits| {
            if bytes {
                limits.share_queued_bytes = 100;
            } else {
                limits.share_events = 3;
            }
        });
        let (bearer, id) = session_on_host(&server);
        let tell = || {
            let arguments = json!({ "filePath": "/a", "current": { "text": "x".repeat(30) } });
            let call = json!({ "name": "fileWritten", "arguments": arguments });
            let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", id.as_str())];
            server.post(&headers, &request(1, "tools/call", call)).json()["result"].clone()
        };
        for _ in 0..3 {
            assert_eq!(tell(), json!({ "content": [] }));
        }
        let refused = tell();
        assert_eq!(refused["isError"], true);
        assert_eq!(refused["content"][0]["text"], "Emacs is busy: ask again later");
        assert_eq!(server.events().len(), 3);
        assert_eq!(tell(), json!({ "content": [] }));
    }
}

#[test]
fn ids_are_limited_in_length() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let with_id = |length: usize| {
        let id = "x".repeat(length - 2);
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#)
    };
    assert_eq!(session.post(&with_id(1024)).status, 200);
    let refused = session.post(&with_id(1025));
    assert_eq!((refused.status, refused.error_code()), (400, -32600));
}

#[test]
fn errors_quote_a_client_briefly() {
    let server = TestCompanion::start();
    let answer = server.open_session().request(&"x".repeat(1000), json!({}));
    let quoted = format!("Method not found: {}...", "x".repeat(100));
    assert_eq!(answer["error"]["message"], quoted);
}

#[test]
fn parameters_and_arguments_have_at_most_64_members() {
    let server = TestCompanion::start();
    let session = server.open_session();
    for (count, status) in [(64, 200), (65, 400)] {
        let members: serde_json::Map<_, _> =
            (0..count).map(|number| (format!("a{number:02}"), json!(1))).collect();
        assert_eq!(session.post(&request(1, "ping", json!(members))).status, status);
        let params = json!({ "name": "closeDiff", "arguments": members });
        assert_eq!(session.post(&request(1, "tools/call", params)).status, status);
    }
}

#[test]
fn names_of_clients_are_shown_without_what_disturbs_and_shortened() {
    let server = TestCompanion::start();
    let name = format!("a\u{202e}b\nc\u{feff}\u{2028}\u{200b}{}", "x".repeat(100));
    let info = json!({ "name": name, "version": format!("\u{7}{}", "1".repeat(100)) });
    let hello = request(0, "initialize", json!({ "clientInfo": info }));
    let id = server.post(&[], &hello).header("mcp-session-id").unwrap();
    server.session(id).open_diff(PATH, "text");
    let Event::OpenReview { client, info, .. } = server.next_event() else { panic!("no review") };
    let (name, version) = (format!("abc{}", "x".repeat(61)), "1".repeat(64));
    assert_eq!(client, format!("{name} {version}"));
    assert_eq!(info, (name, version));
}

#[test]
fn messages_for_the_user_are_limited_in_length_and_number() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let say = |text: &str| {
        let params = json!({ "level": "info", "data": text });
        let method = "notifications/message";
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        assert_eq!(session.post(&message.to_string()).status, 202);
    };
    say(&"é".repeat(1001));
    let client = "test 1".to_owned();
    let text = "é".repeat(1000);
    assert_eq!(server.next_event(), Event::Message { client, text });
    for _ in 0..70 {
        say("hello");
    }
    assert_eq!(server.events().len(), 64);
    say("again");
    assert_eq!(server.events().len(), 1);
}

/// What a program forwards is not its own.
#[test]
#[cfg(target_os = "linux")]
fn clients_behind_a_program_that_forwards_are_not_taken_for_that() {
    let server = TestCompanion::start();
    let directory = tempfile::tempdir().unwrap();
    for (name, is_client) in [("socat", false), ("node", true)] {
        let program = directory.path().join(name);
        std::os::unix::fs::symlink("/bin/bash", &program).unwrap();
        let (_client, session) =
            crate::process::Client::initialize_by(&server, &program, Path::new("/"), &[]);
        session.open_diff(&format!("{PATH}-{name}"), "text");
        let Event::OpenReview { process, .. } = server.next_event() else { panic!("no review") };
        assert_eq!(process.is_some(), is_client, "{name}");
    }
}

/// The rows of the table "Limits" in docs/connection.md, each with its cells.
fn rows() -> Vec<Vec<String>> {
    let text = include_str!("../../docs/connection.md");
    let (_, table) = text.split_once("\n## Limits\n").expect("a section");
    let lines = table.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|it| it.trim().to_owned()).collect())
        .collect()
}

/// The words in backticks of a cell.
fn named(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn each_limit_is_documented_and_tested() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let rows = rows();
    assert!(rows.len() > 30, "{}", rows.len());
    for row in &rows {
        let [.., limits, test] = &row[..] else { panic!("{row:?}") };
        assert_eq!(row.len(), 5, "{row:?}");
        for name in named(limits) {
            let (field, constant) = (format!("pub {name}: "), format!("const {name}: "));
            let is_there = sources.contains(&field) || sources.contains(&constant);
            assert!(is_there, "there is no limit {name}");
        }
        assert!(named(test).next().is_some(), "no test: {row:?}");
        for name in named(test) {
            assert!(sources.contains(&format!("fn {name}() ")), "there is no test {name}");
        }
    }
    let documented: Vec<&str> = rows.iter().flat_map(|row| named(&row[3])).collect();
    let limits = include_str!("../../src/companion/limits.rs");
    let fields = limits.lines().filter_map(|line| line.strip_prefix("    pub ")?.split_once(": "));
    for (field, _) in fields.filter(|(field, _)| !field.contains(' ')) {
        assert!(documented.contains(&field), "{field} is not in docs/connection.md");
    }
}

/// All Rust sources of the library and its tests.
fn sources(root: &Path) -> String {
    let (mut all, mut left) = (String::new(), vec![root.join("src"), root.join("test/rust")]);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    all
}
