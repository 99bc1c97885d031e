//! Logs the messages between clients and the server, if the user wants that.
//!
//! Only bodies are logged, for headers contain secrets. Long strings are shortened, since some are
//! whole files.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::http::request::Parts;

use super::headers::session_key;
use crate::agent::Roster;
use crate::bridge::{Bridge, Direction};

/// A string of more characters than `MAX_STRING` is shortened to `KEPT` of them.
const MAX_STRING: usize = 200;
const KEPT: usize = 100;
/// Characters of one message at most.
const MAX_MESSAGE: usize = 4000;

pub struct Tracer {
    bridge: Arc<Bridge>,
    /// The tokens of these agents are never logged.
    roster: Arc<Roster>,
}

impl Tracer {
    pub fn new(bridge: Arc<Bridge>, roster: Arc<Roster>) -> Tracer {
        Tracer { bridge, roster }
    }

    pub fn received(&self, head: &Parts, body: &[u8]) {
        self.log(Direction::FromClient, || {
            let path = Some(head.uri.path()).filter(|path| *path != "/mcp").unwrap_or_default();
            let session = session_key(&head.headers).unwrap_or_default();
            (session, format!("{} {path}", head.method), body)
        });
    }

    /// Logs a part of the body of an answer, as it is sent.
    pub fn sent(&self, session: &str, status: StatusCode, data: &[u8]) {
        if data.starts_with(b":") {
            return; // a comment that keeps a stream alive
        }
        self.log(Direction::ToClient, || {
            let mut lines = data.split(|byte| *byte == b'\n');
            match lines.find_map(|line| line.strip_prefix(b"data: ")) {
                Some(event) => (session.to_owned(), "event".to_owned(), event),
                None => (session.to_owned(), status.as_str().to_owned(), data),
            }
        });
    }

    /// Logs a message if the user wants that; `message`, which is called only then, returns the key of its
    /// session, what introduces it, and its text.
    fn log<'m>(&self, direction: Direction, message: impl FnOnce() -> (String, String, &'m [u8])) {
        self.bridge.trace(direction, || {
            let (session, introduction, body) = message();
            let text = format!("{} {}", introduction.trim_end(), self.shorten(body));
            (session, text.trim().to_owned())
        });
    }

    fn shorten(&self, body: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(body);
        for agent in &*self.roster.agents() {
            text = text.replace(agent.token.reveal(), "TOKEN").into();
        }
        shorten(&text)
    }
}

/// `json` with long strings shortened, and then as a whole. What stands between two quotes counts as a
/// string, so that invalid JSON can be logged, too.
fn shorten(json: &str) -> String {
    let mut is_escaped = false;
    let strings = json.split(|character| {
        let ends = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        ends
    });
    let mut short = String::new();
    for string in strings {
        let long = string.char_indices().nth(MAX_STRING).is_some();
        match string.char_indices().nth(KEPT) {
            Some((end, _)) if long => {
                short += &format!("{}... ({} bytes)", &string[..end], string.len());
            }
            _ => short += string,
        }
        short.push('"');
        if short.len() > 4 * MAX_MESSAGE {
            break;
        }
    }
    short.pop();
    match short.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}... ({} bytes in all)", &short[..end], json.len()),
        None => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_strings_are_cut_and_nothing_else_is() {
        let text = "ä\\\"".repeat(500);
        let short = shorten(&format!(r#"{{"a":"{text}","b":"c"}}"#));
        assert!(short.starts_with(r#"{"a":"ä\"ä\""#), "{short}");
        assert!(short.ends_with(r#"... (2000 bytes)","b":"c"}"#), "{short}");
        for json in [r#"{"unfinished": "#, &format!(r#"["{}"]"#, "𝕏".repeat(MAX_STRING))] {
            assert_eq!(shorten(json), json);
        }
    }

    #[test]
    fn a_message_of_many_strings_is_cut_as_a_whole() {
        let json = format!("[{}0]", r#""string","#.repeat(10_000));
        let short = shorten(&json);
        assert!(short.chars().count() < MAX_MESSAGE + 50);
        assert!(short.ends_with(&format!("... ({} bytes in all)", json.len())), "{short}");
        assert!(shorten(&"x".repeat(MAX_MESSAGE + 1)).ends_with("x... (4001 bytes)"));
    }
}
