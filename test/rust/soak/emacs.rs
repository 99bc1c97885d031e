//! The stand-in for Emacs's main thread, and for its user.

use std::io::Read;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use gemini_companion::ide::{Cursor, File, IdeContext, Outcome, ReviewId};
use gemini_companion::{CallId, Event};
use rand::RngExt;
use rand::rngs::SmallRng;

use super::clients::wait;
use super::records::Key;
use super::run::Run;

/// The longest time between two checks for what is due.
const TICK: Duration = Duration::from_millis(50);

/// A review that awaits the user.
pub struct Waiting {
    pub key: Key,
    /// When the user will have read it.
    pub read: Instant,
}

impl Run<'_> {
    /// Waits to be woken, for a report, or for a tick; then does what is due.
    pub fn step_emacs(&mut self) {
        wait([self.wakes.as_ref().map(AsFd::as_fd), Some(self.clients.pipe())], TICK);
        self.drain_wakes();
        self.read_reports();
        self.take_events();
        let now = Instant::now();
        self.decide_where(|review, _| review.read <= now);
        self.move_point(now);
    }

    fn drain_wakes(&mut self) {
        let Some(wakes) = &mut self.wakes else { return };
        if wait([Some(wakes.as_fd())], Duration::ZERO) && wakes.read(&mut [0; 64]).unwrap() == 0 {
            self.wakes = None; // the companion has stopped
        }
    }

    pub fn take_events(&mut self) {
        while let Some(event) = self.companion.bridge().next_event() {
            match event {
                Event::OpenReview { review, path, content, .. } => {
                    self.open_review(review, &path, &content);
                }
                Event::CloseReview { review, call } => self.close_review(review, call),
                Event::ClientsChanged => {}
                Event::ServerDied => {
                    self.statistics.deaths += 1;
                    self.restart();
                }
                Event::Warning(text) => {
                    println!("warning: {text}");
                    self.statistics.warnings += 1;
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    fn open_review(&mut self, review: ReviewId, path: &str, content: &str) {
        let key = Key::of_path(path);
        assert!(key.is_text_of(content), "the proposal of {key:?} is not its own");
        self.records.of(key).opened = true;
        let reading = Duration::from_millis(self.random.random_range(0..3000));
        self.open.insert(review, Waiting { key, read: Instant::now() + reading });
    }

    fn close_review(&mut self, review: ReviewId, call: Option<CallId>) {
        let Waiting { key, .. } = self.open.remove(&review).expect("a review that is open");
        let Some(call) = call else {
            println!("closed without its client: {key:?}");
            self.statistics.abandoned += 1;
            return;
        };
        self.companion.bridge().answer(call, Ok(key.text_of_closed()));
        self.records.of(key).closed = true;
        self.statistics.closed += 1;
    }

    /// Decides those reviews for which `chosen` is true.
    pub fn decide_where(&mut self, mut chosen: impl FnMut(&Waiting, &mut SmallRng) -> bool) {
        if !self.deciding {
            return;
        }
        let random = &mut self.random;
        let chosen = self.open.iter().filter(|(_, waiting)| chosen(waiting, random));
        for (review, key) in chosen.map(|(id, waiting)| (*id, waiting.key)).collect::<Vec<_>>() {
            self.decide(review, key);
        }
    }

    fn decide(&mut self, review: ReviewId, key: Key) {
        let accepted = self.random.random_bool(0.5);
        let outcome = match accepted {
            true => Outcome::accepted(key.text(self.random.random_range(0..4000))),
            false => Outcome::Rejected,
        };
        // If not, its client has closed it, and the event follows.
        if self.companion.sessions().decide(review, outcome) {
            self.open.remove(&review);
            self.records.of(key).decided = Some(accepted);
            self.statistics.decided += 1;
            self.statistics.decided_without_stream += usize::from(!self.listens(key.client));
        }
    }

    fn move_point(&mut self, now: Instant) {
        if now < self.next_move {
            return;
        }
        self.next_move = now + Duration::from_millis(self.random.random_range(50..2000));
        self.line += 1;
        let cursor = Cursor { line: self.line, character: 1 };
        let file = File { path: "/a".to_owned(), cursor: Some(cursor), ..File::default() };
        let (sessions, context) = (self.companion.sessions(), IdeContext::new(vec![file]));
        let places = sessions.places().into_iter();
        sessions.publish_contexts(places.map(|place| (place, context.clone())).collect());
    }
}
