//! Answers to HTTP requests. Every error has a JSON body.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use super::admission;
use super::body::Reservation;
use super::error::HttpError;
use super::headers::{EVENT_STREAM, JSON};
use crate::mcp::message::Reply;

/// The response to one HTTP request.
pub type HttpAnswer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What a request uses until it is answered.
pub struct Uses {
    pub _connection: admission::InUse,
    /// Of the requests of its client's agent, or host. Work that outlives the connection keeps it, too.
    pub share: Arc<OwnedSemaphorePermit>,
}

impl HttpError {
    pub fn into_answer(self) -> HttpAnswer {
        let mut answer = json(self.status, &Reply::failure(self.failure));
        let (name, value) = match self.status {
            StatusCode::UNAUTHORIZED => (WWW_AUTHENTICATE, "Bearer"),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => (RETRY_AFTER, "1"),
            _ => return answer,
        };
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
        answer
    }
}

/// Makes the connection close after this answer.
pub fn closing(mut answer: HttpAnswer) -> HttpAnswer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

pub fn method_not_allowed(methods: &'static str) -> HttpAnswer {
    let reason = format!("the methods here are {methods}");
    let mut answer = HttpError::new(StatusCode::METHOD_NOT_ALLOWED, &reason).into_answer();
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

/// 202, without which the client never opens its stream.
pub fn accepted() -> HttpAnswer {
    empty(StatusCode::ACCEPTED)
}

pub fn event_stream(
    body: impl Body<Data = Bytes, Error = Infallible> + Send + 'static,
) -> HttpAnswer {
    let mut answer = with_body(StatusCode::OK, EVENT_STREAM, body);
    let caching = HeaderValue::from_static("no-cache, no-transform");
    answer.headers_mut().insert(CACHE_CONTROL, caching);
    answer
}

pub fn empty(status: StatusCode) -> HttpAnswer {
    let mut answer = Response::new(Full::default().boxed_unsync());
    *answer.status_mut() = status;
    answer
}

pub fn json(status: StatusCode, reply: &Reply) -> HttpAnswer {
    with_body(status, JSON, Full::from(reply.to_json()))
}

/// The same with a text that may be large, for which `reservation` counts until it is sent.
pub fn large_json(text: String, reservation: Reservation) -> HttpAnswer {
    with_body(StatusCode::OK, JSON, Full::new(counted(text.into(), reservation)))
}

fn with_body(
    status: StatusCode,
    media_type: &'static str,
    body: impl Body<Data = Bytes, Error = Infallible> + Send + 'static,
) -> HttpAnswer {
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// `bytes`, for which `reservation` counts until hyper has sent them, and drops them.
pub fn counted(bytes: Bytes, reservation: Reservation) -> Bytes {
    struct Counted {
        bytes: Bytes,
        _reservation: Reservation,
    }

    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    Bytes::from_owner(Counted { bytes, _reservation: reservation })
}
