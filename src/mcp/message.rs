//! JSON-RPC 2.0 messages: parsed once into types, and never looked up by key again.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// One message of a client.
#[derive(Debug)]
pub enum Message {
    Request(Request),
    /// The client does not want the answer to this request any more.
    Cancelled(Id),
    /// Any other notification. None asks anything of us, so what it says is not kept.
    Notification,
    /// An answer to a request of ours. We ask only `ping`, so any answer is as good as another.
    Response(Id),
}

#[derive(Debug)]
pub struct Request {
    pub id: Id,
    pub method: String,
    /// Null if the request has none.
    pub params: Value,
}

/// What the body of a POST holds.
#[derive(Debug)]
pub enum Incoming {
    One(Message),
    /// Revisions before 2025-06-18 allow several messages at once.
    Batch(Vec<Result<Message, Failure>>),
}

/// The id of a request, kept as it was written: a string or a number.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Id(Box<RawValue>);

impl Id {
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Whether this is the string `text`.
    pub fn is_text(&self, text: &str) -> bool {
        serde_json::from_str::<String>(self.0.get()).is_ok_and(|id| id == text)
    }
}

/// An error of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub code: i32,
    pub message: String,
}

impl Failure {
    pub fn parse_error(reason: impl std::fmt::Display) -> Failure {
        Failure { code: -32700, message: format!("Parse error: {reason}") }
    }

    pub fn invalid_request(reason: impl std::fmt::Display) -> Failure {
        Failure { code: -32600, message: format!("Invalid request: {reason}") }
    }

    pub fn method_not_found(method: &str) -> Failure {
        Failure { code: -32601, message: format!("Method not found: {method}") }
    }

    pub fn invalid_params(reason: impl std::fmt::Display) -> Failure {
        Failure { code: -32602, message: format!("Invalid params: {reason}") }
    }

    pub fn internal_error() -> Failure {
        Failure { code: -32603, message: "Internal error".to_owned() }
    }
}

/// Parses the body of a POST.
pub fn parse(body: &[u8]) -> Result<Incoming, Failure> {
    if body.trim_ascii_start().first() != Some(&b'[') {
        return parse_one(body).map(Incoming::One);
    }
    let items: Vec<&RawValue> = serde_json::from_slice(body).map_err(Failure::parse_error)?;
    if items.is_empty() {
        return Err(Failure::invalid_request("an empty batch"));
    }
    Ok(Incoming::Batch(items.iter().map(|item| parse_one(item.get().as_bytes())).collect()))
}

fn parse_one(bytes: &[u8]) -> Result<Message, Failure> {
    let raw = serde_json::from_slice::<RawMessage>(bytes).or_else(|error| {
        // To refuse a text for half a character in it would end the connection.
        mend_surrogates(bytes).map_or(Err(error), |mended| serde_json::from_slice(&mended))
    });
    raw.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Failure::invalid_request(error),
        _ => Failure::parse_error(error),
    })?
    .check()
}

