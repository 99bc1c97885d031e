//! One companion from its start to its stop, and its clients.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{PipeReader, PipeWriter, Write};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::task::Wake;
use std::time::{Duration, Instant};

use gemini_companion::ide::ReviewId;
use gemini_companion::{Companion, Description, Limits};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::crowd::{Crowd, Method, Order, Report};
use super::emacs::Waiting;
use super::ledger::{Key, Ledger};
use super::tally::{Pause, Tally};
use super::usage::Memory;
use super::watch::Watch;
use crate::agents::gemini;
use crate::support::DEADLINE;

/// Clients that start at the same time.
const STARTED_AT_ONCE: usize = 20;

pub struct Life<'a> {
    pub companion: Companion,
    /// By which Emacs is woken, as long as the companion runs.
    pub wakes: Option<PipeReader>,
    waker: Weak<WakeEmacs>,
    pub crowd: Crowd,
    pub ledger: Ledger,
    pub tally: &'a mut Tally,
    pub random: SmallRng,
    /// The reviews that Emacs shows.
    pub open: BTreeMap<ReviewId, Waiting>,
    /// The user decides reviews.
    pub deciding: bool,
    /// When point will move, and the line where it is.
    pub next_move: Instant,
    pub line: i64,
    watch: Watch,
    listening: BTreeSet<usize>,
    /// The last order, and who obeys it.
    order: Order,
    obeying: BTreeSet<usize>,
    /// While Emacs is busy: what happens then, and the calls that were not answered, with when
    /// they were made.
    pause: Option<Pause>,
    unanswered: HashMap<usize, (Method, Instant)>,
    _directory: tempfile::TempDir,
}

/// Wakes Emacs by a byte on a pipe.
struct WakeEmacs {
    pipe: PipeWriter,
    /// Panics once, where that ends the server's thread. A panic in a task of tokio does not.
    is_faulty: AtomicBool,
}

impl Wake for WakeEmacs {
    fn wake(self: Arc<Self>) {
        let is_in_task = tokio::task::try_id().is_some();
        if !is_in_task && self.is_faulty.swap(false, Relaxed) {
            panic!("on purpose");
        }
        (&self.pipe).write_all(b"!").expect("Emacs reads the pipe");
    }
}

/// What is to happen between two rests.
#[derive(Clone, Copy, Default)]
pub struct Quarter {
    pub calls: usize,
    pub restarts: usize,
    /// How often the server's thread ends by itself.
    pub deaths: usize,
    /// How often Emacs is busy, for a moment.
    pub pauses: usize,
    /// How long it is busy once.
    pub block: Option<Duration>,
}

#[derive(Clone, Copy)]
enum Action {
    Restart,
    Die,
    Block(Duration),
}

