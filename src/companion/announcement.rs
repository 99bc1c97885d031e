//! The discovery files of a companion, for all agents, kept intact.
//!
//! Their file system may hang, as one of a network does. So they are looked at and written on a thread
//! of their own, for which Emacs waits only briefly, and what Emacs asks is known without it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::bridge::{Bridge, Event};
use crate::discovery::{DiscoveryFile, split_roots};
use crate::lock::lock;
use crate::thread;

/// How long Emacs waits for the file system.
const PATIENCE: Duration = Duration::from_millis(400);

/// The discovery files of a companion.
pub struct Announcement {
    bridge: Arc<Bridge>,
    port: u16,
    known: Mutex<State>,
    /// Wakes those who wait for the thread.
    done: Condvar,
    /// Empty before `begin` and after `end`. Only the thread locks it, for as long as it takes.
    places: Mutex<Vec<Spot>>,
}

/// What is known without the file system. Nobody keeps the lock while asking that.
#[derive(Default)]
struct State {
    roots: Vec<String>,
    /// Those that a discovery file cannot contain.
    unusable: Vec<String>,
    /// The companion has stopped: the files are to be deleted.
    ended: bool,
    /// What the thread is to do next.
    wanted: Option<Task>,
    /// Since when there has been a thread.
    working: Option<Instant>,
    /// The names of the files that exist, and those that `Task::Look` found damaged.
    files: Vec<String>,
    damaged: Vec<String>,
    /// Why others do not exist or are outdated.
    faults: Vec<String>,
}

/// What the thread does: each includes those before. After `end`, it deletes the files instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// Find out which files are damaged.
    Look,
    /// Write files again that are missing or were changed, or could not be written.
    Repair,
    /// Write all files.
    Write,
    /// The same for the first time: the caller asks for the faults.
    Begin,
}

/// The discovery file for one agent in one directory.
struct Spot {
    agent: Arc<Agent>,
    directory: PathBuf,
    file: Option<DiscoveryFile>,
    /// Why it does not exist or is outdated.
    fault: Option<String>,
}

impl Announcement {
    pub(crate) fn new(bridge: Arc<Bridge>, port: u16) -> Announcement {
        Announcement {
            bridge,
            port,
            known: Mutex::default(),
            done: Condvar::new(),
            places: Mutex::default(),
        }
    }

    /// Writes the files of all `agents`.
    pub(crate) fn begin(self: &Arc<Self>, agents: &[Arc<Agent>], roots: &[String]) {
        let place = |agent: &Arc<Agent>, directory: &PathBuf| Spot {
            agent: agent.clone(),
            directory: directory.clone(),
            file: None,
            fault: None,
        };
        let of_agent = |agent| move |directory| place(agent, directory);
        *lock(&self.places) =
            agents.iter().flat_map(|agent| agent.directories.iter().map(of_agent(agent))).collect();
        self.announce(roots, Task::Begin);
    }

    /// Writes all files again with other workspace roots. Retries those that could not be written.
    pub fn set_roots(self: &Arc<Self>, roots: &[String]) {
        self.announce(roots, Task::Write);
    }

    fn announce(self: &Arc<Self>, roots: &[String], task: Task) {
        self.set_known_roots(roots);
        self.request(task);
        self.wait();
    }

    /// Writes files again that are missing or were changed, or could not be written.
    pub fn repair(self: &Arc<Self>) {
        self.request(Task::Repair);
        self.wait();
    }

    /// Begins to delete the files.
    pub(crate) fn end(self: &Arc<Self>) {
        lock(&self.known).ended = true;
        self.request(Task::Write);
    }

    /// The names of the files.
    pub fn files(&self) -> Vec<String> {
        lock(&self.known).files.clone()
    }

    /// The names of the files that are missing or were changed.
    pub fn damaged_files(self: &Arc<Self>) -> Vec<String> {
        self.request(Task::Look);
        self.wait();
        lock(&self.known).damaged.clone()
    }

    /// Why clients cannot find some of the files, a line for each.
    pub fn fault(&self) -> Option<String> {
        let known = lock(&self.known);
        let hangs = known.working.is_some_and(|since| since.elapsed() >= PATIENCE);
        let hangs = hangs.then_some("the file system of the discovery files does not answer");
        let faults: Vec<&str> =
            hangs.into_iter().chain(known.faults.iter().map(|it| &**it)).collect();
        (!faults.is_empty()).then(|| faults.join("\n"))
    }

    /// Warns of roots that a discovery file cannot contain, unless they have been among the last.
    fn set_known_roots(&self, roots: &[String]) {
        let (usable, unusable) = split_roots(roots);
        let mut known = lock(&self.known);
        for root in unusable.iter().filter(|root| !root.is_empty()) {
            if !known.unusable.contains(root) {
                self.bridge.send(Event::Warning(format!(
                    "the workspace root {root} cannot be announced to clients: its name holds the \
                     separator of roots"
                )));
            }
        }
        (known.roots, known.unusable) = (usable, unusable);
    }

