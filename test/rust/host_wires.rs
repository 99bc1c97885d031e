//! Wires to hosts: the test is the keeper at the far end of a program.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use gemini_companion::{Event, Limits, WireEnd, WireId};
use serde_json::json;

use crate::support::{TestCompanion, request, wait_for};

const BUILD: &str = "/ssh:build:";
const OPEN: u8 = 0;
const DATA: u8 = 1;
const CLOSE: u8 = 2;
const CREDIT: u8 = 3;
const TEXT: u8 = 4;
const PING: u8 = 5;

/// The far end of a wire whose program only copies.
struct Far {
    wire: WireId,
    stream: TcpStream,
}

/// Tells the program of a wire the address of its test.
const TEST: &str = "GEMINI_COMPANION_TEST_ADDRESS";

/// The program of a wire, if a test says so: there is none for this that all systems have.
#[test]
fn far_program() {
    let Ok(address) = std::env::var(TEST) else { return };
    let mut stream = TcpStream::connect(address).unwrap();
    let mut from_emacs = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut from_emacs);
        let _ = from_emacs.shutdown(std::net::Shutdown::Both);
    });
    let mut buffer = [0; 1 << 16];
    let mut to_emacs = std::io::stdout();
    while let Ok(size @ 1..) = stream.read(&mut buffer) {
        to_emacs.write_all(&buffer[..size]).and_then(|()| to_emacs.flush()).unwrap();
    }
    std::process::exit(0);
}

#[cfg(unix)]
fn shell(server: &TestCompanion, script: &str) -> WireId {
    server.companion.open_host(BUILD).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    server.companion.open_wire(BUILD, command, "script\n".to_owned()).unwrap()
}

impl Far {
    fn open(server: &TestCompanion) -> Far {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        server.companion.open_host(BUILD).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["host_wires::far_program", "--exact", "--nocapture"]);
        command.env(TEST, listener.local_addr().unwrap().to_string());
        let wire = server.companion.open_wire(BUILD, command, "script\n".to_owned()).unwrap();
        let mut far = Far { wire, stream: listener.accept().unwrap().0 };
        assert_eq!(far.read("script\n".len()), b"script\n");
        far.write(b"gemini-companion: frames\n");
        // Programs of tests say before what they do.
        wait_for("what it says first", || match server.next_event() {
            Event::WireLine { line, .. } => line.starts_with("running").then_some(()),
            other => panic!("{other:?}"),
        });
        far
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn send(&mut self, kind: u8, channel: u32, data: &[u8]) {
        self.send_header(kind, channel, data.len() as u32);
        self.write(data);
    }

    fn send_header(&mut self, kind: u8, channel: u32, length: u32) {
        let (channel, length) = (channel.to_be_bytes(), length.to_be_bytes());
        self.write(&[&[kind][..], &channel, &length].concat());
    }

