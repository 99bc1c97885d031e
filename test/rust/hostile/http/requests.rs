//! How each kind of hostile HTTP request is made at random.

use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::json;

use super::{Case, Pace};
use crate::hostile::{chance, pick};
use crate::support::{TestCompanion, request};

/// A file of which nobody without the token can propose a change.
pub const FORBIDDEN: &str = local!("/no/such/forbidden");

#[derive(Clone, Copy, PartialEq)]
enum Token {
    Right,
    Wrong,
    None,
}

/// A request in the making, which the cases corrupt.
struct Draft {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    token: Token,
}

impl Draft {
    fn new(server: &TestCompanion, session: &str, random: &mut SmallRng) -> Draft {
        let token =
            pick(random, &[Token::Right, Token::Right, Token::Right, Token::Wrong, Token::None]);
        let open = json!({ "name": "openDiff", "arguments": {
            "filePath": if token == Token::Right { local!("/no/such/allowed") } else { FORBIDDEN },
            "newContent": "text" } });
        let body = pick(random, &[request(1, "ping", json!({})), request(2, "tools/call", open)]);
        let mut headers = vec![
            ("Host".to_owned(), format!("127.0.0.1:{}", server.companion.port())),
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
            ("Mcp-Session-Id".to_owned(), session.to_owned()),
        ];
        match token {
            Token::Right => {
                let value = format!("Bearer {}", server.companion.token("gemini").unwrap());
                headers.push(("Authorization".to_owned(), value));
            }
            Token::Wrong => {
                let value =
                    pick(random, &["Bearer wrong", "Bearer ", "Basic d3Jvbmc=", "Bearer", ""]);
                headers.push(("Authorization".to_owned(), value.to_owned()));
            }
            Token::None => {}
        }
        let line = "POST /mcp HTTP/1.1".to_owned();
        let mut draft = Draft { line, headers, body: body.into_bytes(), token };
        if chance(random, 70) {
            draft.add("Connection", "close");
        }
        draft
    }

    fn add(&mut self, name: &str, value: impl Into<String>) {
        self.headers.push((name.to_owned(), value.into()));
    }

    fn remove(&mut self, name: &str) {
        self.headers.retain(|(other, _)| other != name);
    }

    fn head(&self) -> String {
        let lines = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        format!("{}\r\n{}\r\n", self.line, lines.collect::<String>())
    }

    /// The bytes of the request, without adding a length.
    fn raw(&self) -> Vec<u8> {
        [self.head().as_bytes(), &self.body].concat()
    }

    fn complete(mut self) -> Vec<u8> {
        self.add("Content-Length", self.body.len().to_string());
        self.raw()
    }

    fn chunked(mut self, chunks: &[u8]) -> Vec<u8> {
        self.add("Transfer-Encoding", "chunked");
        [self.head().as_bytes(), chunks].concat()
    }

    /// The statuses for a request that is valid except perhaps for its token; 404 follows a DELETE.
    fn expected(&self) -> &'static [u16] {
        if self.token == Token::Right { &[200, 404] } else { &[401] }
    }
}

type Generator = fn(&TestCompanion, Draft, &mut SmallRng) -> Case;

const GENERATORS: [Generator; 18] = [
    edited_bytes,
    edited_bytes,
    request_lines,
    header_floods,
    long_heads,
    hosts,
    origins,
    lengths,
    chunks,
    broken_chunks,
    trailers,
    pipelines,
    truncated,
    slow_writers,
    absolute_forms,
    control_characters,
    not_utf8,
    wrong_tokens,
];

pub fn generate(server: &TestCompanion, session: &str, random: &mut SmallRng) -> Case {
    let draft = Draft::new(server, session, random);
    let generator = pick(random, &GENERATORS);
    let mut case = generator(server, draft, random);
    if matches!(case.pace, Pace::AtOnce) && case.bytes.len() < 2000 && chance(random, 15) {
        case.pace = pick(random, &[Pace::ByteByByte, Pace::InPieces]);
    }
    case
}

fn is_authorised(draft: &Draft) -> bool {
    draft.token == Token::Right
}

fn edited_bytes(_: &TestCompanion, draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let mut bytes = draft.complete();
    for _ in 0..random.random_range(1..8) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..6) {
            0 => bytes[at] = random.random(),
            1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes.insert(at, pick(random, b"\0\r\n :;,\x7f\xff\t\"{[(0-+")),
            3 => drop(bytes.remove(at)),
            4 => {
                let end = (at + random.random_range(1..40)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let end = (at + random.random_range(1..10)).min(bytes.len());
                if end - at < bytes.len() {
                    bytes.drain(at..end);
                }
            }
        }
    }
    Case::loose("edited bytes", authorised, bytes)
}

