//! Raw HTTP for clients that misbehave: sends any bytes, and assumes nothing about what comes back.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::support::DEADLINE;

pub struct Wire {
    pub socket: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

/// The result of reading.
#[derive(Debug)]
pub enum Next<T> {
    Got(T),
    /// The server closed the connection, or the stream came to its proper end.
    End,
    /// The connection broke, or ended within a message.
    Cut,
    Silent,
}

/// One message of an event stream and its number; 0 if it has none, as a late reply.
pub type Event = (u64, Value);

/// An event stream whose connection may break at any time.
pub struct Events {
    wire: Wire,
    text: String,
}

impl Wire {
    pub fn connect(port: u16) -> io::Result<Wire> {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(DEADLINE))?;
        Ok(Wire { socket, received: Vec::new() })
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Closes the connection for writing.
    pub fn finish(&self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// The next reply; only the head if it is an event stream. `bodiless` for replies to HEAD.
    pub fn reply(&mut self, patience: Duration, bodiless: bool) -> Next<Reply> {
        loop {
            if let Some((reply, length)) = Reply::parse(&self.received, bodiless) {
                self.received.drain(..length);
                if !(100..200).contains(&reply.status) {
                    return Next::Got(reply);
                }
            } else if let Some(end) = self.fill(patience) {
                return end;
            }
        }
    }

    /// The answer to a call, which comes as an event stream if it takes long.
    pub fn answer(&mut self) -> Result<Value, String> {
        match self.answer_within(DEADLINE) {
            Next::Got(answer) => Ok(answer),
            other => Err(format!("no answer: {other:?}")),
        }
    }

    /// The same, but waits at most `patience` for anything to arrive.
    pub fn answer_within(&mut self, patience: Duration) -> Next<Value> {
        let reply = match self.reply(patience, false) {
            Next::Got(reply) if reply.is_stream() => reply,
            other => return other.map(|reply| reply.json()),
        };
        debug_assert!(reply.body.is_empty());
        let wire = Wire { socket: self.socket.try_clone().unwrap(), received: Vec::new() };
        let mut stream = Events::new(std::mem::replace(self, wire));
        let answer = stream.next(patience).map(|(number, answer)| {
            assert_eq!(number, 0, "a late reply with a number");
            answer
        });
        if let Next::Got(_) = answer {
            match stream.next(patience) {
                Next::End => {}
                Next::Cut => return Next::Cut,
                other => panic!("a late reply without end: {other:?}"),
            }
        }
        *self = stream.wire;
        answer
    }

    /// Reads once. Returns `None` if there was something to read, or why there was not.
    fn fill<T>(&mut self, patience: Duration) -> Option<Next<T>> {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let mut chunk = [0; 1 << 16];
        loop {
            return match self.socket.read(&mut chunk) {
                Ok(0) if self.received.is_empty() => Some(Next::End),
                Ok(0) => Some(Next::Cut),
                Ok(length) => {
                    self.received.extend_from_slice(&chunk[..length]);
                    None
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => continue,
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Some(Next::Silent),
                    _ => Some(Next::Cut),
                },
            };
        }
    }

    /// Removes one chunk from the received bytes and returns its data; the last one is empty.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = find(&self.received, b"\r\n")?;
        let size = std::str::from_utf8(&self.received[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("no size: {size:?}"));
        let (start, end) = (line + 2, line + 2 + size);
        if self.received.len() < end + 2 {
            return None;
        }
        let data = self.received[start..end].to_vec();
        assert_eq!(&self.received[end..end + 2], b"\r\n");
        self.received.drain(..end + 2);
        Some(data)
    }
}

impl<T> Next<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Next<U> {
        match self {
            Next::Got(found) => Next::Got(change(found)),
            Next::End => Next::End,
            Next::Cut => Next::Cut,
            Next::Silent => Next::Silent,
        }
    }
}

impl Reply {
    fn parse(bytes: &[u8], bodiless: bool) -> Option<(Reply, usize)> {
        let start = find(bytes, b"\r\n\r\n")? + 4;
        let head = String::from_utf8(bytes[..start - 4].to_vec()).expect("a head of ASCII");
        let version = head.get(..9);
        assert!(matches!(version, Some("HTTP/1.1 " | "HTTP/1.0 ")), "no reply: {head}");
        let status = head[9..12].parse().unwrap_or_else(|_| panic!("no status: {head}"));
        let mut reply = Reply { status, head, body: Vec::new() };
        if bodiless || reply.is_stream() || (100..200).contains(&status) {
            return Some((reply, start));
        }
        let length = reply.header("content-length").expect("a reply that says its length");
        let end = start + length.parse::<usize>().unwrap();
        reply.body = bytes.get(start..end)?.to_vec();
        Some((reply, end))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        let body = std::str::from_utf8(&self.body).expect("text");
        loose(serde_json::from_str(body).unwrap_or_else(|error| {
            panic!("no JSON: {} {error} {:?}", self.head, String::from_utf8_lossy(&self.body))
        }))
    }
}

/// A value in which valid JSON that serde cannot represent becomes text. Clients may use such ids:
/// a lone surrogate, or a number of any size.
fn loose(raw: &RawValue) -> Value {
    let text = raw.get();
    if let Ok(value) = serde_json::from_str(text) {
        value
    } else if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
        members.into_iter().map(|(name, value)| (name, loose(value))).collect()
    } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text) {
        items.into_iter().map(loose).collect()
    } else {
        Value::String(text.to_owned())
    }
}

impl Events {
    /// The stream on `wire`, after the head of its reply was read.
    pub fn new(wire: Wire) -> Events {
        Events { wire, text: String::new() }
    }

    /// The next message; skips comments.
    pub fn next(&mut self, patience: Duration) -> Next<Event> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let block = block.to_owned();
                self.text = rest.to_owned();
                if !block.starts_with(':') {
                    return Next::Got(parse_event(&block));
                }
            }
            match self.wire.chunk() {
                Some(data) if data.is_empty() => return Next::End,
                Some(data) => self.text.push_str(std::str::from_utf8(&data).unwrap()),
                None => match self.wire.fill(patience) {
                    None => {}
                    // The last chunk is missing.
                    Some(Next::End) => return Next::Cut,
                    Some(end) => return end,
                },
            }
        }
    }
}

fn parse_event(block: &str) -> Event {
    let (id, data) = match block.strip_prefix("id: ") {
        Some(rest) => rest.split_once('\n').unwrap_or_else(|| panic!("no event: {block}")),
        None => ("0", block),
    };
    let json = data.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {block}"));
    let message = loose(serde_json::from_str(json).unwrap_or_else(|_| panic!("no JSON: {json}")));
    assert_eq!(message["jsonrpc"], "2.0");
    (id.parse().unwrap(), message)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
