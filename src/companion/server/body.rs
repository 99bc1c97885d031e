//! Bodies of requests, read within limits of size and time.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::HttpError;
use crate::allowance::{self, Allowance};
use crate::limits::Limits;

/// How many bytes of a body that is too large are read and dropped, so that the client sees our
/// answer rather than a reset connection.
const MAX_DROPPED: usize = 64 << 20;
/// When this much of a larger body has arrived, memory for its announced length is allocated.
const LARGE: usize = 1 << 20;
/// Answers this short are sent even if messages use up their limit: requests are limited anyway.
const SHORT_ANSWER: usize = 16 << 10;

pub struct BodyReader {
    limits: Limits,
    /// The bytes of all messages that are being received or answered.
    all: Arc<Semaphore>,
}

/// The bytes of one message, released when this is dropped.
pub struct Reservation {
    /// Of those of all messages, and of the share of its client's agent, or host.
    permits: [OwnedSemaphorePermit; 2],
}

impl BodyReader {
    pub fn new(limits: Limits) -> BodyReader {
        BodyReader { all: allowance::bytes(limits.bodies), limits }
    }

    /// Reads the body of a request of a client with `allowance`.
    pub async fn read(
        &self,
        mut body: impl Body<Data = Bytes> + Unpin,
        allowance: &Allowance,
    ) -> Result<(Bytes, Reservation), HttpError> {
        let limit = self.limits.body;
        let announced = body.size_hint().lower();
        if announced > limit.saturating_add(MAX_DROPPED) as u64 {
            return Err(self.too_large());
        }
        let mut reservation = Reservation::new([&self.all, &allowance.bodies]);
        let mut bytes = Vec::new();
        let mut dropped = 0;
        let late = "the body did not arrive in time";
        let late = |_| HttpError::new(StatusCode::REQUEST_TIMEOUT, late);
        while let Some(frame) = timeout(self.limits.body_time, body.frame()).await.map_err(late)? {
            let frame =
                frame.map_err(|_| HttpError::new(StatusCode::BAD_REQUEST, "broken body"))?;
            let Ok(data) = frame.into_data() else { continue };
            if dropped == 0 && bytes.len() + data.len() <= limit {
                if !reservation.grow(data.len()) {
                    let busy = "too many large messages at once: send it again";
                    return Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, busy));
                }
                if bytes.len() <= LARGE && bytes.len() + data.len() > LARGE {
                    // All at once: an allocator may keep the pieces into which a large one grows.
                    let all = usize::try_from(announced).unwrap_or(limit).min(limit);
                    let _ = bytes.try_reserve_exact(all.saturating_sub(bytes.len()));
                }
                bytes.extend_from_slice(&data);
            } else {
                bytes = Vec::new();
                dropped += data.len();
                if dropped > MAX_DROPPED {
                    break;
                }
            }
        }
        if dropped > 0 { Err(self.too_large()) } else { Ok((Bytes::from(bytes), reservation)) }
    }

    fn too_large(&self) -> HttpError {
        let reason = format!("a message may have at most {} bytes", self.limits.body);
        HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, &reason)
    }
}

impl Reservation {
    fn new(bytes: [&Arc<Semaphore>; 2]) -> Reservation {
        let none = |bytes: &Arc<Semaphore>| bytes.clone().try_acquire_many_owned(0);
        Reservation { permits: bytes.map(|bytes| none(bytes).expect("it is never closed")) }
    }

    /// Adds `bytes`, if there is room for them in each of both.
    fn grow(&mut self, bytes: usize) -> bool {
        self.permits.iter_mut().all(|permits| {
            let more = u32::try_from(bytes)
                .ok()
                .and_then(|bytes| permits.semaphore().clone().try_acquire_many_owned(bytes).ok());
            more.map(|more| permits.merge(more)).is_some()
        })
    }

    /// Adds an answer of `bytes`, which the client may be slow to read. Returns whether it may be
    /// sent: if there is no room, only a short one.
    pub fn admit_answer(&mut self, bytes: usize) -> bool {
        let admitted = bytes <= SHORT_ANSWER || self.grow(bytes);
        if !admitted {
            self.permits.iter_mut().for_each(|it| drop(it.split(it.num_permits())));
        }
        admitted
    }
}
