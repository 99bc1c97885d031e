//! Event streams: the outgoing messages of a session, and answers that take long.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::answer::LargeText;
use super::body::Reservation;
use crate::mcp::sessions::{EventReader, StreamReader};

/// The body of a GET response.
pub struct EventStream<S> {
    source: S,
    keep_alive: Interval,
    greeted: bool,
}

/// Where the messages of a stream come from.
pub trait Source: Unpin {
    /// The next event as it goes over the wire; `None` when the stream is over.
    fn poll_event(&self, waker: &Waker) -> Poll<Option<String>>;
}

// JSON holds no raw newline, so one `data:` line is enough.

impl Source for StreamReader {
    fn poll_event(&self, waker: &Waker) -> Poll<Option<String>> {
        self.poll_next(waker)
            .map(|next| next.map(|(number, json)| format!("id: {number}\ndata: {json}\n\n")))
    }
}

impl Source for EventReader {
    fn poll_event(&self, waker: &Waker) -> Poll<Option<String>> {
        self.poll_next(waker).map(|next| next.map(|json| format!("data: {json}\n\n")))
    }
}

/// The body of a response to a POST whose answer was not ready in time. Its only event has no id,
/// since SDKs before 1.24 would reconnect for more after one.
pub struct LateReply {
    reply: Option<PendingReply>,
    /// The event, once it is known.
    event: Option<LargeText>,
    keep_alive: Interval,
}

/// A JSON text and the reservation for it, or `None` when the client has cancelled the request.
type PendingReply = Pin<Box<dyn Future<Output = Option<(String, Reservation)>> + Send>>;

impl<S: Source> EventStream<S> {
    pub fn new(source: S, pause: Duration) -> EventStream<S> {
        EventStream { source, keep_alive: keep_alive(pause), greeted: false }
    }
}

impl LateReply {
    pub fn new(reply: PendingReply, pause: Duration) -> LateReply {
        LateReply { reply: Some(reply), event: None, keep_alive: keep_alive(pause) }
    }
}

/// Ticks after each `pause`.
fn keep_alive(pause: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + pause, pause);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The next frame of an idle stream, once it is due.
fn idle(
    keep_alive: &mut Interval,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
    match keep_alive.poll_tick(context) {
        Poll::Ready(_) => frame(": keep-alive\n\n".to_owned()),
        Poll::Pending => Poll::Pending,
    }
}

fn frame(text: String) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
    Poll::Ready(Some(Ok(Frame::data(Bytes::from(text)))))
}

impl<S: Source> Body for EventStream<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.greeted {
            self.greeted = true; // a first byte, so that the headers leave at once
            return frame(": connected\n\n".to_owned());
        }
        match self.source.poll_event(context.waker()) {
            Poll::Ready(Some(event)) => frame(event),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => idle(&mut self.keep_alive, context),
        }
    }
}

impl Body for LateReply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(reply) = &mut self.reply {
            let Poll::Ready(reply) = reply.as_mut().poll(context) else {
                return idle(&mut self.keep_alive, context);
            };
            self.reply = None;
            self.event = reply.map(|(mut text, reservation)| {
                text.insert_str(0, "data: ");
                text.push_str("\n\n");
                LargeText::new(text, reservation)
            });
        }
        Poll::Ready(self.event.as_mut().and_then(LargeText::next).map(|it| Ok(Frame::data(it))))
    }
}
