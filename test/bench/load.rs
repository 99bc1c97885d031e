//! Clients that put a server under load, and say what each of their requests took.
//!
//! One file without dependencies, which `make bench` compiles by rustc alone. The server is anyone's
//! that speaks MCP over HTTP, or a bare echo:
//!
//!     load echo-server
//!     load echo    PORT CONNECTIONS SECONDS
//!     load calls   PORT TOKEN METHOD CONNECTIONS SECONDS
//!     load connect PORT TOKEN SECONDS
//!     load crowd   PORT TOKEN CLIENTS
//!     load listen  PORT TOKEN SESSIONS
//!     load propose PORT TOKEN
//!
//! `calls` sends METHOD again and again on each connection; `initialize` opens a session each time,
//! and deletes it, which is not measured. `echo` sends as many bytes as a `ping` has, and waits for
//! them. `connect` does what Gemini CLI does when it connects, up to the answer to `tools/list`, in a
//! new process each time. These print how many seconds all took, and the microseconds of each.
//!
//! `crowd` has CLIENTS connect with two connections each, an event stream and one that is idle, and
//! prints how many of them are still served on both when all are connected.
//!
//! The others stay until their standard input ends, and print a line when they are ready. `listen`
//! opens SESSIONS with an event stream each, and prints for each context that comes the time and the
//! cursor, `TIME LINE CHARACTER`. `propose` proposes, for each `BYTES FILE` that it reads, a text of
//! so many bytes for FILE, and prints `answered TIME MICROSECONDS`, when it was sent and how long the
//! answer took, and `decided TIME`. Times are in microseconds since 1970. Five lines of the text,
//! evenly spread, say `changed`, and how many proposals there were before, since one that was just
//! accepted is not asked about again; the others say which line they are.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, process};

type Result<T> = io::Result<T>;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

const TOOLS: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#;

struct Client {
    reader: BufReader<TcpStream>,
    port: u16,
    token: String,
    session: Option<String>,
}

impl Client {
    fn connect(port: u16, token: &str) -> Result<Client> {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Client { reader: BufReader::new(socket), port, token: token.into(), session: None })
    }

    /// Opens a session, as the real client does.
    fn open(port: u16, token: &str) -> Result<Client> {
        let mut client = Client::connect(port, token)?;
        client.initialize()?;
        client.send("POST", INITIALIZED)?;
        client.answer()?;
        Ok(client)
    }

    fn initialize(&mut self) -> Result<()> {
        self.session = None;
        self.send("POST", INITIALIZE)?;
        self.answer()?;
        Ok(())
    }

    fn send(&mut self, method: &str, body: &str) -> Result<()> {
        let mut request = format!(
            "{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\
             Accept: application/json, text/event-stream\r\n",
            self.port, self.token
        );
        if let Some(session) = &self.session {
            request +=
                &format!("Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: 2025-06-18\r\n");
        }
        if !body.is_empty() {
            request +=
                &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        request += "\r\n";
        // Does not copy a large body, which would count as the server's time.
        let mut socket = BufWriter::new(self.reader.get_mut());
        socket.write_all(request.as_bytes())?;
        socket.write_all(body.as_bytes())?;
        socket.flush()
    }

    /// Reads the head of an answer.
    fn head(&mut self) -> Result<Head> {
        let mut head = Head::default();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(head);
            }
            if head.status == 0 {
                let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
                head.status = status.ok_or_else(|| io::Error::other(line))?;
            } else if let Some((name, value)) = line.split_once(':') {
                let value = value.trim();
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => head.length = value.parse().ok(),
                    "transfer-encoding" => head.chunked = true,
                    "mcp-session-id" => self.session = Some(value.into()),
                    _ => {}
                }
            }
        }
    }

    /// Reads an answer that has an end.
    fn answer(&mut self) -> Result<String> {
        let head = self.head()?;
        let body = if head.chunked {
            let mut body = Vec::new();
            while let Some(chunk) = self.chunk()? {
                body.extend_from_slice(&chunk);
            }
            body
        } else {
            let mut body = vec![0; head.length.unwrap_or(0)];
            self.reader.read_exact(&mut body)?;
            body
        };
        let body = String::from_utf8_lossy(&body).into_owned();
        if !(200..300).contains(&head.status) || body.contains("\"error\"") {
            return Err(io::Error::other(format!("status {}: {body}", head.status)));
        }
        Ok(body)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().into())
    }

    /// The next chunk of a body, `None` at its end.
    fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let length = usize::from_str_radix(self.line()?.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }
}

