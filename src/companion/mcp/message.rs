//! JSON-RPC 2.0 messages, parsed once into types.

use std::fmt;
use std::sync::Arc;

use hyper::body::Bytes;
use memchr::memchr;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The most members of the parameters of a request, and of the arguments of a tool.
const MAX_MEMBERS: usize = 64;
/// The most bytes of an id, which is sent back.
const MAX_ID: usize = 1024;
/// The most characters of a message for the user.
const MAX_FOR_USER: usize = 1000;
/// The most characters of a client's text that errors quote.
const MAX_QUOTED: usize = 100;

/// One message of a client.
#[derive(Debug)]
pub enum Message {
    Request(Request),
    /// The client has cancelled this request.
    Cancelled(Id),
    /// A message for the user.
    ForUser(String),
    /// Any other notification: it needs no action, and its content is dropped.
    Notification,
    /// The answer to a `ping`, our only request: a result and an error are equally good.
    Response(Id),
}

#[derive(Debug)]
pub struct Request {
    pub id: Id,
    pub method: String,
    pub params: Params,
}

/// The parameters of a request, or the arguments of a tool: members of an object, not parsed yet. They
/// are parts of the body, no copies, since they may be large.
#[derive(Debug, Default)]
pub struct Params {
    members: Vec<(String, Bytes)>,
    /// The member with this name, that of `tools/call`.
    arguments: Option<Box<Params>>,
}

impl Params {
    /// Parses them, and drops their text, which may be large: the call may then wait for Emacs.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, RpcError> {
        let parse = || {
            let mut members: Vec<(&str, &RawValue)> = Vec::with_capacity(self.members.len());
            for (name, text) in &self.members {
                members.push((name, serde_json::from_slice(text)?));
            }
            T::deserialize(MapDeserializer::new(members.into_iter()))
        };
        parse().map_err(RpcError::invalid_params)
    }

    /// Parses those of `tools/call`: the name of the tool, and its arguments.
    pub fn read_call(mut self) -> Result<(String, Params), RpcError> {
        Ok((self.take_text("name")?, *self.arguments.unwrap_or_default()))
    }

    /// Removes the member `name` and returns its text, unless that is null.
    pub fn take(&mut self, name: &str) -> Option<Bytes> {
        let index = self.members.iter().position(|(other, _)| other == name)?;
        Some(self.members.swap_remove(index).1).filter(|text| *text != "null")
    }

    /// Removes the member `name`, a string that may be large.
    pub fn take_text(&mut self, name: &str) -> Result<String, RpcError> {
        let text = self.take(name).and_then(|text| unescape(std::str::from_utf8(&text).ok()?));
        text.ok_or_else(|| RpcError::invalid_params(format!("{name} must be a string")))
    }

    /// The name of any member.
    pub fn any_name(&self) -> Option<&str> {
        self.members.first().map(|(name, _)| name.as_str())
    }
}

/// `Params` of which the texts are borrowed. All are found while the message is parsed for the first time.
/// Those `OF_TOOL` may have any names, also `arguments`.
#[derive(Default)]
struct RawParams<'a, const OF_TOOL: bool> {
    members: Vec<(String, &'a RawValue)>,
    arguments: Option<Box<RawParams<'a, true>>>,
}

impl<const OF_TOOL: bool> RawParams<'_, OF_TOOL> {
    /// They are a part of `body`.
    fn of(self, body: &Bytes) -> Params {
        let part = |(name, raw): (_, &RawValue)| (name, body.slice_ref(raw.get().as_bytes()));
        Params {
            members: self.members.into_iter().map(part).collect(),
            arguments: self.arguments.map(|arguments| Box::new(arguments.of(body))),
        }
    }
}

impl<'de: 'a, 'a, const OF_TOOL: bool> Deserialize<'de> for RawParams<'a, OF_TOOL> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(RawParams::default())
    }
}

