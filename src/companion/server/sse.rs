//! Event streams: the outgoing messages of a session, the events of document 004, and answers that
//! take long.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::answer::counted;
use super::body::Reservation;
use crate::mcp::sessions::{EventReader, StreamReader};

/// The body of a response that is a stream.
pub struct EventStream<S> {
    source: S,
    keep_alive: Interval,
    greeted: bool,
}

/// Where the messages of a stream come from.
pub trait Source: Unpin {
    /// The next event as it goes over the wire; `None` when the stream is over.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

// JSON holds no raw newline, so one `data:` line is enough.

impl Source for StreamReader {
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let next = self.poll_next(context.waker());
        next.map(|next| next.map(|(id, json)| event(&format!("id: {id}\ndata: "), json)))
    }
}

impl Source for EventReader {
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.poll_next(context.waker()).map(|next| next.map(|json| event("data: ", json)))
    }
}

/// An event with `json`, which may be large and gets no copy.
fn event(start: &str, mut json: String) -> Bytes {
    json.insert_str(0, start);
    json.push_str("\n\n");
    json.into()
}

/// The answer to a POST that was not ready in time. Its only event has no id: after an event with an
/// id, SDKs before 1.24 would reconnect for more.
pub struct LateReply(Option<PendingReply>);

/// A JSON text and the reservation for it, or `None` when the client has cancelled the request.
pub type PendingReply = JoinHandle<Option<(String, Reservation)>>;

impl Source for LateReply {
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(pending) = &mut self.0 else { return Poll::Ready(None) };
        // It fails only if the server stops.
        let reply = ready!(Pin::new(pending).poll(context)).unwrap_or_default();
        self.0 = None;
        Poll::Ready(reply.map(|(text, reservation)| counted(event("data: ", text), reservation)))
    }
}

impl EventStream<LateReply> {
    pub fn late(reply: PendingReply, pause: Duration) -> EventStream<LateReply> {
        EventStream { greeted: true, ..EventStream::new(LateReply(Some(reply)), pause) }
    }
}

impl<S: Source> EventStream<S> {
    /// A stream with a comment each time that `pause` has passed, unless there is an event just then.
    pub fn new(source: S, pause: Duration) -> EventStream<S> {
        let mut keep_alive = tokio::time::interval_at(Instant::now() + pause, pause);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        EventStream { source, keep_alive, greeted: false }
    }

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.greeted {
            self.greeted = true; // a first byte, so that the headers leave at once
            return Poll::Ready(Some(": connected\n\n".into()));
        }
        match self.source.poll_event(context) {
            Poll::Pending => {
                self.keep_alive.poll_tick(context).map(|_| Some(": keep-alive\n\n".into()))
            }
            ready => ready,
        }
    }
}

impl<S: Source> Body for EventStream<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.poll_data(context).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}
