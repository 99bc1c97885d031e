//! The headers of requests.

use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName};
use percent_encoding::percent_decode;

use super::error::HttpError;
use crate::mcp::Revision;
use crate::mcp::sessions::key_of;

pub const JSON: &str = "application/json";
pub const EVENT_STREAM: &str = "text/event-stream";

pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Where a client on a host works, percent-encoded.
const DIRECTORY: HeaderName = HeaderName::from_static("gemini-companion-directory");

/// The working directory of the client, if a request tells it.
pub fn directory(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(DIRECTORY)?.as_bytes();
    Some(percent_decode(value).decode_utf8().ok()?.into_owned())
}

/// The process id of a client on a host.
const PROCESS: HeaderName = HeaderName::from_static("gemini-companion-process");

pub fn process(headers: &HeaderMap) -> Option<u32> {
    headers.get(PROCESS)?.to_str().ok()?.parse().ok()
}

/// Whether the client on a host has a front end of its own: "own".
const FRONT: HeaderName = HeaderName::from_static("gemini-companion-front");

pub fn has_own_front(headers: &HeaderMap) -> bool {
    headers.get(FRONT).is_some_and(|front| front == "own")
}

/// The key of the session that is named; no part of the headers, which would keep their buffer.
pub fn session_key(headers: &HeaderMap) -> Option<String> {
    Some(key_of(headers.get(SESSION_ID)?.to_str().ok()?).to_owned())
}

pub fn session_id(headers: &HeaderMap) -> Result<&str, HttpError> {
    headers.get(SESSION_ID).and_then(|id| id.to_str().ok()).ok_or_else(|| {
        HttpError::new(StatusCode::BAD_REQUEST, "the Mcp-Session-Id header is missing")
    })
}

/// The revision of MCP that a request names.
pub fn named_revision(headers: &HeaderMap) -> Result<Option<Revision>, HttpError> {
    let Some(name) = headers.get(PROTOCOL_VERSION) else { return Ok(None) };
    let revision = name.to_str().ok().and_then(Revision::named);
    let unknown = "this revision of MCP is not supported";
    revision.map(Some).ok_or_else(|| HttpError::new(StatusCode::BAD_REQUEST, unknown))
}

/// Whether the Accept headers admit `media_type`, by the most specific range that matches. Without
/// such headers everything is accepted.
pub fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let (group, _) = media_type.split_once('/').unwrap_or((media_type, ""));
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(',')).peekable();
    if ranges.peek().is_none() {
        return true;
    }
    let named = ranges.filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let precision = match name.strip_suffix("/*") {
            _ if name == media_type => 2,
            Some(named) if named == group => 1,
            Some("*") => 0,
            _ => return None,
        };
        Some((precision, parts.find_map(quality_value).unwrap_or(1.0) > 0.0))
    });
    named.max().is_some_and(|(_, is_admitted)| is_admitted)
}

/// The value of a parameter that says how much a media type is preferred.
fn quality_value(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().ok())?
}

pub fn has_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (essence, _) = value.split_once(';').unwrap_or((value, ""));
    essence.trim().eq_ignore_ascii_case(JSON)
}