impl<'de: 'a, 'a, const OF_TOOL: bool> Visitor<'de> for RawParams<'a, OF_TOOL> {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == "arguments" && !OF_TOOL {
                self.arguments = Some(map.next_value()?);
            } else {
                self.members.push((name, map.next_value()?));
            }
            if self.members.len() > MAX_MEMBERS {
                return Err(A::Error::custom(format!("more than {MAX_MEMBERS} members")));
            }
        }
        Ok(self)
    }
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
pub struct RpcError {
    pub code: i32,
    pub message: String,
}

impl RpcError {
    fn new(code: i32, kind: &str, reason: impl fmt::Display) -> RpcError {
        RpcError { code, message: format!("{kind}: {}", truncate(&reason.to_string())) }
    }

    pub fn parse_error(reason: impl fmt::Display) -> RpcError {
        RpcError::new(-32700, "Parse error", reason)
    }

    pub fn invalid_request(reason: impl fmt::Display) -> RpcError {
        RpcError::new(-32600, "Invalid request", reason)
    }

    pub fn method_not_found(method: &str) -> RpcError {
        RpcError::new(-32601, "Method not found", method)
    }

    pub fn invalid_params(reason: impl fmt::Display) -> RpcError {
        RpcError::new(-32602, "Invalid params", reason)
    }

    pub fn internal(message: impl fmt::Display) -> RpcError {
        RpcError { code: -32603, message: message.to_string() }
    }
}

/// Parses the body of a POST. Parameters stay unparsed until their type is known: a generic tree
/// would take a hundred times the memory.
pub fn parse(body: &Bytes) -> Result<Message, RpcError> {
    let text = std::str::from_utf8(body).map_err(RpcError::parse_error)?;
    // Serde would accept an array for an object, too.
    if !text.trim_ascii_start().starts_with('{') {
        serde_json::from_str::<IgnoredAny>(text).map_err(RpcError::parse_error)?;
        return Err(RpcError::invalid_request("expected an object"));
    }
    let raw: RawMessage = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => RpcError::invalid_request(error),
        _ => RpcError::parse_error(error),
    })?;
    raw.check(body)
}

/// The bytes of an escape with a number.
const ESCAPE: usize = r"\u0000".len();

/// The number of such an escape, if there is one.
fn code_unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix(br"\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A string that may be large: serde_json would hold a second copy while it removes the escapes. Lone
/// surrogates, which strings of JavaScript may contain and UTF-8 cannot, become U+FFFD, as when Node
/// writes them to a file.
pub struct LongText(pub String);

impl<'de> Deserialize<'de> for LongText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LongText, D::Error> {
        let raw = <&RawValue>::deserialize(from)?;
        unescape(raw.get())
            .map(LongText)
            .ok_or_else(|| serde::de::Error::custom("expected a string"))
    }
}

/// What a valid JSON string means; `None` if `json` is another value.
fn unescape(json: &str) -> Option<String> {
    let mut rest = json.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(rest.len());
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        let (meant, length) = escaped(&rest.as_bytes()[at..])?;
        text.push_str(&rest[..at]);
        text.push(meant);
        rest = &rest[at + length..];
    }
    text.push_str(rest);
    Some(text)
}

/// What the escape means with which `json` begins, a character, and how long the escape is.
fn escaped(json: &[u8]) -> Option<(char, usize)> {
    let short = |meant| Some((meant, 2));
    match json.get(1)? {
        b'n' => short('\n'),
        b't' => short('\t'),
        b'r' => short('\r'),
        b'b' => short('\u{8}'),
        b'f' => short('\u{c}'),
        b'u' => {
            let first = code_unit(json, 0)?;
            let pair = [first, code_unit(json, ESCAPE).unwrap_or(0)];
            let meant = char::decode_utf16(pair).next()?.unwrap_or(char::REPLACEMENT_CHARACTER);
            Some((meant, meant.len_utf16() * ESCAPE))
        }
        other => short(char::from(*other)),
    }
}