#[derive(Default)]
struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
}

/// Runs `request` again and again on each of `connections`, and prints what each took.
fn measure<C>(
    connections: usize,
    seconds: f64,
    connect: impl Fn() -> Result<C> + Send + Sync + 'static,
    request: impl Fn(&mut C) -> Result<Duration> + Send + Sync + 'static,
) -> Result<()> {
    let work = Arc::new((connect, request));
    let together = Arc::new(Barrier::new(connections + 1));
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            let (work, together) = (Arc::clone(&work), Arc::clone(&together));
            thread::spawn(move || -> Result<Vec<u128>> {
                let client = (work.0)().and_then(|mut client| {
                    (work.1)(&mut client)?;
                    Ok(client)
                });
                together.wait();
                let mut client = client?;
                let start = Instant::now();
                let mut taken = Vec::new();
                while start.elapsed().as_secs_f64() < seconds {
                    taken.push((work.1)(&mut client)?.as_nanos());
                }
                Ok(taken)
            })
        })
        .collect();
    together.wait();
    let start = Instant::now();
    let mut taken = Vec::new();
    for thread in threads {
        taken.extend(thread.join().map_err(|_| io::Error::other("a client panicked"))??);
    }
    let elapsed = start.elapsed().as_secs_f64();
    let mut out = io::stdout().lock();
    writeln!(out, "seconds {elapsed:.6}")?;
    for nanoseconds in taken {
        writeln!(out, "{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)?;
    }
    Ok(())
}

fn echo(port: u16, connections: usize, seconds: f64) -> Result<()> {
    let bytes = [b'x'; 300];
    measure(
        connections,
        seconds,
        move || {
            let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            socket.set_nodelay(true)?;
            Ok(socket)
        },
        move |socket: &mut TcpStream| {
            let start = Instant::now();
            socket.write_all(&bytes)?;
            let mut back = bytes;
            socket.read_exact(&mut back)?;
            Ok(start.elapsed())
        },
    )
}

fn calls(port: u16, token: &str, method: &str, connections: usize, seconds: f64) -> Result<()> {
    let connect = {
        let (token, opens) = (token.to_owned(), method == "initialize");
        move || {
            if opens { Client::connect(port, &token) } else { Client::open(port, &token) }
        }
    };
    if method == "initialize" {
        return measure(connections, seconds, connect, |client: &mut Client| {
            let start = Instant::now();
            client.initialize()?;
            let taken = start.elapsed();
            client.send("DELETE", "")?;
            client.answer()?;
            Ok(taken)
        });
    }
    let body = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{{}}}}"#);
    measure(connections, seconds, connect, move |client: &mut Client| {
        let start = Instant::now();
        client.send("POST", &body)?;
        client.answer()?;
        Ok(start.elapsed())
    })
}

/// Connects as Gemini CLI does, in processes of their own, one after another.
fn connect(port: &str, token: &str, seconds: f64) -> Result<()> {
    let program = env::current_exe()?;
    measure(1, seconds, || Ok(()), {
        let (port, token) = (port.to_owned(), token.to_owned());
        move |()| {
            let once = ["connect-once", &port, &token];
            let output = process::Command::new(&program).args(once).output()?;
            let taken = String::from_utf8_lossy(&output.stdout).trim().parse();
            Ok(Duration::from_nanos(taken.map_err(io::Error::other)?))
        }
    })
}

/// Connects once, prints the nanoseconds, and ends the session.
fn connect_once(port: u16, token: &str) -> Result<()> {
    let start = Instant::now();
    let (mut client, _stream) = connected(port, token)?;
    println!("{}", start.elapsed().as_nanos());
    client.send("DELETE", "")?;
    client.answer()?;
    Ok(())
}

/// A client that has connected as Gemini CLI does, and its event stream.
fn connected(port: u16, token: &str) -> Result<(Client, Client)> {
    let mut client = Client::open(port, token)?;
    let stream = subscribe(&client)?;
    client.send("POST", TOOLS)?;
    client.answer()?;
    Ok((client, stream))
}

/// Counts the clients that are served on both of their connections while all have them open.
fn crowd(port: u16, token: &str, clients: usize) -> Result<()> {
    let mut crowd: Vec<_> = (0..clients).map_while(|_| connected(port, token).ok()).collect();
    let served = crowd.iter_mut().filter_map(|(client, stream)| {
        stream.reader.get_ref().set_nonblocking(true).ok()?;
        // What has come already, and then nothing, or the end.
        let end = std::iter::repeat_with(|| stream.line()).find_map(Result::err)?;
        let open = end.kind() == io::ErrorKind::WouldBlock;
        client.send("POST", TOOLS).and_then(|()| client.answer()).ok().filter(|_| open)
    });
    println!("{}", served.count());
    Ok(())
}

