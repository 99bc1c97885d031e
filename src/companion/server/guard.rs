//! Authentication: every request is checked, for any path, before its body is read.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{StatusCode, Uri};

use super::error::HttpError;
use crate::agent::{Agent, Roster};

pub struct Guard {
    /// The agents that are served.
    pub roster: Arc<Roster>,
    /// The valid `Host` headers; clients in containers use the last.
    hosts: [String; 3],
}

impl Guard {
    pub fn new(roster: Arc<Roster>, port: u16) -> Guard {
        let hosts =
            ["127.0.0.1", "localhost", "host.docker.internal"].map(|name| format!("{name}:{port}"));
        Guard { roster, hosts }
    }

    /// Returns the agent whose token the request has. The order is the contract's: Host, against DNS
    /// rebinding, Origin, against web pages, and token. An error repeats nothing of the request.
    pub fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<Arc<Agent>, HttpError> {
        let forbidden = |reason| Err(HttpError::new(StatusCode::FORBIDDEN, reason));
        let host = only(headers, &HOST).map(HeaderValue::as_bytes);
        let named = target.authority().map(|name| name.as_str().as_bytes());
        if !host.is_some_and(|host| self.is_our_name(host))
            || named.is_some_and(|name| !self.is_our_name(name))
        {
            return forbidden("the Host header does not name this server");
        }
        if headers.contains_key(ORIGIN) {
            return forbidden("requests from web pages are not served");
        }
        let token = only(headers, &AUTHORIZATION).and_then(bearer_token);
        token.and_then(|token| self.agent_of(token)).ok_or_else(|| {
            HttpError::new(
                StatusCode::UNAUTHORIZED,
                "the bearer token is missing or wrong: it is the authToken of the discovery file",
            )
        })
    }

    /// Compares with all tokens, so that the time taken reveals nothing.
    fn agent_of(&self, token: &[u8]) -> Option<Arc<Agent>> {
        self.roster.agents().iter().fold(None, |found, agent| {
            if agent.token.matches(token) { Some(agent.clone()) } else { found }
        })
    }

    fn is_our_name(&self, host: &[u8]) -> bool {
        self.hosts.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host))
    }
}

/// The value of a header that must occur exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn bearer_token(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}
