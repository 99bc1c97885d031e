//! One client, in a process of its own: a session with its stream, a connection for calls and one
//! review at a time, as the real one has. It reports what it does and what happens to it on
//! standard error, which is a pipe to the soak.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::clients::{CLIENT_VARIABLE, Loss, Method, Order, Report, send_report};
use super::records::{Accepted, Key};
use crate::support::{DEADLINE, notification, request};
use crate::wire::{Events, Next, Reply, Wire};

/// How often a client that rests checks for an order.
const ORDER_INTERVAL: Duration = Duration::from_millis(200);
/// Longer than the server is ever silent while a call waits for Emacs.
const SILENCE: Duration = Duration::from_secs(30);

struct Client {
    number: usize,
    random: SmallRng,
    directory: PathBuf,
    orders: mpsc::Receiver<Order>,
    /// An order that came while it was offline.
    recalled: Option<Order>,
    address: Address,
    /// The id of its session, and how many it has begun.
    session: String,
    sessions: usize,
    calls: Option<Wire>,
    stream: Option<Events>,
    last_event: u64,
    /// The line of the last context.
    context: i64,
    proposed: usize,
    /// The review that it waits for.
    open: Option<usize>,
    /// Reviews whose outcome may still come, each with the session that proposed it.
    unsettled: BTreeMap<usize, usize>,
    received: Received,
}

/// Outcomes that the client has received, as far as the server may not know it.
#[derive(Default)]
struct Received {
    /// On this stream: the server learns of them when it is reopened.
    unconfirmed: BTreeSet<usize>,
    /// In earlier sessions, unconfirmed: this one may receive them again.
    inherited: BTreeSet<usize>,
}

struct Address {
    port: u16,
    token: String,
}

/// The companion has stopped, or the soak has.
struct Stopped;

/// Whether this process is a client.
pub fn is_client() -> bool {
    std::env::var_os(CLIENT_VARIABLE).is_some()
}

pub fn run() {
    let wanted = std::env::var(CLIENT_VARIABLE).unwrap();
    let mut words = wanted.splitn(3, ' ');
    let mut next = || words.next().expect("number, seed and directory");
    let (number, seed) = (next().parse().unwrap(), next().parse().unwrap());
    let directory = PathBuf::from(next());
    let Some(address) = Address::read(&directory) else { return };
    let mut client = Client {
        number,
        random: SmallRng::seed_from_u64(seed),
        directory,
        orders: receive_orders(),
        recalled: None,
        address,
        session: String::new(),
        sessions: 0,
        calls: None,
        stream: None,
        last_event: 0,
        context: 0,
        proposed: 0,
        open: None,
        unsettled: BTreeMap::new(),
        received: Received::default(),
    };
    // However it ended, everything has been reported.
    let _ = client.run();
}

/// Orders come as bytes, until the soak ends.
fn receive_orders() -> mpsc::Receiver<Order> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for byte in std::io::stdin().lock().bytes() {
            let orders = [Order::Work, Order::Stay, Order::Rest];
            let order = orders.into_iter().find(|order| *order as u8 == *byte.as_ref().unwrap());
            let _ = sender.send(order.expect("an order"));
        }
    });
    receiver
}

impl Client {
    fn run(&mut self) -> Result<(), Stopped> {
        self.begin()?;
        let mut order = Order::Rest;
        loop {
            if let Some(next) = self.recalled.take().or_else(|| self.orders.try_recv().ok()) {
                order = next;
                self.follow(order)?;
            }
            if order == Order::Rest {
                self.listen(ORDER_INTERVAL, |_| false)?;
            } else {
                self.step(order == Order::Work)?;
                let pause = self.milliseconds(0..2000);
                self.listen(pause, |_| false)?;
            }
        }
    }

    fn follow(&mut self, order: Order) -> Result<(), Stopped> {
        if order != Order::Work {
            // No server is replaced after such an order, so this stream stays open.
            self.reopen_stream()?;
            self.report(Report::Follows(order));
        }
        Ok(())
    }

    /// Does something at random; also what closes the stream if `free`.
    fn step(&mut self, free: bool) -> Result<(), Stopped> {
        match self.random.random_range(0..100) {
            0..8 if free => self.lose_stream()?,
            8 if free => self.abandon_session()?,
            9 if free && self.unsettled.is_empty() => self.end_session()?,
            10..40 => self.ping(),
            40..50 => self.list(),
            50..60 if self.open.is_some() => self.close_diff(),
            _ if self.open.is_some() => {
                let patience = self.milliseconds(0..2000);
                self.listen(patience, |client| client.open.is_none())?;
            }
            _ => self.open_diff(),
        }
        Ok(())
    }