impl Life<'_> {
    /// Starts a companion and its clients.
    pub fn begin<'a>(clients: usize, seed: u64, watch: &Watch, tally: &'a mut Tally) -> Life<'a> {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("gemini/ide");
        let (wakes, wake) = std::io::pipe().unwrap();
        let waker = Arc::new(WakeEmacs { pipe: wake, is_faulty: AtomicBool::new(false) });
        let companion =
            Companion::start(vec![gemini(vec![directory.clone()])], 0, &[], limits(clients))
                .unwrap();
        companion.bridge().set_waker(Some(waker.clone().into()));
        let mut life = Life {
            companion,
            wakes: Some(wakes),
            waker: Arc::downgrade(&waker),
            crowd: Crowd::new(seed << 16, directory),
            ledger: Ledger::default(),
            tally,
            random: SmallRng::seed_from_u64(seed),
            open: BTreeMap::new(),
            deciding: true,
            next_move: Instant::now(),
            line: 0,
            watch: watch.clone(),
            listening: BTreeSet::new(),
            order: Order::Rest,
            obeying: BTreeSet::new(),
            pause: None,
            unanswered: HashMap::new(),
            _directory: temporary,
        };
        life.start_clients(clients);
        life
    }

    /// Not all at once: to find out which process each is takes longer the more there are.
    fn start_clients(&mut self, clients: usize) {
        while self.crowd.len() < clients {
            self.crowd.grow(STARTED_AT_ONCE.min(clients - self.crowd.len()));
            self.until("streams", |life| life.crowd.len() - life.listening.len());
        }
        assert_eq!(self.companion.sessions().count(), clients);
    }

    /// Lets the clients work, and happen what is to happen meanwhile.
    pub fn work(&mut self, quarter: Quarter) {
        self.crowd.order(Order::Work);
        let before = self.tally.calls;
        for (calls, action) in self.plan(quarter) {
            self.until("calls", |life| (before + calls).saturating_sub(life.tally.calls));
            match action {
                Action::Restart => self.restart(),
                Action::Die => self.die(),
                Action::Block(length) => self.block(length),
            }
        }
        self.until("calls", |life| (before + quarter.calls).saturating_sub(life.tally.calls));
    }

    /// What is to happen, by the number of calls before it.
    fn plan(&mut self, quarter: Quarter) -> Vec<(usize, Action)> {
        let mut actions = vec![Action::Restart; quarter.restarts];
        actions.extend(vec![Action::Die; quarter.deaths]);
        actions.extend(quarter.block.map(Action::Block));
        for _ in 0..quarter.pauses {
            let length = self.random.random_range(100..1500);
            actions.push(Action::Block(Duration::from_millis(length)));
        }
        let mut at = || self.random.random_range(0..quarter.calls);
        let mut plan: Vec<_> = actions.into_iter().map(|action| (at(), action)).collect();
        plan.sort_by_key(|(calls, _)| *calls);
        plan
    }

    /// Lets all clients pause and receive what is queued; then measures the memory in use.
    pub fn rest(&mut self) {
        self.everyone(Order::Rest);
        self.until("decisions", |life| life.open.len());
        self.until_late("outcomes", |life| life.ledger.outstanding());
        self.tally.memory.push(Memory::now());
    }

    /// Stops the companion while everything is open.
    pub fn stop(mut self) {
        self.deciding = false;
        self.everyone(Order::Stay);
        let enough = self.crowd.len() / 4;
        self.until("open reviews", |life| enough.saturating_sub(life.open.len()));
        self.companion.stop();
        self.tally.stops += 1;
        self.take_events();
        for review in std::mem::take(&mut self.open).into_values() {
            self.ledger.of(review.key).decided = Some(false);
            self.tally.stopped += 1;
        }
        self.until("clients to end", |life| life.crowd.running());
        self.close_the_books();
    }

    /// Kills the clients while they pause, and stops the companion when it has noticed.
    pub fn leave(mut self) {
        self.crowd.kill();
        self.until("clients to end", |life| life.crowd.running());
        let sessions = |life: &mut Life| {
            let sessions = life.companion.sessions();
            let known = |session: &Description| session.process.is_some();
            sessions.describe().iter().filter(|session| known(session)).count() + sessions.count()
        };
        self.until_late("sessions to end", sessions);
        self.tally.left_over += sessions(&mut self);
        self.companion.stop();
        self.tally.stops += 1;
        self.close_the_books();
    }

    fn close_the_books(mut self) {
        self.read_reports();
        self.tally.add(&self.ledger.judge());
    }

    fn everyone(&mut self, order: Order) {
        self.order = order;
        self.obeying.clear();
        self.crowd.order(order);
        self.until("clients to obey", |life| life.crowd.len() - life.obeying.len());
    }

    /// Lets things happen until nothing is missing.
    fn until(&mut self, what: &str, missing: impl Fn(&mut Life) -> usize) {
        loop {
            let missing = missing(self);
            self.watch.waits_for(format!("{missing} {what}"));
            if missing == 0 {
                return;
            }
            self.be_emacs();
        }
    }

    /// The same, but what is missing for too long is missing for ever, which is for others to judge.
    fn until_late(&mut self, what: &str, missing: impl Fn(&mut Life) -> usize) {
        let end = Instant::now() + DEADLINE;
        self.until(what, |life| if Instant::now() < end { missing(life) } else { 0 });
    }

    pub fn restart(&mut self) {
        self.watch.waits_for("a restart");
        let port = self.companion.port();
        self.companion.restart().unwrap();
        assert_eq!(self.companion.port(), port, "another port");
        self.tally.restarts += 1;
        self.read_reports();
        // Before the clients are back.
        self.decide_those(|_, random| random.random_bool(0.5));
    }

    fn die(&mut self) {
        let before = self.tally.deaths;
        self.waker.upgrade().expect("a companion that runs").is_faulty.store(true, Relaxed);
        self.until("death of the thread", |life| usize::from(life.tally.deaths == before));
    }

    /// Emacs does nothing for a while. The clients go on.
    fn block(&mut self, length: Duration) {
        self.watch.waits_for("the end of a pause");
        // What is read later was written later.
        self.read_reports();
        self.unanswered.clear();
        self.pause = Some(Pause { length, ..Pause::default() });
        let end = Instant::now() + length;
        while let left @ 1.. = end.saturating_duration_since(Instant::now()).as_millis() {
            super::crowd::wait([Some(self.crowd.pipe())], Duration::from_millis(left as u64));
            self.read_reports();
        }
        let mut pause = self.pause.take().expect("a pause");
        pause.unanswered = self.unanswered.values().filter(|call| is_late(call)).count();
        self.tally.pauses += 1;
        if pause.length > self.tally.longest.length {
            self.tally.longest = pause;
        }
    }

    pub fn read_reports(&mut self) {
        for (client, report) in self.crowd.reports() {
            self.tally.count(report);
            self.note(client, report);
        }
        self.tally.most_streams = self.tally.most_streams.max(self.listening.len());
    }

    fn note(&mut self, client: usize, report: Report) {
        let key = |review| Key { client, review };
        match report {
            Report::Listens { .. } => drop(self.listening.insert(client)),
            Report::StreamLost(_) => drop(self.listening.remove(&client)),
            Report::Called(method) => {
                if let Some(pause) = &mut self.pause {
                    pause.calls += 1;
                    self.unanswered.insert(client, (method, Instant::now()));
                }
            }
            Report::Answer(method) => {
                let is_new = self.unanswered.remove(&client).is_some();
                if let Some(pause) = self.pause.as_mut().filter(|_| is_new) {
                    pause.count_answer(method);
                }
            }
            Report::CutOff(_) => drop(self.unanswered.remove(&client)),
            Report::Opened { review } => self.ledger.of(key(review)).answered = true,
            Report::Closing { review, silent } => self.ledger.of(key(review)).silent = Some(silent),
            Report::Received { review, accepted, .. } => {
                self.ledger.of(key(review)).received.push(accepted)
            }
            Report::ReceivedAgain { review, accepted } => {
                self.ledger.of(key(review)).repeated.push(accepted)
            }
            Report::Obeys(order) if order == self.order => drop(self.obeying.insert(client)),
            _ => {}
        }
    }

    pub fn listens(&self, client: usize) -> bool {
        self.listening.contains(&client)
    }
}

/// Whether a call that does not depend on Emacs has waited long.
fn is_late((method, since): &(Method, Instant)) -> bool {
    *method != Method::CloseDiff && since.elapsed() > Duration::from_secs(2)
}

/// As usual, but for the number of clients. Those that come back with a new session leave one
/// behind, which would else have to make room for another one's.
fn limits(clients: usize) -> Limits {
    Limits { connections: 3 * clients, sessions: 8 * clients, ..Limits::default() }
}
