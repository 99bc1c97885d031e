//! JSON-RPC 2.0 messages, parsed once into types.

use std::sync::Arc;
use std::{fmt, io};

use hyper::body::Bytes;
use memchr::{memchr, memchr2};
use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The most messages in a batch.
const MAX_BATCH: usize = 100;
/// The most arrays and objects within each other.
const MAX_DEPTH: usize = 64;
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

/// The parameters of a request, or the arguments of a tool, not parsed yet: a part of the body, no
/// copy, since that may be large.
#[derive(Debug, Default)]
pub struct Params(Option<Bytes>);

impl Params {
    /// Parses them as an object; if they are missing, as an empty one. Drops their text, which may
    /// be large, while the call may wait for Emacs.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, RpcError> {
        text(&self.0).and_then(read).map_err(RpcError::invalid_params)
    }

    /// Parses those of `tools/call`.
    pub fn read_call(self) -> Result<Call, RpcError> {
        #[derive(Deserialize)]
        struct Parts<'a> {
            name: String,
            #[serde(borrow, default)]
            arguments: Option<&'a RawValue>,
        }
        let parse = |whole: &Option<Bytes>| -> serde_json::Result<Call> {
            let Parts { name, arguments } = parse_object(text(whole)?)?;
            let part = |raw| whole.as_ref().map(|whole| Params::part_of(whole, raw));
            Ok(Call { name, arguments: arguments.and_then(part).unwrap_or_default() })
        };
        let mend = |whole: &Bytes| replace_lone_surrogates(whole).map(Bytes::from);
        parse(&self.0)
            .or_else(|error| match self.0.as_ref().and_then(mend) {
                Some(mended) => parse(&Some(mended)),
                None => Err(error),
            })
            .map_err(RpcError::invalid_params)
    }

    fn part_of(whole: &Bytes, raw: &RawValue) -> Params {
        Params(Some(whole.slice_ref(raw.get().as_bytes())).filter(|text| *text != "null"))
    }
}

/// The parameters of `tools/call`.
pub struct Call {
    pub name: String,
    pub arguments: Params,
}

fn text(params: &Option<Bytes>) -> serde_json::Result<&str> {
    let text = params.as_ref().map_or(Ok("{}"), |text| std::str::from_utf8(text));
    text.map_err(serde::de::Error::custom)
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Params, D::Error> {
        let raw: Box<str> = Box::<RawValue>::deserialize(from)?.into();
        Ok(Params(Some(raw.into_string()).filter(|raw| raw != "null").map(Bytes::from)))
    }
}

/// What the body of a POST holds.
#[derive(Debug)]
pub enum Incoming {
    One(Message),
    /// Revisions before 2025-06-18 allow several messages at once.
    Batch(Vec<Result<Message, RpcError>>),
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
    pub fn parse_error(reason: impl std::fmt::Display) -> RpcError {
        RpcError {
            code: -32700,
            message: format!("Parse error: {}", truncate(&reason.to_string())),
        }
    }

    pub fn invalid_request(reason: impl std::fmt::Display) -> RpcError {
        RpcError {
            code: -32600,
            message: format!("Invalid request: {}", truncate(&reason.to_string())),
        }
    }

    pub fn method_not_found(method: &str) -> RpcError {
        RpcError { code: -32601, message: format!("Method not found: {}", truncate(method)) }
    }

    pub fn invalid_params(reason: impl std::fmt::Display) -> RpcError {
        RpcError {
            code: -32602,
            message: format!("Invalid params: {}", truncate(&reason.to_string())),
        }
    }

    /// Messages and answers use up what they may.
    pub fn too_large_an_answer() -> RpcError {
        let message = "too many large messages and answers at once: ask again";
        RpcError { message: message.to_owned(), ..RpcError::internal_error() }
    }

    pub fn internal_error() -> RpcError {
        RpcError { code: -32603, message: "Internal error".to_owned() }
    }
}

/// Parses the body of a POST. Parameters stay unparsed until their type is known: a generic tree
/// would take a hundred times the memory.
pub fn parse(body: &Bytes) -> Result<Incoming, RpcError> {
    let text = std::str::from_utf8(body).map_err(RpcError::parse_error)?;
    if is_too_deep(text) {
        return Err(RpcError::parse_error("nested too deeply"));
    }
    if !text.trim_ascii_start().starts_with('[') {
        return parse_one(text, body).map(Incoming::One);
    }
    let Batch(items) = serde_json::from_str(text).map_err(RpcError::parse_error)?;
    match items.len() {
        0 => Err(RpcError::invalid_request("an empty batch")),
        1..=MAX_BATCH => {
            Ok(Incoming::Batch(items.iter().map(|item| parse_one(item.get(), body)).collect()))
        }
        _ => Err(RpcError::invalid_request(format!("a batch of more than {MAX_BATCH} messages"))),
    }
}

