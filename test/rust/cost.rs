//! What a session and a request cost in memory: what the server asks the allocator for, whatever
//! that makes of it. What the kernel keeps for each connection is not in it. `make bench` runs it.
//! `scripts/soak cost waiting-calls` measures instead what calls hold that wait for Emacs, and
//! `scripts/soak cost flood` the memory of the process while one agent sends it the largest proposals.
//!
//! The clients are on the test's thread, which is not counted. The test takes the events for Lisp,
//! which the server has made: that is counted, so that whatever is counted when it comes is counted
//! when it goes.

#[allow(dead_code, reason = "the other tests need more of it")]
mod agents;
#[allow(dead_code, reason = "the other tests need more of it")]
mod support;
#[allow(dead_code, reason = "the other tests need more of it")]
mod wire;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gemini_companion::ide::Outcome;
use gemini_companion::{Event, Limits};
use serde_json::json;

use crate::support::{DEADLINE, Session, Stream, TestCompanion, request};
use crate::wire::{Next, Wire};

const SESSIONS: usize = 64;
const REQUESTS: usize = 1000;
/// How much more may be in use in the end than before, in bytes: less than two for each session and
/// one for each request.
const MARGIN: usize = 1000;
/// Nothing happens any more when nothing has happened for so long.
const QUIET: Duration = Duration::from_millis(200);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static TAKEN_BYTES: AtomicUsize = AtomicUsize::new(0);
static GIVEN: AtomicUsize = AtomicUsize::new(0);
static GIVEN_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Needs no memory itself: it is constant, and has nothing to drop.
    static COUNTS: Cell<bool> = const { Cell::new(true) };
}

/// The system's allocator, and a count of what threads ask of it.
struct Counting;

fn count(number: &AtomicUsize, bytes: &AtomicUsize, size: usize) {
    if COUNTS.get() {
        number.fetch_add(1, Relaxed);
        bytes.fetch_add(size, Relaxed);
    }
}

// Safety: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&TAKEN, &TAKEN_BYTES, layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(&TAKEN, &TAKEN_BYTES, layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(&GIVEN, &GIVEN_BYTES, layout.size());
        count(&TAKEN, &TAKEN_BYTES, size);
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(&GIVEN, &GIVEN_BYTES, layout.size());
        unsafe { System.dealloc(block, layout) }
    }
}

/// What was counted until a moment.
#[derive(Clone, Copy, PartialEq)]
struct Count {
    taken: usize,
    taken_bytes: usize,
    given: usize,
    given_bytes: usize,
}

impl Count {
    fn now() -> Count {
        Count {
            taken: TAKEN.load(Relaxed),
            taken_bytes: TAKEN_BYTES.load(Relaxed),
            given: GIVEN.load(Relaxed),
            given_bytes: GIVEN_BYTES.load(Relaxed),
        }
    }

    /// When the server has done what there was to do, and Lisp knows of it.
    fn at_rest(server: &TestCompanion) -> Count {
        let (start, mut since) = (Instant::now(), Instant::now());
        let mut last = Count::now();
        while since.elapsed() < QUIET {
            assert!(start.elapsed() < DEADLINE, "the server does not come to rest");
            std::thread::sleep(QUIET / 10);
            counted(|| drop(server.events()));
            let now = Count::now();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        last
    }

    fn kept(&self) -> usize {
        self.taken_bytes - self.given_bytes
    }

    fn blocks(&self) -> usize {
        self.taken - self.given
    }
}

/// Calls `action` on this thread and has it counted.
fn counted(action: impl FnOnce()) {
    COUNTS.set(true);
    action();
    COUNTS.set(false);
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("waiting-calls") => waiting_calls_cost(),
        Some("flood") => flood_cost(false),
        Some("flood-and-close") => flood_cost(true),
        Some("flood-client") => flood_client(),
        _ => session_cost(),
    }
}

fn session_cost() {
    // All sessions are of one agent. No signs of life while it is measured.
    let server = TestCompanion::with(Limits {
        keep_alive: Duration::from_secs(3600),
        share_sessions: SESSIONS + 1,
        share_requests: 2 * SESSIONS,
        share_connections: Limits::default().connections,
        sessions: SESSIONS + 1,
        ..Limits::default()
    });
    COUNTS.set(false);
    println!();
    open_and_close(&server, 1); // what is there only from first use on
    let before = Count::at_rest(&server);
    let open = open_and_close(&server, SESSIONS);
    let after = Count::at_rest(&server);
    let each = |open: usize, before: usize| (open - before) as f64 / SESSIONS as f64;
    println!("memory: a session, bytes in use: {:.0}", each(open.kept(), before.kept()));
    println!("memory: a session, blocks in use: {:.1}", each(open.blocks(), before.blocks()));
    // Tables that have grown stay so, once.
    open_and_close(&server, SESSIONS);
    let again = Count::at_rest(&server);
    assert_back(again, after);
    assert!(2 * (after.kept() - before.kept()) < open.kept() - before.kept());
    for method in ["tools/list", "ping"] {
        measure_requests(&server, method);
    }
}

