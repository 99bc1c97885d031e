//! The programs that we serve, forks of one another: how each finds us, and its token.
//!
//! Each has its own token, so that we can distinguish them, and none can impersonate another.

use std::path::PathBuf;

use crate::token::Token;

#[derive(Debug)]
pub struct Agent {
    /// Its name in Lisp: "gemini".
    pub name: String,
    /// For the user: "Gemini CLI".
    pub title: String,
    /// Where it searches for discovery files: terminals may have different temporary directories.
    pub directories: Vec<PathBuf>,
    /// The name of such a file, with PID for our process id and PORT for our port.
    pub file: String,
    /// Other processes that it may take for ours: each has a file with its id in the name.
    pub taken_for_ours: Vec<u32>,
    /// Whether its file has our process id in a member.
    pub tells_process: bool,
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
        for process in [&[std::process::id()], self.taken_for_ours.as_slice()].concat() {
            let name = self.file.replace("PID", &process.to_string());
            let name = name.replace("PORT", &port.to_string());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// None if `name` is not that of such a file, else the process id in it, if it has one.
    pub fn process_in_name(&self, name: &str) -> Option<Option<u32>> {
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
            taken_for_ours: Vec::new(),
            tells_process: false,
            token: Token::generate().unwrap(),
        }
    }
}