/// Parses one message, a part of `body`.
fn parse_one(text: &str, body: &Bytes) -> Result<Message, RpcError> {
    parse_as_written(text, body).or_else(|failure| {
        let mended = replace_lone_surrogates(text.as_bytes()).map(Bytes::from).ok_or(failure)?;
        let text = std::str::from_utf8(&mended).map_err(RpcError::parse_error)?;
        parse_as_written(text, &mended)
    })
}

fn parse_as_written(text: &str, body: &Bytes) -> Result<Message, RpcError> {
    let raw: RawMessage = parse_object(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => RpcError::invalid_request(error),
        _ => RpcError::parse_error(error),
    })?;
    raw.check(body)
}

/// Parses an object.
fn parse_object<'a, T: Deserialize<'a>>(json: &'a str) -> serde_json::Result<T> {
    // Serde would accept an array for a struct, too.
    if !json.trim_ascii_start().starts_with('{') {
        serde_json::from_str::<IgnoredAny>(json)?;
        return Err(serde::de::Error::custom("an object is wanted"));
    }
    serde_json::from_str(json)
}

/// The same, leniently.
fn read<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    leniently(json, |json| parse_object(json))
}

/// Parses any value, leniently.
pub(super) fn parse_value<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    leniently(json, |json| serde_json::from_str(json))
}

/// Lone surrogates are replaced rather than refused: after an error the client would disconnect.
fn leniently<T>(
    json: &str,
    parse: impl Fn(&str) -> serde_json::Result<T>,
) -> serde_json::Result<T> {
    parse(json).or_else(|error| {
        let mended = replace_lone_surrogates(json.as_bytes()).ok_or(error)?;
        parse(std::str::from_utf8(&mended).map_err(serde::de::Error::custom)?)
    })
}

/// The messages of a batch; if there are too many, only enough to know that.
struct Batch<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Batch<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Batch<'de>, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = Batch<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Batch<'de>, A::Error> {
                let mut kept = Vec::new();
                while kept.len() <= MAX_BATCH
                    && let Some(item) = items.next_element()?
                {
                    kept.push(item);
                }
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Batch(kept))
            }
        }
        from.deserialize_seq(Items)
    }
}

/// Whether arrays and objects are nested deeper than any valid message.
fn is_too_deep(json: &str) -> bool {
    let json = json.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => at += rest_of_string(&json[at..]),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// The length of the rest of the string in which `json` begins. Strings are most of a large
/// message.
fn rest_of_string(json: &[u8]) -> usize {
    let mut at = 0;
    while let Some(offset) = json.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += offset;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2; // an escaped character does not end the string
    }
    json.len()
}

/// Replaces the escapes of lone surrogates, which strings of JavaScript may contain and UTF-8
/// cannot, with that of U+FFFD, which Node writes to files in their place. Returns `None` if there
/// are none.
fn replace_lone_surrogates(json: &[u8]) -> Option<Vec<u8>> {
    let unit = |at: usize| code_unit(json, at);
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

/// The bytes of an escape with a number.
const ESCAPE: usize = r"\u0000".len();

/// The number of such an escape, if there is one.
fn code_unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix(br"\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A string that may be large: serde_json would have a copy besides while it removes the escapes.
/// Lone surrogates are replaced.
pub struct LongText(pub String);

impl<'de> Deserialize<'de> for LongText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LongText, D::Error> {
        let raw: Box<str> = Box::<RawValue>::deserialize(from)?.into();
        let text = unescape(raw.into());
        text.map(LongText).ok_or_else(|| serde::de::Error::custom("a string is wanted"))
    }
}

/// What a valid JSON string means, in its own memory; `None` if `json` is another value.
fn unescape(json: String) -> Option<String> {
    let mut bytes = json.into_bytes();
    let (mut from, mut to) = (1, 0);
    let end = bytes.len().checked_sub(1).filter(|_| bytes[0] == b'"')?;
    while from < end {
        let run = memchr(b'\\', &bytes[from..end]).unwrap_or(end - from);
        bytes.copy_within(from..from + run, to);
        (from, to) = (from + run, to + run);
        if from < end {
            let (meant, length) = escaped(&bytes[from..end])?;
            let mut buffer = [0; 4];
            let meant = meant.encode_utf8(&mut buffer).as_bytes();
            bytes[to..to + meant.len()].copy_from_slice(meant); // never longer than the escape
            (from, to) = (from + length, to + meant.len());
        }
    }
    bytes.truncate(to);
    String::from_utf8(bytes).ok()
}

/// The character that the escape means with which `json` begins, and its length.
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
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
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
        if self.params.as_ref().is_some_and(|params| !params.get().starts_with(['{', '['])) {
            return Err(RpcError::invalid_request("\"params\" must be structured"));
        }
        let params = self.params.map(|raw| Params::part_of(body, raw)).unwrap_or_default();
        match (self.method, id, is_response) {
            (Some(_), _, true) => Err(RpcError::invalid_request("both \"method\" and a response")),
            (Some(method), Some(id), false) => Ok(Message::Request(Request { id, method, params })),
            (Some(method), None, false) => Ok(notification(&method, params)),
            (None, Some(id), true) => Ok(Message::Response(id)),
            (None, ..) => Err(RpcError::invalid_request("neither a method nor a response")),
        }
    }
}

