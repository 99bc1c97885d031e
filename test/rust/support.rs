//! A companion for tests, and a small HTTP client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use gemini_companion::ide::{IdeContext, ReviewId};
use gemini_companion::{Agent, CallId, Companion, Event, Limits, ModelTool};
use serde_json::{Value, json};

use crate::agents;

/// A test that waits longer has failed: nothing takes that long, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub struct TestCompanion {
    pub companion: Companion,
    pub directory: PathBuf,
    _temporary: tempfile::TempDir,
}

pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// A session, after the handshake of a real client.
pub struct Session<'a> {
    server: &'a TestCompanion,
    pub id: String,
}

/// The open event stream of a session.
pub struct Stream {
    reader: BufReader<TcpStream>,
    text: String,
}

/// Gemini CLI, announced in `directory`, and its forks, each announced in a sibling directory.
pub fn agents(directory: &std::path::Path) -> Vec<Agent> {
    let beside = |name| vec![directory.with_file_name(name)];
    vec![
        agents::gemini(vec![directory.to_owned()]),
        agents::qwen(beside("qwen")),
        agents::llxprt(beside("llxprt"), vec![1]),
    ]
}

impl TestCompanion {
    /// Gives models a tool without arguments, "find".
    pub fn register_find(&self) {
        self.companion.model_tools().register(vec![ModelTool {
            name: "find".to_owned(),
            description: String::new(),
            is_read_only: true,
            is_listed: true,
            is_for_hosts: true,
            arguments: Vec::new(),
        }]);
    }

    pub fn start() -> TestCompanion {
        TestCompanion::with(Limits::default())
    }

    pub fn with(limits: Limits) -> TestCompanion {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("gemini/ide");
        let companion =
            Companion::start(agents(&directory), 0, &["/project".to_owned()], limits).unwrap();
        TestCompanion { companion, directory, _temporary: temporary }
    }

    pub fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.companion.port())).unwrap();
        connection.set_read_timeout(Some(DEADLINE)).unwrap();
        connection
    }

    /// The headers of the real client, with `changes`: an empty value omits the header.
    pub fn head(&self, method: &str, path: &str, changes: &[(&str, &str)]) -> String {
        let host = format!("127.0.0.1:{}", self.companion.port());
        let token = format!("Bearer {}", self.companion.token("gemini").unwrap());
        let usual = [
            ("Host", host.as_str()),
            ("Authorization", token.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("Connection", "close"),
        ];
        let changed = |name: &str| changes.iter().any(|(other, _)| *other == name);
        let kept = usual.iter().filter(|(name, _)| !changed(name));
        let lines: String = kept
            .chain(changes)
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!("{method} {path} HTTP/1.1\r\n{lines}")
    }

    pub fn request(
        &self,
        method: &str,
        path: &str,
        changes: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut connection = self.connect();
        let head = self.head(method, path, changes);
        write!(connection, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        Response::read(connection)
    }

    pub fn post(&self, changes: &[(&str, &str)], body: &str) -> Response {
        self.request("POST", "/mcp", changes, body)
    }

    pub fn initialize(&self, version: &str) -> Response {
        let params = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        self.post(&[], &request(0, "initialize", params))
    }

    /// Connects as the real client does, without opening a stream.
    pub fn open_session(&self) -> Session<'_> {
        let id = self.initialize("2025-06-18").header("mcp-session-id").unwrap();
        let session = Session { server: self, id };
        assert_eq!(session.post(&notification("notifications/initialized")).status, 202);
        session
    }

    /// An existing session.
    pub fn session(&self, id: String) -> Session<'_> {
        Session { server: self, id }
    }

    /// The session of clients that name none.
    pub fn unnamed_session(&self) -> Session<'_> {
        self.session(String::new())
    }

    /// Opens the stream of document 004.
    pub fn listen(&self) -> Stream {
        let mut connection = self.connect();
        write!(connection, "{}\r\n", self.head("GET", "/events", &[])).unwrap();
        let mut stream = Stream { reader: BufReader::new(connection), text: String::new() };
        let head = stream.read_head();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!(stream.next_block().as_deref(), Some(": connected"));
        stream
    }

    /// Publishes the same context to all clients.
    pub fn publish_context(&self, snapshot: IdeContext) {
        let sessions = self.companion.sessions();
        let places = sessions.places().into_iter();
        sessions.publish_contexts(places.map(|place| (place, snapshot.clone())).collect());
    }

    /// The next event for Lisp other than changes of the number of clients.
    pub fn next_event(&self) -> Event {
        wait_for("an event for Lisp", || {
            std::iter::from_fn(|| self.companion.bridge().next_event())
                .find(|event| *event != Event::ClientsChanged)
        })
    }

    /// The review that Lisp is asked for next.
    pub fn opened(&self) -> ReviewId {
        match self.next_event() {
            Event::OpenReview { review, .. } => review,
            other => panic!("{other:?}"),
        }
    }

    /// The events that are queued for Lisp now, other than changes of the number of clients.
    pub fn events(&self) -> Vec<Event> {
        std::iter::from_fn(|| self.companion.bridge().next_event())
            .filter(|event| *event != Event::ClientsChanged)
            .collect()
    }
}

impl Response {
    pub fn read(mut connection: TcpStream) -> Response {
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("a complete response");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    /// The JSON in the body, or in the only event of it, if the answer took long.
    pub fn json(&self) -> Value {
        let event = self.body.lines().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(event.unwrap_or(&self.body))
            .unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// The code of the JSON-RPC error in the body.
    pub fn error_code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("{}", self.body))
    }
}