fn request_lines(_: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    draft.line = pick(
        random,
        &[
            "",
            " ",
            "GET",
            "POST /mcp",
            "POST  /mcp  HTTP/1.1",
            "POST /mcp HTTP/9.9",
            "POST /mcp HTTP/1.0",
            "POST /mcp HTTP/2.0",
            "POST /mcp http/1.1",
            "PRI * HTTP/2.0\r\n\r\nSM",
            "P\u{f6}ST /mcp HTTP/1.1",
            "POST mcp HTTP/1.1",
            "POST * HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "HEAD /mcp HTTP/1.1",
            "TRACE /mcp HTTP/1.1",
            "CONNECT 127.0.0.1:1 HTTP/1.1",
            "CONNECT /mcp HTTP/1.1",
            "DELETE /mcp HTTP/1.1",
            "GET /mcp HTTP/1.1",
            "GET /mcp HTTP/1.0",
            "GET /mcp/ HTTP/1.1",
            "POST /mcp?a=b#c HTTP/1.1",
            "POST //mcp HTTP/1.1",
            "POST /%6dcp HTTP/1.1",
            "POST /../mcp HTTP/1.1",
            "POST /mcp\\ HTTP/1.1",
            "POST /mcp HTTP/1.1 more",
            "\r\n\r\n\r\nPOST /mcp HTTP/1.1",
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}",
        ],
    )
    .to_owned();
    let bodiless = draft.line.starts_with("HEAD");
    Case { bodiless, ..Case::loose("request lines", authorised, draft.complete()) }
}

fn header_floods(_: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let same = chance(random, 50);
    let count = pick(random, &[80, 100, 101, 300, 5000]);
    for number in 0..count {
        let name = if same { "X-Flood".to_owned() } else { format!("X-Flood-{number}") };
        draft.headers.insert(0, (name, "x".repeat(random.random_range(0..20))));
    }
    Case::loose("header floods", authorised, draft.complete())
}

fn long_heads(_: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let huge = "x".repeat(pick(random, &[1 << 10, 1 << 14, 1 << 16, 1 << 17, 1 << 20]));
    match random.random_range(0..5) {
        0 => draft.add("X-Huge", huge),
        1 => draft.add(&huge, "value"),
        2 => draft.line = format!("POST /{huge} HTTP/1.1"),
        3 => draft.line = format!("{huge} /mcp HTTP/1.1"),
        _ => {
            draft.remove("Authorization");
            draft.add("Authorization", format!("Bearer {huge}"));
            return Case::loose("long heads", false, draft.complete());
        }
    }
    Case::loose("long heads", authorised, draft.complete())
}

fn hosts(server: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let port = server.companion.port();
    if chance(random, 70) {
        draft.remove("Host");
    }
    for _ in 0..random.random_range(0..3) {
        let host = pick(
            random,
            &[
                "evil.example".to_owned(),
                format!("evil.example:{port}"),
                format!("127.0.0.1:{port}.evil.example"),
                format!("127.0.0.1:{port}@evil.example"),
                format!("user@127.0.0.1:{port}"),
                format!("127.0.0.1:{port},127.0.0.1:{port}"),
                format!("127.0.0.1:0{port}"),
                format!("[::1]:{port}"),
                format!("localhost.:{port}"),
                "127.0.0.1".to_owned(),
                String::new(),
            ],
        );
        draft.add("Host", host);
    }
    let names = draft.headers.iter().filter(|(name, _)| name == "Host").count();
    let good = draft.headers.iter().any(|(_, value)| *value == format!("127.0.0.1:{port}"));
    let expected = if names == 1 && good { draft.expected() } else { &[403] };
    Case::strict("hosts", authorised, draft.complete(), expected)
}

fn origins(_: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let origin = pick(random, &["null", "", "http://127.0.0.1", "vscode-webview://x", "*"]);
    draft.add(pick(random, &["Origin", "origin", "ORIGIN"]), origin);
    Case::strict("origins", authorised, draft.complete(), &[403])
}

