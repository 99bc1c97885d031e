//! Authentication: every request is checked, for any path, before its body is read.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{StatusCode, Uri};

use crate::agent::{Agent, Roster};

pub struct Guard {
    roster: Arc<Roster>,
    /// The valid `Host` headers; clients in containers use the last.
    hosts: [String; 3],
}

/// Why a request is refused. It never repeats anything of the request.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub reason: &'static str,
}

impl Guard {
    pub fn new(roster: Arc<Roster>, port: u16) -> Guard {
        let hosts =
            ["127.0.0.1", "localhost", "host.docker.internal"].map(|name| format!("{name}:{port}"));
        Guard { roster, hosts }
    }

    /// The agents that are served.
    pub fn agents(&self) -> Arc<[Arc<Agent>]> {
        self.roster.agents()
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
        token.and_then(|token| self.agent_of(token)).ok_or(Refusal {
            status: StatusCode::UNAUTHORIZED,
            reason: "the bearer token is missing or wrong: it is the authToken of the discovery \
                     file",
        })
    }

    /// Compares with all tokens, so that the time taken reveals nothing.
    fn agent_of(&self, token: &[u8]) -> Option<Arc<Agent>> {
        self.agents().iter().fold(None, |found, agent| {
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
    use crate::agent::tests::agent;
    use crate::limits::Limits;

    const PORT: u16 = 4711;

    fn guard() -> Guard {
        let agents = vec![agent("gemini"), agent("qwen")];
        Guard::new(Arc::new(Roster::new(agents, &Limits::default())), PORT)
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    /// The status with which a request with these headers is refused, if it is. SECRET stands for
    /// the token of the first agent.
    fn status(lines: &[(&'static str, &str)]) -> Option<u16> {
        let guard = guard();
        let agents = guard.agents();
        let secret = agents[0].token.reveal();
        let lines: Vec<_> =
            lines.iter().map(|(name, value)| (*name, value.replace("SECRET", secret))).collect();
        let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let refused = guard.check(&Uri::from_static("/mcp"), &headers(&lines)).err();
        refused.map(|refusal| refusal.status.as_u16())
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:4711");
    const TOKEN: (&str, &str) = ("authorization", "Bearer SECRET");

    #[test]
    fn requests_to_the_names_of_this_server_are_served() {
        for name in
            ["127.0.0.1:4711", "localhost:4711", "LocalHost:4711", "host.docker.internal:4711"]
        {
            assert_eq!(status(&[("host", name), TOKEN]), None, "{name}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["127.0.0.1", "127.0.0.1:1", "evil.example:4711", "localhost", "[::1]:4711", ""]
        {
            assert_eq!(status(&[("host", name), TOKEN]), Some(403), "{name}");
        }
        assert_eq!(status(&[TOKEN]), Some(403));
        assert_eq!(status(&[HOST, HOST, TOKEN]), Some(403));
    }

    #[test]
    fn web_pages_are_refused_even_with_the_token() {
        for origin in ["null", "http://127.0.0.1:4711", "https://example.com"] {
            assert_eq!(status(&[HOST, ("origin", origin), TOKEN]), Some(403));
        }
    }

    #[test]
    fn the_token_must_be_exact() {
        assert_eq!(status(&[HOST, ("authorization", "bearer SECRET")]), None);
        for wrong in ["Bearer wrong!", "Bearer SECRET2", "SECRET", "Basic SECRET", "Bearer ", ""] {
            assert_eq!(status(&[HOST, ("authorization", wrong)]), Some(401), "{wrong}");
        }
        assert_eq!(status(&[HOST]), Some(401));
        assert_eq!(status(&[HOST, TOKEN, ("authorization", "Bearer x")]), Some(401));
    }

    #[test]
    fn the_token_determines_the_agent() {
        let guard = guard();
        let target = Uri::from_static("/mcp");
        for (agent, name) in guard.agents().iter().zip(["gemini", "qwen"]) {
            let bearer = format!("Bearer {}", agent.token.reveal());
            let found =
                guard.check(&target, &headers(&[HOST, ("authorization", &bearer)])).unwrap();
            assert_eq!(found.name, name);
            // A token without its last character is invalid.
            let shorter = &bearer[..bearer.len() - 1];
            assert!(guard.check(&target, &headers(&[HOST, ("authorization", shorter)])).is_err());
        }
    }

    #[test]
    fn an_absolute_target_must_name_this_server() {
        let guard = guard();
        let bearer = format!("Bearer {}", guard.agents()[0].token.reveal());
        let headers = headers(&[HOST, ("authorization", &bearer)]);
        let is_served = |target| guard.check(&Uri::from_static(target), &headers).is_ok();
        assert!(is_served("http://127.0.0.1:4711/mcp"));
        assert!(!is_served("http://evil.example:4711/mcp"));
    }
}
