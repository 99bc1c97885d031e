//! What a session and a request cost in memory: what the server asks the allocator for, whatever
//! that makes of it. What the kernel keeps for each connection is not in it. `make bench` runs it.
//! `scripts/soak cost waiting-calls` measures instead what calls hold that wait for Emacs.
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

use gemini_companion::Limits;
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
