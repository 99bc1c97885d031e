//! Random sequences of what sessions may do, checked against a small model, while the test stands
//! in for Lisp: whoever decides a review, its session receives the outcome once and in order, and
//! no other session does.

use std::collections::BTreeMap;

use gemini_companion::ide::{Cursor, File, IdeContext, Outcome, ReviewId};
use gemini_companion::{CallId, Event};
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use super::{Check, Counts, await_reply, chance, check_event, ensure, pick, ping, post, send_post};
use crate::support::{DEADLINE, TestCompanion, notification, request};
use crate::wire::{Events, Next, Wire};

/// The most unread outcomes of a session: far fewer than the server keeps for a broken stream, so
/// that none is lost.
const MAX_UNREAD: usize = 10;
const MAX_SESSIONS: usize = 4;

struct Model<'a> {
    server: &'a TestCompanion,
    random: &'a mut SmallRng,
    counts: &'a Counts,
    sessions: Vec<Session>,
    /// Open reviews, with the session and the path of each.
    open: BTreeMap<ReviewId, (usize, String)>,
    /// Reviews that ended without Lisp, of which it must be notified.
    ending: Vec<ReviewId>,
    last_review: i64,
    contexts: i64,
    proposals: u64,
}

/// A session as its client sees it.
struct Session {
    id: String,
    alive: bool,
    /// Whether it reports truthfully what it received. Others may miss messages or receive them
    /// again.
    honest: bool,
    stream: Option<Events>,
    /// The messages that it received, by event number.
    received: BTreeMap<u64, Value>,
    /// Numbers up to this may come again, since the previous stream delivered them.
    repeats: u64,
    /// The outcomes of its reviews, in order.
    expected: Vec<Value>,
    /// How its last review of each path ended, as `closeDiff` tells: the text, or why there is none.
    endings: BTreeMap<String, Ending>,
}

type Ending = Result<String, &'static str>;

#[test]
fn every_outcome_is_received_once_by_the_proposing_session() {
    super::run_cases("sequences", 16, 3_000_000, |_, random, counts| {
        let server = TestCompanion::start();
        let healthy = server.open_session();
        let _stream = healthy.open_stream();
        let sessions = Vec::new();
        let mut model = Model {
            server: &server,
            random,
            counts,
            sessions,
            open: BTreeMap::new(),
            ending: Vec::new(),
            last_review: 0,
            contexts: 0,
            proposals: 0,
        };
        for number in 0..120 {
            model.step().map_err(|reason| format!("step {number}: {reason}"))?;
        }
        ping(&server, &healthy.id)?;
        model.end()
    });
}

