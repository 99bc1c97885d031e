//! Messages that are almost JSON-RPC, in valid HTTP requests of authorised clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gemini_companion::Event;
use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{
    Check, Counts, await_reply, chance, check_event, check_failure, check_reply, ensure, excerpt,
    label, pick, ping,
};
use crate::support::TestCompanion;
use crate::wire::{Reply, Wire};

/// JSON as text, which may be invalid: members may be duplicated, numbers and strings have any
/// form.
#[derive(Clone)]
enum Json {
    /// A number, literal or string, as written.
    Raw(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

#[test]
fn no_message_harms_the_server() {
    let server = TestCompanion::start();
    let healthy = server.open_session();
    let _stream = healthy.open_stream();
    let session = server.open_session();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lisp = scope.spawn(|| stand_in_for_lisp(&server, &done));
        let working = SetWhenDropped(&done);
        super::run_cases("JSON-RPC", 1000, 2_000_000, |_, random, counts| {
            let (kind, body) = generate(random);
            let outcome = run(&server, &session.id, kind, &body, counts)
                .and_then(|()| ping(&server, &healthy.id));
            outcome.map_err(|reason| format!("{kind}: {reason}\nafter {}", excerpt(&body)))
        });
        drop(working);
        if let Err(reason) = lisp.join().unwrap() {
            panic!("{reason}");
        }
    });
}

struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers every call with an empty text.
fn stand_in_for_lisp(server: &TestCompanion, done: &AtomicBool) -> Check {
    while !done.load(Ordering::Relaxed) {
        while let Some(event) = server.companion.bridge().next_event() {
            check_event(&event)?;
            if let Event::CloseReview { call: Some(call), .. } = event {
                server.companion.bridge().answer(call, Ok(String::new()));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn run(server: &TestCompanion, session: &str, kind: &str, body: &[u8], counts: &Counts) -> Check {
    let starts = kind == "initialize";
    let named = [("Mcp-Session-Id", if starts { "" } else { session })];
    let head = server.head("POST", "/mcp", &named);
    let mut wire = Wire::connect(server.companion.port()).unwrap();
    let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
    wire.send(&[head.as_bytes(), body].concat()).map_err(|error| error.to_string())?;
    let reply = await_reply(&mut wire)?;
    if let Some(opened) = reply.header("mcp-session-id") {
        ensure(starts, || "an unexpected session".to_owned())?;
        server.request("DELETE", "/mcp", &[("Mcp-Session-Id", opened)], "");
    }
    check_reply(server, &reply, true, false)?;
    let is_batch = body.trim_ascii_start().first() == Some(&b'[');
    let outcome = match reply.status {
        // A concurrent case has cancelled it, or it took long.
        200 if reply.is_stream() => "200 stream".to_owned(),
        200 | 202 if is_batch => return Err("a batch was served".to_owned()),
        200 => {
            let answer = reply.json();
            check_answer(&answer)?;
            check_id(body, &reply)?;
            match answer["error"]["code"].as_i64() {
                Some(code) => format!("200 {code}"),
                None if answer["result"]["isError"] == true => "200 tool error".to_owned(),
                None => "200 result".to_owned(),
            }
        }
        400 => format!("400 {}", reply.json()["error"]["code"]),
        202 => "202".to_owned(),
        // It must not be 404: a corrupted `initialize` simply names no session.
        _ => return Err(format!("an unexpected {}", label(&reply))),
    };
    counts.add(kind, outcome);
    Ok(())
}

/// Checks that `answer` is a valid response.
fn check_answer(answer: &Value) -> Check {
    let members = answer.as_object().ok_or("an answer that is not an object")?;
    match (members.get("result"), members.get("error")) {
        (Some(result), None) => ensure(result.is_object() && answer["jsonrpc"] == "2.0", || {
            format!("not a valid result: {answer}")
        }),
        (None, Some(_)) => check_failure(answer).map_err(|reason| format!("{reason}: {answer}")),
        _ => Err(format!("neither a result nor an error, or both: {answer}")),
    }
}

/// The id must come back byte for byte.
fn check_id(body: &[u8], reply: &Reply) -> Check {
    #[derive(serde::Deserialize)]
    struct HasId {
        id: Box<RawValue>,
    }
    let sent: HasId = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let got: HasId = serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
    ensure(sent.id.get() == got.id.get(), || {
        format!("the id {:.99} came back as {:.99}", sent.id.get(), got.id.get())
    })
}

fn raw(text: &str) -> Json {
    Json::Raw(text.to_owned())
}

fn object(members: &[(&str, Json)]) -> Json {
    Json::Object(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn message(method: &str, id: bool, params: Option<Json>) -> Json {
    let mut members = vec![("jsonrpc", raw("\"2.0\""))];
    if id {
        members.push(("id", raw("7")));
    }
    let method = raw(&format!("\"{method}\""));
    members.push(("method", method));
    members.extend(params.map(|params| ("params", params)));
    object(&members)
}

fn call(tool: &str, arguments: &[(&str, Json)]) -> Json {
    let name = raw(&format!("\"{tool}\""));
    message("tools/call", true, Some(object(&[("name", name), ("arguments", object(arguments))])))
}

/// A valid message, and its kind for the table.
fn good_message(random: &mut SmallRng) -> (&'static str, Json) {
    let path = ("filePath", raw(concat!("\"", local!("/no/such/file"), "\"")));
    match random.random_range(0..8) {
        0 => {
            let info = object(&[("name", raw("\"test\"")), ("version", raw("\"1\""))]);
            let params = object(&[
                ("protocolVersion", raw("\"2025-06-18\"")),
                ("capabilities", object(&[("roots", object(&[("listChanged", raw("true"))]))])),
                ("clientInfo", info),
            ]);
            ("initialize", message("initialize", true, Some(params)))
        }
        1 => ("ping", message("ping", true, None)),
        2 => {
            let cursor = object(&[("cursor", raw("\"1\""))]);
            ("tools/list", message("tools/list", true, Some(cursor)))
        }
        3 | 4 => ("openDiff", call("openDiff", &[path, ("newContent", raw("\"a\\nb\""))])),
        5 => ("closeDiff", call("closeDiff", &[path, ("suppressNotification", raw("false"))])),
        6 => {
            let params = object(&[("requestId", raw("7")), ("reason", raw("\"none\""))]);
            ("notifications", message("notifications/cancelled", false, Some(params)))
        }
        _ => {
            let members = [("jsonrpc", raw("\"2.0\"")), ("id", raw("1")), ("result", object(&[]))];
            ("responses", object(&members))
        }
    }
}

fn generate(random: &mut SmallRng) -> (&'static str, Vec<u8>) {
    let (mut kind, mut message) = good_message(random);
    for _ in 0..random.random_range(0..4) {
        mutate(&mut message, random);
    }
    if chance(random, 12) {
        kind = "batches";
        let mut items = vec![message];
        for _ in 0..random.random_range(0..6) {
            let (_, mut item) = good_message(random);
            if chance(random, 50) {
                mutate(&mut item, random);
            }
            items.push(item);
        }
        message = Json::List(items);
    }
    let mut text = String::new();
    message.write(&mut text);
    (kind, corrupt(text.into_bytes(), random))
}

/// Changes one node of the tree.
fn mutate(root: &mut Json, random: &mut SmallRng) {
    let place = random.random_range(0..root.size());
    let node = root.node(place).expect("a node below the size");
    match (random.random_range(0..7), node) {
        (0, Json::Object(members)) if !members.is_empty() => {
            members.remove(random.random_range(0..members.len()));
        }
        (1, Json::Object(members)) if !members.is_empty() => {
            let (name, value) = members[random.random_range(0..members.len())].clone();
            let value = if chance(random, 50) { value } else { odd_value(random) };
            members.push((name, value));
        }
        (2, Json::Object(members)) => {
            let name = pick(random, &["id", "result", "error", "method", "extra", "", "_meta"]);
            members.insert(
                random.random_range(0..=members.len()),
                (name.to_owned(), odd_value(random)),
            );
        }
        (3, Json::Object(members)) => {
            for (name, _) in members {
                if chance(random, 30) {
                    let odd =
                        [name.to_uppercase(), format!("{name}\\u0000"), "\\u0069d".to_owned()];
                    *name = pick(random, &odd);
                }
            }
        }
        (4, node) => *node = Json::List(vec![node.clone()]),
        (_, node) => *node = odd_value(random),
    }
}

/// An unusual JSON value, or invalid JSON.
fn odd_value(random: &mut SmallRng) -> Json {
    let numbers = [
        "0",
        "-0",
        "-1",
        "1.0",
        "1e3",
        "1E400",
        "-1e-400",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "0.1234567890123456789012345678901234567890",
        "01",
        "+1",
        ".5",
        "1.",
        "NaN",
        "Infinity",
        "0x10",
    ];
    let strings = [
        r#""""#,
        r#""\u0000""#,
        r#""\ud800""#,
        r#""\udc00\ud800""#,
        r#""\ud83d\ude00""#,
        r#""\ud83d\u0041""#,
        r#""\uFFFE\uFFFF""#,
        r#""\x41""#,
        r#""\u12""#,
        "\"a\nb\"",
        "\"\u{0}\"",
        "\"\u{2028}😀\u{feff}\"",
        r#""/ssh:host:/etc/passwd""#,
        r#""../relative""#,
        r#""/dev/zero""#,
        r#""/""#,
        r#""tools/call""#,
        r#""initialize""#,
        r#""openDiff""#,
        r#""2.0""#,
        r#""%s%n""#,
        "'single'",
    ];
    match random.random_range(0..9) {
        0 | 1 => raw(pick(random, &numbers)),
        2..=4 => raw(pick(random, &strings)),
        5 => raw(pick(random, &["true", "false", "null", "nul", "True", "undefined", ""])),
        6 => raw(&format!("\"{}\"", "long ".repeat(pick(random, &[100, 10_000, 100_000])))),
        7 => {
            let depth = pick(random, &[10, 126, 127, 128, 129, 1000, 50_000]);
            let (open, close) = pick(random, &[("[", "]"), ("{\"a\":", "}")]);
            let inner = if open == "[" { "" } else { "1" };
            raw(&format!("{}{inner}{}", open.repeat(depth), close.repeat(depth)))
        }
        _ => pick(
            random,
            &[Json::List(Vec::new()), Json::Object(Vec::new()), raw(&"9".repeat(5000))],
        ),
    }
}

/// Corrupts the text of the message; most often leaves it as it is.
fn corrupt(mut bytes: Vec<u8>, random: &mut SmallRng) -> Vec<u8> {
    match random.random_range(0..20) {
        0 => bytes.truncate(random.random_range(0..bytes.len().max(1))),
        1 => bytes.splice(0..0, *b"\xef\xbb\xbf").for_each(drop),
        2 => bytes.extend_from_slice(pick(random, &[&b"x"[..], b"{}", b"\0", b",", b" \t\r\n "])),
        3 => bytes.splice(0..0, *b" \r\n\t").for_each(drop),
        4 => bytes.splice(0..0, *b"/* a */").for_each(drop),
        5 if !bytes.is_empty() => {
            let place = random.random_range(0..bytes.len());
            bytes[place] = random.random();
        }
        _ => {}
    }
    bytes
}

impl Json {
    fn children(&mut self) -> Vec<&mut Json> {
        match self {
            Json::Raw(_) => Vec::new(),
            Json::List(items) => items.iter_mut().collect(),
            Json::Object(members) => members.iter_mut().map(|(_, value)| value).collect(),
        }
    }

    fn size(&mut self) -> usize {
        1 + self.children().into_iter().map(Json::size).sum::<usize>()
    }

    /// The node with the index `place`, in the order of the text.
    fn node(&mut self, mut place: usize) -> Option<&mut Json> {
        if place == 0 {
            return Some(self);
        }
        place -= 1;
        for child in self.children() {
            let size = child.size();
            if place < size {
                return child.node(place);
            }
            place -= size;
        }
        None
    }

    fn write(&self, text: &mut String) {
        match self {
            Json::Raw(raw) => text.push_str(raw),
            Json::List(items) => {
                text.push('[');
                for (number, item) in items.iter().enumerate() {
                    text.push_str(if number == 0 { "" } else { "," });
                    item.write(text);
                }
                text.push(']');
            }
            Json::Object(members) => {
                text.push('{');
                for (number, (name, value)) in members.iter().enumerate() {
                    text.push_str(if number == 0 { "\"" } else { ",\"" });
                    text.push_str(name);
                    text.push_str("\":");
                    value.write(text);
                }
                text.push('}');
            }
        }
    }
}