fn lengths(_: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let length = draft.body.len();
    let lengths = [
        "0".to_owned(),
        (length - 1).to_string(),
        (length + 1).to_string(),
        (length + 100_000).to_string(),
        "-1".to_owned(),
        format!("+{length}"),
        format!("0x{length:x}"),
        format!("{length}, {length}"),
        format!("{length} 0"),
        format!("{length};"),
        "18446744073709551615".to_owned(),
        "18446744073709551616".to_owned(),
        "9223372036854775808".to_owned(),
        "134217729".to_owned(),
        "1e3".to_owned(),
        "\u{665}".to_owned(),
        String::new(),
    ];
    for _ in 0..random.random_range(1..3) {
        draft.add("Content-Length", pick(random, &lengths));
    }
    if chance(random, 20) {
        draft.add("Transfer-Encoding", pick(random, &["chunked", "gzip", "chunked, chunked", "x"]));
    }
    if chance(random, 20) {
        draft.add("Expect", pick(random, &["100-continue", "200-ok"]));
    }
    Case::loose("lengths", authorised, draft.raw())
}

/// `body` in chunks of random sizes, without the final empty one.
fn in_chunks(body: &[u8], random: &mut SmallRng) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (chunk, more) = rest.split_at(random.random_range(1..=rest.len()));
        let extension = pick(random, &["", "", ";a=b", ";a=\"b c\""]);
        let zeros = pick(random, &["", "", "000"]);
        bytes.extend_from_slice(format!("{zeros}{:X}{extension}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        rest = more;
    }
    bytes
}

fn chunks(_: &TestCompanion, draft: Draft, random: &mut SmallRng) -> Case {
    let (authorised, expected) = (is_authorised(&draft), draft.expected());
    let mut chunks = in_chunks(&draft.body, random);
    chunks.extend_from_slice(b"0\r\n\r\n");
    Case::strict("chunks", authorised, draft.chunked(&chunks), expected)
}

fn broken_chunks(_: &TestCompanion, draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let mut chunks = in_chunks(&draft.body, random);
    let broken = pick(
        random,
        &[
            "-1\r\nx\r\n0\r\n\r\n".to_owned(),
            "g\r\n0\r\n\r\n".to_owned(),
            "ffffffffffffffff\r\nx".to_owned(),
            "fffffffffffffffff\r\nx".to_owned(),
            "7fffffff\r\nx".to_owned(),
            "5\r\nab\r\n0\r\n\r\n".to_owned(),
            "1\r\nabc\r\n0\r\n\r\n".to_owned(),
            "1\nx\n0\n\n".to_owned(),
            "\r\n0\r\n\r\n".to_owned(),
            "0".to_owned(),
            "0\r\n".to_owned(),
            "1 2\r\nx\r\n0\r\n\r\n".to_owned(),
            format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(40_000)),
            format!("{}1\r\nx\r\n0\r\n\r\n", "0".repeat(40_000)),
            "1\r\nx\r\n".repeat(2000),
        ],
    );
    let at = if chance(random, 50) { 0 } else { chunks.len() };
    chunks.splice(at..at, broken.into_bytes());
    Case::loose("broken chunks", authorised, draft.chunked(&chunks))
}

fn trailers(_: &TestCompanion, draft: Draft, random: &mut SmallRng) -> Case {
    let (authorised, expected) = (is_authorised(&draft), draft.expected());
    let mut chunks = in_chunks(&draft.body, random);
    chunks.extend_from_slice(b"0\r\n");
    // Trailers are ignored: they can supply neither a token nor another host.
    let small = chance(random, 60);
    let count = if small { random.random_range(1..5) } else { pick(random, &[101, 3000]) };
    for _ in 0..count {
        let name =
            pick(random, &["X-Trailer", "Authorization", "Host", "Origin", "Content-Length"]);
        chunks.extend_from_slice(format!("{name}: 1\r\n").as_bytes());
    }
    chunks.extend_from_slice(b"\r\n");
    let bytes = draft.chunked(&chunks);
    if small {
        Case::strict("trailers", authorised, bytes, expected)
    } else {
        Case::loose("trailer floods", authorised, bytes)
    }
}

fn pipelines(_: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let (authorised, expected) = (is_authorised(&draft), draft.expected());
    draft.remove("Connection");
    draft.add("Content-Length", draft.body.len().to_string());
    let count = random.random_range(2..12);
    let mut bytes = draft.raw().repeat(count);
    // After a refusal the connection is closed.
    let replies = if authorised { count } else { 1 };
    if chance(random, 40) {
        bytes.extend_from_slice(b"\0 nonsense\r\n\r\n");
        return Case { replies, ..Case::loose("pipelines", authorised, bytes) };
    }
    Case { replies, ..Case::strict("pipelines", authorised, bytes, expected) }
}

