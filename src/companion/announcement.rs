//! The discovery files of a companion, for all agents, kept intact.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::agent::Agent;
use crate::bridge::{Bridge, Event};
use crate::discovery::{DiscoveryFile, split_roots};
use crate::lock::lock;

/// The discovery files of a companion.
pub struct Announcement {
    bridge: Arc<Bridge>,
    port: u16,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    roots: Vec<String>,
    /// Empty before `begin` and after `end`.
    places: Vec<Place>,
}

/// The discovery file for one agent in one directory.
struct Place {
    agent: Arc<Agent>,
    directory: PathBuf,
    file: Option<DiscoveryFile>,
    /// Why it does not exist or is outdated.
    fault: Option<String>,
}

impl Announcement {
    pub(crate) fn new(bridge: Arc<Bridge>, port: u16) -> Announcement {
        Announcement { bridge, port, state: Mutex::default() }
    }

    /// Writes the files of all `agents`.
    pub(crate) fn begin(&self, agents: &[Arc<Agent>], roots: &[String]) {
        let place = |agent: &Arc<Agent>, directory: &PathBuf| Place {
            agent: agent.clone(),
            directory: directory.clone(),
            file: None,
            fault: None,
        };
        let of_agent = |agent| move |directory| place(agent, directory);
        let mut state = lock(&self.state);
        state.places =
            agents.iter().flat_map(|agent| agent.directories.iter().map(of_agent(agent))).collect();
        state.roots = self.usable(roots);
        state.write(self.port, |_| true); // the caller asks for the faults
    }

    /// Writes all files again with other workspace roots. Retries those that could not be written.
    pub fn set_roots(&self, roots: &[String]) {
        let mut state = lock(&self.state);
        state.roots = self.usable(roots);
        self.warn(state.write(self.port, |_| true));
    }

    /// Writes files again that are missing or were changed, or could not be written.
    pub fn repair(&self) {
        let mut state = lock(&self.state);
        self.warn(state.write(self.port, |place| !place.is_intact()));
    }

    /// Deletes the files.
    pub(crate) fn end(&self) {
        lock(&self.state).places.clear();
    }

    /// The names of the files.
    pub fn files(&self) -> Vec<String> {
        self.collect(|file| file.paths().iter().map(PathBuf::as_path).collect())
    }

    /// The names of the files that are missing or were changed.
    pub fn damaged_files(&self) -> Vec<String> {
        self.collect(|file| file.damaged().collect())
    }

    fn collect(&self, names: impl Fn(&DiscoveryFile) -> Vec<&Path>) -> Vec<String> {
        let state = lock(&self.state);
        let files = state.places.iter().filter_map(|place| place.file.as_ref());
        files.flat_map(names).map(|path| path.display().to_string()).collect()
    }

    /// Why clients cannot find some of the files, a line for each.
    pub fn fault(&self) -> Option<String> {
        let state = lock(&self.state);
        let faults: Vec<&str> =
            state.places.iter().filter_map(|place| place.fault.as_deref()).collect();
        (!faults.is_empty()).then(|| faults.join("\n"))
    }

    /// Those of `roots` that a discovery file can contain.
    fn usable(&self, roots: &[String]) -> Vec<String> {
        let (usable, unusable) = split_roots(roots);
        for root in unusable.iter().filter(|root| !root.is_empty()) {
            self.bridge.send(Event::Warning(format!(
                "the workspace root {root} cannot be announced to clients: its name holds the \
                 separator of roots"
            )));
        }
        usable
    }

    fn warn(&self, faults: Vec<String>) {
        for fault in faults {
            self.bridge.send(Event::Warning(fault));
        }
    }
}

impl State {
    /// Writes the files of the places that are `wanted`. Returns the faults that are new.
    fn write(&mut self, port: u16, wanted: impl Fn(&Place) -> bool) -> Vec<String> {
        let places = self.places.iter_mut().filter(|place| wanted(place));
        places.filter_map(|place| place.write(port, &self.roots)).collect()
    }
}

impl Place {
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