/// Replaces escapes of lone surrogates, which JavaScript's strings may hold and UTF-8 cannot, by
/// that of U+FFFD, which is what Node writes to a file for them. `None` if there are none.
fn mend_surrogates(json: &[u8]) -> Option<Vec<u8>> {
    const ESCAPE: usize = r"\u0000".len();
    let unit = |at: usize| {
        let digits = json.get(at..at + ESCAPE)?.strip_prefix(br"\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut mended: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(offset) = json.get(at..)?.iter().position(|byte| *byte == b'\\') {
        at += offset;
        at += match (unit(at), unit(at + ESCAPE)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * ESCAPE,
            (Some(0xd800..=0xdfff), _) => {
                let mended = mended.get_or_insert_with(|| json.to_vec());
                mended[at..at + ESCAPE].copy_from_slice(br"\ufffd");
                ESCAPE
            }
            (Some(_), _) => ESCAPE,
            (None, _) => 2, // another escape
        };
    }
    mended
}

/// The members of a message as they came. `Some(null)` differs from no member.
#[derive(Deserialize)]
struct RawMessage {
    jsonrpc: String,
    #[serde(default, deserialize_with = "present")]
    id: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    method: Option<String>,
    #[serde(default, deserialize_with = "present")]
    params: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    result: Option<serde::de::IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    error: Option<serde::de::IgnoredAny>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl RawMessage {
    fn check(self) -> Result<Message, Failure> {
        if self.jsonrpc != "2.0" {
            return Err(Failure::invalid_request("\"jsonrpc\" must be \"2.0\""));
        }
        let id = self.id.map(check_id).transpose()?;
        let is_response = match (&self.result, &self.error) {
            (None, None) => false,
            (Some(_), Some(_)) => {
                return Err(Failure::invalid_request("both \"result\" and \"error\""));
            }
            _ => true,
        };
        let params = match self.params {
            None => Value::Null,
            Some(params @ (Value::Object(_) | Value::Array(_))) => params,
            Some(_) => return Err(Failure::invalid_request("\"params\" must be structured")),
        };
        match (self.method, id, is_response) {
            (Some(_), _, true) => Err(Failure::invalid_request("both \"method\" and a response")),
            (Some(method), Some(id), false) => Ok(Message::Request(Request { id, method, params })),
            (Some(method), None, false) => Ok(notification(&method, params)),
            (None, Some(id), true) => Ok(Message::Response(id)),
            (None, ..) => Err(Failure::invalid_request("neither a method nor a response")),
        }
    }
}

fn notification(method: &str, params: Value) -> Message {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled {
        request_id: Value,
    }
    if method != "notifications/cancelled" {
        return Message::Notification;
    }
    // One that names no request is none of ours, and no error: notifications have no answer.
    let id = serde_json::from_value(params).ok().and_then(|Cancelled { request_id }| {
        check_id(serde_json::value::to_raw_value(&request_id).ok()?).ok()
    });
    id.map_or(Message::Notification, Message::Cancelled)
}

/// An id is a string or a number; null is none of them, and not the same as no id.
fn check_id(raw: Box<RawValue>) -> Result<Id, Failure> {
    match raw.get().as_bytes().first() {
        Some(b'"' | b'-' | b'0'..=b'9') => Ok(Id(raw)),
        _ => Err(Failure::invalid_request("\"id\" must be a string or a number")),
    }
}

/// What one request gets: a result or a failure, under its own id.
#[derive(Debug, Serialize)]
pub struct Response {
    jsonrpc: &'static str,
    id: Option<Id>,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Result(Value),
    Error(Failure),
}

impl Response {
    pub fn new(id: Id, outcome: Result<Value, Failure>) -> Response {
        let outcome = match outcome {
            Ok(result) => Outcome::Result(result),
            Err(failure) => Outcome::Error(failure),
        };
        Response { jsonrpc: "2.0", id: Some(id), outcome }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a response always serialises")
    }

    /// For a message whose id is unknown.
    pub fn failure(failure: Failure) -> Response {
        Response { jsonrpc: "2.0", id: None, outcome: Outcome::Error(failure) }
    }
}

/// A notification of ours as it goes over the wire.
pub fn notification_json(notification: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Envelope<'a, T> {
        jsonrpc: &'static str,
        #[serde(flatten)]
        notification: &'a T,
    }
    serde_json::to_string(&Envelope { jsonrpc: "2.0", notification })
        .expect("strings, numbers and maps with string keys always serialise")
}

/// Our only request to a client: is it there?
pub fn ping_json(id: &str) -> String {
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Option<i32> {
        parse(text.as_bytes()).err().map(|failure| failure.code)
    }

    fn request(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Ok(Incoming::One(Message::Request(request))) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ids_go_back_as_they_came() {
        for id in ["0", "-7", "1.50", "\"a\\u0041\"", "123456789012345678901234567890"] {
            let request = request(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
            let response = Response::new(request.id, Ok(Value::Object(Default::default())));
            assert_eq!(
                serde_json::to_string(&response).unwrap(),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
            );
        }
    }

    #[test]
    fn what_is_no_json_is_a_parse_error() {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\"", &deep] {
            assert_eq!(code(text), Some(-32700), "{text:.20}");
        }
        assert_eq!(parse(b"\xff").unwrap_err().code, -32700);
        assert_eq!(parse(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}").unwrap_err().code, -32700);
    }

    #[test]
    fn halves_of_characters_are_replaced_and_nothing_else() {
        for (escaped, text) in [
            (r"a\ud83d\ude00b", "a😀b"),
            (r"a\ud83db", "a\u{fffd}b"),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"\\ud83d\ud83d", "\\ud83d\u{fffd}"),
            (r"\u00e9\n\ud83d\n", "é\n\u{fffd}\n"),
        ] {
            let json = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":["{escaped}"]}}"#);
            assert_eq!(request(&json).params[0], text, "{escaped}");
        }
        for broken in [r"\ud83", r"\", r"\u", r"\ud83d\u", r"\ud83d\"] {
            assert_eq!(code(&format!(r#"{{"jsonrpc":"2.0","method":"{broken}"#)), Some(-32700));
        }
    }

    #[test]
    fn what_is_no_message_is_an_invalid_request() {
        for text in [
            "1",
            "null",
            "{}",
            "[]",
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"text"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        ] {
            assert_eq!(code(text), Some(-32600), "{text}");
        }
    }

    #[test]
    fn a_batch_keeps_its_good_messages() {
        let text = r#" [{"jsonrpc":"2.0","id":1,"method":"ping"}, 7]"#;
        let Ok(Incoming::Batch(items)) = parse(text.as_bytes()) else { panic!() };
        assert!(matches!(items[0], Ok(Message::Request(_))));
        assert_eq!(items[1].as_ref().unwrap_err().code, -32600);
    }

    #[test]
    fn responses_and_notifications_are_told_apart() {
        let response = parse(br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#);
        assert!(matches!(response, Ok(Incoming::One(Message::Response(_)))));
        let notification = parse(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(matches!(notification, Ok(Incoming::One(Message::Notification))));
    }
}
