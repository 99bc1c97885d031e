//! The event stream of a session: its outgoing messages as the body of a GET response.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::mcp::session::StreamReader;

/// The client gives up after 300 s without a byte; proxies and others are less patient.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub struct EventStream {
    reader: StreamReader,
    keep_alive: Interval,
    greeted: bool,
}

impl EventStream {
    pub fn new(reader: StreamReader) -> EventStream {
        let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        EventStream { reader, keep_alive, greeted: false }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |text: String| Poll::Ready(Some(Ok(Frame::data(Bytes::from(text)))));
        if !self.greeted {
            self.greeted = true; // a first byte, so that the headers leave at once
            return frame(": connected\n\n".to_owned());
        }
        match self.reader.poll_next(context.waker()) {
            // JSON holds no raw newline, so one `data:` line is enough.
            Poll::Ready(Some((number, json))) => frame(format!("id: {number}\ndata: {json}\n\n")),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending if self.keep_alive.poll_tick(context).is_ready() => {
                frame(": keep-alive\n\n".to_owned())
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