fn notification(method: &str, params: Params) -> Message {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled {
        request_id: Box<RawValue>,
    }
    if method != "notifications/cancelled" {
        return for_user(method, params).map_or(Message::Notification, Message::ForUser);
    }
    // One that names no request is ignored: notifications get no answer, not even an error.
    let id = params.read().ok().and_then(|Cancelled { request_id }| check_id(&request_id).ok());
    id.map_or(Message::Notification, Message::Cancelled)
}

/// The text of document 003's `sendNotification` and of MCP's log messages.
fn for_user(method: &str, params: Params) -> Option<String> {
    #[derive(Deserialize)]
    struct Text {
        message: Option<String>,
        data: Option<String>,
    }
    if method == "notifications/progress" {
        return None; // it is about a request of ours, and none of those makes progress
    }
    let Text { message, data } = params.read().ok()?;
    let data = data.filter(|_| method == "notifications/message");
    message
        .or(data)
        .filter(|text| !text.trim().is_empty())
        .map(|text| text.chars().take(MAX_FOR_USER).collect())
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
pub struct Response {
    jsonrpc: &'static str,
    id: Option<Id>,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Result(Output),
    Error(RpcError),
}

/// The result of a request.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Output {
    Made(Value),
    Tool(ToolResult),
    /// A constant, which is serialized only once.
    Ready(&'static RawValue),
}

/// The result of a tool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    content: Vec<Content>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Content {
    Text { text: Text },
}

/// The text of a result.
#[derive(Debug)]
pub enum Text {
    Plain(Arc<str>),
    /// JSON: an object with this `content`. It may be large, and is made only when it is sent.
    Object(Option<Arc<str>>),
}

impl ToolResult {
    pub fn nothing() -> ToolResult {
        ToolResult { content: Vec::new(), is_error: false }
    }

    pub fn text(text: Text) -> ToolResult {
        ToolResult { content: vec![Content::Text { text }], is_error: false }
    }

    pub fn failure(reason: &str) -> ToolResult {
        ToolResult { is_error: true, ..ToolResult::text(reason.into()) }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::Plain(text.into())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Text::Plain(text) => to.serialize_str(text),
            Text::Object(content) => to.collect_str(&AsObject(content.as_deref())),
        }
    }
}

/// Writes that object piece by piece.
struct AsObject<'a>(Option<&'a str>);

impl fmt::Display for AsObject<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("{\"content\":")?;
        serde_json::to_writer(Pieces(formatter), &self.0).map_err(|_| fmt::Error)?;
        formatter.write_str("}")
    }
}

struct Pieces<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl io::Write for Pieces<'_, '_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(piece).map_err(io::Error::other)?; // each is a whole text
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<ToolResult> for Output {
    fn from(result: ToolResult) -> Output {
        Output::Tool(result)
    }
}

impl From<Value> for Output {
    fn from(value: Value) -> Output {
        Output::Made(value)
    }
}

impl Response {
    pub fn new(id: Id, outcome: Result<Output, RpcError>) -> Response {
        let outcome = match outcome {
            Ok(result) => Outcome::Result(result),
            Err(failure) => Outcome::Error(failure),
        };
        Response { jsonrpc: "2.0", id: Some(id), outcome }
    }

    pub fn to_json(&self) -> String {
        const ENVELOPE: usize = 128;
        let result = match &self.outcome {
            Outcome::Result(Output::Ready(text)) => text.get().len(),
            _ => 0,
        };
        let mut json = Vec::with_capacity(ENVELOPE + result);
        serde_json::to_writer(&mut json, self).expect("a response always serializes");
        String::from_utf8(json).expect("JSON is text")
    }

    /// The same request, refused.
    pub fn refused(self, failure: RpcError) -> Response {
        Response { outcome: Outcome::Error(failure), ..self }
    }

    /// For a message whose id is unknown.
    pub fn failure(failure: RpcError) -> Response {
        Response { jsonrpc: "2.0", id: None, outcome: Outcome::Error(failure) }
    }
}

/// The answer to a batch.
pub fn batch_json(responses: &[Response]) -> String {
    serde_json::to_string(responses).expect("responses always serialize")
}

