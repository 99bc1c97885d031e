//! Errors of HTTP.

use hyper::StatusCode;

use crate::mcp::message::RpcError;

/// An HTTP error and the JSON-RPC error in its body.
pub struct HttpError {
    pub status: StatusCode,
    pub failure: RpcError,
}

impl HttpError {
    pub fn new(status: StatusCode, reason: &str) -> HttpError {
        HttpError { status, failure: RpcError::invalid_request(reason) }
    }

    pub fn bad_request(failure: RpcError) -> HttpError {
        HttpError { status: StatusCode::BAD_REQUEST, failure }
    }

    /// A client that gets this starts a new session, by MCP.
    pub fn unknown_session() -> HttpError {
        HttpError::new(StatusCode::NOT_FOUND, "this session has ended: initialize a new one")
    }
}