    fn report(&self, report: Report) {
        send_report(self.number, report);
    }

    fn milliseconds(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(range))
    }

    /// Starts a session and opens its stream.
    fn begin(&mut self) -> Result<(), Stopped> {
        let successor = !self.session.is_empty();
        self.session.clear();
        let hello = request(0, "initialize", json!({ "protocolVersion": "2025-06-18" }));
        let (calls, reply) = self.request_until_answered("POST", &hello)?;
        let session = reply.header("mcp-session-id");
        self.session = session.unwrap_or_else(|| panic!("initialize got {reply:?}")).to_owned();
        self.sessions += 1;
        self.calls = Some(calls);
        self.report(Report::Session { successor });
        let (calls, reply) =
            self.request_until_answered("POST", &notification("notifications/initialized"))?;
        assert_eq!(reply.status, 202, "{reply:?}");
        self.calls = Some(calls);
        (self.last_event, self.context) = (0, 0);
        self.open_stream(false)?;
        // A client that has received nothing has no last event to name.
        self.listen(DEADLINE, |client| client.last_event > 0)?;
        assert!(self.last_event > 0, "a new session is sent no context");
        Ok(())
    }

    fn open_stream(&mut self, again: bool) -> Result<(), Stopped> {
        let (wire, reply) = self.request_until_answered("GET", "")?;
        assert_eq!(reply.status, 200, "GET got {reply:?}");
        self.stream = Some(Events::new(wire));
        self.report(Report::Listens { again });
        Ok(())
    }

    fn reopen_stream(&mut self) -> Result<(), Stopped> {
        self.open_stream(true)?;
        self.received.confirm();
        Ok(())
    }

    /// The connection of the stream breaks. The client reopens it after a while, and may make calls
    /// until then.
    fn lose_stream(&mut self) -> Result<(), Stopped> {
        self.stream = None;
        self.report(Report::StreamLost(Loss::Broken));
        match self.random.random_range(0..4) {
            0 => self.ping(),
            1 if self.open.is_some() => self.close_diff(),
            1 => self.open_diff(),
            _ => {}
        }
        let offline_time = self.offline_time();
        self.stay_offline(offline_time)?;
        self.reopen_stream()
    }

    /// All connections break, and the client returns with a new session.
    fn abandon_session(&mut self) -> Result<(), Stopped> {
        (self.stream, self.calls) = (None, None);
        self.report(Report::StreamLost(Loss::Broken));
        let offline_time = self.offline_time();
        self.stay_offline(offline_time)?;
        self.received.inherit();
        self.begin()
    }

    /// The client ends its session and begins another.
    fn end_session(&mut self) -> Result<(), Stopped> {
        let (_, reply) = self.request_until_answered("DELETE", "")?;
        // 404 if it was received before, and its answer was cut off.
        assert!(matches!(reply.status, 200 | 404), "DELETE got {reply:?}");
        (self.stream, self.calls) = (None, None);
        self.report(Report::StreamLost(Loss::Broken));
        self.session.clear();
        self.received.forget();
        self.begin()
    }

    /// How long to stay offline: often not at all, sometimes longer than the server waits for a
    /// client that may be dead.
    fn offline_time(&mut self) -> Duration {
        let range = match self.random.random_range(0..20) {
            0..8 => 0..1,
            8..19 => 0..600,
            _ => 5500..7000,
        };
        self.milliseconds(range)
    }

    /// Stays offline for that long, or until there is an order.
    fn stay_offline(&mut self, offline_time: Duration) -> Result<(), Stopped> {
        match self.orders.recv_timeout(offline_time) {
            Ok(order) => self.recalled = Some(order),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Stopped),
        }
        Ok(())
    }

    fn ping(&mut self) {
        if let Some(result) = self.call(Method::Ping, "ping", json!({})) {
            assert_eq!(result, json!({}));
        }
    }

    fn list(&mut self) {
        if let Some(result) = self.call(Method::List, "tools/list", json!({})) {
            assert_eq!(result["tools"].as_array().map(Vec::len), Some(5));
        }
    }

    fn open_diff(&mut self) {
        let review = self.proposed;
        self.proposed += 1;
        self.unsettled.insert(review, self.sessions);
        let key = Key { client: self.number, review };
        let large = self.random.random_ratio(1, 50);
        let length = self.random.random_range(0..if large { 1 << 20 } else { 20_000 });
        let arguments = json!({ "filePath": key.path(), "newContent": key.text(length) });
        // Without an answer it may be open all the same, and its outcome comes unexpectedly.
        let Some(result) = self.tool(Method::OpenDiff, arguments) else { return };
        if let Some(reason) = failure(&result) {
            assert!(reason.contains("too many") || reason.contains("stop"), "openDiff: {reason}");
            self.unsettled.remove(&review);
            return self.report(Report::Refused);
        }
        assert_eq!(result, json!({ "content": [] }));
        self.open = Some(review);
        self.report(Report::Opened { review });
    }

    fn close_diff(&mut self) {
        let review = self.open.expect("a review to close");
        let key = Key { client: self.number, review };
        let path = key.path();
        let silent = self.random.random_bool(0.5);
        self.report(Report::Closing { review, silent });
        let arguments = json!({ "filePath": path, "suppressNotification": silent });
        let Some(result) = self.tool(Method::CloseDiff, arguments) else {
            self.open = None; // it may be open or not
            return;
        };
        if let Some(reason) = failure(&result) {
            // If it was rejected before, the outcome is on its way.
            let expected = ["no diff", "was rejected", "stop"];
            assert!(expected.iter().any(|it| reason.contains(it)), "closeDiff: {reason}");
            return;
        }
        let answer = result["content"][0]["text"].as_str().expect("a text");
        let answer: Value = serde_json::from_str(answer).expect("an object");
        let text = answer["content"].as_str().expect("the content");
        if text != key.text_of_closed() {
            assert!(key.is_text_of(text), "closeDiff: {text}");
            return; // it was accepted before
        }
        self.open = None;
        if silent {
            self.unsettled.remove(&review);
        }
    }

    fn tool(&mut self, method: Method, arguments: Value) -> Option<Value> {
        let name = if method == Method::OpenDiff { "openDiff" } else { "closeDiff" };
        self.call(method, "tools/call", json!({ "name": name, "arguments": arguments }))
    }

    /// The result of a call, or `None` if the connection ended before it.
    fn call(&mut self, method: Method, name: &str, params: Value) -> Option<Value> {
        self.report(Report::Called(method));
        let request = self.request("POST", &request(7, name, params));
        let kept = self.calls.take().filter(|wire| !has_ended(&wire.socket));
        let wire = kept.or_else(|| Wire::connect(self.address.port).ok());
        let answer = wire.and_then(|mut wire| {
            wire.send(&request).ok()?;
            match wire.answer_within(SILENCE) {
                Next::Got(answer) => Some((wire, answer)),
                Next::Silent => panic!("{name} was not answered for {SILENCE:?}"),
                Next::End | Next::Cut => None,
            }
        });
        let Some((wire, mut answer)) = answer else {
            self.report(Report::CutOff(method));
            return None;
        };
        assert_eq!(answer["id"], 7, "{name} got {answer}");
        self.calls = Some(wire);
        self.report(Report::Answer(method));
        Some(answer["result"].take())
    }

    /// Reads the stream until `is_enough`, or for `patience`.
    fn listen(
        &mut self,
        patience: Duration,
        is_enough: impl Fn(&Client) -> bool,
    ) -> Result<(), Stopped> {
        let end = Instant::now() + patience;
        while !is_enough(self) {
            let left = end.saturating_duration_since(Instant::now());
            let Some(stream) = self.stream.as_mut().filter(|_| !left.is_zero()) else { break };
            match stream.next(left) {
                Next::Got((number, message)) => self.receive(number, &message),
                Next::Silent => break,
                Next::End => self.reconnect(Loss::Ended)?,
                Next::Cut => self.reconnect(Loss::Cut)?,
            }
        }
        Ok(())
    }

    /// Reopens a stream that the server has closed, after about a second, as the real client does;
    /// not all clients do so at the same time.
    fn reconnect(&mut self, loss: Loss) -> Result<(), Stopped> {
        self.stream = None;
        self.report(Report::StreamLost(loss));
        let offline_time = self.milliseconds(200..2500);
        self.stay_offline(offline_time)?;
        self.reopen_stream()
    }

    fn receive(&mut self, number: u64, message: &Value) {
        assert!(number > self.last_event, "event {number} after {}", self.last_event);
        self.last_event = number;
        let params = &message["params"];
        match message["method"].as_str() {
            Some("ide/contextUpdate") => self.receive_context(params),
            Some("ide/diffAccepted") => self.receive_outcome(params, true),
            Some("ide/diffRejected") => self.receive_outcome(params, false),
            _ => panic!("received {message}"),
        }
    }

    fn receive_context(&mut self, context: &Value) {
        let line = context["workspaceState"]["openFiles"][0]["cursor"]["line"].as_i64().unwrap();
        assert!(line >= self.context, "context {line} after {}", self.context);
        self.context = line;
    }

    fn receive_outcome(&mut self, outcome: &Value, accepted: Accepted) {
        let key = Key::of_path(outcome["filePath"].as_str().unwrap());
        assert_eq!(key.client, self.number, "another client's outcome");
        assert!(key.is_text_of(outcome["content"].as_str().unwrap_or_default()));
        let review = key.review;
        if self.received.expects_again(review) {
            return self.report(Report::ReceivedAgain { review, accepted });
        }
        let asked = self.unsettled.remove(&review);
        let inherited = asked.is_some_and(|session| session != self.sessions);
        self.report(Report::Received { review, accepted, inherited });
        self.open = self.open.filter(|open| *open != review);
    }

    fn request(&self, method: &str, body: &str) -> Vec<u8> {
        let last_event =
            (method == "GET" && self.last_event > 0).then(|| self.last_event.to_string());
        self.address.request(method, &self.session, &last_event.unwrap_or_default(), body)
    }

    /// Repeats a request, on a new connection each time, until it is answered. It is not while the
    /// server is being replaced, or when so many connect at once that some are turned away.
    fn request_until_answered(
        &mut self,
        method: &str,
        body: &str,
    ) -> Result<(Wire, Reply), Stopped> {
        loop {
            let request = self.request(method, body);
            match Wire::connect(self.address.port) {
                Ok(wire) => match exchange(wire, &request) {
                    Some(answer) => return Ok(answer),
                    None => self.report(Report::TurnedAway),
                },
                Err(_) => self.report(Report::NotListening),
            }
            // The file is there even while a server is being replaced.
            Address::read(&self.directory).ok_or(Stopped)?;
            let pause = self.milliseconds(100..1000);
            self.stay_offline(pause)?;
        }
    }
}