/// The most that calls hold which wait for Emacs, and come with more than they need.
fn waiting_calls_cost() {
    const CALLS: usize = 8;
    let server = TestCompanion::with(Limits { emacs_time: DEADLINE * 6, ..Limits::default() });
    COUNTS.set(false);
    let session = server.open_session();
    let junk = "x".repeat(60 << 20);
    let before = Count::at_rest(&server);
    let done = AtomicBool::new(false);
    let (peak, waiting) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            COUNTS.set(false);
            let mut peak = 0;
            while !done.load(Relaxed) {
                peak = peak.max(Count::now().kept());
                std::thread::yield_now();
            }
            peak
        });
        let waiting: Vec<_> = (0..CALLS)
            .map(|number| {
                let path = format!("/no/such/{number}");
                session.open_diff(&path, "");
                let arguments = json!({ "filePath": path, "junk": junk });
                let call = json!({ "name": "closeDiff", "arguments": arguments });
                try_post(&server, &session, &request(7, "tools/call", call))
            })
            .collect();
        let held = Count::at_rest(&server);
        done.store(true, Relaxed);
        println!("memory: waiting calls, MiB: {}", (held.kept() - before.kept()) >> 20);
        (watch.join().unwrap(), waiting)
    });
    println!("memory: waiting calls, MiB at most: {}", (peak - before.kept()) >> 20);
    drop(waiting);
}

/// Clients of one agent, in a process of their own, propose changes of 60 MiB on several connections, and
/// do not read what they get, while Emacs is mostly busy. If they also close reviews, and the user accepts
/// some, the texts come back: these are limited, too, and only printed.
fn flood_cost(closes: bool) {
    COUNTS.set(false);
    let server = TestCompanion::start();
    let mut flood = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["flood-client", &server.companion.port().to_string()])
        .args([server.companion.token("gemini").unwrap(), closes.to_string()])
        .spawn()
        .unwrap();
    let healthy = bearer_session(&server);
    let (mut proposals, mut closed) = (0, 0);
    while flood.try_wait().unwrap().is_none() {
        std::thread::sleep(BUSY);
        // One at a time, as Lisp takes them.
        while let Some(event) = server.companion.bridge().next_event() {
            match event {
                Event::OpenReview { review, content, .. } => {
                    proposals += 1;
                    if closes && proposals % 4 == 0 {
                        server.companion.sessions().decide(review, Outcome::accepted(content));
                    } else if !closes {
                        server.companion.sessions().decide(review, Outcome::Rejected);
                    }
                }
                Event::CloseReview { call: Some(call), .. } => {
                    closed += 1;
                    let text = "let x = 1;\n".repeat(FLOOD_BYTES / 11);
                    server.companion.bridge().answer(call, Ok(text));
                }
                _ => {}
            }
        }
        let ping = server.post(&healthy.each_ref().map(|(a, b)| (*a, b.as_str())), &ping());
        assert_eq!(ping.status, 200, "{}", ping.body);
    }
    let peak = peak_kilobytes() >> 10;
    println!("memory: a flood, proposals: {proposals}, closed: {closed}");
    println!("memory: a flood, MiB resident at most: {peak}");
    assert!(proposals > 4 && closes == (closed > 0));
    assert!(closes || peak < 256, "{peak} MiB");
}

const FLOOD_BYTES: usize = 60 << 20;
/// How long Emacs is busy at a time.
const BUSY: Duration = Duration::from_millis(100);

fn ping() -> String {
    request(1, "ping", json!({}))
}

/// The headers of a session of another agent.
fn bearer_session(server: &TestCompanion) -> [(&'static str, String); 2] {
    let bearer = format!("Bearer {}", server.companion.token("qwen").unwrap());
    let hello = request(0, "initialize", json!({}));
    let answer = server.post(&[("Authorization", &bearer)], &hello);
    [("Authorization", bearer), ("Mcp-Session-Id", answer.header("mcp-session-id").unwrap())]
}

/// The most memory that this process has had.
fn peak_kilobytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// What floods: threads, each with sessions of its own. More of them would keep one another from sending
/// anything whole.
fn flood_client() {
    COUNTS.set(false);
    let mut arguments = std::env::args().skip(2);
    let port: u16 = arguments.next().unwrap().parse().unwrap();
    let (token, closes) = (arguments.next().unwrap(), arguments.next().unwrap() == "true");
    let deadline = Instant::now() + Duration::from_secs(20);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let token = &token;
            scope.spawn(move || {
                let mut kept = std::collections::VecDeque::new();
                for round in 0.. {
                    if Instant::now() > deadline {
                        break;
                    }
                    kept.truncate(2); // a session for each would be too many
                    kept.push_front(flood_once(
                        port,
                        token,
                        &format!("/no/such/{thread}/{}", round % 7),
                        closes,
                    ));
                }
            });
        }
    });
}

