//! Many clients for a long time: streams that break, an Emacs that is busy, companions that stop.
//! Afterwards nothing is left over, and every outcome was heard once. `make soak` runs it.
//!
//! Each client is a thread with at most one open review, as the real one. The server's limits, 64
//! sessions and 128 connections, let no more than `WAVE` of them exist at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::support::{DEADLINE, notification, request, wait_for};
use super::wire::{Events, Next, Reply, Wire};
use crate::bridge::{CallId, Event};
use crate::companion::Companion;
use crate::ide::{Cursor, File, IdeContext, Outcome, ReviewId};
use crate::limits::Limits;

const WAVE: usize = 56;
/// What the allocator may keep.
const MEMORY_SLACK: u64 = 24 << 20;

/// What the clients and the stand-in for Lisp share.
struct World {
    address: RwLock<Address>,
    /// Read by a client without a stream, written by who stops the companion: a client that hears
    /// nothing cannot hear the end.
    deaf: RwLock<()>,
    /// The clients of a wave are done.
    done: AtomicBool,
    ledger: Mutex<HashMap<String, Record>>,
    tally: Tally,
}

#[derive(Clone)]
struct Address {
    port: u16,
    token: String,
}

/// What is known of one review, by its path.
#[derive(Debug, Default)]
struct Record {
    /// The client knows that it was opened.
    answered: bool,
    /// How the user decided.
    decided: Option<&'static str>,
    /// The client closed it and wants no outcome; `Some(false)` if it does not know whether it did.
    silenced: Option<bool>,
    heard: Vec<String>,
}

#[derive(Default)]
struct Tally {
    sessions: AtomicUsize,
    most_sessions: AtomicUsize,
    calls: AtomicUsize,
    cut_calls: AtomicUsize,
    disconnects: AtomicUsize,
    resumed: AtomicUsize,
    ended: AtomicUsize,
    pauses: AtomicUsize,
    restarts: AtomicUsize,
    warnings: AtomicUsize,
    opened: AtomicUsize,
    silenced: AtomicUsize,
    heard: AtomicUsize,
    lost: AtomicUsize,
    doubled: AtomicUsize,
    wrong: AtomicUsize,
}

#[derive(Debug, PartialEq)]
struct Usage {
    threads: usize,
    descriptors: usize,
    memory: u64,
}

#[test]
#[ignore = "takes minutes: make soak"]
fn soak() {
    let number = |name: &str, usual: usize| -> usize {
        std::env::var(name).map_or(usual, |text| text.parse().unwrap())
    };
    let (sessions, calls) = (number("SOAK_SESSIONS", 500), number("SOAK_CALLS", 20_000));
    let limit = Duration::from_secs(number("SOAK_SECONDS", 170) as u64);
    let seed = number("SOAK_SEED", 1) as u64;
    let start = Instant::now();

    // What is there only from first use on is no leak.
    let warm_up = World::new();
    run_wave(&warm_up, 0, WAVE, 10, true);
    let before = Usage::now();

    let world = World::new();
    let waves = sessions.div_ceil(WAVE);
    for wave in 0..waves {
        let clients = WAVE.min(sessions - wave * WAVE);
        run_wave(&world, seed + wave as u64, clients, calls.div_ceil(sessions), wave % 2 == 0);
        assert!(start.elapsed() < limit, "took longer than {limit:?}");
    }
    let after = wait_for_usage(&before);
    world.report(waves, &before, &after, start.elapsed());
    assert_eq!(world.tally.wrong.load(Ordering::Relaxed), 0, "reviews that ended wrong, see above");
    assert_eq!((after.threads, after.descriptors), (before.threads, before.descriptors));
    assert!(after.memory <= before.memory + MEMORY_SLACK, "{after:?} after {before:?}");
    assert_eq!(world.tally.warnings.load(Ordering::Relaxed), 0);
    assert!(world.tally.calls.load(Ordering::Relaxed) >= calls);
}

