//! Bodies of requests, read within limits of size and time.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Bytes, Incoming};

use super::answer::HttpError;
use crate::host::Host;
use crate::limits::Limits;
use crate::quota::{Quota, Share};

/// How many bytes of a body that is too large are read and dropped, so that the client sees our
/// answer rather than a reset connection.
const MAX_DROPPED: usize = 64 << 20;
/// The most bytes allocated for a body before it arrives.
const FIRST_BUFFER: u64 = 1 << 20;

pub struct BodyReader {
    limits: Limits,
    /// The bytes of all messages that are being received or answered.
    all: Arc<Quota>,
}

/// The bytes of one message, released when this is dropped.
pub struct Reservation {
    shares: Vec<Share>,
}

impl BodyReader {
    pub fn new(limits: Limits) -> BodyReader {
        BodyReader { all: Arc::new(Quota::new(limits.bodies)), limits }
    }

    /// Reads the body of a request of a client on `host`, or on this machine.
    pub async fn read(
        &self,
        body: Incoming,
        host: Option<&Host>,
    ) -> Result<(Bytes, Reservation), HttpError> {
        let reading = tokio::time::timeout(self.limits.body_time, self.collect(body, host));
        reading.await.unwrap_or_else(|_| {
            Err(HttpError::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))
        })
    }

    async fn collect(
        &self,
        mut body: Incoming,
        host: Option<&Host>,
    ) -> Result<(Bytes, Reservation), HttpError> {
        let limit = self.limits.body;
        let announced = body.size_hint().lower();
        if announced > (limit + MAX_DROPPED) as u64 {
            return Err(self.too_large());
        }
        let quotas = std::iter::once(&self.all).chain(host.map(Host::bodies));
        let mut reservation = Reservation { shares: quotas.map(Share::of).collect() };
        let mut bytes = Vec::with_capacity(announced.min(FIRST_BUFFER) as usize);
        let mut dropped = 0;
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|_| HttpError::new(StatusCode::BAD_REQUEST, "broken body"))?;
            let Ok(data) = frame.into_data() else { continue };
            if dropped == 0 && bytes.len() + data.len() <= limit {
                if !reservation.grow(data.len()) {
                    return Err(busy());
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
    /// Adds `bytes`. Returns whether the bytes of all messages are within the limits.
    fn grow(&mut self, bytes: usize) -> bool {
        self.shares.iter_mut().all(|share| share.grow(bytes))
    }
}

fn busy() -> HttpError {
    HttpError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many large messages at once: send it again",
    )
}
