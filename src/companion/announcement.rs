//! The discovery files of a companion, for all agents, kept intact.
//!
//! Their file system may hang, as one of a network does. So they are looked at and written on a thread
//! of their own, for which Emacs waits only briefly, and what Emacs asks is known without it.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
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
    known: Arc<Mutex<Known>>,
    tasks: Sender<Task>,
}

type Task = Box<dyn FnOnce(&mut Files) + Send>;

/// What is known without the file system. Nobody holds the lock while asking the file system.
#[derive(Default)]
struct Known {
    roots: Vec<String>,
    /// Those that a discovery file cannot contain.
    unusable: Vec<String>,
    /// Since when the thread has been working on a task, if it is.
    working: Option<Instant>,
    /// The names of the files that exist.
    files: Vec<String>,
    /// Why others do not exist or are outdated.
    faults: Vec<String>,
}

/// The files, which only the thread touches. Dropping this deletes them.
struct Files {
    bridge: Arc<Bridge>,
    port: u16,
    known: Arc<Mutex<Known>>,
    spots: Vec<Spot>,
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
    /// Writes the files of all `agents`, and again those that are damaged when `repair_interval` has
    /// passed: programs that clean up temporary directories delete them, and then no client finds us.
    /// The caller asks for the faults.
    pub(crate) fn begin(
        bridge: Arc<Bridge>,
        port: u16,
        agents: &[Arc<Agent>],
        roots: &[String],
        repair_interval: Duration,
    ) -> io::Result<Announcement> {
        let (tasks, ordered) = mpsc::channel();
        let known = Arc::<Mutex<Known>>::default();
        let spots = agents.iter().flat_map(Spot::all_of).collect();
        let files = Files { bridge: bridge.clone(), port, known: known.clone(), spots };
        thread::start(move || files.serve(&ordered, repair_interval))?;
        let announcement = Announcement { bridge, known, tasks };
        announcement.set_known_roots(roots);
        announcement.wait(announcement.order(|files| files.write(|_| true)));
        Ok(announcement)
    }

    /// Writes all files again with other workspace roots. Retries those that could not be written.
    pub fn set_roots(&self, roots: &[String]) {
        self.set_known_roots(roots);
        self.wait(self.order(|files| files.write_and_warn(|_| true)));
    }

    /// Writes files again that are missing or were changed, or could not be written.
    pub fn repair(&self) {
        self.wait(self.order(Files::repair));
    }

    /// Begins to delete the files; the value comes when that is done.
    pub(crate) fn end(&self) -> Receiver<()> {
        self.order(|files| files.spots.clear())
    }

    /// The names of the files.
    pub fn files(&self) -> Vec<String> {
        lock(&self.known).files.clone()
    }

    /// The names of the files that are missing or were changed.
    pub fn damaged_files(&self) -> Vec<String> {
        self.wait(self.order(|files| files.damaged())).unwrap_or_default()
    }

    /// Why clients cannot find some of the files, a line for each.
    pub fn fault(&self) -> Option<String> {
        let mut faults = lock(&self.known).faults.clone();
        if self.hangs() {
            faults.insert(0, "the file system of the discovery files does not answer".to_owned());
        }
        (!faults.is_empty()).then(|| faults.join("\n"))
    }

    fn hangs(&self) -> bool {
        lock(&self.known).working.is_some_and(|since| since.elapsed() >= PATIENCE)
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

    /// Has the thread do `task`, and returns the channel by which the value comes.
    fn order<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Files) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (sender, value) = mpsc::channel();
        let task = move |files: &mut Files| drop(sender.send(task(files)));
        let _ = self.tasks.send(Box::new(task)); // after a panic of the thread there is no value
        value
    }

    /// Waits for the value of a task, unless the file system hangs.
    pub(crate) fn wait<T>(&self, value: Receiver<T>) -> Option<T> {
        if self.hangs() { None } else { value.recv_timeout(PATIENCE).ok() }
    }
}

impl Files {
    /// Does the tasks that are `ordered`, until nobody can order any more.
    fn serve(mut self, ordered: &Receiver<Task>, repair_interval: Duration) {
        loop {
            let task = match ordered.recv_timeout(repair_interval) {
                Ok(task) => task,
                Err(RecvTimeoutError::Timeout) => Box::new(Files::repair),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            lock(&self.known).working = Some(Instant::now());
            task(&mut self);
            lock(&self.known).working = None;
        }
    }

    fn repair(&mut self) {
        self.write_and_warn(|spot| !spot.file.as_ref().is_some_and(DiscoveryFile::is_intact));
    }

    fn write_and_warn(&mut self, is_wanted: impl Fn(&Spot) -> bool) {
        for fault in self.write(is_wanted) {
            self.bridge.send(Event::Warning(fault));
        }
    }

    /// Writes the files that are wanted. Returns the new faults.
    fn write(&mut self, is_wanted: impl Fn(&Spot) -> bool) -> Vec<String> {
        let roots = lock(&self.known).roots.clone();
        let mut faults = Vec::new();
        for index in 0..self.spots.len() {
            let spot = &mut self.spots[index];
            if is_wanted(spot) {
                faults.extend(spot.write(self.port, &roots));
                self.note(); // the next one may hang
            }
        }
        faults
    }

    fn note(&self) {
        let names = self.files().flat_map(DiscoveryFile::paths).map(|it| it.display().to_string());
        let faults = self.spots.iter().filter_map(|spot| spot.fault.clone());
        let (files, faults) = (names.collect(), faults.collect());
        let mut known = lock(&self.known);
        (known.files, known.faults) = (files, faults);
    }

    fn damaged(&self) -> Vec<String> {
        self.files().flat_map(DiscoveryFile::damaged).map(|it| it.display().to_string()).collect()
    }

    fn files(&self) -> impl Iterator<Item = &DiscoveryFile> {
        self.spots.iter().filter_map(|spot| spot.file.as_ref())
    }
}

impl Spot {
    /// Those of an agent.
    fn all_of(agent: &Arc<Agent>) -> impl Iterator<Item = Spot> {
        let directories = agent.directories.iter().cloned();
        directories.map(|directory| Spot {
            agent: agent.clone(),
            directory,
            file: None,
            fault: None,
        })
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

    #[test]
    fn emacs_does_not_wait_for_a_file_system_that_hangs() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("gemini/ide");
        let agent = Agent { directories: vec![directory.clone()], ..agent("gemini") };
        let bridge = Arc::new(Bridge::new(&Limits::default()));
        let (agents, often) = ([Arc::new(agent)], Duration::from_secs(60));
        let announcement = Announcement::begin(bridge, 1, &agents, &[], often).unwrap();
        let names = || std::fs::read_dir(&directory).map_or(0, Iterator::count);
        let (file_system, answer) = mpsc::channel::<()>();
        let hung = announcement.order(move |_| answer.recv().is_ok());
        // The thread may begin with that a moment later.
        while !announcement.hangs() {
            announcement.set_roots(&["/a".to_owned()]);
        }
        let start = Instant::now();
        assert_eq!(announcement.files().len(), 1);
        assert_eq!(announcement.damaged_files(), [""; 0]);
        assert!(announcement.fault().unwrap().contains("does not answer"));
        announcement.set_roots(&["/b".to_owned()]);
        announcement.repair();
        let ended = announcement.end();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed()); // it is known to hang
        assert_eq!(names(), 1);
        drop(file_system);
        assert_eq!((hung.recv(), ended.recv()), (Ok(false), Ok(())));
        assert_eq!(names(), 0);
    }
}
