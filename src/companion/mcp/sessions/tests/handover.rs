//! Two clients that propose, lose their streams, return or begin new sessions, and a user who
//! decides, all in random order; each client records what it awaits. In any case a review ends
//! once, and a client receives the outcome of its own last proposal once it is connected.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::*;
use crate::ide::Outcome;
use crate::process::Sleeper;

const RUNS: u64 = 100;
const STEPS: usize = 60;
/// The time between the beginnings of two sessions, which must differ.
pub const TICK: Duration = Duration::from_millis(1);

/// A program that has one session after the other.
struct SimulatedClient {
    process: Process,
    /// The beginning of its paths.
    root: &'static str,
    session: SessionId,
    stream: Option<StreamReader>,
    /// Streams that it has abandoned without the server having noticed.
    abandoned: Vec<StreamReader>,
    last_event: Option<u64>,
    /// The proposal whose outcome it awaits, for each path.
    awaits: BTreeMap<String, ReviewId>,
}

struct Simulation<'a> {
    /// A runtime whose clock is advanced explicitly.
    clock: &'a Runtime,
    bridge: Arc<Bridge>,
    sessions: Arc<Sessions>,
    random: SmallRng,
    /// The client and the path of each review.
    opened: BTreeMap<ReviewId, (usize, String)>,
    ended: BTreeSet<ReviewId>,
    clients: Vec<SimulatedClient>,
}

impl<'c> Simulation<'c> {
    fn new(
        clock: &'c Runtime,
        seed: u64,
        processes: [Process; 2],
        roots: [&'static str; 2],
    ) -> Simulation<'c> {
        let (bridge, sessions) = sessions();
        let random = SmallRng::seed_from_u64(seed);
        let (opened, ended) = Default::default();
        let mut simulation =
            Simulation { clock, bridge, sessions, random, opened, ended, clients: Vec::new() };
        for (process, root) in processes.into_iter().zip(roots) {
            let session = simulation.begin(&process);
            let stream = simulation.sessions.open_stream(&session, None);
            simulation.clients.push(SimulatedClient {
                process,
                root,
                session,
                stream,
                abandoned: Vec::new(),
                last_event: None,
                awaits: BTreeMap::new(),
            });
        }
        simulation.advance(2000); // both have been identified
        simulation
    }

    fn begin(&self, process: &Process) -> SessionId {
        self.clock.block_on(tokio::time::advance(TICK));
        let origin = Origin::of(Some(process.clone()));
        self.sessions.open(client("client"), Revision::NEWEST, origin).unwrap()
    }

    fn random_below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    fn step(&mut self) {
        let who = self.random_below(2);
        match self.random_below(16) {
            0..4 => self.propose(who),
            4..6 => self.lose_stream(who),
            6..8 => self.return_to_session(who),
            // Behind a proxy the client of the new session could not be known.
            8 if !self.share_a_process() => self.replace_session(who),
            9..11 => self.read_stream(who),
            11 => self.close_diff(who),
            12..14 => self.decide(),
            14 => self.advance(6000),
            _ => self.advance(100),
        }
        self.drain();
        self.check();
    }

    /// Enters the session of a client, which must still exist.
    fn enter(&self, who: usize) -> ActiveSession {
        self.sessions.enter(self.clients[who].session.as_str(), &gemini()).expect("a session")
    }

    fn some_path(&mut self, who: usize) -> String {
        let number = self.random_below(2);
        format!("{}/{number}", self.clients[who].root)
    }

    fn propose(&mut self, who: usize) {
        let _busy = self.enter(who);
        let path = self.some_path(who);
        let review = open_review_of(&self.sessions, &self.clients[who].session, &path);
        self.opened.insert(review, (who, path.clone()));
        self.clients[who].awaits.insert(path, review);
    }

    fn lose_stream(&mut self, who: usize) {
        self.clients[who].stream = None;
        self.clients[who].abandoned.clear();
    }

    fn return_to_session(&mut self, who: usize) {
        let busy = self.enter(who);
        let last = self.clients[who].last_event;
        self.clients[who].stream = self.sessions.open_stream(&busy.session, last);
        drop(busy);
        self.read_stream(who);
    }

    /// The client begins a new session. The server may notice later that it has abandoned the old one.
    fn replace_session(&mut self, who: usize) {
        let abandoned = self.clients[who].stream.take();
        if self.random_below(2) == 0 {
            self.clients[who].abandoned.extend(abandoned);
        }
        let session = self.begin(&self.clients[who].process);
        let client = &mut self.clients[who];
        (client.session, client.last_event) = (session, None);
        client.stream = self.sessions.open_stream(&client.session, None);
    }