impl Session<'_> {
    pub fn post(&self, body: &str) -> Response {
        self.server.post(&[("Mcp-Session-Id", &self.id)], body)
    }

    pub fn request(&self, method: &str, params: Value) -> Value {
        let response = self.post(&request(7, method, params));
        assert_eq!(response.status, 200, "{}", response.body);
        assert_eq!(response.json()["id"], 7);
        response.json()
    }

    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    pub fn open_diff(&self, path: &str, content: &str) {
        let answer = self.call("openDiff", json!({ "filePath": path, "newContent": content }));
        assert_eq!(answer["result"], json!({ "content": [] }));
    }

    /// Posts without waiting for the answer, which may come as an event stream.
    pub fn post_slowly(&self, changes: &[(&str, &str)], body: &str) -> Stream {
        let mut changes = changes.to_vec();
        changes.push(("Mcp-Session-Id", self.id.as_str()));
        let mut connection = self.server.connect();
        let head = self.server.head("POST", "/mcp", &changes);
        write!(connection, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        Stream { reader: BufReader::new(connection), text: String::new() }
    }

    /// Proposes a change and asks to close it, for which Lisp must answer. Returns the answer, of
    /// which nothing has been read, and the call that Lisp must answer.
    pub fn begin_close_diff(&self, path: &str) -> (Stream, CallId) {
        self.open_diff(path, "text");
        self.server.opened();
        let params = json!({ "name": "closeDiff", "arguments": { "filePath": path } });
        let answer = self.post_slowly(&[], &request(7, "tools/call", params));
        match self.server.next_event() {
            Event::CloseReview { call: Some(call), .. } => (answer, call),
            other => panic!("{other:?}"),
        }
    }

    /// The status of a request in the session with this id.
    pub fn session_status(&self, id: &str) -> u16 {
        self.server.session(id.to_owned()).post(&request(1, "ping", json!({}))).status
    }

    pub fn open_stream(&self) -> Stream {
        self.open_stream_after(&[])
    }

    pub fn open_stream_after(&self, changes: &[(&str, &str)]) -> Stream {
        let mut changes = changes.to_vec();
        changes.extend([("Mcp-Session-Id", self.id.as_str()), ("Accept", "text/event-stream")]);
        loop {
            let mut connection = self.server.connect();
            let head = self.server.head("GET", "/mcp", &changes);
            write!(connection, "{head}\r\n").unwrap();
            let mut stream = Stream { reader: BufReader::new(connection), text: String::new() };
            let head = stream.read_head().to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 200"), "{head}");
            assert!(head.contains("content-type: text/event-stream"), "{head}");
            // It is of a server that is being replaced: clients connect again.
            if head.contains("content-length: 0") {
                continue;
            }
            assert_eq!(stream.next_block().as_deref(), Some(": connected"));
            return stream;
        }
    }
}

impl Stream {
    /// One on a connection of which some may have been read.
    pub fn of(connection: TcpStream) -> Stream {
        Stream { reader: BufReader::new(connection), text: String::new() }
    }

    /// The head, without what has been read.
    pub fn rest_of_head(&mut self) -> String {
        self.read_head().to_ascii_lowercase()
    }

    pub fn read_head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.reader.read_line(&mut head).unwrap(), 0, "cut off: {head}");
        }
        head
    }

    /// Waits until some of the body has come.
    pub fn await_body(&mut self) {
        assert!(!self.reader.fill_buf().unwrap().is_empty(), "no body");
    }

    /// The rest of a body that is not a stream.
    pub fn rest(&mut self) -> String {
        let mut text = String::new();
        self.reader.read_to_string(&mut text).unwrap();
        text
    }

    /// The next event or comment as text; `None` at the proper end of the stream.
    pub fn next_block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let block = block.to_owned();
                self.text = rest.to_owned();
                return Some(block);
            }
            let mut size = String::new();
            self.reader.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).expect("a chunk: the stream was cut");
            let mut chunk = vec![0; size + 2];
            self.reader.read_exact(&mut chunk).unwrap();
            if size == 0 {
                return None;
            }
            self.text.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        }
    }

    /// The next notification and its number, or `None` at the end of the stream.
    pub fn next(&mut self) -> Option<(u64, Value)> {
        let block = self.next_block()?;
        let (id, data) = block.split_once('\n').unwrap_or_else(|| panic!("no event: {block}"));
        let number = id.strip_prefix("id: ").unwrap().parse().unwrap();
        let message: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(message["jsonrpc"], "2.0");
        Some((number, message))
    }

    /// The next event of document 004, which has no number, as method and parameters.
    pub fn event(&mut self) -> (String, Value) {
        let block = self.next_block().expect("an event");
        let mut message: Value =
            serde_json::from_str(block.strip_prefix("data: ").unwrap()).unwrap();
        (message["method"].as_str().unwrap().to_owned(), message["params"].take())
    }

    /// The next notification as method and parameters.
    pub fn notification(&mut self) -> (String, Value) {
        let (_, mut message) = self.next().expect("a notification");
        (message["method"].as_str().unwrap().to_owned(), message["params"].take())
    }
}

pub fn request(id: i64, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

pub fn notification(method: &str) -> String {
    json!({ "jsonrpc": "2.0", "method": method }).to_string()
}

/// Waits until `probe` finds something.
pub fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A waker of Lisp that panics once: a fault of the server.
pub fn faulty_waker() -> Waker {
    struct Faulty(AtomicBool);

    impl Wake for Faulty {
        fn wake(self: Arc<Self>) {
            assert!(self.0.swap(true, Ordering::Relaxed), "on purpose");
        }
    }

    Waker::from(Arc::new(Faulty(AtomicBool::new(false))))
}

/// The boot and the PID namespace of this process, as in discovery files.
pub fn id_space() -> String {
    if !cfg!(target_os = "linux") {
        return std::env::consts::OS.to_owned();
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    format!("{} {}", boot.trim(), namespace.display())
}