/// The members of a message, not checked yet. `Some(null)` differs from a missing member.
#[derive(Deserialize)]
struct RawMessage<'a> {
    jsonrpc: String,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "present")]
    method: Option<String>,
    #[serde(borrow, default)]
    params: RawParams<'a, false>,
    #[serde(default, deserialize_with = "present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    error: Option<IgnoredAny>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl RawMessage<'_> {
    /// Checks the message, a part of `body`.
    fn check(self, body: &Bytes) -> Result<Message, RpcError> {
        if self.jsonrpc != "2.0" {
            return Err(RpcError::invalid_request("\"jsonrpc\" must be \"2.0\""));
        }
        let id = self.id.map(check_id).transpose()?;
        let is_response = match (&self.result, &self.error) {
            (None, None) => false,
            (Some(_), Some(_)) => {
                return Err(RpcError::invalid_request("both \"result\" and \"error\""));
            }
            _ => true,
        };
        let params = self.params.of(body);
        match (self.method, id, is_response) {
            (Some(_), _, true) => Err(RpcError::invalid_request("both \"method\" and a response")),
            (Some(method), Some(id), false) => Ok(Message::Request(Request { id, method, params })),
            (Some(method), None, false) => Ok(notification(&method, params)),
            (None, Some(id), true) => Ok(Message::Response(id)),
            (None, ..) => Err(RpcError::invalid_request("neither a method nor a response")),
        }
    }
}

fn notification(method: &str, mut params: Params) -> Message {
    if method != "notifications/cancelled" {
        return for_user(method, params).map_or(Message::Notification, Message::ForUser);
    }
    // One that names no request is ignored: notifications get no answer, not even an error.
    let id = params.take("requestId");
    let id = id.and_then(|id| check_id(serde_json::from_slice(&id).ok()?).ok());
    id.map_or(Message::Notification, Message::Cancelled)
}

/// The text of document 003's `sendNotification` and of MCP's log messages.
fn for_user(method: &str, mut params: Params) -> Option<String> {
    if method == "notifications/progress" {
        return None; // it is about a request of ours, and none of those makes progress
    }
    let text = match params.take_text("message") {
        Err(_) if method == "notifications/message" => params.take_text("data"),
        message => message,
    };
    let text = text.ok().filter(|text| !text.trim().is_empty())?;
    Some(text.chars().take(MAX_FOR_USER).collect())
}

/// An id is a string or a number. Null is neither, nor is it the same as no id.
fn check_id(raw: &RawValue) -> Result<Id, RpcError> {
    if raw.get().len() > MAX_ID {
        return Err(RpcError::invalid_request("\"id\" is too long"));
    }
    match raw.get().as_bytes().first() {
        Some(b'"' | b'-' | b'0'..=b'9') => Ok(Id(raw.to_owned())),
        _ => Err(RpcError::invalid_request("\"id\" must be a string or a number")),
    }
}

/// The answer to one request.
#[derive(Debug, Serialize)]
pub struct Reply {
    jsonrpc: &'static str,
    id: Option<Id>,
    #[serde(flatten)]
    outcome: ResultOrError,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum ResultOrError {
    Result(Output),
    Error(RpcError),
}

/// The result of a request.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Output {
    Made(Value),
    /// The result of a tool that is the final content of a file, if there is any.
    Final {
        content: [Final; 1],
    },
    /// A constant, which is serialized only once.
    Ready(&'static RawValue),
}

/// A text, which is JSON: an object with this `content`. It may be large, so it is made when sent.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "text")]
pub struct Final {
    #[serde(rename = "text", serialize_with = "content_object")]
    content: Option<Arc<String>>,
}

fn content_object<S: Serializer>(content: &Option<Arc<String>>, to: S) -> Result<S::Ok, S::Error> {
    let content = serde_json::to_string(&content.as_deref()).map_err(serde::ser::Error::custom)?;
    to.collect_str(&format_args!("{{\"content\":{content}}}"))
}

impl Output {
    /// The result of a tool that has nothing to say.
    pub fn nothing() -> Output {
        Output::Made(json!({ "content": [] }))
    }