/// The beginning of a client's text, for an error message.
pub fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Serializes a notification of the server as a JSON-RPC message.
pub fn notification_json(notification: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Envelope<'a, T> {
        jsonrpc: &'static str,
        #[serde(flatten)]
        notification: &'a T,
    }
    serde_json::to_string(&Envelope { jsonrpc: "2.0", notification })
        .expect("strings, numbers and maps with string keys always serialize")
}

/// Our only request to a client.
pub fn ping_json(id: &str) -> String {
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn parse(text: impl AsRef<[u8]>) -> Result<Incoming, RpcError> {
        super::parse(&Bytes::copy_from_slice(text.as_ref()))
    }

    fn code(text: &str) -> Option<i32> {
        parse(text).err().map(|failure| failure.code)
    }

    fn request(text: &str) -> Request {
        match parse(text) {
            Ok(Incoming::One(Message::Request(request))) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ids_go_back_as_they_came() {
        for id in ["0", "-7", "1.50", "\"a\\u0041\"", "123456789012345678901234567890"] {
            let request = request(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
            let response = Response::new(request.id, Ok(Value::Object(Default::default()).into()));
            assert_eq!(
                serde_json::to_string(&response).unwrap(),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
            );
        }
    }

    #[test]
    fn invalid_json_is_a_parse_error() {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\"", &deep] {
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
            let params: BTreeMap<String, String> = request(&json).params.read().unwrap();
            assert_eq!(params["text"], text, "{escaped}");
            let params: BTreeMap<String, LongText> = request(&json).params.read().unwrap();
            assert_eq!(params["text"].0, text, "{escaped}");
        }
        for broken in [r"\ud83", r"\", r"\u", r"\ud83d\u", r"\ud83d\"] {
            assert_eq!(code(&format!(r#"{{"jsonrpc":"2.0","method":"{broken}"#)), Some(-32700));
        }
    }

    #[test]
    fn other_json_is_an_invalid_request() {
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
    fn messages_that_would_cost_too_much_are_refused() {
        let batch = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
        assert_eq!(code(&batch(MAX_BATCH)), None);
        assert_eq!(code(&batch(MAX_BATCH + 1)), Some(-32600));
        assert_eq!(code(&format!("{}x", batch(MAX_BATCH + 1))), Some(-32700));
        let id = "1".repeat(MAX_ID);
        assert_eq!(code(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#)), None);
        assert_eq!(code(&format!(r#"{{"jsonrpc":"2.0","id":1{id},"method":"a"}}"#)), Some(-32600));
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let with = |value: &str| format!(r#"{{"jsonrpc":"2.0","method":"a","params":{value}}}"#);
        assert_eq!(code(&with(&nested(MAX_DEPTH - 1))), None);
        assert_eq!(code(&with(&nested(MAX_DEPTH))), Some(-32700));
        assert_eq!(code(&with(&format!(r#"["\"{}"]"#, "[".repeat(1000)))), None);
        let behind_a_string = format!(r#"["\"\\",{}]"#, nested(MAX_DEPTH - 1));
        assert_eq!(code(&with(&behind_a_string)), Some(-32700));
        assert_eq!(code(r#"{"jsonrpc":"2.0","method":"a\"#), Some(-32700));
    }

    #[test]
    fn errors_quote_clients_only_briefly() {
        let failure = RpcError::method_not_found(&"é".repeat(1000));
        assert_eq!(failure.message, format!("Method not found: {}...", "é".repeat(MAX_QUOTED)));
    }

    #[test]
    fn an_array_is_not_an_object() {
        assert_eq!(code(r#"[["2.0",1,"ping"]]"#), None); // a batch of one bad message
        let params = request(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":["x"]}"#).params;
        assert_eq!(params.read::<BTreeMap<String, String>>().unwrap_err().code, -32602);
    }

    #[test]
    fn a_batch_keeps_its_valid_messages() {
        let text = r#" [{"jsonrpc":"2.0","id":1,"method":"ping"}, 7]"#;
        let Ok(Incoming::Batch(items)) = parse(text) else { panic!() };
        assert!(matches!(items[0], Ok(Message::Request(_))));
        assert_eq!(items[1].as_ref().unwrap_err().code, -32600);
    }

    #[test]
    fn responses_and_notifications_are_distinguished() {
        let response = parse(br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#);
        assert!(matches!(response, Ok(Incoming::One(Message::Response(_)))));
        let notification = parse(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(matches!(notification, Ok(Incoming::One(Message::Notification))));
    }

    #[test]
    fn progress_notifications_are_not_for_the_user() {
        for (method, shown) in [("sendNotification", true), ("notifications/progress", false)] {
            let text =
                format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"message":"half"}}}}"#);
            let Ok(Incoming::One(message)) = parse(text) else { panic!() };
            assert_eq!(matches!(message, Message::ForUser(_)), shown, "{method}");
        }
    }
}
