//! Logs the messages between clients and the server, if the user wants that.
//!
//! Only bodies are logged, for headers contain secrets. Long strings are shortened, since some are
//! whole files.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::agent::Agent;
use crate::bridge::{Bridge, Direction};

/// A string of more characters than `MAX_STRING` is shortened to `KEPT` of them.
const MAX_STRING: usize = 200;
const KEPT: usize = 100;
/// Characters of one message at most.
const MAX_MESSAGE: usize = 4000;

/// Logs the messages of one HTTP exchange.
#[derive(Clone)]
pub struct Tracer {
    pub bridge: Arc<Bridge>,
    /// Their tokens are never logged.
    pub agents: Arc<[Arc<Agent>]>,
    /// The key of the session; empty if there is none.
    pub session: String,
}

impl Tracer {
    /// Logs `body`, introduced by `head`.
    pub fn log(&self, direction: Direction, head: &str, body: &[u8]) {
        self.bridge.trace(direction, &self.session, || {
            format!("{head} {}", self.shorten(body)).trim().to_owned()
        });
    }

    fn shorten(&self, body: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(body);
        for secret in self.agents.iter().map(|agent| agent.token.reveal()) {
            if text.contains(secret) {
                text = text.replace(secret, "TOKEN").into();
            }
        }
        shorten(&text)
    }
}

/// The body of an answer, logged as it is sent.
pub struct TracedBody {
    pub body: UnsyncBoxBody<Bytes, Infallible>,
    pub tracer: Tracer,
    pub status: u16,
}

impl TracedBody {
    fn log(&self, data: &[u8]) {
        if !self.tracer.bridge.is_tracing() {
            return; // data may be large
        }
        match data.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data: ")) {
            Some(event) => self.tracer.log(Direction::ToClient, "event", event),
            None if data.starts_with(b":") => {} // a comment that keeps a stream alive
            None => self.tracer.log(Direction::ToClient, &self.status.to_string(), data),
        }
    }
}

impl Body for TracedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.log(data);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// `json` with long strings shortened, and then as a whole. Parses only strings, so that invalid
/// JSON can be logged, too.
fn shorten(json: &str) -> String {
    let mut short = String::new();
    let mut rest = json;
    while let Some(quote) = rest.find('"') {
        let (before, string) = rest.split_at(quote + 1);
        short.push_str(before);
        let end = end_of_string(string);
        push_cut(&mut short, &string[..end]);
        rest = &string[end..];
        // The closing quote must not open the next string.
        if rest.starts_with('"') {
            short.push('"');
            rest = &rest[1..];
        }
        if short.len() > 4 * MAX_MESSAGE {
            break;
        }
    }
    // No more than is kept: the rest may have megabytes.
    short.extend(rest.chars().take(MAX_MESSAGE + 1));
    match short.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}... ({} bytes in all)", &short[..end], json.len()),
        None => short,
    }
}

/// The end of the string literal whose first character `text` starts with.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index,
            _ => {}
        }
    }
    text.len()
}

fn push_cut(short: &mut String, string: &str) {
    let long = string.char_indices().nth(MAX_STRING).is_some();
    match string.char_indices().nth(KEPT) {
        Some((end, _)) if long => {
            short.push_str(&string[..end]);
            short.push_str(&format!("... ({} bytes)", string.len()));
        }
        _ => short.push_str(string),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_stays() {
        for json in [
            "",
            "{}",
            r#"{"a":"b","c":["\"","\\",""]}"#,
            "no JSON",
            r#"{"unfinished": "#,
            r#""open"#,
            "\"ä𝕏\"",
        ] {
            assert_eq!(shorten(json), json);
        }
        let limit = format!(r#"["{}"]"#, "x".repeat(MAX_STRING));
        assert_eq!(shorten(&limit), limit);
    }

    #[test]
    fn long_strings_are_cut_and_what_follows_them_is_not() {
        let text = "ä\\\"".repeat(500);
        let short = shorten(&format!(r#"{{"a":"{text}","b":"c"}}"#));
        assert!(short.starts_with(r#"{"a":"ä\"ä\""#), "{short}");
        assert!(short.ends_with(r#"... (2000 bytes)","b":"c"}"#), "{short}");
    }

    #[test]
    fn a_message_of_many_strings_is_cut_as_a_whole() {
        let json = format!("[{}0]", r#""string","#.repeat(10_000));
        let short = shorten(&json);
        assert!(short.chars().count() < MAX_MESSAGE + 50);
        assert!(short.ends_with(&format!("... ({} bytes in all)", json.len())), "{short}");
        let short = shorten(&"x".repeat(MAX_MESSAGE + 1));
        assert!(short.starts_with("xxx") && short.ends_with("(4001 bytes in all)"));
    }
}
