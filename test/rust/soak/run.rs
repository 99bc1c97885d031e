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

use super::clients::{Clients, Method, Order, Report};
use super::emacs::Waiting;
use super::records::{Key, Records};
use super::statistics::{Pause, Statistics};
use super::usage::Memory;
use super::watchdog::Watchdog;
use crate::agents::gemini;
use crate::support::DEADLINE;

/// Clients that start at the same time.
const STARTED_AT_ONCE: usize = 20;

pub struct Run<'a> {
    pub companion: Companion,
    /// Wakes Emacs, as long as the companion runs.
    pub wakes: Option<PipeReader>,
    waker: Weak<WakeEmacs>,
    pub clients: Clients,
    pub records: Records,
    pub statistics: &'a mut Statistics,
    pub random: SmallRng,
    /// The reviews that Emacs shows.
    pub open: BTreeMap<ReviewId, Waiting>,
    /// Whether the user decides reviews.
    pub deciding: bool,
    /// When point will move next, and the line that it is on.
    pub next_move: Instant,
    pub line: i64,
    watchdog: Watchdog,
    listening: BTreeSet<usize>,
    /// The last order, and the clients that follow it.
    order: Order,
    following: BTreeSet<usize>,
    /// While Emacs is busy: events in the meantime, and the unanswered calls with the time of each.
    pause: Option<Pause>,
    unanswered: HashMap<usize, (Method, Instant)>,
    _directory: tempfile::TempDir,
}

