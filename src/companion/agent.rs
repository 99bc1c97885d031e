//! The agents, programs that are forks of one another: how each finds the companion, and its token.
//!
//! Each has its own token, so that the companion can distinguish them, and none can impersonate
//! another.

use std::path::PathBuf;

use crate::token::Token;

/// A program whose instances are clients.
#[derive(Debug)]
pub struct Agent {
    /// Its name in Lisp: "gemini".
    pub name: String,
    /// For the user: "Gemini CLI".
    pub title: String,
    /// The directories in which it searches for discovery files: the temporary directory may differ
    /// between terminals.
    pub directories: Vec<PathBuf>,
    /// The name of such a file, with PID for the process id of Emacs and PORT for
    /// the port.
    pub file: String,
    /// Ids of other processes that it may take for Emacs: each has a file with its id in the name.
    pub alias_pids: Vec<u32>,
    /// Whether its file has a member with the process id of Emacs.
    pub file_has_pid: bool,
    /// What its clients authenticate with.
    pub token: Token,
}

/// Names are unique.
impl PartialEq for Agent {
    fn eq(&self, other: &Agent) -> bool {
        self.name == other.name
    }
}

impl Agent {
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
        }
    }
}
