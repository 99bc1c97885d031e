//! Bodies of requests, read within limits of size and time.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use tokio::time::{Instant, timeout_at};

use super::error::HttpError;
use crate::allowance::Allowance;
use crate::limits::Limits;
use crate::quota::{Quota, Share};

/// How many bytes of a body that is too large are read and dropped, so that the client sees our
/// answer rather than a reset connection.
const MAX_DROPPED: usize = 64 << 20;

/// Memory for a larger body is allocated for all that was announced, when so much has arrived.
const LARGE: usize = 1 << 20;
/// Answers so short are sent also if messages use up what they may: there are only so many requests.
const SHORT_ANSWER: usize = 16 << 10;

pub struct BodyReader {
    limits: Limits,
    /// The bytes of all messages that are being received or answered.
    all: Arc<Quota>,
}

/// The bytes of one message, released when this is dropped.
pub struct Reservation {
    shares: [Share; 2],
}

impl BodyReader {
    pub fn new(limits: Limits) -> BodyReader {
        BodyReader { all: Arc::new(Quota::new(limits.bodies)), limits }
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
        let mut reservation =
            Reservation { shares: [&self.all, allowance.bodies()].map(Share::of) };
        let mut bytes = Vec::new();
        let (begun, mut received, mut dropped) = (Instant::now(), 0, 0);
        loop {
            let end = self.deadline(begun, received);
            let Some(frame) = timeout_at(end, body.frame()).await.map_err(|_| late())? else {
                break;
            };
            let frame =
                frame.map_err(|_| HttpError::new(StatusCode::BAD_REQUEST, "broken body"))?;
            let Ok(data) = frame.into_data() else { continue };
            received += data.len();
            if dropped == 0 && bytes.len() + data.len() <= limit {
                if !reservation.grow(data.len()) {
                    return Err(busy());
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

    /// When more of a body must have arrived that has begun at `begun` and of which there are `received`
    /// bytes: soon, but a large one may take long if its line is slow.
    fn deadline(&self, begun: Instant, received: usize) -> Instant {
        let time = self.limits.body_time;
        let due = Duration::from_secs_f64(received as f64 / f64::from(self.limits.body_rate));
        (begun + time + due).min(Instant::now() + time)
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

    /// Adds an answer of `bytes`, which the client may be slow to read. Returns whether it may be
    /// sent: if there is no room, only a short one.
    pub fn admit_answer(&mut self, bytes: usize) -> bool {
        let admitted = bytes <= SHORT_ANSWER || self.grow(bytes);
        if !admitted {
            self.shares.iter_mut().for_each(Share::release);
        }
        admitted
    }
}

fn late() -> HttpError {
    HttpError::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")
}

fn busy() -> HttpError {
    HttpError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many large messages at once: send it again",
    )
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use hyper::body::Frame;
    use tokio::time::{Interval, interval};

    use super::*;

    /// A body that arrives bit by bit, and never ends if it `hangs`.
    struct Slow {
        ticks: Interval,
        size: usize,
        left: u32,
        hangs: bool,
    }

    impl Body for Slow {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.left == 0 {
                return if self.hangs { Poll::Pending } else { Poll::Ready(None) };
            }
            ready!(self.ticks.poll_tick(context));
            self.left -= 1;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; self.size])))))
        }
    }

    /// Reads a body of which so many bits of `size` come, one in each `pause`. Returns its length, or
    /// the status, and the seconds that passed.
    async fn read(size: usize, pause: u64, count: u32, hangs: bool) -> (Result<usize, u16>, u64) {
        let begun = Instant::now();
        let ticks = interval(Duration::from_secs(pause));
        let reader = BodyReader::new(Limits::default());
        let read =
            reader.read(Slow { ticks, size, left: count, hangs }, &Allowance::default()).await;
        let read = read.map(|(bytes, _)| bytes.len()).map_err(|error| error.status.as_u16());
        (read, begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_message_may_come_over_a_slow_line() {
        let size = 125_000; // in a second: a megabit
        assert_eq!(read(size, 1, 200, false).await, (Ok(200 * size), 199));
        assert_eq!(read(1 << 20, 59, 10, false).await.0, Ok(10 << 20));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_comes_byte_by_byte_ends_as_soon_as_one_that_hangs() {
        assert_eq!(read(1, 1, 1000, false).await, (Err(408), 60));
        let (answer, seconds) = read(10_000, 1, 6000, false).await; // slower than may be
        assert!(answer == Err(408) && seconds < 200, "{seconds}");
    }
}