    fn read(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The next frame that is no question whether there is somebody: kind, channel, length or data.
    fn next(&mut self) -> (u8, u32, u32, Vec<u8>) {
        loop {
            let header = self.read(9);
            let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
            let (kind, channel, length) = (header[0], number(1), number(5));
            let has_data = [OPEN, DATA, TEXT].contains(&kind);
            let data = if has_data { self.read(length as usize) } else { Vec::new() };
            if kind != PING {
                return (kind, channel, length, data);
            }
        }
    }

    /// What comes on a channel until it contains `end`.
    fn read_until(&mut self, channel: u32, end: &str) -> String {
        let mut text = String::new();
        while !text.contains(end) {
            let (kind, from, _, data) = self.next();
            assert_eq!((kind, from), (DATA, channel), "{text}");
            text.push_str(std::str::from_utf8(&data).unwrap());
        }
        text
    }
}

fn post(body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn hello() -> String {
    let client = json!({ "protocolVersion": "2025-06-18", "clientInfo": { "name": "far" } });
    post(&request(0, "initialize", client))
}

fn end(server: &TestCompanion) -> (Vec<String>, WireEnd) {
    let mut lines = Vec::new();
    loop {
        match server.next_event() {
            Event::WireLine { line, .. } => lines.push(line),
            Event::WireEnded { end, .. } => return (lines, end),
            _ => {}
        }
    }
}

#[test]
fn clients_need_no_token_and_have_the_agent_of_their_socket() {
    let server = TestCompanion::start();
    let mut far = Far::open(&server);
    for (channel, agent) in [(1, "gemini"), (2, "qwen")] {
        far.send(OPEN, channel, agent.as_bytes());
        far.send(DATA, channel, hello().as_bytes());
        let answer = far.read_until(channel, "serverInfo");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    let mut sessions = server.companion.sessions().describe();
    sessions.sort_by(|one, other| one.agent.cmp(&other.agent));
    let described: Vec<_> = sessions.iter().map(|it| (&*it.agent, it.place.directory())).collect();
    assert_eq!(described, [("gemini", Some("/ssh:build:/")), ("qwen", Some("/ssh:build:/"))]);
    far.send(CLOSE, 1, b"");
    assert_eq!(far.next(), (CLOSE, 1, 0, Vec::new()));
    far.send(OPEN, 3, b"unknown");
    assert_eq!(far.next(), (CLOSE, 3, 0, Vec::new()));
}

#[test]
fn a_large_message_comes_by_credit() {
    let server = TestCompanion::start();
    let mut far = Far::open(&server);
    far.send(OPEN, 1, b"gemini");
    far.send(DATA, 1, hello().as_bytes());
    let answer = far.read_until(1, "serverInfo");
    let session = answer.lines().find(|line| line.starts_with("mcp-session-id")).unwrap();
    let content = "x".repeat(3 << 20);
    let proposal =
        json!({ "filePath": "/a", "newContent": content, "proposal": "1", "current": null });
    let call = request(1, "tools/call", json!({ "name": "openDiff", "arguments": proposal }));
    let message = post(&call).replacen("\r\n\r\n", &format!("\r\n{session}\r\n\r\n"), 1);
    let mut credit = (1 << 20) - hello().len();
    for part in message.as_bytes().chunks(64 << 10) {
        while credit < part.len() {
            let (kind, channel, more, _) = far.next();
            assert_eq!((kind, channel), (CREDIT, 1));
            credit += more as usize;
        }
        credit -= part.len();
        far.send(DATA, 1, part);
    }
    assert!(matches!(
        wait_for("the review", || match server.next_event() {
            Event::OpenReview { content, .. } => Some(content.len()),
            _ => None,
        }),
        length if length == content.len()
    ));
}

#[test]
fn messages_go_both_ways() {
    let server = TestCompanion::start();
    let mut far = Far::open(&server);
    far.send(TEXT, 0, b"{\"say\":\"home\"}");
    let message = "{\"say\":\"home\"}".to_owned();
    assert_eq!(server.next_event(), Event::WireMessage { wire: far.wire, message });
    assert!(server.companion.write_wire(far.wire, "{}".to_owned()));
    assert_eq!(far.next(), (TEXT, 0, 2, b"{}".to_vec()));
    server.companion.close_wire(far.wire);
    assert!(!server.companion.write_wire(far.wire, "{}".to_owned()));
    let mut rest = Vec::new();
    far.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.iter().step_by(9).all(|kind| *kind == PING));
}

#[test]
fn what_breaks_the_rules_ends_the_wire_and_no_other() {
    let server = TestCompanion::start();
    let mut other = Far::open(&server);
    let breaks: [fn(&mut Far); 5] = [
        |far| far.write(b"Last login: today\n"),
        |far| far.send_header(DATA, 1, u32::MAX),
        |far| (0..2).for_each(|_| far.send(OPEN, 1, b"gemini")),
        |far| {
            far.send(OPEN, 1, b"gemini");
            far.send_header(CREDIT, 1, 1);
        },
        |far| far.send(TEXT, 0, b"\xff"),
    ];
    for rule_breaker in breaks {
        let mut far = Far::open(&server);
        rule_breaker(&mut far);
        assert_eq!(end(&server), (vec![], WireEnd::Broken));
    }
    other.send(OPEN, 1, b"gemini");
    other.send(DATA, 1, hello().as_bytes());
    other.read_until(1, "serverInfo");
}

#[test]
#[cfg(unix)]
fn text_is_told_and_bounded() {
    let server = TestCompanion::start();
    shell(&server, "echo out; echo err >&2; read -r line; echo $line; exit 7");
    let (mut lines, reason) = end(&server);
    lines.sort();
    assert_eq!(lines, ["err", "out", "script"]);
    assert_eq!(reason, WireEnd::Exited(Some(7)));
    for flood in ["yes", "yes >&2", "exec yes >&2", "tr '\\0' x </dev/zero"] {
        shell(&server, flood);
        let (lines, reason) = end(&server);
        assert_eq!(reason, WireEnd::Flooded);
        assert!(lines.iter().map(String::len).sum::<usize>() <= 64 << 10);
    }
}

#[test]
#[cfg(unix)]
fn a_program_can_be_ended_by_a_signal() {
    let server = TestCompanion::start();
    shell(&server, "kill -TERM $$; echo survived");
    assert_eq!(end(&server), (vec![], WireEnd::Exited(None)));
}

#[test]
fn a_program_that_cannot_be_run_is_an_event() {
    let server = TestCompanion::start();
    server.companion.open_host(BUILD).unwrap();
    let command = Command::new("/no/such/program");
    server.companion.open_wire(BUILD, command, String::new()).unwrap();
    let (lines, reason) = end(&server);
    assert!(lines.is_empty() && matches!(reason, WireEnd::NotStarted(_)), "{reason:?}");
}

#[test]
fn a_stream_ends_with_its_channel_though_more_has_come_on_that_than_anybody_reads() {
    let limits = Limits { keep_alive: Duration::from_millis(1), ..Limits::default() };
    let server = TestCompanion::with(limits);
    let mut far = Far::open(&server);
    far.send(OPEN, 1, b"gemini");
    far.send(DATA, 1, hello().as_bytes());
    let answer = far.read_until(1, "serverInfo");
    let session = answer.lines().find(|line| line.starts_with("mcp-session-id")).unwrap();
    let head = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream";
    far.send(OPEN, 2, b"gemini");
    far.send(DATA, 2, format!("{head}\r\n{session}\r\n\r\n").as_bytes());
    far.read_until(2, ": connected");
    for _ in 0..10 {
        far.send(DATA, 2, &[b'x'; 64 << 10]);
    }
    far.send(CLOSE, 2, b"");
    let listens = || server.companion.sessions().describe()[0].listens;
    wait_for("the end of the stream", || (listens() == Some(false)).then_some(()));
}

#[test]
fn channels_close_no_new_connection_of_this_machine() {
    let server = TestCompanion::with(Limits { unauthenticated: 2, ..Limits::default() });
    let mut far = Far::open(&server);
    let mut connection = server.connect();
    let session = server.open_session(); // later, so the server has that connection
    (1..=2).for_each(|channel| far.send(OPEN, channel, b"gemini"));
    far.send(OPEN, 3, b"unknown");
    assert_eq!(far.next(), (CLOSE, 3, 0, Vec::new()));
    let request = server.head("DELETE", "/mcp", &[("Mcp-Session-Id", &session.id)]) + "\r\n";
    connection.write_all(request.as_bytes()).unwrap();
    let mut start = [0; 12];
    connection.read_exact(&mut start).expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 200");
}

#[test]
#[cfg(target_os = "linux")]
fn bytes_that_come_one_by_one_are_served_and_take_no_more_memory() {
    let resident_pages = || -> usize {
        let counts = std::fs::read_to_string("/proc/self/statm").unwrap();
        counts.split(' ').nth(1).unwrap().parse().unwrap()
    };
    let one_by_one = |text: &str| -> Vec<u8> {
        text.bytes().flat_map(|byte| [DATA, 0, 0, 0, 1, 0, 0, 0, 1, byte]).collect()
    };
    let server = TestCompanion::start();
    let mut far = Far::open(&server);
    far.send(OPEN, 1, b"gemini");
    far.write(&one_by_one(&post(&request(0, "initialize", json!({ "_": "x".repeat(20_000) })))));
    far.read_until(1, "serverInfo");
    // Nobody reads more while this is answered.
    let list = post(&request(1, "tools/list", json!({}))).replacen("/mcp", "/mcp/tools", 1);
    far.send(DATA, 1, list.as_bytes());
    let more = one_by_one(&"x".repeat(1_000_000));
    let before = resident_pages();
    far.write(&more);
    far.send(TEXT, 0, b"{}");
    wait_for("the last frame", || {
        matches!(server.next_event(), Event::WireMessage { .. }).then_some(())
    });
    let grown = resident_pages().saturating_sub(before) * 4096;
    assert!(grown < 16 << 20, "{grown}");
}

#[test]
fn programs_end_with_the_companion() {
    let server = TestCompanion::start();
    let mut far = Far::open(&server);
    server.companion.stop();
    let mut rest = Vec::new();
    far.stream.read_to_end(&mut rest).unwrap();
}