/// Opens an event stream for the session of `client`.
fn subscribe(client: &Client) -> Result<Client> {
    let mut stream = Client::connect(client.port, &client.token)?;
    stream.session.clone_from(&client.session);
    stream.send("GET", "")?;
    let head = stream.head()?;
    if head.status != 200 {
        return Err(io::Error::other(format!("the stream was answered {}", head.status)));
    }
    stream.reader.get_ref().set_read_timeout(None)?;
    Ok(stream)
}

fn listen(port: u16, token: &str, sessions: usize) -> Result<()> {
    for _ in 0..sessions {
        // The connection that opened the session ends here; the session lives by its stream.
        let mut stream = subscribe(&Client::open(port, token)?)?;
        thread::spawn(move || {
            while let Ok(Some(chunk)) = stream.chunk() {
                let now = microseconds();
                let text = String::from_utf8_lossy(&chunk);
                if let (Some(line), Some(character)) =
                    (member(&text, "line"), member(&text, "character"))
                {
                    println!("{now} {line} {character}");
                }
            }
        });
    }
    println!("{sessions} sessions");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    process::exit(0);
}

/// The number that is the member `name` of the JSON in `text`.
fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = text.split_once(&format!("\"{name}\":"))?;
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    Some(&value[..digits])
}

fn microseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

/// The length of a line that is not changed.
const LINE: usize = 35;

fn proposed(bytes: usize, turn: usize) -> String {
    let lines = bytes / LINE + 1;
    let line = |number| match number % (lines / 5 + 1) == lines / 10 {
        true => format!(r"this line is changed, turn {turn:04}\n"),
        false => format!(r"a line of text, its number {number:07}\n"),
    };
    (0..lines).map(line).collect()
}

fn propose(port: u16, token: &str) -> Result<()> {
    let mut client = Client::open(port, token)?;
    let mut stream = subscribe(&client)?;
    thread::spawn(move || {
        while let Ok(Some(chunk)) = stream.chunk() {
            if String::from_utf8_lossy(&chunk).contains("ide/diff") {
                println!("decided {}", microseconds());
            }
        }
    });
    println!("ready");
    for (turn, line) in io::stdin().lines().enumerate() {
        let line = line?;
        let (bytes, file) = line.split_once(' ').ok_or(io::Error::other("no file"))?;
        let text = proposed(bytes.parse().map_err(io::Error::other)?, turn);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"openDiff","arguments":{{"filePath":"{file}","newContent":"{text}"}}}}}}"#
        );
        let (sent, start) = (microseconds(), Instant::now());
        client.send("POST", &body)?;
        client.answer()?;
        println!("answered {sent} {}", start.elapsed().as_micros());
    }
    Ok(())
}

/// Sends back whatever comes.
fn echo_server() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{} none", listener.local_addr()?.port());
    for socket in listener.incoming() {
        let socket = socket?;
        thread::spawn(move || -> Result<()> {
            socket.set_nodelay(true)?;
            let (mut reader, mut writer) = (&socket, &socket);
            io::copy(&mut reader, &mut writer)?;
            Ok(())
        });
    }
    Ok(())
}

fn run(arguments: &[&str]) -> Result<()> {
    let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
    let port = |text: &str| text.parse::<u16>().map_err(io::Error::other);
    let seconds = |text: &str| text.parse::<f64>().map_err(io::Error::other);
    match arguments {
        ["echo", at, connections, time] => echo(port(at)?, number(connections)?, seconds(time)?),
        ["calls", at, token, method, connections, time] => {
            calls(port(at)?, token, method, number(connections)?, seconds(time)?)
        }
        ["connect", at, token, time] => connect(at, token, seconds(time)?),
        ["connect-once", at, token] => connect_once(port(at)?, token),
        ["crowd", at, token, clients] => crowd(port(at)?, token, number(clients)?),
        ["listen", at, token, sessions] => listen(port(at)?, token, number(sessions)?),
        ["propose", at, token] => propose(port(at)?, token),
        ["echo-server"] => echo_server(),
        _ => Err(io::Error::other("usage: see the comment at the top of load.rs")),
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = run(&arguments) {
        eprintln!("load: {error}");
        process::exit(1);
    }
}