fn exchange(mut wire: Wire, request: &[u8]) -> Option<(Wire, Reply)> {
    wire.send(request).ok()?;
    match wire.reply(SILENCE, false) {
        Next::Got(reply) => Some((wire, reply)),
        Next::Silent => panic!("no reply for {SILENCE:?}"),
        Next::End | Next::Cut => None,
    }
}

/// Why a tool failed, if it did.
fn failure(result: &Value) -> Option<&str> {
    (result["isError"] == true).then(|| result["content"][0]["text"].as_str().unwrap())
}

impl Received {
    /// Records that an outcome was received. Returns whether it is one that may be received again.
    fn expects_again(&mut self, review: usize) -> bool {
        self.unconfirmed.insert(review);
        self.inherited.remove(&review)
    }

    /// Records that the server knows what this session has received.
    fn confirm(&mut self) {
        self.unconfirmed.clear();
    }

    /// Lets the next session inherit what the server does not know to be received.
    fn inherit(&mut self) {
        self.inherited.append(&mut self.unconfirmed);
    }

    /// Forgets what was received, when the session has been ended. An earlier one, whose end the
    /// server had not noticed, may still have something for the next.
    fn forget(&mut self) {
        self.unconfirmed.clear();
    }
}

impl Address {
    /// The address in the discovery file; `None` if there is no file.
    fn read(directory: &Path) -> Option<Address> {
        let mut files = std::fs::read_dir(directory).unwrap();
        let text = std::fs::read_to_string(files.next()?.unwrap().path()).ok()?;
        let content: Value = serde_json::from_str(&text).unwrap();
        let token = content["authToken"].as_str().unwrap().to_owned();
        Some(Address { port: content["port"].as_u64().unwrap().try_into().unwrap(), token })
    }

    fn request(&self, method: &str, session: &str, last_event: &str, body: &str) -> Vec<u8> {
        let Address { port, token } = self;
        let mut head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        for (name, value) in [("Mcp-Session-Id", session), ("Last-Event-ID", last_event)] {
            if !value.is_empty() {
                head += &format!("{name}: {value}\r\n");
            }
        }
        format!("{head}\r\n{body}").into_bytes()
    }
}

/// Whether the server has closed the connection, or sent something unasked.
fn has_ended(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    let nothing = socket.peek(&mut [0]);
    socket.set_nonblocking(false).unwrap();
    !nothing.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}