    /// Has the thread do `task`.
    fn request(self: &Arc<Self>, task: Task) {
        let mut known = lock(&self.known);
        known.wanted = known.wanted.max(Some(task));
        if known.working.is_some() {
            return;
        }
        known.working = Some(Instant::now());
        drop(known);
        let this = self.clone();
        let work = move || {
            let worked = catch_unwind(AssertUnwindSafe(|| while this.work() {}));
            worked.unwrap_or_else(|_| this.fail("there is a fault in the companion"));
        };
        if let Err(error) = thread::start(work) {
            self.fail(&error.to_string());
        }
    }

    /// Waits until the thread has done all, unless it hangs.
    pub(crate) fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut known = lock(&self.known);
        while let Some(since) = known.working {
            let end = deadline.min(since + PATIENCE);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.done.wait_timeout(known, left);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Does what is wanted, on the thread. Returns false if that is nothing.
    fn work(&self) -> bool {
        let mut known = lock(&self.known);
        let Some(task) = known.wanted.take() else {
            self.finish(&mut known);
            return false;
        };
        known.working = Some(Instant::now());
        let roots = (!known.ended).then(|| known.roots.clone());
        drop(known);
        let mut places = lock(&self.places);
        match roots {
            None => places.clear(),
            Some(_) if task == Task::Look => self.look(&places),
            Some(roots) => self.write(&mut places, task, &roots),
        }
        self.note(&places);
        true
    }

    fn look(&self, places: &[Spot]) {
        let files = places.iter().filter_map(|place| place.file.as_ref());
        let damaged = files.flat_map(DiscoveryFile::damaged).map(|it| it.display().to_string());
        let damaged = damaged.collect();
        lock(&self.known).damaged = damaged;
    }

    fn write(&self, places: &mut [Spot], task: Task, roots: &[String]) {
        for index in 0..places.len() {
            let place = &mut places[index];
            if task == Task::Repair && place.is_intact() {
                continue;
            }
            if let Some(fault) = place.write(self.port, roots).filter(|_| task != Task::Begin) {
                self.bridge.send(Event::Warning(fault));
            }
            self.note(places); // the next one may hang
        }
    }

    fn note(&self, places: &[Spot]) {
        let files = places.iter().filter_map(|place| place.file.as_ref());
        let files = files.flat_map(DiscoveryFile::paths).map(|it| it.display().to_string());
        let faults = places.iter().filter_map(|place| place.fault.clone());
        let (files, faults) = (files.collect(), faults.collect());
        let mut known = lock(&self.known);
        (known.files, known.faults) = (files, faults);
    }

    fn finish(&self, known: &mut State) {
        known.working = None;
        self.done.notify_all();
    }

    /// Notes that there is no thread.
    fn fail(&self, reason: &str) {
        self.finish(&mut lock(&self.known));
        let fault = format!("the discovery files cannot be written: {reason}");
        self.bridge.send(Event::Warning(fault));
    }
}

impl Spot {
    fn is_intact(&self) -> bool {
        self.file.as_ref().is_some_and(DiscoveryFile::is_intact)
    }

    /// Returns the fault if it is new.
    fn write(&mut self, port: u16, roots: &[String]) -> Option<String> {
        let written = match &mut self.file {
            Some(file) => file.write(&self.agent, port, roots),
            none => DiscoveryFile::create(&self.agent, &self.directory, port, roots)
                .map(|file| *none = Some(file)),
        };
        let fault = written.err().map(|error| format!("{error:#}"));
        let before = std::mem::replace(&mut self.fault, fault);
        self.fault.clone().filter(|fault| before.as_ref() != Some(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::agent;
    use crate::limits::Limits;

    fn names(directory: &std::path::Path) -> usize {
        std::fs::read_dir(directory).map_or(0, Iterator::count)
    }

    #[test]
    fn emacs_does_not_wait_for_a_file_system_that_hangs() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("gemini/ide");
        let agent = Agent { directories: vec![directory.clone()], ..agent("gemini") };
        let bridge = Arc::new(Bridge::new(&Limits::default()));
        let announcement = Arc::new(Announcement::new(bridge, 1));
        announcement.begin(&[Arc::new(agent)], &[]);
        let hung = lock(&announcement.places); // as a thread that looks at a file keeps it
        announcement.set_roots(&["/a".to_owned()]);
        let start = Instant::now();
        assert_eq!(announcement.files().len(), 1);
        assert_eq!(announcement.damaged_files(), [""; 0]);
        assert!(announcement.fault().unwrap().contains("does not answer"));
        announcement.set_roots(&["/b".to_owned()]);
        announcement.repair();
        announcement.end();
        announcement.wait();
        assert!(start.elapsed() < 3 * PATIENCE, "{:?}", start.elapsed()); // it is known to hang
        assert_eq!(names(&directory), 1);
        drop(hung);
        let mut known = lock(&announcement.known);
        while known.working.is_some() {
            known = announcement.done.wait(known).unwrap();
        }
        assert_eq!(names(&directory), 0);
    }
}