/// Runs `clients` beside each other against one companion, or two if it is restarted meanwhile.
fn run_wave(world: &World, seed: u64, clients: usize, calls: usize, restart: bool) {
    let directory = tempfile::tempdir().unwrap();
    let companion =
        Companion::start(directory.path().join("ide"), 0, &[], Limits::default()).unwrap();
    *world.address.write().unwrap() = Address::of(&companion);
    world.done.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let lisp = scope.spawn(move || {
            let mut random = SmallRng::seed_from_u64(seed << 16);
            let mut lisp = Lisp { world, companion, open: HashMap::new() };
            let target = world.tally.calls.load(Ordering::Relaxed) + clients * calls / 2;
            let mut restart = restart;
            while !world.done.load(Ordering::Relaxed) {
                lisp.work(&mut random);
                if restart && world.tally.calls.load(Ordering::Relaxed) >= target {
                    restart = false;
                    lisp.restart(directory.path().join("ide"));
                }
            }
            lisp.work(&mut random);
            let most = lisp.companion.sessions();
            wait_for("the end of all sessions", || (most.count() == 0).then_some(()));
            lisp.companion.stop();
        });
        let running: Vec<_> = (0..clients)
            .map(|number| {
                let random = SmallRng::seed_from_u64((seed << 16) + 1 + number as u64);
                let name = format!("/no/such/{seed}/{number}");
                scope.spawn(move || run_client(world, random, &name, calls))
            })
            .collect();
        let panicked = running.into_iter().filter_map(|client| client.join().err()).count();
        world.done.store(true, Ordering::Relaxed);
        lisp.join().unwrap();
        assert_eq!(panicked, 0, "clients failed, see above");
    });
    world.settle();
}

/// In the place of Emacs's main thread.
struct Lisp<'a> {
    world: &'a World,
    companion: Companion,
    open: HashMap<ReviewId, String>,
}

impl Lisp<'_> {
    fn work(&mut self, random: &mut SmallRng) {
        let tally = &self.world.tally;
        tally.most_sessions.fetch_max(self.companion.sessions().count(), Ordering::Relaxed);
        while let Some(event) = self.companion.bridge().next_event() {
            match event {
                Event::OpenReview { review, path, .. } => drop(self.open.insert(review, path)),
                Event::CloseReview { review, call } => self.close(review, call),
                Event::Clients => {}
                Event::Warning(text) => {
                    println!("warning: {text}");
                    count(&tally.warnings);
                }
                other => panic!("an event that has no place here: {other:?}"),
            }
        }
        let chosen: Vec<ReviewId> =
            self.open.keys().copied().filter(|_| random.random_ratio(1, 4)).collect();
        for review in chosen {
            let (outcome, kind) = if random.random_bool(0.5) {
                let content = "edited ".repeat(random.random_range(0..500));
                (Outcome::Accepted { content }, "ide/diffAccepted")
            } else {
                (Outcome::Rejected, "ide/diffRejected")
            };
            // Under the lock, so that nobody hears of it before it is in the ledger.
            let mut ledger = lock(&self.world.ledger);
            if self.companion.sessions().decide(review, outcome) {
                let path = self.open.remove(&review).unwrap();
                ledger.entry(path).or_default().decided = Some(kind);
            }
        }
        if random.random_ratio(1, 10) {
            let cursor = Cursor { line: random.random_range(1..i64::MAX), character: 1 };
            let file = File { path: "/a".to_owned(), cursor: Some(cursor), ..File::default() };
            self.companion.sessions().publish_context(&IdeContext::new(vec![file]));
        }
        let busy = random.random_ratio(1, 150);
        let milliseconds = if busy { 100..1500 } else { 0..8 };
        tally.pauses.fetch_add(usize::from(busy), Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(random.random_range(milliseconds)));
    }

    fn close(&mut self, review: ReviewId, call: Option<CallId>) {
        self.open.remove(&review);
        if let Some(call) = call {
            self.companion.bridge().answer(call, Ok("final".to_owned()));
        }
    }

    fn restart(&mut self, directory: std::path::PathBuf) {
        let mut address = self.world.address.write().unwrap();
        let deaf = self.world.deaf.write().unwrap();
        self.companion.stop();
        count(&self.world.tally.restarts);
        drop(deaf);
        self.open.clear();
        let next = wait_for("the port", || {
            Companion::start(directory.clone(), self.companion.port(), &[], Limits::default()).ok()
        });
        self.companion = next;
        *address = Address::of(&self.companion);
    }
}

/// A client with one session, or another one after each restart.
struct Client<'a> {
    world: &'a World,
    address: Address,
    session: String,
    calls: Wire,
    /// Calls made.
    made: usize,
    /// None while it is broken, and after its end.
    stream: Option<Events>,
    last_event: u64,
    /// Restarts before this session.
    restarts: usize,
    open: Option<String>,
}