impl Model<'_> {
    fn step(&mut self) -> Check {
        let action = self.random.random_range(0..100);
        let living: Vec<usize> =
            (0..self.sessions.len()).filter(|n| self.sessions[*n].alive).collect();
        let Some(&session) = living.choose(self.random) else { return self.initialize() };
        match action {
            0..3 if living.len() < MAX_SESSIONS => self.initialize(),
            0..20 => self.open_stream(session),
            20..28 => self.drop_stream(session),
            28..50 => self.open_diff(session),
            50..60 => self.close_diff(session),
            60..64 => self.close_diff_twice(session),
            64..68 => self.decide_while_closing(session),
            68..85 => self.decide(),
            85..92 => self.catch_up(session),
            92..96 => {
                self.publish();
                Ok(())
            }
            96..98 => self.delete(session),
            _ => self.drain(),
        }?;
        // Unread messages are kept for a broken stream, but only within limits.
        let received = |session: &Session| session.outcomes().len();
        if self.sessions[session].expected.len() >= received(&self.sessions[session]) + MAX_UNREAD {
            self.catch_up(session)?;
        }
        Ok(())
    }

    fn did(&self, what: &str, outcome: impl ToString) {
        self.counts.add(what, outcome);
    }

    fn initialize(&mut self) -> Check {
        // All sessions are of one process: the new one would inherit what those without a stream
        // await.
        for session in 0..self.sessions.len() {
            let Session { alive, stream, .. } = &self.sessions[session];
            if *alive && stream.is_none() {
                self.open_stream(session)?;
            }
        }
        let version = pick(self.random, &["2025-06-18", "2025-11-25", "2024-11-05"]);
        let id = self.server.initialize(version).header("mcp-session-id").unwrap();
        if chance(self.random, 90) {
            let reply = post(self.server, &id, &notification("notifications/initialized"))?;
            ensure(reply.status == 202, || format!("initialized got {}", reply.status))?;
        }
        let honest = chance(self.random, 75);
        self.sessions.push(Session {
            id,
            alive: true,
            honest,
            stream: None,
            received: BTreeMap::new(),
            repeats: 0,
            expected: Vec::new(),
            endings: BTreeMap::new(),
        });
        self.did("initialize", if honest { "honest" } else { "dishonest" });
        Ok(())
    }

    /// Opens a stream, or resumes after one that broke, or replaces one that is open.
    fn open_stream(&mut self, session: usize) -> Check {
        let entry = &mut self.sessions[session];
        let received = entry.received.last_key_value().map_or(0, |(number, _)| *number);
        let resume = if entry.honest {
            received.to_string()
        } else {
            match self.random.random_range(0..6) {
                0 => String::new(),
                1 => self.random.random_range(0..=received).to_string(),
                2 => (received + self.random.random_range(0..9)).to_string(),
                _ => {
                    pick(self.random, &["-1", "x", "1.5", "18446744073709551616", "0,1", "\u{e9}"])
                        .to_owned()
                }
            }
        };
        let mut wire = Wire::connect(self.server.companion.port()).unwrap();
        let named = [("Mcp-Session-Id", entry.id.as_str()), ("Last-Event-ID", resume.as_str())];
        let head = self.server.head("GET", "/mcp", &named);
        wire.send(format!("{head}\r\n").as_bytes()).unwrap();
        let reply = await_reply(&mut wire)?;
        ensure(reply.status == 200 && reply.is_stream(), || format!("GET got {}", reply.status))?;
        let older = entry.stream.replace(Events::new(wire));
        let what = match (&older, entry.received.is_empty()) {
            (Some(_), _) => "replaced",
            (None, true) => "first",
            (None, false) => "resumed",
        };
        if let Some(mut older) = older {
            loop {
                match older.next(DEADLINE) {
                    Next::Got((number, message)) => {
                        entry.repeats = entry.repeats.max(number);
                        entry.receive(number, message)?;
                    }
                    Next::End => break,
                    other => return Err(format!("a replaced stream did not end: {other:?}")),
                }
            }
        }
        self.did("GET", what);
        Ok(())
    }

    fn drop_stream(&mut self, session: usize) -> Check {
        if self.sessions[session].stream.take().is_some() {
            self.did("streams dropped", "by the client");
        }
        Ok(())
    }

    fn open_diff(&mut self, session: usize) -> Check {
        self.drain()?;
        // A client that proposes a file again gets no earlier outcome of it.
        self.catch_up(session)?;
        self.proposals += 1;
        // Paths name their session, and are so few that proposals sometimes replace earlier ones.
        let path = format!(local!("/no/such/{}/{}"), session, self.random.random_range(0..3));
        let content = format!("proposal {}", self.proposals);
        let arguments = json!({ "filePath": path, "newContent": content });
        let reply = post(self.server, &self.sessions[session].id, &tool("openDiff", arguments))?;
        let result = &reply.json()["result"];
        ensure(*result == json!({ "content": [] }), || format!("openDiff got {result}"))?;
        self.sessions[session].endings.remove(&path);
        let replaced = self.review_of(session, &path);
        if let Some(replaced) = replaced {
            self.open.remove(&replaced);
            self.ending.push(replaced);
        }
        self.did("openDiff", if replaced.is_some() { "replaced one" } else { "opened" });
        // The end of the replaced review comes first.
        self.last_review += 1;
        let review = ReviewId(self.last_review);
        self.open.insert(review, (session, path.clone()));
        let mut opened = false;
        while let Some(event) = self.server.companion.bridge().next_event() {
            let expected = matches!(&event, Event::OpenReview { review: r, path: p, content: c, .. }
                    if *r == review && *p == path && *c == content && !opened);
            opened |= expected;
            if !expected {
                self.take(event)?;
            }
        }
        ensure(opened && self.ending.is_empty(), || format!("Lisp was not notified of {review:?}"))
    }

    fn close_diff(&mut self, session: usize) -> Check {
        self.drain()?;
        let (path, silent) = self.choose_path(session);
        let mut wire = send_post(self.server, &self.sessions[session].id, &closing(&path, silent));
        let Some(review) = self.review_of(session, &path) else {
            let ended = self.sessions[session].endings.contains_key(&path);
            self.did("closeDiff", if ended { "of one that has ended" } else { "of none" });
            return self.expect_ending(session, &path, &mut wire);
        };
        let call = self.await_close(review)?;
        let ending = match self.random.random_range(0..4) {
            0 => Err("no text"),
            _ => Ok(format!("final {}", self.random.random::<u32>())),
        };
        self.closed(review, silent, ending.clone());
        let hangs_up = chance(self.random, 25);
        if hangs_up {
            let other = Wire::connect(self.server.companion.port()).unwrap();
            drop(std::mem::replace(&mut wire, other));
        }
        let answer = ending.map_err(str::to_owned);
        self.did(
            "closeDiff",
            match (hangs_up, &answer) {
                (true, _) => "hung up",
                (false, Err(_)) => "failed",
                (false, Ok(_)) => "answered",
            },
        );
        self.server.companion.bridge().answer(call, answer);
        if hangs_up { Ok(()) } else { self.expect_ending(session, &path, &mut wire) }
    }

    /// Makes two concurrent calls for one review: one of them closes it, and both get the text.
    fn close_diff_twice(&mut self, session: usize) -> Check {
        self.drain()?;
        let (path, silent) = self.choose_path(session);
        let id = self.sessions[session].id.clone();
        let mut wires = [0, 1].map(|_| send_post(self.server, &id, &closing(&path, silent)));
        if let Some(review) = self.review_of(session, &path) {
            let call = self.await_close(review)?;
            self.closed(review, silent, Ok(String::new()));
            self.server.companion.bridge().answer(call, Ok(String::new()));
        }
        self.did("closeDiff", "twice at once");
        wires.iter_mut().try_for_each(|wire| self.expect_ending(session, &path, wire))
    }

    /// The user and the client end a review at the same time: exactly one of them succeeds.
    fn decide_while_closing(&mut self, session: usize) -> Check {
        self.drain()?;
        let (path, _) = self.choose_path(session);
        let Some(review) = self.review_of(session, &path) else { return Ok(()) };
        let mut wire = send_post(self.server, &self.sessions[session].id, &closing(&path, false));
        for _ in 0..self.random.random_range(0..2000) {
            std::hint::spin_loop();
        }
        if self.server.companion.sessions().decide(review, Outcome::Rejected) {
            self.did("closeDiff", "too late");
            self.closed(review, false, Err("was rejected"));
        } else {
            self.did("closeDiff", "just in time");
            let call = self.await_close(review)?;
            self.closed(review, false, Ok(String::new()));
            self.server.companion.bridge().answer(call, Ok(String::new()));
        }
        self.expect_ending(session, &path, &mut wire)
    }

    /// Expects the answer to `closeDiff` after the last review of `path` has ended.
    fn expect_ending(&self, session: usize, path: &str, wire: &mut Wire) -> Check {
        let result = wire.answer()?["result"].take();
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let ending = self.sessions[session].endings.get(path);
        let right = match ending.unwrap_or(&Err("no diff")) {
            Ok(content) => serde_json::from_str(text).ok() == Some(json!({ "content": *content })),
            Err(reason) => result["isError"] == true && text.contains(reason),
        };
        ensure(right, || format!("instead of {ending:?} closeDiff got {result}"))
    }

    /// A path of the session, usually of an open review, and whether to suppress the notification.
    fn choose_path(&mut self, session: usize) -> (String, bool) {
        let paths: Vec<String> =
            self.open.values().filter(|(of, _)| *of == session).map(|(_, p)| p.clone()).collect();
        let other = format!(local!("/no/such/{}/{}"), session, self.random.random_range(0..3));
        let path = paths.choose(self.random).filter(|_| chance(self.random, 90)).cloned();
        (path.unwrap_or(other), chance(self.random, 40))
    }

    /// Waits until Lisp is notified that the client has closed `review`.
    fn await_close(&mut self, review: ReviewId) -> Check<CallId> {
        match self.server.next_event() {
            Event::CloseReview { review: closed, call: Some(call) } if closed == review => Ok(call),
            other => Err(format!("instead of the end of {review:?}: {other:?}")),
        }
    }

    /// Records that `review` has been closed, with a rejection unless `silent`.
    fn closed(&mut self, review: ReviewId, silent: bool, ending: Ending) {
        let (session, path) = self.open.remove(&review).expect("an open review");
        let session = &mut self.sessions[session];
        if !silent {
            session.expected.push(outcome(&path, &Outcome::Rejected));
        }
        session.endings.insert(path, ending);
    }

    /// The user decides a review, perhaps one that has ended.
    fn decide(&mut self) -> Check {
        let accepted = Outcome::accepted(format!("edited {}", self.random.random::<u32>()));
        let decision = if chance(self.random, 50) { accepted } else { Outcome::Rejected };
        let decide = |review, decision| self.server.companion.sessions().decide(review, decision);
        if self.open.is_empty() || chance(self.random, 20) {
            let review = ReviewId(self.random.random_range(-1..self.last_review + 3));
            if !self.open.contains_key(&review) {
                ensure(!decide(review, decision), || {
                    format!("decided {review:?}, which has ended")
                })?;
                self.did("decisions", "of reviews not open");
            }
            return Ok(());
        }
        let open: Vec<ReviewId> = self.open.keys().copied().collect();
        let review = *open.choose(self.random).expect("one that is open");
        ensure(decide(review, decision.clone()), || format!("{review:?} is not open"))?;
        self.did("decisions", if decision == Outcome::Rejected { "rejected" } else { "accepted" });
        let (session, path) = self.open.remove(&review).expect("an open review");
        let session = &mut self.sessions[session];
        session.expected.push(outcome(&path, &decision));
        let ending = match decision {
            Outcome::Accepted { content, .. } => Ok(content.to_string()),
            Outcome::Rejected => Err("was rejected"),
        };
        session.endings.insert(path, ending);
        Ok(())
    }

    fn publish(&mut self) -> i64 {
        self.contexts += 1;
        let cursor = Some(Cursor { line: self.contexts, character: 1 });
        let file = File {
            path: "/a".to_owned(),
            timestamp: 1,
            is_active: Some(true),
            cursor,
            ..File::default()
        };
        self.server.publish_context(IdeContext::new(vec![file]));
        self.contexts
    }

    /// Lets a session read all its messages, and compares them with the expected ones.
    fn catch_up(&mut self, session: usize) -> Check {
        if self.sessions[session].stream.is_none() {
            self.open_stream(session)?;
        }
        // It comes after everything else.
        let last = self.publish();
        let entry = &mut self.sessions[session];
        loop {
            let stream = entry.stream.as_mut().expect("an open stream");
            let (number, message) = match stream.next(DEADLINE) {
                Next::Got(event) => event,
                other => return Err(format!("a stream that should go on: {other:?}")),
            };
            let line = &message["params"]["workspaceState"]["openFiles"][0]["cursor"]["line"];
            let is_last = *line == last;
            entry.receive_again(number, message)?;
            if is_last {
                break;
            }
        }
        self.counts.add("caught up", if entry.honest { "honest" } else { "dishonest" });
        entry.check(session)
    }

    fn delete(&mut self, session: usize) -> Check {
        self.drain()?;
        let id = self.sessions[session].id.clone();
        let named = [("Mcp-Session-Id", id.as_str())];
        let status = self.server.request("DELETE", "/mcp", &named, "").status;
        ensure(status == 200, || format!("DELETE got {status}"))?;
        self.sessions[session].alive = false;
        let of_session = |(_, (of, _)): &(&ReviewId, &(usize, String))| *of == session;
        let over: Vec<ReviewId> = self.open.iter().filter(of_session).map(|(id, _)| *id).collect();
        self.open.retain(|_, (of, _)| *of != session);
        self.ending.extend(over);
        self.drain()?;
        ensure(self.ending.is_empty(), || {
            format!("Lisp was not notified of the end of {:?}", self.ending)
        })?;
        if let Some(mut stream) = self.sessions[session].stream.take() {
            loop {
                match stream.next(DEADLINE) {
                    Next::Got(_) => {}
                    Next::End => break,
                    other => return Err(format!("the stream did not end with DELETE: {other:?}")),
                }
            }
        }
        let reply = post(self.server, &id, &request(1, "ping", json!({})))?;
        ensure(reply.status == 404, || format!("a deleted session got {}", reply.status))?;
        self.did("DELETE", "200");
        Ok(())
    }

    fn drain(&mut self) -> Check {
        while let Some(event) = self.server.companion.bridge().next_event() {
            self.take(event)?;
        }
        Ok(())
    }

    /// Checks that the model explains an event.
    fn take(&mut self, event: Event) -> Check {
        check_event(&event)?;
        match event {
            Event::ClientsChanged => Ok(()),
            Event::CloseReview { review, call: None } if self.ending.contains(&review) => {
                self.ending.retain(|other| *other != review);
                Ok(())
            }
            other => Err(format!("an unexpected event: {other:?}")),
        }
    }

    fn review_of(&self, session: usize, path: &str) -> Option<ReviewId> {
        let mut open = self.open.iter();
        open.find(|(_, (of, its))| *of == session && its == path).map(|(id, _)| *id)
    }

    /// Ends the case: in half of all cases the clients leave, in the others the companion stops.
    fn end(&mut self) -> Check {
        self.drain()?;
        let living: Vec<usize> =
            (0..self.sessions.len()).filter(|n| self.sessions[*n].alive).collect();
        for session in &living {
            self.catch_up(*session)?;
        }
        if chance(self.random, 50) {
            for session in living {
                self.delete(session)?;
            }
        } else {
            let open = std::mem::take(&mut self.open);
            for (session, path) in open.values() {
                self.sessions[*session].expected.push(outcome(path, &Outcome::Rejected));
            }
            self.server.companion.stop();
            self.did("stopped", format!("with {} open", open.len()));
            for session in living {
                self.read_to_the_end(session)?;
            }
        }
        ensure(self.open.is_empty(), || format!("still open: {:?}", self.open))?;
        let decide = |review| self.server.companion.sessions().decide(review, Outcome::Rejected);
        let open: Vec<i64> = (0..self.last_review + 2).filter(|id| decide(ReviewId(*id))).collect();
        ensure(open.is_empty(), || format!("still open at the end: {open:?}"))
    }

    fn read_to_the_end(&mut self, session: usize) -> Check {
        let entry = &mut self.sessions[session];
        let Some(mut stream) = entry.stream.take() else { return Ok(()) };
        loop {
            match stream.next(DEADLINE) {
                Next::Got((number, message)) => entry.receive_again(number, message)?,
                Next::End => return entry.check(session),
                other => return Err(format!("a stream did not end properly: {other:?}")),
            }
        }
    }
}

