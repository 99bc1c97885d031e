//! Hostile input, as a fixed number of random cases with known seeds: HTTP requests, JSON-RPC
//! messages, sequences of operations of sessions, paths that clients name, and what others leave
//! beside discovery files. In each case the reply is a defined one or the connection ends, nothing
//! panics, and other clients are still served.
//!
//! A failure names its seed. `HOSTILE_SEED=SEED` repeats that one case, `HOSTILE_CASES=FACTOR` runs
//! FACTOR times as many, and `cargo test hostile -- --nocapture` prints how often each outcome
//! occurred.

#[cfg(unix)]
mod discovery;
mod http;
mod messages;
#[cfg(unix)]
mod paths;
mod sequences;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use gemini_companion::Event;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{DEADLINE, TestCompanion, request};
use crate::wire::{Next, Reply, Wire};

/// Cases run concurrently, since they spend most of their time waiting.
const WORKERS: u64 = 6;

/// The statuses that an authorised client may get.
const DOCUMENTED: [u16; 14] =
    [200, 202, 400, 401, 403, 404, 405, 406, 408, 413, 414, 415, 431, 503];
/// The statuses that anybody else may get.
const REFUSALS: [u16; 6] = [400, 401, 403, 408, 414, 431];
/// The statuses of replies without a body, with which the HTTP library refuses what it cannot
/// parse.
const BARE: [u16; 3] = [400, 414, 431];

/// A value, or what went wrong in a case.
pub type Check<T = ()> = Result<T, String>;

pub fn ensure(condition: bool, reason: impl FnOnce() -> String) -> Check {
    if condition { Ok(()) } else { Err(reason()) }
}

/// How often each kind of case had each outcome.
#[derive(Default)]
pub struct Counts(Mutex<BTreeMap<(String, String), usize>>);

impl Counts {
    pub fn add(&self, kind: &str, outcome: impl ToString) {
        let mut counts = self.0.lock().unwrap();
        *counts.entry((kind.to_owned(), outcome.to_string())).or_default() += 1;
    }

    fn print(&self, title: &str, cases: u64, slowest: Duration) {
        let mut lines: BTreeMap<&str, String> = BTreeMap::new();
        let counts = self.0.lock().unwrap();
        for ((kind, outcome), count) in &*counts {
            *lines.entry(kind).or_default() += &format!("  {outcome}: {count}");
        }
        print!("\n{title}: {cases} cases");
        match slowest {
            Duration::ZERO => println!(),
            _ => println!("; slowest ping of a healthy client {slowest:?}"),
        }
        for (kind, outcomes) in lines {
            println!("  {kind:<26}{outcomes}");
        }
    }
}

/// Runs `case` with `count` seeds, and fails with the seed of the first case that fails.
pub fn run_cases(
    title: &str,
    count: u64,
    first_seed: u64,
    case: impl Fn(u64, &mut SmallRng, &Counts) -> Check + Sync,
) {
    watch_panics();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (seeds, workers) = match number("HOSTILE_SEED") {
        Some(seed) => (seed..seed + 1, 1),
        None => (first_seed..first_seed + count * number("HOSTILE_CASES").unwrap_or(1), WORKERS),
    };
    let (next, counts) = (AtomicU64::new(seeds.start), Counts::default());
    let failed = Mutex::new(None);
    let run = || {
        while failed.lock().unwrap().is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return;
            }
            let mut random = SmallRng::seed_from_u64(seed);
            let running = AssertUnwindSafe(|| case(seed, &mut random, &counts));
            let outcome = std::panic::catch_unwind(running)
                .unwrap_or_else(|_| Err("the case panicked, see above".to_owned()))
                .and_then(|()| panicked().map_or(Ok(()), Err));
            if let Err(reason) = outcome {
                failed.lock().unwrap().get_or_insert(format!("HOSTILE_SEED={seed}: {reason}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(run);
        }
    });
    let slowest = Duration::from_micros(SLOWEST_PING.load(Ordering::Relaxed));
    counts.print(title, seeds.end - seeds.start, slowest);
    if let Some(reason) = failed.into_inner().unwrap() {
        panic!("{title}: {reason}");
    }
}