fn truncated(_: &TestCompanion, draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let mut bytes = draft.complete();
    bytes.truncate(random.random_range(0..bytes.len()));
    let pace = if chance(random, 60) { Pace::HangUp } else { Pace::AtOnce };
    let kind = if matches!(pace, Pace::HangUp) { "hang-ups" } else { "half requests" };
    Case { pace, ..Case::loose(kind, authorised, bytes) }
}

fn slow_writers(_: &TestCompanion, draft: Draft, random: &mut SmallRng) -> Case {
    let (authorised, expected) = (is_authorised(&draft), draft.expected());
    let pace = pick(random, &[Pace::ByteByByte, Pace::InPieces]);
    Case { pace, ..Case::strict("slow writers", authorised, draft.complete(), expected) }
}

fn absolute_forms(server: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let port = server.companion.port();
    let target = pick(
        random,
        &[
            format!("http://127.0.0.1:{port}/mcp"),
            "http://evil.example/mcp".to_owned(),
            "https://evil.example:1/mcp".to_owned(),
            "http://".to_owned(),
            "http:///mcp".to_owned(),
            format!("http://user:secret@127.0.0.1:{port}/mcp"),
            format!("http://127.0.0.1:{port}"),
            "http://[::1/mcp".to_owned(),
            "file:///etc/passwd".to_owned(),
            "ftp://x/mcp".to_owned(),
            "http://x:99999/mcp".to_owned(),
        ],
    );
    draft.line = format!("POST {target} HTTP/1.1");
    Case::loose("absolute forms", authorised, draft.complete())
}

fn control_characters(_: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let control = pick(random, &["\0", "\u{1}", "\u{7f}", "\r", "\n", "\r\n ", "\t", "\u{b}"]);
    match random.random_range(0..4) {
        0 => draft.line = format!("POST /mcp{control} HTTP/1.1"),
        1 => draft.add("X-Control", format!("a{control}b")),
        2 => draft.add(&format!("X-Con{control}trol"), "value"),
        _ => {
            let at = random.random_range(0..draft.body.len());
            draft.body.splice(at..at, control.bytes());
        }
    }
    Case::loose("control characters", authorised, draft.complete())
}

fn not_utf8(_: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let authorised = is_authorised(&draft);
    let text = draft.body.iter().rposition(|byte| *byte == b':').unwrap();
    let wrong: &[u8] = pick(
        random,
        &[&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xfe\xff"],
    );
    let at = pick(random, &[0, text, draft.body.len()]);
    draft.body.splice(at..at, wrong.iter().copied());
    let expected: &[u16] = if authorised { &[400] } else { &[401] };
    Case::strict("not UTF-8", authorised, draft.complete(), expected)
}

/// Tokens that are all wrong, some only slightly.
fn wrong_tokens(server: &TestCompanion, mut draft: Draft, random: &mut SmallRng) -> Case {
    let token = server.companion.token("gemini").unwrap();
    draft.remove("Authorization");
    let right = format!("Bearer {token}");
    let wrong = [
        format!("Bearer {}", &token[1..]),
        format!("Bearer {}", &token[..token.len() - 1]),
        format!("Bearer {token}0"),
        format!("Bearer  {token}"),
        format!("Bearer\t{token}"),
        format!("Bearer {}", token.to_uppercase()),
        format!("Bearer \"{token}\""),
        format!("Bearer {token}, Bearer {token}"),
        format!("Basic {token}"),
        format!("Bearer={token}"),
        token.to_owned(),
    ];
    match random.random_range(0..4) {
        0 => {
            draft.add("Authorization", right.clone());
            draft.add("Authorization", pick(random, &[right.as_str(), "Bearer wrong", ""]));
        }
        1 => draft.add(pick(random, &["Proxy-Authorization", "X-Authorization", "Cookie"]), right),
        2 => draft.line = format!("POST /mcp?access_token={token}&authorization={token} HTTP/1.1"),
        _ => draft.add("Authorization", pick(random, &wrong)),
    }
    draft.body =
        String::from_utf8(draft.body).unwrap().replace("allowed", "forbidden").into_bytes();
    let letters = token.chars().any(|character| character.is_ascii_alphabetic());
    assert!(letters, "the token has no letters");
    Case::strict("wrong tokens", false, draft.complete(), &[401])
}