impl Session {
    /// Records a message, which may have come before only as far as streams overlap.
    fn receive_again(&mut self, number: u64, message: Value) -> Check {
        let again = self.received.contains_key(&number);
        ensure(!self.honest || !again || number <= self.repeats, || {
            format!("received twice: {number} {message}")
        })?;
        self.receive(number, message)
    }

    fn receive(&mut self, number: u64, message: Value) -> Check {
        let before = self.received.insert(number, message.clone());
        ensure(before.as_ref().is_none_or(|before| *before == message), || {
            format!("event {number} was {before:?} and is {message}")
        })
    }

    fn outcomes(&self) -> Vec<&Value> {
        self.received.values().filter(|message| message["method"] != "ide/contextUpdate").collect()
    }

    fn check(&self, session: usize) -> Check {
        let received = self.outcomes();
        let right = if self.honest {
            received.iter().copied().eq(&self.expected)
        } else {
            // It may have missed some through its own fault.
            let mut expected = self.expected.iter();
            received.iter().all(|outcome| expected.any(|other| other == *outcome))
        };
        ensure(right, || {
            format!("session {session} received {received:#?} instead of {:#?}", self.expected)
        })
    }
}

fn outcome(path: &str, outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Accepted { content, .. } => {
            let params = json!({ "filePath": path, "content": **content });
            json!({ "jsonrpc": "2.0", "method": "ide/diffAccepted", "params": params })
        }
        Outcome::Rejected => {
            let params = json!({ "filePath": path });
            json!({ "jsonrpc": "2.0", "method": "ide/diffRejected", "params": params })
        }
    }
}

fn tool(name: &str, arguments: Value) -> String {
    request(7, "tools/call", json!({ "name": name, "arguments": arguments }))
}

fn closing(path: &str, silent: bool) -> String {
    tool("closeDiff", json!({ "filePath": path, "suppressNotification": silent }))
}
