//! Clients that are processes of their own: the server finds out where each works, and when it ends.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::support::{Session, TestCompanion, request};

/// Sends the request in $REQUEST to $PORT, prints the answer, and then changes to each directory that it
/// reads.
pub const CLIENT: &str = r#"
    exec 3<>"/dev/tcp/127.0.0.1/$PORT"
    printf '%s' "$REQUEST" >&3
    while IFS= read -r line <&3; do printf '%s\n' "$line"; done
    printf '%s\nthat is all\n' "$line"
    while read -r directory; do cd "$directory" && echo there; done
"#;

/// A process that works in a directory, and has sent a request.
pub struct Client {
    process: Child,
    pub output: BufReader<std::process::ChildStdout>,
}

impl Client {
    pub fn start(server: &TestCompanion, directory: &Path, request: String) -> Client {
        Client::start_by(server, Path::new("bash"), directory, request, &[])
    }

    /// The same, by `program`, with further `arguments`.
    fn start_by(
        server: &TestCompanion,
        program: &Path,
        directory: &Path,
        request: String,
        arguments: &[&str],
    ) -> Client {
        let mut process = Command::new(program)
            .args(["-c", CLIENT])
            .args(arguments)
            .current_dir(directory)
            .env("PORT", server.companion.port().to_string())
            .env("REQUEST", request)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Client { process, output }
    }

    /// Begins a session.
    pub fn initialize<'a>(server: &'a TestCompanion, directory: &Path) -> (Client, Session<'a>) {
        Client::initialize_with(server, directory, &[])
    }

    /// The same, as a program with these `arguments`.
    pub fn initialize_with<'a>(
        server: &'a TestCompanion,
        directory: &Path,
        arguments: &[&str],
    ) -> (Client, Session<'a>) {
        Client::initialize_by(server, Path::new("bash"), directory, arguments)
    }

    /// The same, by `program`, which is bash by some name.
    pub fn initialize_by<'a>(
        server: &'a TestCompanion,
        program: &Path,
        directory: &Path,
        arguments: &[&str],
    ) -> (Client, Session<'a>) {
        let body = request(0, "initialize", json!({ "protocolVersion": "2025-06-18" }));
        let head = server.head("POST", "/mcp", &[]);
        let text = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let mut client = Client::start_by(server, program, directory, text, arguments);
        let answer = client.read_until("that is all");
        let id = answer.iter().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        (client, server.session(id.to_owned()))
    }

    pub fn read_until(&mut self, end: &str) -> Vec<String> {
        let lines = (&mut self.output).lines().map(|line| line.unwrap().trim_end().to_owned());
        lines.take_while(|line| line != end).collect()
    }

    pub fn go_to(&mut self, directory: &Path) {
        writeln!(self.process.stdin.as_ref().unwrap(), "{}", directory.display()).unwrap();
        self.read_until("there");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
