//! What happened, in numbers.

use std::time::Duration;

use super::clients::{Loss, Method, Report};
use super::records::Verdict;
use super::usage::{Memory, Usage};

#[derive(Default)]
pub struct Statistics {
    /// The most clients whose streams were open at the same time.
    pub most_streams: usize,
    pub sessions: usize,
    pub successors: usize,
    pub calls: usize,
    pub cut_calls: usize,
    pub refused_connections: usize,
    pub turned_away: usize,
    pub broken: usize,
    pub ended: usize,
    pub cut: usize,
    pub resumed: usize,
    pub restarts: usize,
    pub deaths: usize,
    pub stops: usize,
    pub pauses: usize,
    pub longest: Pause,
    pub opened: usize,
    pub refused: usize,
    pub closed: usize,
    pub decided: usize,
    /// Decided while their client had no stream, as far as it had reported.
    pub decided_without_stream: usize,
    pub stopped: usize,
    pub inherited: usize,
    pub repeated: usize,
    pub verdict: Verdict,
    pub warnings: usize,
    /// Reviews that the server closed although their client lived.
    pub abandoned: usize,
    /// Sessions that outlived their clients.
    pub left_over: usize,
    /// Memory after each phase.
    pub memory: Vec<Memory>,
}

/// A time in which Emacs was busy. Calls that do not depend on Emacs must be answered in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pause {
    pub length: Duration,
    pub calls: usize,
    pub pings: usize,
    pub lists: usize,
    pub diffs: usize,
    /// Calls that should have been answered, and were not.
    pub unanswered: usize,
}

impl Pause {
    pub fn count_answer(&mut self, method: Method) {
        match method {
            Method::Ping => self.pings += 1,
            Method::List => self.lists += 1,
            Method::OpenDiff => self.diffs += 1,
            Method::CloseDiff => {}
        }
    }
}

impl Statistics {
    pub fn count(&mut self, report: Report) {
        let counter = match report {
            Report::Session { successor } => {
                self.successors += usize::from(successor);
                &mut self.sessions
            }
            Report::Listens { again: true } => &mut self.resumed,
            Report::StreamLost(Loss::Broken) => &mut self.broken,
            Report::StreamLost(Loss::Ended) => &mut self.ended,
            Report::StreamLost(Loss::Cut) => &mut self.cut,
            Report::Called(_) => &mut self.calls,
            Report::CutOff(_) => &mut self.cut_calls,
            Report::NotListening => &mut self.refused_connections,
            Report::TurnedAway => &mut self.turned_away,
            Report::Opened { .. } => &mut self.opened,
            Report::Refused => &mut self.refused,
            Report::Received { inherited: true, .. } => &mut self.inherited,
            Report::ReceivedAgain { .. } => &mut self.repeated,
            _ => return,
        };
        *counter += 1;
    }

    pub fn add(&mut self, verdict: &Verdict) {
        self.verdict.due += verdict.due;
        self.verdict.received += verdict.received;
        self.verdict.lost += verdict.lost;
        self.verdict.doubled += verdict.doubled;
        self.verdict.silenced += verdict.silenced;
        self.verdict.wrong += verdict.wrong;
    }

    pub fn print(&self, before: &Usage, after: &Usage) {
        let phases: Vec<String> = self.memory.iter().map(Memory::to_string).collect();
        let Pause { length, calls, pings, lists, diffs, unanswered } = self.longest;
        let Verdict { due, received, lost, doubled, silenced, wrong } = &self.verdict;
        for (what, figures) in [
            ("sessions with a stream at once", self.most_streams.to_string()),
            (
                "sessions / successors among them",
                format!("{} / {}", self.sessions, self.successors),
            ),
            ("calls / cut off", format!("{} / {}", self.calls, self.cut_calls)),
            ("streams broken by clients", self.broken.to_string()),
            ("streams ended / cut by the server", format!("{} / {}", self.ended, self.cut)),
            ("streams resumed", self.resumed.to_string()),
            (
                "connections refused / turned away",
                format!("{} / {}", self.refused_connections, self.turned_away),
            ),
            ("restarts in place / after a death", format!("{} / {}", self.restarts, self.deaths)),
            ("stops", self.stops.to_string()),
            ("pauses of Emacs / the longest", format!("{} / {length:.1?}", self.pauses)),
            (
                "  calls made / unanswered in it",
                format!("{calls} / {unanswered} of those that need no Emacs"),
            ),
            ("  ping, tools/list, openDiff answered", format!("{pings}, {lists}, {diffs}")),
            ("reviews opened / refused", format!("{} / {}", self.opened, self.refused)),
            (
                "reviews decided / closed / by a stop",
                format!("{} / {} / {}", self.decided, self.closed, self.stopped),
            ),
            ("reviews closed in silence", silenced.to_string()),
            (
                "outcomes sent / without a stream",
                format!("{due} / {}", self.decided_without_stream),
            ),
            ("outcomes received / in a later session", format!("{received} / {}", self.inherited)),
            ("outcomes lost / doubled / wrong", format!("{lost} / {doubled} / {wrong}")),
            ("received again in a later session", self.repeated.to_string()),
            ("warnings", self.warnings.to_string()),
            ("threads before / after", format!("{} / {}", before.threads, after.threads)),
            (
                "descriptors before / after",
                format!("{} / {}", before.descriptors, after.descriptors),
            ),
            (
                "sessions left over / their reviews",
                format!("{} / {}", self.left_over, self.abandoned),
            ),
            (
                "MiB resident (in use) before / after",
                format!("{} / {}", before.memory, after.memory),
            ),
            ("MiB after each phase", phases.join(", ")),
        ] {
            println!("  {what:<40} {figures}");
        }
    }

    pub fn check(&self) {
        let Verdict { due, received, lost, doubled, wrong, .. } = self.verdict;
        assert_eq!((received, lost, doubled, wrong), (due, 0, 0, 0), "see above");
        assert_eq!((self.warnings, self.abandoned, self.left_over), (0, 0, 0));
        assert!(self.stopped > 0 && self.inherited > 0 && self.decided_without_stream > 0);
        let Pause { pings, lists, diffs, unanswered, .. } = self.longest;
        assert!(pings > 0 && lists > 0 && diffs > 0 && unanswered == 0, "{:?}", self.longest);
    }
}