/// The companion has stopped.
struct Gone;

fn run_client(world: &World, mut random: SmallRng, name: &str, calls: usize) {
    let (mut steps, mut made) = (0, 0);
    while made < calls {
        let Ok(mut client) = Client::connect(world) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let mut outcome = Ok(());
        while outcome.is_ok() && (made + client.made < calls || client.open.is_some()) {
            steps += 1;
            outcome = client.step(&mut random, &format!("{name}/{steps}"));
        }
        made += client.made;
        match outcome {
            Ok(()) => client.leave(),
            Err(Gone) => client.hear_the_end(),
        }
    }
}

impl Client<'_> {
    fn connect(world: &World) -> Result<Client<'_>, Gone> {
        let (address, restarts) = {
            let address = world.address.read().unwrap();
            (address.clone(), world.tally.restarts.load(Ordering::Relaxed))
        };
        let mut calls = Wire::connect(address.port).map_err(|_| Gone)?;
        let body = request(0, "initialize", json!({ "protocolVersion": "2025-06-18" }));
        // All are of one process: the new session would inherit what one without a stream waits for.
        let nobody_is_deaf = world.deaf.write().unwrap();
        let reply = exchange(&mut calls, &address.request("POST", "", "", &body))?;
        drop(nobody_is_deaf);
        let session = match (reply.status, reply.header("mcp-session-id")) {
            (200, Some(session)) => session.to_owned(),
            (401, _) => return Err(Gone), // restarted meanwhile
            _ => panic!("initialize got {}", reply.head),
        };
        let initialized = notification("notifications/initialized");
        let accepted = exchange(&mut calls, &address.request("POST", &session, "", &initialized))?;
        assert!(matches!(accepted.status, 202 | 401), "{}", accepted.head);
        let stream = Some(open_stream(&address, &session, 0)?);
        count(&world.tally.sessions);
        let (made, last_event, open) = (0, 0, None);
        Ok(Client { world, address, session, calls, made, stream, last_event, restarts, open })
    }

    fn step(&mut self, random: &mut SmallRng, path: &str) -> Result<(), Gone> {
        match random.random_range(0..100) {
            0..15 => self.disconnect(random)?,
            15..35 => drop(self.call("ping", json!({}))?),
            35..45 => drop(self.call("tools/list", json!({}))?),
            45..55 if self.open.is_some() => self.close_diff(random.random_bool(0.5))?,
            _ if self.open.is_some() => self.wait_for_outcome(random)?,
            _ => self.open_diff(path, random.random_range(0..20_000))?,
        }
        self.listen(Duration::from_millis(1)).map(drop)
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value, Gone> {
        count(&self.world.tally.calls);
        self.made += 1;
        let body = self.address.request("POST", &self.session, "", &request(7, method, params));
        // An idle connection may have been closed meanwhile: the client then takes another.
        let answer = self
            .calls
            .send(&body)
            .map_err(|_| Gone)
            .and_then(|()| self.calls.answer().map_err(|_| Gone));
        let Ok(answer) = answer else {
            count(&self.world.tally.cut_calls);
            return Err(Gone);
        };
        if answer["id"] != 7 {
            count(&self.world.tally.cut_calls); // another companion has the port: 401
            return Err(Gone);
        }
        Ok(answer["result"].clone())
    }

    fn tool(&mut self, name: &str, arguments: Value) -> Result<Value, Gone> {
        self.call("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    fn open_diff(&mut self, path: &str, size: usize) -> Result<(), Gone> {
        let arguments = json!({ "filePath": path, "newContent": "x".repeat(size) });
        lock(&self.world.ledger).insert(path.to_owned(), Record::default());
        let result = self.tool("openDiff", arguments)?;
        if result["isError"] == true {
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            assert!(text.contains("too many") || text.contains("stop"), "openDiff got {result}");
            return Ok(());
        }
        assert_eq!(result, json!({ "content": [] }));
        lock(&self.world.ledger).get_mut(path).unwrap().answered = true;
        self.open = Some(path.to_owned());
        Ok(())
    }

    fn close_diff(&mut self, silent: bool) -> Result<(), Gone> {
        let path = self.open.clone().unwrap();
        let world = self.world;
        let silenced = |value| {
            if silent {
                lock(&world.ledger).get_mut(&path).unwrap().silenced = value;
            }
        };
        silenced(Some(false));
        let arguments = json!({ "filePath": path, "suppressNotification": silent });
        let result = self.tool("closeDiff", arguments)?;
        if result["isError"] == true {
            silenced(None); // decided meanwhile: the outcome is on its way
            return Ok(());
        }
        assert_eq!(result["content"][0]["text"], r#"{"content":"final"}"#);
        silenced(Some(true));
        if silent {
            self.open = None;
        }
        Ok(())
    }

    fn wait_for_outcome(&mut self, random: &mut SmallRng) -> Result<(), Gone> {
        let patience = Duration::from_millis(random.random_range(1..300));
        let start = Instant::now();
        while self.open.is_some() && start.elapsed() < patience {
            self.listen(patience)?;
        }
        Ok(())
    }

    /// The connection of the stream breaks, and the client comes back after a while.
    fn disconnect(&mut self, random: &mut SmallRng) -> Result<(), Gone> {
        let world = self.world;
        let _deaf = world.deaf.read().unwrap();
        if self.restarts != world.tally.restarts.load(Ordering::Relaxed) {
            return Err(Gone); // and the stream has still to say so
        }
        count(&world.tally.disconnects);
        let (address, session) = (self.address.clone(), self.session.clone());
        let pause = Duration::from_millis(random.random_range(0..60));
        self.stream = None;
        std::thread::sleep(pause);
        self.stream = Some(open_stream(&address, &session, self.last_event)?);
        count(&world.tally.resumed);
        Ok(())
    }

    /// Takes what the stream brings within `patience`.
    fn listen(&mut self, patience: Duration) -> Result<bool, Gone> {
        let Some(stream) = &mut self.stream else { return Err(Gone) };
        match stream.next(patience) {
            Next::Got((number, message)) => {
                self.hear(number, &message);
                Ok(true)
            }
            Next::Silent => Ok(false),
            Next::End => {
                self.stream = None;
                count(&self.world.tally.ended);
                Err(Gone)
            }
            Next::Cut => panic!("a stream was cut"),
        }
    }

    fn hear(&mut self, number: u64, message: &Value) {
        assert!(number > self.last_event, "event {number} after {}", self.last_event);
        self.last_event = number;
        let method = message["method"].as_str().unwrap();
        if method == "ide/contextUpdate" {
            return;
        }
        let path = message["params"]["filePath"].as_str().unwrap();
        lock(&self.world.ledger).get_mut(path).unwrap().heard.push(method.to_owned());
        if self.open.as_deref() == Some(path) {
            self.open = None;
        }
    }

    /// The companion stops: what it still has to say comes before the proper end.
    fn hear_the_end(mut self) {
        while self.listen(DEADLINE).is_ok_and(|heard| heard) {}
    }

    fn leave(mut self) {
        let request = self.address.request("DELETE", &self.session, "", "");
        if self.calls.send(&request).is_ok()
            && let Next::Got(reply) = self.calls.reply(DEADLINE, false)
        {
            // Another companion knows neither the token nor the session.
            assert!(matches!(reply.status, 200 | 401), "DELETE got {}", reply.head);
        }
        self.hear_the_end();
    }
}

impl Address {
    fn of(companion: &Companion) -> Address {
        Address { port: companion.port(), token: companion.token().to_owned() }
    }

    fn request(&self, method: &str, session: &str, last_event: &str, body: &str) -> Vec<u8> {
        let Address { port, token } = self;
        let mut head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        for (name, value) in [("Mcp-Session-Id", session), ("Last-Event-ID", last_event)] {
            if !value.is_empty() {
                head += &format!("{name}: {value}\r\n");
            }
        }
        format!("{head}\r\n{body}").into_bytes()
    }
}

fn exchange(wire: &mut Wire, request: &[u8]) -> Result<Reply, Gone> {
    wire.send(request).map_err(|_| Gone)?;
    match wire.reply(DEADLINE, false) {
        Next::Got(reply) => Ok(reply),
        Next::Silent => panic!("a hang"),
        Next::End | Next::Cut => Err(Gone),
    }
}

fn open_stream(address: &Address, session: &str, last_event: u64) -> Result<Events, Gone> {
    let mut wire = Wire::connect(address.port).map_err(|_| Gone)?;
    let reply = exchange(&mut wire, &address.request("GET", session, &last_event.to_string(), ""))?;
    match reply.status {
        200 => Ok(Events::new(wire)),
        401 => Err(Gone),
        _ => panic!("GET got {}", reply.head),
    }
}

impl World {
    fn new() -> World {
        World {
            address: RwLock::new(Address { port: 0, token: String::new() }),
            deaf: RwLock::default(),
            done: AtomicBool::new(false),
            ledger: Mutex::default(),
            tally: Tally::default(),
        }
    }

    /// Checks and forgets the reviews of a wave, so that the ledger itself takes no memory.
    fn settle(&self) {
        let tally = &self.tally;
        for (path, record) in std::mem::take(&mut *lock(&self.ledger)) {
            let add = |counter: &AtomicUsize, yes: bool| {
                counter.fetch_add(usize::from(yes), Ordering::Relaxed);
            };
            add(&tally.opened, record.answered);
            add(&tally.silenced, record.silenced == Some(true));
            add(&tally.lost, record.is_lost());
            add(&tally.doubled, record.heard.len() > 1);
            tally.heard.fetch_add(record.heard.len(), Ordering::Relaxed);
            if !record.is_right() {
                println!("not as it should be: {path} {record:?}");
                count(&tally.wrong);
            }
        }
    }

    /// Prints what happened.
    fn report(&self, waves: usize, before: &Usage, after: &Usage, took: Duration) {
        let tally = &self.tally;
        let of = |counter: &AtomicUsize| counter.load(Ordering::Relaxed).to_string();
        let pair = |before: u64, after: u64| format!("{before} / {after}");
        println!("\nsoak, {:.1} s", took.as_secs_f32());
        for (what, figure) in [
            ("waves of clients", format!("{waves} of {WAVE}, by the limits of the server")),
            ("sessions with a stream", of(&tally.sessions)),
            ("sessions at once, at most", of(&tally.most_sessions)),
            ("calls", of(&tally.calls)),
            ("calls cut off by a stop", of(&tally.cut_calls)),
            (
                "streams broken / resumed",
                format!("{} / {}", of(&tally.disconnects), of(&tally.resumed)),
            ),
            ("streams ended properly", of(&tally.ended)),
            ("pauses of Lisp", of(&tally.pauses)),
            ("restarts in use", of(&tally.restarts)),
            ("warnings", of(&tally.warnings)),
            ("reviews opened", of(&tally.opened)),
            ("reviews closed in silence", of(&tally.silenced)),
            ("outcomes heard", of(&tally.heard)),
            ("outcomes lost", of(&tally.lost)),
            ("outcomes doubled", of(&tally.doubled)),
            ("threads before / after", pair(before.threads as u64, after.threads as u64)),
            (
                "descriptors before / after",
                pair(before.descriptors as u64, after.descriptors as u64),
            ),
            ("KiB resident before / after", pair(before.memory >> 10, after.memory >> 10)),
        ] {
            println!("  {what:<28} {figure}");
        }
    }
}

impl Record {
    fn is_lost(&self) -> bool {
        let due = self.decided.is_some() || (self.answered && self.silenced.is_none());
        due && self.silenced != Some(true) && self.heard.is_empty()
    }

    fn is_right(&self) -> bool {
        match (&self.heard[..], self.decided) {
            ([], _) => !self.is_lost(),
            ([heard], Some(decided)) => heard == decided,
            // The client closed it, or the companion stopped.
            ([heard], None) => heard == "ide/diffRejected" && self.silenced != Some(true),
            _ => false,
        }
    }
}

impl Usage {
    fn now() -> Usage {
        // Safety: it gives back what is free, and is safe to call from any thread. The allocator
        // would else keep much of what the clients' threads have used.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0)
        };
        let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        Usage {
            threads: entries("/proc/self/task"),
            descriptors: entries("/proc/self/fd"),
            memory: kilobytes << 10,
        }
    }
}

/// The last of what ends may take a moment.
fn wait_for_usage(before: &Usage) -> Usage {
    let start = Instant::now();
    loop {
        let now = Usage::now();
        let is_back = now.threads <= before.threads && now.descriptors <= before.descriptors;
        if is_back || start.elapsed() > DEADLINE {
            return now;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
