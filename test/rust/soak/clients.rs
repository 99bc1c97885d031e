//! The clients, each a process of its own: the orders that they get, and what they report.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::records::Accepted;

/// The environment variable that makes a process a client: its number, its seed and the directory.
pub const CLIENT_VARIABLE: &str = "SOAK_CLIENT";

/// What a client is to do until the next order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Order {
    Work = b'w',
    /// Keep the stream: without one a client is not notified that the companion stops.
    Stay = b's',
    /// Keep the stream, and only read it.
    Rest = b'r',
}

/// What a client did, or what happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// It began a session; `successor` if it did not end the one before.
    Session {
        successor: bool,
    },
    /// Its stream is open.
    Listens {
        again: bool,
    },
    /// Its stream is closed.
    StreamLost(Loss),
    Called(Method),
    Answer(Method),
    /// The connection ended before the answer.
    CutOff(Method),
    /// No server listens on the port. The client tries again.
    NotListening,
    /// The connection ended without an answer. The client tries again.
    TurnedAway,
    Opened {
        review: usize,
    },
    Refused,
    Closing {
        review: usize,
        silent: bool,
    },
    /// `inherited` if by a later session than the one that proposed it.
    Received {
        review: usize,
        accepted: Accepted,
        inherited: bool,
    },
    /// Received again, by a session that inherited what the one before had received and not
    /// confirmed.
    ReceivedAgain {
        review: usize,
        accepted: Accepted,
    },
    /// It follows this order, and its stream is open. Not reported for `Work`.
    Follows(Order),
}

/// Why a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Loss {
    /// The client broke it.
    Broken,
    /// The server ended it properly.
    Ended,
    /// The connection ended.
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    Ping,
    List,
    OpenDiff,
    CloseDiff,
}

/// Writes a client's report to the pipe: one line, short enough to be written atomically.
pub fn send_report(client: usize, report: Report) {
    let line = serde_json::to_string(&(client, report)).unwrap() + "\n";
    io::stderr().write_all(line.as_bytes()).expect("the soak reads reports");
}

pub struct Clients {
    seed: u64,
    /// Where clients look for the companion.
    directory: PathBuf,
    processes: Vec<Child>,
    reports: PipeReader,
    writer: PipeWriter,
    unread: Vec<u8>,
    /// A line was not a report: it is the message of a client that has failed.
    saw_garbage: bool,
}

impl Clients {
    pub fn new(seed: u64, directory: PathBuf) -> Clients {
        let (reports, writer) = io::pipe().unwrap();
        Clients {
            seed,
            directory,
            processes: Vec::new(),
            reports,
            writer,
            unread: Vec::new(),
            saw_garbage: false,
        }
    }

    /// Starts `count` more clients.
    pub fn grow(&mut self, count: usize) {
        for _ in 0..count {
            self.processes.push(self.start_client(self.processes.len()));
        }
    }

    fn start_client(&self, number: usize) -> Child {
        let (seed, directory) = (self.seed + number as u64, self.directory.display());
        Command::new(std::env::current_exe().unwrap())
            .env(CLIENT_VARIABLE, format!("{number} {seed} {directory}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(self.writer.try_clone().unwrap())
            .spawn()
            .unwrap()
    }

    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// How many are still running.
    pub fn running(&mut self) -> usize {
        let states = self.processes.iter_mut().map(|client| client.try_wait().unwrap());
        states.filter(Option::is_none).count()
    }

    pub fn order(&mut self, order: Order) {
        for client in &mut self.processes {
            client.stdin.as_mut().unwrap().write_all(&[order as u8]).unwrap();
        }
    }

    /// Kills all clients, without ending their sessions.
    pub fn kill(&mut self) {
        for client in &mut self.processes {
            client.kill().unwrap();
        }
    }

    pub fn pipe(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// The reports that have arrived.
    pub fn reports(&mut self) -> Vec<(usize, Report)> {
        let mut chunk = [0; 1 << 16];
        while wait([Some(self.pipe())], Duration::ZERO) {
            let length = self.reports.read(&mut chunk).unwrap();
            self.unread.extend_from_slice(&chunk[..length]);
        }
        let complete = self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.unread.drain(..complete).collect();
        let lines = String::from_utf8(lines).unwrap();
        let reports = lines.lines().filter_map(|line| self.parse(line)).collect();
        if self.saw_garbage {
            self.check();
        }
        reports
    }

    fn parse(&mut self, line: &str) -> Option<(usize, Report)> {
        let report = serde_json::from_str(line).ok();
        if report.is_none() {
            self.saw_garbage = true;
            println!("{line}");
        }
        report
    }

    fn check(&mut self) {
        let mut states = self.processes.iter_mut().map(|client| client.try_wait().unwrap());
        let failed = |status: ExitStatus| status.code().is_some_and(|code| code != 0);
        assert!(!states.any(|state| state.is_some_and(failed)), "a client failed, see above");
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for client in &mut self.processes {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

/// Waits until one of `sources` can be read or is closed. Returns whether one is.
pub fn wait<const N: usize>(sources: [Option<BorrowedFd>; N], patience: Duration) -> bool {
    // Negative descriptors are ignored.
    let number = |source: Option<BorrowedFd>| source.map_or(-1, |source| source.as_raw_fd());
    let mut entries =
        sources.map(|source| libc::pollfd { fd: number(source), events: libc::POLLIN, revents: 0 });
    let milliseconds = patience.as_millis().try_into().unwrap();
    // Safety: the pointer is to N live values of the right type.
    unsafe { libc::poll(entries.as_mut_ptr(), N as libc::nfds_t, milliseconds) > 0 }
}
