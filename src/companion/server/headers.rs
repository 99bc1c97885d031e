//! The headers of requests.

use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName};
use percent_encoding::percent_decode;

use super::answer::{EVENT_STREAM, HttpError, JSON};
use crate::mcp::revision::Revision;

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

/// Whether the client on a host has a front of its own: "own".
const FRONT: HeaderName = HeaderName::from_static("gemini-companion-front");

pub fn has_own_front(headers: &HeaderMap) -> bool {
    headers.get(FRONT).is_some_and(|front| front == "own")
}

/// The beginning of the id of the session that is named; see `sessions::Description`.
pub fn session_key(headers: &HeaderMap) -> String {
    let id = headers.get(SESSION_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
    id.chars().take(8).collect()
}

pub fn names_no_session(headers: &HeaderMap) -> bool {
    !headers.contains_key(SESSION_ID)
}

pub fn session_id(headers: &HeaderMap) -> Result<&str, HttpError> {
    headers.get(SESSION_ID).and_then(|id| id.to_str().ok()).ok_or_else(|| {
        HttpError::new(StatusCode::BAD_REQUEST, "the Mcp-Session-Id header is missing")
    })
}

/// The revision of MCP that a request names.
pub fn named_revision(headers: &HeaderMap) -> Result<Option<Revision>, HttpError> {
    let Some(name) = headers.get(PROTOCOL_VERSION) else { return Ok(None) };
    match name.to_str().ok().and_then(Revision::named) {
        Some(revision) => Ok(Some(revision)),
        None => {
            Err(HttpError::new(StatusCode::BAD_REQUEST, "this revision of MCP is not supported"))
        }
    }
}

/// Whether the Accept headers admit `media_type`.
pub fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    quality(headers, media_type) > 0.0
}

pub fn prefers_stream(headers: &HeaderMap) -> bool {
    quality(headers, EVENT_STREAM) > quality(headers, JSON)
}

/// The quality value of `media_type`, by the most specific range that matches. Without Accept
/// headers everything is accepted.
fn quality(headers: &HeaderMap, media_type: &str) -> f32 {
    let (group, _) = media_type.split_once('/').unwrap_or((media_type, ""));
    let mut ranges = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .peekable();
    if ranges.peek().is_none() {
        return 1.0;
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
        Some((precision, parts.find_map(quality_value).unwrap_or(1.0)))
    });
    let most_specific = named.reduce(|one: (u8, f32), other| {
        let wins = other.0 > one.0 || other.0 == one.0 && other.1 > one.1;
        if wins { other } else { one }
    });
    most_specific.map_or(0.0, |(_, quality)| quality)
}

fn quality_value(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().ok())?
}

pub fn has_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (essence, _) = value.split_once(';').unwrap_or((value, ""));
    essence.trim().eq_ignore_ascii_case(JSON)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn media_ranges_are_understood() {
        for values in [
            &["application/json, text/event-stream"][..],
            &["application/json", "text/event-stream"],
            &["Application/*;q=0.5,TEXT/*"],
            &["*/*"],
            &[],
        ] {
            let headers = accept(values);
            assert!(accepts(&headers, JSON) && accepts(&headers, EVENT_STREAM), "{values:?}");
        }
        assert!(prefers_stream(&accept(&["application/json;q=0.5, text/event-stream"])));
        assert!(!prefers_stream(&accept(&["application/json, text/event-stream"])));
        for values in [
            &["text/event-stream"][..],
            &["application/json;q=0, text/html"],
            &["*/*", "application/json; q=0"],
            &["application/*;q=0.0, */*;q=0.1"],
            &[""],
        ] {
            assert!(!accepts(&accept(values), JSON), "{values:?}");
        }
    }

    #[test]
    fn only_json_bodies_are_accepted() {
        for (value, taken) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain", false),
            ("application/jsonp", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            assert_eq!(has_json(&headers), taken, "{value}");
        }
        assert!(!has_json(&HeaderMap::new()));
    }
}