/// The message of a panic of a server's thread, or of one of its blocking tasks.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            let ours = name.starts_with("gemini-companion") || name.starts_with("tokio");
            // Other tests in this process break their own servers on purpose.
            let text = info.to_string();
            let is_expected = ["broken by a test", "on purpose"].iter().any(|it| text.contains(it));
            if ours && !is_expected {
                *PANIC.lock().unwrap() = Some(format!("the server panicked: {text}"));
            }
            usual(info);
        }));
    });
}

fn panicked() -> Option<String> {
    PANIC.lock().unwrap().clone()
}

static SLOWEST_PING: AtomicU64 = AtomicU64::new(0);

/// Checks that a well-behaved client with the session `id` is served.
fn ping(server: &TestCompanion, id: &str) -> Check {
    let start = Instant::now();
    let reply = post(server, id, &request(7, "ping", json!({})))?;
    SLOWEST_PING.fetch_max(start.elapsed().as_micros() as u64, Ordering::Relaxed);
    ensure(reply.status == 200 && reply.json()["result"] == json!({}), || {
        format!("a healthy client's ping got {}", describe(&reply))
    })
}

fn post(server: &TestCompanion, session: &str, body: &str) -> Check<Reply> {
    let mut wire = send_post(server, session, body);
    await_reply(&mut wire)
}

fn send_post(server: &TestCompanion, session: &str, body: &str) -> Wire {
    let head = server.head("POST", "/mcp", &[("Mcp-Session-Id", session)]);
    let mut wire = Wire::connect(server.companion.port()).unwrap();
    wire.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    wire
}

fn await_reply(wire: &mut Wire) -> Check<Reply> {
    match wire.reply(DEADLINE, false) {
        Next::Got(reply) => Ok(reply),
        other => Err(format!("a good request got no reply: {other:?}")),
    }
}

/// Checks a reply against what is documented for all requests.
fn check_reply(server: &TestCompanion, reply: &Reply, authorised: bool, bodiless: bool) -> Check {
    let text = format!("{}\r\n\r\n{}", reply.head, String::from_utf8_lossy(&reply.body));
    ensure(!text.contains(&server.companion.token("gemini").unwrap()), || {
        format!("the token leaks: {text}")
    })?;
    let allowed = if authorised { &DOCUMENTED[..] } else { &REFUSALS[..] };
    ensure(allowed.contains(&reply.status), || format!("an undocumented reply: {text}"))?;
    if bodiless {
        return Ok(());
    }
    match reply.status {
        202 => ensure(reply.body.is_empty(), || format!("a body after 202: {text}")),
        200 => ensure(reply.is_stream() || reply.body.is_empty() || is_json(reply), || text),
        status if BARE.contains(&status) && reply.body.is_empty() => Ok(()),
        _ => {
            ensure(is_json(reply), || format!("no JSON: {text}"))?;
            check_failure(&reply.json()).map_err(|reason| format!("{reason}: {text}"))
        }
    }
}

fn is_json(reply: &Reply) -> bool {
    reply.header("content-type") == Some("application/json")
        && serde_json::from_slice::<&RawValue>(&reply.body).is_ok()
}

/// Checks that `message` is a JSON-RPC error with one of our codes.
fn check_failure(message: &Value) -> Check {
    let error = &message["error"];
    let known = [-32700, -32600, -32601, -32602].map(Value::from).contains(&error["code"]);
    ensure(message["jsonrpc"] == "2.0" && known && error["message"].is_string(), || {
        "not a valid error".to_owned()
    })
}

/// Checks that an event is not a warning.
fn check_event(event: &Event) -> Check {
    match event {
        Event::Warning(text) => Err(format!("a warning: {text}")),
        _ => Ok(()),
    }
}

fn label(reply: &Reply) -> String {
    match reply.body.is_empty() && BARE.contains(&reply.status) {
        true => format!("{} bare", reply.status),
        false if reply.is_stream() => "stream".to_owned(),
        false => reply.status.to_string(),
    }
}

fn describe(reply: &Reply) -> String {
    format!("{}\n\n{}", reply.head, String::from_utf8_lossy(&reply.body))
}

fn excerpt(bytes: &[u8]) -> String {
    let shown = bytes[..bytes.len().min(3000)].escape_ascii();
    format!("{shown}{}", if bytes.len() > 3000 { "…" } else { "" })
}

pub fn pick<T: Clone>(random: &mut SmallRng, items: &[T]) -> T {
    items.choose(random).expect("something to choose from").clone()
}

pub fn chance(random: &mut SmallRng, of_hundred: u32) -> bool {
    random.random_ratio(of_hundred, 100)
}