    /// The result of a tool.
    pub fn text(text: &str) -> Output {
        Output::Made(json!({ "content": [text_block(text)] }))
    }

    /// The result of a tool that has failed.
    pub fn failure(reason: &str) -> Output {
        Output::Made(json!({ "content": [text_block(reason)], "isError": true }))
    }

    pub fn final_content(content: Option<Arc<String>>) -> Output {
        Output::Final { content: [Final { content }] }
    }
}

/// A text in the result of a tool.
pub fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

impl From<Value> for Output {
    fn from(value: Value) -> Output {
        Output::Made(value)
    }
}

impl Reply {
    pub fn new(id: Id, outcome: Result<Output, RpcError>) -> Reply {
        let outcome = match outcome {
            Ok(result) => ResultOrError::Result(result),
            Err(failure) => ResultOrError::Error(failure),
        };
        Reply { jsonrpc: "2.0", id: Some(id), outcome }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a response always serializes")
    }

    /// The same request, refused.
    pub fn refused(self, failure: RpcError) -> Reply {
        Reply { outcome: ResultOrError::Error(failure), ..self }
    }

    /// For a message whose id is unknown.
    pub fn failure(failure: RpcError) -> Reply {
        Reply { jsonrpc: "2.0", id: None, outcome: ResultOrError::Error(failure) }
    }
}

/// The beginning of a client's text, for an error message.
pub fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Serializes a notification of the server as a JSON-RPC message.
pub fn notification_json(method: &str, params: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Notification<'a, T> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a T,
    }
    serde_json::to_string(&Notification { jsonrpc: "2.0", method, params })
        .expect("strings, numbers and maps with string keys always serialize")
}

/// Our only request to a client.
pub fn ping_json(id: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn parse(text: impl AsRef<[u8]>) -> Result<Message, RpcError> {
        super::parse(&Bytes::copy_from_slice(text.as_ref()))
    }

    fn code(text: &str) -> Option<i32> {
        parse(text).err().map(|failure| failure.code)
    }

    fn request(text: &str) -> Request {
        match parse(text) {
            Ok(Message::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn invalid_json_is_a_parse_error() {
        for text in ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\""] {
            assert_eq!(code(text), Some(-32700), "{text:.20}");
        }
        assert_eq!(parse(b"\xff").unwrap_err().code, -32700);
        assert_eq!(parse(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}").unwrap_err().code, -32700);
    }

    #[test]
    fn lone_surrogates_are_replaced_and_nothing_else() {
        for (escaped, text) in [
            (r"a\ud83d\ude00b", "a😀b"),
            (r"a\ud83db", "a\u{fffd}b"),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"\\ud83d\ud83d", "\\ud83d\u{fffd}"),
            (r"\u00e9\n\ud83d\n", "é\n\u{fffd}\n"),
            (r#"\"\/\b\f\r\t\u0000\uffff"#, "\"/\u{8}\u{c}\r\t\0\u{ffff}"),
        ] {
            let json = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"text":"{escaped}"}}}}"#
            );
            let text_of = request(&json).params.take_text("text").unwrap();
            assert_eq!(text_of, text, "{escaped}");
            let params: BTreeMap<String, LongText> = request(&json).params.read().unwrap();
            assert_eq!(params["text"].0, text, "{escaped}");
        }
    }

    #[test]
    fn other_json_is_an_invalid_request() {
        for text in [
            "1",
            "null",
            r#"["2.0",1,"ping"]"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"text"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":["x"]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"arguments":["x"]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        ] {
            assert_eq!(code(text), Some(-32600), "{text}");
        }
    }

    #[test]
    fn progress_notifications_are_not_for_the_user() {
        for (method, shown) in [("sendNotification", true), ("notifications/progress", false)] {
            let text =
                format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"message":"half"}}}}"#);
            let message = parse(text).unwrap();
            assert_eq!(matches!(message, Message::ForUser(_)), shown, "{method}");
        }
    }
}