    fn close_diff(&mut self, who: usize) {
        let _busy = self.enter(who);
        let path = self.some_path(who);
        let session = self.clients[who].session.clone();
        let known = self.sessions.close_review(&session, &path, true);
        if let Some(review) = self.drain() {
            assert!(known.is_some());
            let awaited = self.clients[who].awaits.remove(&path);
            assert_eq!(awaited, Some(review), "another review was closed");
        }
    }

    /// The reviews that are open, oldest first.
    fn open(&self) -> Vec<ReviewId> {
        self.sessions.table().reviews.all().map(|review| review.id).collect()
    }

    fn decide(&mut self) {
        let open = self.open();
        if !open.is_empty() {
            let review = open[self.random_below(open.len())];
            self.accept(review);
        }
    }

    /// Accepts a review, with its number as the text.
    fn accept(&mut self, review: ReviewId) {
        let outcome = || Outcome::accepted(review.0.to_string());
        assert!(self.sessions.decide(review, outcome()));
        assert!(!self.sessions.decide(review, outcome()));
        assert!(self.ended.insert(review), "{review:?} ended twice");
    }

    /// Advances the clock.
    fn advance(&mut self, milliseconds: u64) {
        self.clients.iter_mut().for_each(|client| client.abandoned.clear());
        self.clock.block_on(tokio::time::advance(Duration::from_millis(milliseconds)));
        self.sessions.expire(Instant::now());
    }

    /// Takes the events for Lisp. Returns the review that its client has closed.
    fn drain(&mut self) -> Option<ReviewId> {
        let mut closed = None;
        while let Some(event) = self.bridge.next_event() {
            if let Event::CloseReview { review, call } = event {
                assert!(self.ended.insert(review), "{review:?} ended twice");
                closed = closed.or(call.map(|_| review));
            }
        }
        closed
    }

    fn read_stream(&mut self, who: usize) {
        while let Some((number, message)) =
            self.clients[who].stream.as_ref().and_then(next_numbered)
        {
            self.clients[who].last_event = Some(number);
            let message: Value = serde_json::from_str(&message).unwrap();
            assert_eq!(message["method"], "ide/diffAccepted");
            let path = message["params"]["filePath"].as_str().unwrap();
            let text = message["params"]["content"].as_str().unwrap();
            let review = ReviewId(text.parse().unwrap());
            assert_eq!(self.opened[&review].1, path, "the text of another file");
            self.receive_outcome(who, review, path);
        }
    }

    fn receive_outcome(&mut self, who: usize, review: ReviewId, path: &str) {
        if let Some(awaited) = self.clients[who].awaits.get(path) {
            assert_eq!(*awaited, review, "client {who} takes it for the outcome of {path}");
            self.clients[who].awaits.remove(path);
        }
        let proposer = self.opened[&review].0;
        assert!(proposer == who || self.share_a_process(), "client {who} did not propose it");
    }

    fn share_a_process(&self) -> bool {
        self.clients[0].process == self.clients[1].process
    }

    fn check(&self) {
        let ended = |review: &&ReviewId| !self.ended.contains(review);
        let open: Vec<_> = self.opened.keys().filter(ended).copied().collect();
        assert_eq!(self.open(), open);
        let mut whose = BTreeSet::new();
        for described in self.sessions.describe() {
            for review in described.reviews {
                let (_, path) = &self.opened[&review];
                assert!(whose.insert((described.key.clone(), path)), "two reviews of {path}");
            }
        }
    }

    /// All clients return and the user decides all reviews: then no client awaits anything.
    fn finish(&mut self) {
        for who in [0, 1] {
            self.clients[who].abandoned.clear();
            self.return_to_session(who);
        }
        self.advance(6000);
        self.drain();
        self.open().into_iter().for_each(|review| self.accept(review));
        for who in [0, 1] {
            self.return_to_session(who);
            assert_eq!(
                self.clients[who].awaits,
                BTreeMap::new(),
                "client {who} awaits something for ever"
            );
        }
        assert_eq!(self.ended.len(), self.opened.len());
    }
}

fn run(seed: u64, processes: [Process; 2], roots: [&'static str; 2]) {
    let clock = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _context = clock.enter();
    println!("seed {seed}"); // shown if this fails
    let mut simulation = Simulation::new(&clock, seed, processes, roots);
    (0..STEPS).for_each(|_| simulation.step());
    simulation.finish();
}

#[test]
fn each_of_two_clients_receives_the_outcome_of_its_last_proposal() {
    let processes = [(); 2].map(|()| Sleeper::named("sleep"));
    for seed in 0..RUNS {
        run(seed, processes.each_ref().map(Sleeper::process), ["/same", "/same"]);
    }
}

/// As behind a proxy, where each client returns to its own session.
#[test]
fn two_clients_in_one_process_receive_their_own_outcomes_on_return() {
    let process = Sleeper::named("sleep");
    for seed in 0..RUNS {
        run(seed, [process.process(), process.process()], ["/one", "/two"]);
    }
}
