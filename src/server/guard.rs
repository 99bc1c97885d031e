//! Authentication: every request is checked, for any path, before its body is read.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{StatusCode, Uri};

use crate::agent::Agent;
use crate::token::Token;

pub struct Guard {
    agents: Vec<Arc<Agent>>,
    /// The valid `Host` headers; clients in containers use the last.
    hosts: [String; 3],
}

/// Why a request is refused. Never echoes anything of the request.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub reason: &'static str,
}

impl Guard {
    pub fn new(agents: Vec<Arc<Agent>>, port: u16) -> Guard {
        let hosts =
            ["127.0.0.1", "localhost", "host.docker.internal"].map(|name| format!("{name}:{port}"));
        Guard { agents, hosts }
    }

    /// The secrets of all agents.
    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.agents.iter().map(|agent| &agent.token)
    }

    /// Returns the agent whose token the request has. The order is contract 2's: Host (against DNS
    /// rebinding), Origin (against any web page), token.
    pub fn check(&self, target: &Uri, headers: &HeaderMap) -> Result<Arc<Agent>, Refusal> {
        let host = only(headers, &HOST).map(HeaderValue::as_bytes);
        let named = target.authority().map(|name| name.as_str().as_bytes());
        if !host.is_some_and(|host| self.is_our_name(host))
            || named.is_some_and(|name| !self.is_our_name(name))
        {
            return refuse(StatusCode::FORBIDDEN, "the Host header does not name this server");
        }
        if headers.contains_key(ORIGIN) {
            return refuse(StatusCode::FORBIDDEN, "requests from web pages are not served");
        }
        let token = only(headers, &AUTHORIZATION).and_then(bearer_token);
        token.and_then(|token| self.agent_of(token)).map_or_else(
            || {
                refuse(
                    StatusCode::UNAUTHORIZED,
                    "the bearer token is missing or wrong: it is the authToken of the discovery \
                     file",
                )
            },
            Ok,
        )
    }

    /// Compares with all tokens, so that the time reveals nothing.
    fn agent_of(&self, token: &[u8]) -> Option<Arc<Agent>> {
        self.agents.iter().fold(None, |found, agent| {
            if agent.token.matches(token) { Some(agent.clone()) } else { found }
        })
    }

    fn is_our_name(&self, host: &[u8]) -> bool {
        self.hosts.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host))
    }
}

fn refuse<T>(status: StatusCode, reason: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status, reason })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn status(lines: &[(&'static str, String)]) -> Option<u16> {
        let (guard, headers) = (guard(), headers(lines));
        guard
            .check(&Uri::from_static("/mcp"), &headers)
            .err()
            .map(|refusal| refusal.status.as_u16())
    }

    fn guard() -> Guard {
        let gemini = Agent { token: Token::fixed("secret"), ..Agent::gemini(Vec::new()) };
        let qwen = Agent { token: Token::fixed("other"), ..Agent::qwen(Vec::new()) };
        Guard::new(vec![Arc::new(gemini), Arc::new(qwen)], 4711)
    }

    fn headers(lines: &[(&'static str, String)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn host(name: &str) -> (&'static str, String) {
        ("host", name.to_owned())
    }

    fn token(value: &str) -> (&'static str, String) {
        ("authorization", value.to_owned())
    }

    #[test]
    fn the_names_of_this_server_are_served() {
        for name in
            ["127.0.0.1:4711", "localhost:4711", "LocalHost:4711", "host.docker.internal:4711"]
        {
            assert_eq!(status(&[host(name), token("Bearer secret")]), None, "{name}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["127.0.0.1", "127.0.0.1:1", "evil.example:4711", "localhost", "[::1]:4711", ""]
        {
            assert_eq!(status(&[host(name), token("Bearer secret")]), Some(403), "{name}");
        }
        assert_eq!(status(&[token("Bearer secret")]), Some(403));
        let twice = [host("127.0.0.1:4711"), host("127.0.0.1:4711"), token("Bearer secret")];
        assert_eq!(status(&twice), Some(403));
    }

    #[test]
    fn web_pages_are_refused_even_with_the_token() {
        for origin in ["null", "http://127.0.0.1:4711", "https://example.com"] {
            let origin = ("origin", origin.to_owned());
            assert_eq!(
                status(&[host("127.0.0.1:4711"), origin, token("Bearer secret")]),
                Some(403)
            );
        }
    }

    #[test]
    fn the_token_must_be_exact() {
        let host = || host("127.0.0.1:4711");
        assert_eq!(status(&[host(), token("bearer secret")]), None);
        for wrong in
            ["Bearer wrong!", "Bearer secre", "Bearer secret2", "secret", "Basic secret", ""]
        {
            assert_eq!(status(&[host(), token(wrong)]), Some(401), "{wrong}");
        }
        assert_eq!(status(&[host()]), Some(401));
        assert_eq!(status(&[host(), token("Bearer secret"), token("Bearer x")]), Some(401));
    }

    #[test]
    fn a_request_is_of_the_agent_whose_token_it_shows() {
        for (secret, name) in [("secret", "gemini"), ("other", "qwen")] {
            let headers = headers(&[host("localhost:4711"), token(&format!("Bearer {secret}"))]);
            let agent = guard().check(&Uri::from_static("/mcp"), &headers).unwrap();
            assert_eq!(agent.name, name);
        }
    }

    #[test]
    fn a_target_that_names_a_server_names_this_one() {
        let headers = headers(&[host("localhost:4711"), token("Bearer secret")]);
        let is_served = |target| guard().check(&Uri::from_static(target), &headers).is_ok();
        assert!(is_served("http://127.0.0.1:4711/mcp"));
        assert!(!is_served("http://evil.example:4711/mcp"));
    }

    #[test]
    fn the_tokens_of_all_agents_are_known() {
        let guard = guard();
        let tokens: Vec<_> = guard.tokens().map(Token::reveal).collect();
        assert_eq!(tokens, ["secret", "other"]);
    }
}