/// Proposes a change, opens a stream, and closes the review several times; reads only what it has to.
fn flood_once(port: u16, token: &str, path: &str, closes: bool) -> Vec<TcpStream> {
    let connect = || TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)).unwrap();
    let head = |method: &str, session: &str, length: usize| {
        let session = if session.is_empty() {
            String::new()
        } else {
            format!("Mcp-Session-Id: {session}\r\n")
        };
        format!(
            "{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
             {session}Connection: close\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let read = |mut connection: TcpStream| {
        let mut bytes = Vec::new();
        let _ = std::io::Read::read_to_end(&mut connection, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let hello = request(0, "initialize", json!({}));
    let mut connection = connect();
    let _ = write!(connection, "{}{hello}", head("POST", "", hello.len()));
    let answer = read(connection);
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let Some(id) = id.map(str::trim) else { return Vec::new() };
    let (before, after) = (
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"openDiff","arguments":{{"filePath":"{path}","newContent":""#
        ),
        r#""}}}"#,
    );
    let line = r"let x = 1;\n".repeat(100_000);
    let count = FLOOD_BYTES / line.len();
    let mut connection = connect();
    let length = before.len() + count * line.len() + after.len();
    let _ = write!(connection, "{}{before}", head("POST", id, length));
    let sent = (0..count).all(|_| connection.write_all(line.as_bytes()).is_ok());
    if sent {
        let _ = write!(connection, "{after}");
    }
    read(connection);
    let mut unread = vec![connect()];
    let _ = write!(unread[0], "{}", head("GET", id, 0));
    let arguments = json!({ "filePath": path, "suppressNotification": true });
    let close = request(7, "tools/call", json!({ "name": "closeDiff", "arguments": arguments }));
    for _ in 0..3 * usize::from(closes) {
        let mut connection = connect();
        let _ = write!(connection, "{}{close}", head("POST", id, close.len()));
        unread.push(connection);
    }
    unread
}

/// Posts what may be refused before it has arrived.
fn try_post(server: &TestCompanion, session: &Session, body: &str) -> TcpStream {
    let mut connection = server.connect();
    let head = server.head("POST", "/mcp", &[("Mcp-Session-Id", session.id.as_str())]);
    let _ = write!(connection, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
    connection
}

/// What is in use while `count` sessions with a stream each are open.
fn open_and_close(server: &TestCompanion, count: usize) -> Count {
    let sessions: Vec<(Session, Stream)> = (0..count)
        .map(|_| {
            let session = server.open_session();
            let stream = session.open_stream();
            (session, stream)
        })
        .collect();
    let open = Count::at_rest(server);
    assert_eq!(server.companion.sessions().count(), count);
    for (session, _) in &sessions {
        let gone = server.request("DELETE", "/mcp", &[("Mcp-Session-Id", &session.id)], "");
        assert_eq!(gone.status, 200, "{}", gone.body);
    }
    open
}

/// Prints what the server allocates for a request, on a connection that is kept.
fn measure_requests(server: &TestCompanion, method: &str) {
    let session = server.open_session();
    let changes = [("Connection", ""), ("Mcp-Session-Id", session.id.as_str())];
    let body = request(1, method, json!({}));
    let head = server.head("POST", "/mcp", &changes);
    let message = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut wire = Wire::connect(server.companion.port()).unwrap();
    let mut ask = || {
        wire.send(message.as_bytes()).unwrap();
        match wire.reply(DEADLINE, false) {
            Next::Got(reply) if reply.status == 200 => {}
            other => panic!("{method} got {other:?}"),
        }
    };
    (0..REQUESTS).for_each(|_| ask());
    let before = Count::at_rest(server);
    (0..REQUESTS).for_each(|_| ask());
    let after = Count::at_rest(server);
    let each = |after: usize, before: usize| (after - before) as f64 / REQUESTS as f64;
    let allocations = each(after.taken, before.taken);
    println!("memory: {method}, blocks allocated: {allocations:.1}");
    println!(
        "memory: {method}, bytes allocated: {:.0}",
        each(after.taken_bytes, before.taken_bytes)
    );
    assert!(allocations >= 1.0, "who does not allocate is not counted");
    assert_back(after, before);
}

/// Fails if what is in use has grown.
fn assert_back(now: Count, before: Count) {
    let (now, before) = (now.kept(), before.kept());
    assert!(now <= before + MARGIN, "{now} bytes are in use, after {before}");
}
