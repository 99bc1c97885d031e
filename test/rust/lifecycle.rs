//! Starting, stopping and restarting: nothing is left behind, and clients are notified.

use std::fs;
use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gemini_companion::ide::Outcome;
use gemini_companion::{Companion, Event, Limits};
use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::process::Client;
use crate::support::{DEADLINE, TestCompanion, request, wait_for};
use crate::wire::{Next, Wire};

#[test]
fn stopping_rejects_open_reviews_and_ends_streams_properly() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut stream = session.open_stream();
    session.open_diff(local!("/no/such/a"), "new");
    session.open_diff(local!("/no/such/b"), "new");
    server.companion.stop();
    for path in [local!("/no/such/a"), local!("/no/such/b")] {
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
    session.open_diff(local!("/no/such/a"), &"x".repeat(10_000_000));
    std::thread::scope(|scope| {
        // Lisp never answers this one.
        let waiting = scope.spawn(|| {
            session.post(&crate::support::request(
                1,
                "tools/call",
                json!({ "name": "closeDiff", "arguments": { "filePath": local!("/no/such/a") } }),
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
fn waiting_calls_are_answered_when_the_companion_stops() {
    let server = TestCompanion::with(Limits {
        stream_after: Duration::from_millis(20),
        ..Limits::default()
    });
    let session = server.open_session();
    // One call of a server that was replaced, answered on a stream.
    let (mut first, _) = session.begin_close_diff(local!("/no/such/a"));
    server.companion.restart().unwrap();
    let head = first.read_head().to_ascii_lowercase();
    assert!(head.contains("text/event-stream"), "{head}");
    let (mut second, _) = session.begin_close_diff(local!("/no/such/a"));
    server.companion.stop();
    assert_stopping(&first.next_block().expect("an answer"));
    assert_eq!(first.next_block(), None);
    assert!(second.read_head().starts_with("HTTP/1.1 200"));
    assert_stopping(&second.rest());
}

/// Checks an answer, as JSON or as the event of a stream.
fn assert_stopping(answer: &str) {
    let json = answer.lines().find_map(|line| Some(&line[line.find('{')?..]));
    let answer: Value = serde_json::from_str(json.expect("JSON")).unwrap();
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(answer["result"]["content"][0]["text"], "the companion is stopping");
}

#[test]
fn a_call_waiting_for_the_first_context_is_answered_on_stop() {
    let server = TestCompanion::start();
    let session = server.open_session();
    server.companion.bridge().set_tracing(true);
    let params = json!({ "name": "getActiveFile", "arguments": {} });
    let mut answer = session.post_slowly(&[], &request(7, "tools/call", params));
    assert!(matches!(server.next_event(), Event::Trace { .. })); // it has arrived
    server.companion.stop();
    assert!(answer.read_head().starts_with("HTTP/1.1 200"));
    assert!(answer.rest().contains("No file is currently active"));
}

#[test]
fn all_servers_begin_to_stop_before_any_is_waited_for() {
    let server = TestCompanion::start();
    // A request that is served as long as it may take, by a server that was replaced.
    let mut stuck = server.connect();
    let head = server.head("POST", "/mcp", &[("Connection", "")]);
    write!(stuck, "{head}Content-Length: 10\r\nExpect: 100-continue\r\n\r\n").unwrap();
    stuck.read_exact(&mut [0; 5]).unwrap(); // the 100 Continue: that server has the request
    server.companion.restart().unwrap();
    // A connection that its successor closes at once.
    let mut idle = server.connect();
    write!(idle, "{}\r\n", server.head("GET", "/nowhere", &[("Connection", "")])).unwrap();
    idle.read_exact(&mut [0; 5]).unwrap();
    let (ended, order) = mpsc::channel();
    std::thread::scope(|scope| {
        for (name, mut connection) in [("stuck", stuck), ("idle", idle)] {
            let ended = ended.clone();
            scope.spawn(move || {
                let _ = connection.read_to_end(&mut Vec::new());
                ended.send(name)
            });
        }
        drop(ended);
        server.companion.stop();
    });
    assert_eq!(order.iter().collect::<Vec<_>>(), ["idle", "stuck"]);
}

/// Signals of a thread's own faults must not be blocked: Emacs would end without saving anything.
#[cfg(target_os = "linux")]
#[test]
fn the_thread_blocks_all_signals_except_its_own_faults() {
    let server = TestCompanion::start();
    server.open_session(); // so it has begun to run
    let blocks = |mask: u64, signal: i32| mask & (1 << (signal - 1)) != 0;
    let others = [libc::SIGPIPE, libc::SIGCHLD, libc::SIGALRM, libc::SIGINT, libc::SIGIO];
    let own = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
    let own = [&own[..], &[libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS]].concat();
    // While a thread starts a program, as other tests do, it blocks all for a moment.
    wait_for("the masks", || {
        let masks = masks_of_threads("gemini-companion");
        let is_right = |mask: &u64| {
            others.iter().all(|&signal| blocks(*mask, signal))
                && !own.iter().any(|&signal| blocks(*mask, signal))
        };
        (!masks.is_empty() && masks.iter().all(is_right)).then_some(())
    });
}

/// The masks of blocked signals of the threads of this process with `name`.
#[cfg(target_os = "linux")]
fn masks_of_threads(name: &str) -> Vec<u64> {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = threads.filter(|thread| {
        let found = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        !found.is_empty() && name.starts_with(found.trim_end()) // the system cuts it
    });
    let mask = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t"));
        u64::from_str_radix(line.unwrap(), 16).unwrap()
    };
    named
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .map(mask)
        .collect()
}

#[test]
fn stopping_twice_is_harmless_and_frees_the_port() {
    let server = TestCompanion::start();
    let port = server.companion.port();
    server.companion.stop();
    server.companion.stop();
    let again =
        Companion::start(crate::support::agents(&server.directory), port, &[], Limits::default())
            .unwrap();
    assert_eq!(again.port(), port);
}

#[test]
fn a_restart_keeps_port_token_sessions_and_reviews() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let (mut stream, mut reader) = (session.open_stream(), server.listen());
    session.open_diff(local!("/no/such/a"), "new");
    let review = server.opened();
    let before = (server.companion.port(), server.companion.token("gemini").unwrap());
    server.companion.restart().unwrap();
    assert_eq!((stream.next(), reader.next_block()), (None, None));
    assert_eq!((server.companion.port(), server.companion.token("gemini").unwrap()), before);
    assert_eq!(fs::read_dir(&server.directory).unwrap().count(), 1);
    assert!(server.companion.sessions().decide(review, Outcome::Rejected));
    assert_eq!(session.open_stream().notification().0, "ide/diffRejected");
    assert_eq!(session.request("ping", json!({}))["result"], json!({}));
}

/// Makes the server's thread die, by a fault while it removes the session of a client that has
/// ended.
#[cfg(target_os = "linux")]
fn break_thread(server: &TestCompanion) {
    let (client, session) = Client::initialize(server, &server.directory);
    let stream = session.open_stream();
    drop(client);
    while server.companion.bridge().next_event().is_some() {}
    server.companion.bridge().set_waker(Some(crate::support::faulty_waker()));
    drop(stream);
    assert_eq!(server.next_event(), Event::ServerDied);
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_dies_is_reported_and_can_be_replaced() {
    let server = TestCompanion::start();
    let session = server.open_session();
    break_thread(&server);
    server.companion.restart().unwrap();
    assert_eq!(session.request("ping", json!({}))["result"], json!({}));
}

#[cfg(target_os = "linux")]
#[test]
fn a_dying_thread_ends_streams_properly_and_refuses_nobody() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut stream = session.open_stream();
    break_thread(&server);
    assert_eq!(stream.next(), None); // the proper end
    let port = server.companion.port();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.request("ping", json!({})));
        // It can connect before there is a server again.
        std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        server.companion.restart().unwrap();
        assert_eq!(waiting.join().unwrap()["result"], json!({}));
    });
}

#[test]
fn a_connection_survives_a_restart_until_its_next_answer() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let mut wire = Wire::connect(server.companion.port()).unwrap();
    let ping = |wire: &mut Wire| {
        let body = request(1, "ping", json!({}));
        let named = [("Mcp-Session-Id", session.id.as_str()), ("Connection", "")];
        let head = server.head("POST", "/mcp", &named);
        let message = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        wire.send(message.as_bytes()).unwrap();
        match wire.reply(DEADLINE, false) {
            Next::Got(reply) => reply,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ping(&mut wire).header("connection"), None);
    server.companion.restart().unwrap();
    let last = ping(&mut wire);
    assert_eq!((last.status, last.header("connection")), (200, Some("close")));
    server.companion.stop();
}

#[test]
fn another_port_is_used_if_the_wanted_one_is_taken() {
    let server = TestCompanion::start();
    assert_eq!(server.companion.port_fault(), None);
    let taken = server.companion.port();
    let agents = crate::support::agents(&server.directory);
    let other = Companion::start(agents, taken, &[], Limits::default()).unwrap();
    assert_ne!(other.port(), taken);
    let reason = other.port_fault().unwrap();
    assert!(reason.starts_with(&format!("cannot listen on 127.0.0.1:{taken}: ")), "{reason}");
}