/// Wakes Emacs by a byte on a pipe.
struct WakeEmacs {
    pipe: PipeWriter,
    /// Panics once, outside of tokio's tasks, where that ends the server's thread.
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

/// What is to happen until the clients rest again.
#[derive(Clone, Copy, Default)]
pub struct Phase {
    pub calls: usize,
    pub restarts: usize,
    /// How often the server's thread dies.
    pub deaths: usize,
    /// How often Emacs is busy for a short time.
    pub pauses: usize,
    /// How long it is busy one more time, if so.
    pub block: Option<Duration>,
}

#[derive(Clone, Copy)]
enum Action {
    Restart,
    Die,
    Block(Duration),
}

impl Run<'_> {
    /// Starts a companion and its clients.
    pub fn begin<'a>(
        clients: usize,
        seed: u64,
        watchdog: &Watchdog,
        statistics: &'a mut Statistics,
    ) -> Run<'a> {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("gemini/ide");
        let (wakes, wake) = std::io::pipe().unwrap();
        let waker = Arc::new(WakeEmacs { pipe: wake, is_faulty: AtomicBool::new(false) });
        let companion =
            Companion::start(vec![gemini(vec![directory.clone()])], 0, &[], limits(clients))
                .unwrap();
        companion.bridge().set_waker(Some(waker.clone().into()));
        let mut run = Run {
            companion,
            wakes: Some(wakes),
            waker: Arc::downgrade(&waker),
            clients: Clients::new(seed << 16, directory),
            records: Records::default(),
            statistics,
            random: SmallRng::seed_from_u64(seed),
            open: BTreeMap::new(),
            deciding: true,
            next_move: Instant::now(),
            line: 0,
            watchdog: watchdog.clone(),
            listening: BTreeSet::new(),
            order: Order::Rest,
            following: BTreeSet::new(),
            pause: None,
            unanswered: HashMap::new(),
            _directory: temporary,
        };
        run.start_clients(clients);
        run
    }

    /// Starts them in groups: finding the process of each takes longer the more there are.
    fn start_clients(&mut self, clients: usize) {
        while self.clients.len() < clients {
            self.clients.grow(STARTED_AT_ONCE.min(clients - self.clients.len()));
            self.wait_until("streams", |run| run.clients.len() - run.listening.len());
        }
        assert_eq!(self.companion.sessions().count(), clients);
    }

    /// Lets the clients work, while what `phase` says happens.
    pub fn work(&mut self, phase: Phase) {
        self.clients.order(Order::Work);
        let before = self.statistics.calls;
        for (calls, action) in self.plan(phase) {
            self.wait_until("calls", |run| (before + calls).saturating_sub(run.statistics.calls));
            match action {
                Action::Restart => self.restart(),
                Action::Die => self.die(),
                Action::Block(length) => self.block(length),
            }
        }
        self.wait_until("calls", |run| (before + phase.calls).saturating_sub(run.statistics.calls));
    }

    /// What is to happen, each with the number of calls that come before it.
    fn plan(&mut self, phase: Phase) -> Vec<(usize, Action)> {
        let mut actions = vec![Action::Restart; phase.restarts];
        actions.extend(vec![Action::Die; phase.deaths]);
        actions.extend(phase.block.map(Action::Block));
        for _ in 0..phase.pauses {
            let length = self.random.random_range(100..1500);
            actions.push(Action::Block(Duration::from_millis(length)));
        }
        let mut at = || self.random.random_range(0..phase.calls);
        let mut plan: Vec<_> = actions.into_iter().map(|action| (at(), action)).collect();
        plan.sort_by_key(|(calls, _)| *calls);
        plan
    }

    /// Lets all clients pause and receive what is queued; then measures the memory in use.
    pub fn rest(&mut self) {
        self.order_all(Order::Rest);
        self.wait_until("decisions", |run| run.open.len());
        self.wait_at_most("outcomes", |run| run.records.outstanding());
        self.statistics.memory.push(Memory::now());
    }

    /// Stops the companion while everything is open.
    pub fn stop(mut self) {
        self.deciding = false;
        self.order_all(Order::Stay);
        let enough = self.clients.len() / 4;
        self.wait_until("open reviews", |run| enough.saturating_sub(run.open.len()));
        self.companion.stop();
        self.statistics.stops += 1;
        self.take_events();
        for review in std::mem::take(&mut self.open).into_values() {
            self.records.of(review.key).decided = Some(false);
            self.statistics.stopped += 1;
        }
        self.wait_until("clients to end", |run| run.clients.running());
        self.record_results();
    }

    /// Kills the clients while they pause, and stops the companion when it has noticed.
    pub fn leave(mut self) {
        self.clients.kill();
        self.wait_until("clients to end", |run| run.clients.running());
        let sessions = |run: &mut Run| {
            let sessions = run.companion.sessions();
            let known = |session: &Description| session.process.is_some();
            sessions.describe().iter().filter(|session| known(session)).count() + sessions.count()
        };
        self.wait_at_most("sessions to end", sessions);
        self.statistics.left_over += sessions(&mut self);
        self.companion.stop();
        self.statistics.stops += 1;
        self.record_results();
    }

    fn record_results(mut self) {
        self.read_reports();
        self.statistics.add(&self.records.judge());
    }

    fn order_all(&mut self, order: Order) {
        self.order = order;
        self.following.clear();
        self.clients.order(order);
        self.wait_until("clients to follow", |run| run.clients.len() - run.following.len());
    }

    /// Acts as Emacs until nothing is missing.
    fn wait_until(&mut self, what: &str, missing: impl Fn(&mut Run) -> usize) {
        loop {
            let missing = missing(self);
            self.watchdog.waits_for(format!("{missing} {what}"));
            if missing == 0 {
                return;
            }
            self.step_emacs();
        }
    }

    /// The same, but gives up after `DEADLINE`: whether what is missing is an error is decided
    /// later.
    fn wait_at_most(&mut self, what: &str, missing: impl Fn(&mut Run) -> usize) {
        let end = Instant::now() + DEADLINE;
        self.wait_until(what, |run| if Instant::now() < end { missing(run) } else { 0 });
    }

    pub fn restart(&mut self) {
        self.watchdog.waits_for("a restart");
        let port = self.companion.port();
        self.companion.restart().unwrap();
        assert_eq!(self.companion.port(), port, "another port");
        self.statistics.restarts += 1;
        self.read_reports();
        // Before the clients have reconnected.
        self.decide_where(|_, random| random.random_bool(0.5));
    }

    fn die(&mut self) {
        let before = self.statistics.deaths;
        self.waker.upgrade().expect("a companion that runs").is_faulty.store(true, Relaxed);
        self.wait_until("death of the thread", |run| usize::from(run.statistics.deaths == before));
    }

    /// Emacs does nothing for `length`. The clients go on.
    fn block(&mut self, length: Duration) {
        self.watchdog.waits_for("the end of a pause");
        // All reports read after this were written after it.
        self.read_reports();
        self.unanswered.clear();
        self.pause = Some(Pause { length, ..Pause::default() });
        let end = Instant::now() + length;
        while let left @ 1.. = end.saturating_duration_since(Instant::now()).as_millis() {
            super::clients::wait([Some(self.clients.pipe())], Duration::from_millis(left as u64));
            self.read_reports();
        }
        let mut pause = self.pause.take().expect("a pause");
        pause.unanswered = self.unanswered.values().filter(|call| is_late(call)).count();
        self.statistics.pauses += 1;
        if pause.length > self.statistics.longest.length {
            self.statistics.longest = pause;
        }
    }

    pub fn read_reports(&mut self) {
        for (client, report) in self.clients.reports() {
            self.statistics.count(report);
            self.note(client, report);
        }
        self.statistics.most_streams = self.statistics.most_streams.max(self.listening.len());
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
            Report::Opened { review } => self.records.of(key(review)).answered = true,
            Report::Closing { review, silent } => {
                self.records.of(key(review)).silent = Some(silent)
            }
            Report::Received { review, accepted, .. } => {
                self.records.of(key(review)).received.push(accepted)
            }
            Report::ReceivedAgain { review, accepted } => {
                self.records.of(key(review)).repeated.push(accepted)
            }
            Report::Follows(order) if order == self.order => drop(self.following.insert(client)),
            _ => {}
        }
    }

    pub fn listens(&self, client: usize) -> bool {
        self.listening.contains(&client)
    }
}

/// Whether a call that does not depend on Emacs should have been answered by now.
fn is_late((method, since): &(Method, Instant)) -> bool {
    *method != Method::CloseDiff && since.elapsed() > Duration::from_secs(2)
}

/// The defaults, with room for this many clients, all of one agent. A client that returns with a new
/// session leaves one behind, which would otherwise be dropped to make room for another's.
fn limits(clients: usize) -> Limits {
    let (connections, sessions, reviews) = (4 * clients, 8 * clients, 4 * clients);
    Limits {
        connections,
        share_connections: connections,
        share_requests: connections,
        sessions,
        share_sessions: sessions,
        reviews,
        share_reviews: reviews,
        share_events: 16 * clients,
        ..Limits::default()
    }
}
