//! The agents, programs that are forks of one another: how each finds the companion, and its token.
//!
//! Each has its own token, so that the companion can distinguish them, and none can impersonate another.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::Result;

use crate::allowance::Allowance;
use crate::host::Host;
use crate::limits::Limits;
use crate::lock::lock;
use crate::token::Token;

/// A program whose instances are clients.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name in Lisp: "gemini".
    pub name: String,
    /// For the user: "Gemini CLI".
    pub title: String,
    /// The directories in which it searches for discovery files: the temporary directory may differ
    /// between terminals.
    pub directories: Vec<PathBuf>,
    /// The name of such a file, with PID for the process id of Emacs and PORT for the port.
    pub file: String,
    /// Ids of other processes that it may take for Emacs: each has a file with its id in the name.
    pub alias_pids: Vec<u32>,
    /// Whether its file has a member with the process id of Emacs.
    pub file_has_pid: bool,
    /// What its clients on this machine authenticate with.
    pub token: Token,
    /// Where these are, unless they are on this machine.
    pub host: Option<Arc<Host>>,
    /// What these may use. Set when the agent is served.
    pub allowance: Arc<Allowance>,
}

/// The agents that are served, on this machine and on hosts.
pub struct Roster {
    agents: Mutex<Arc<[Arc<Agent>]>>,
}

/// Names are unique on each host.
impl PartialEq for Agent {
    fn eq(&self, other: &Agent) -> bool {
        self.name == other.name && self.host == other.host
    }
}

impl Roster {
    /// Serves `agents` on this machine.
    pub fn new(agents: Vec<Agent>, limits: &Limits) -> Roster {
        let served = |agent| Agent { allowance: Arc::new(Allowance::new(limits)), ..agent };
        Roster { agents: Mutex::new(agents.into_iter().map(served).map(Arc::new).collect()) }
    }

    pub fn agents(&self) -> Arc<[Arc<Agent>]> {
        lock(&self.agents).clone()
    }

    /// The agents on this machine.
    pub fn local(&self) -> Vec<Arc<Agent>> {
        self.agents_where(|agent| agent.host.is_none())
    }

    /// The host with `prefix`, if it is served.
    pub fn host(&self, prefix: &str) -> Option<Arc<Host>> {
        self.agents().iter().find(|agent| agent.is_on(prefix))?.host.clone()
    }

    /// The agent with this name on the host with `prefix`, if it is served.
    pub fn agent_on(&self, prefix: &str, name: &str) -> Option<Arc<Agent>> {
        self.agents().iter().find(|agent| agent.name == name && agent.is_on(prefix)).cloned()
    }

    /// Serves all agents on the host with `prefix`, too. Returns those there.
    pub fn open_host(&self, prefix: &str, limits: &Limits) -> Result<Vec<Arc<Agent>>> {
        if self.host(prefix).is_none() {
            let host = Arc::new(Host::new(prefix, limits));
            let there = self.local().into_iter().map(|agent| agent.on(&host).map(Arc::new));
            let there = there.collect::<Result<Vec<_>>>()?;
            let mut agents = lock(&self.agents);
            *agents = agents.iter().cloned().chain(there).collect();
        }
        Ok(self.agents_where(|agent| agent.is_on(prefix)))
    }

    /// Stops serving the host with `prefix`: its tokens become invalid. Returns the host.
    pub fn close_host(&self, prefix: &str) -> Option<Arc<Host>> {
        let host = self.host(prefix)?;
        let others = self.agents_where(|agent| !agent.is_on(prefix));
        *lock(&self.agents) = others.into();
        Some(host)
    }

    fn agents_where(&self, matches: impl Fn(&Agent) -> bool) -> Vec<Arc<Agent>> {
        self.agents().iter().filter(|agent| matches(agent)).cloned().collect()
    }
}

impl Agent {
    fn is_on(&self, prefix: &str) -> bool {
        self.host.as_ref().is_some_and(|host| host.prefix() == prefix)
    }

    /// The same program on `host`. Nobody there is told its token, since clients come by a wire; tests
    /// have none, and show it instead.
    fn on(&self, host: &Arc<Host>) -> Result<Agent> {
        Ok(Agent {
            directories: Vec::new(),
            alias_pids: Vec::new(),
            token: Token::generate()?,
            host: Some(host.clone()),
            allowance: host.allowance().clone(),
            ..self.clone()
        })
    }

    /// The names of its discovery file for this process and `port`, without duplicates.
    pub fn file_names(&self, port: u16) -> Vec<String> {
        let mut names = Vec::new();
        for process in [&[std::process::id()], self.alias_pids.as_slice()].concat() {
            let name = self.file.replace("PID", &process.to_string());
            let name = name.replace("PORT", &port.to_string());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// `None` if `name` is not that of such a file, else the process id in it, if it has one.
    pub fn pid_in_name(&self, name: &str) -> Option<Option<u32>> {
        let (mut pattern, mut rest) = (self.file.as_str(), name);
        let mut process = None;
        while let Some(literal) = pattern.chars().next() {
            if let Some(pattern_rest) = pattern.strip_prefix("PID") {
                let (digits, tail) = split_digits(rest);
                process = Some(digits.parse().ok()?);
                (pattern, rest) = (pattern_rest, tail);
            } else if let Some(pattern_rest) = pattern.strip_prefix("PORT") {
                let (digits, tail) = split_digits(rest);
                digits.parse::<u16>().ok()?;
                (pattern, rest) = (pattern_rest, tail);
            } else {
                rest = rest.strip_prefix(literal)?;
                pattern = &pattern[literal.len_utf8()..];
            }
        }
        rest.is_empty().then_some(process)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An agent that is announced nowhere.
    pub fn agent(name: &str) -> Agent {
        Agent {
            name: name.to_owned(),
            title: name.to_owned(),
            directories: Vec::new(),
            file: "PORT.json".to_owned(),
            alias_pids: Vec::new(),
            file_has_pid: false,
            token: Token::generate().unwrap(),
            host: None,
            allowance: Arc::default(),
        }
    }
}
