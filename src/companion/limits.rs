//! Limits on what clients may use, timeouts, and intervals.

use std::time::Duration;

use crate::descriptor;

/// What clients may use. The default is for production.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Authenticated connections: two for each session, an event stream and one for requests, and
    /// some more. One more evicts the one that is idle for longest.
    pub connections: usize,
    /// Connections that have shown no valid token yet. One more evicts the oldest.
    pub unauthenticated: usize,
    /// Time for the headers of a request, and between two requests. Streams are not affected: their
    /// request has been read.
    pub header_time: Duration,
    /// Bytes of one message, which may contain a whole file.
    pub body: usize,
    /// Bytes of all messages that are being received or answered.
    pub bodies: usize,
    /// Time for the body of a request to begin to arrive, and to go on.
    pub body_time: Duration,
    /// Bytes that must arrive in each further second, on average.
    pub body_rate: u32,
    /// Sessions that may exist at once. Most clients never end theirs, so the least recently used
    /// one makes room.
    pub sessions: usize,
    /// Readers of `/events` that each agent may have. Each is sent all outcomes, so that each may hold
    /// as much of them as the others together.
    pub event_readers: usize,
    /// Reviews of all clients that may be open at once.
    pub reviews: usize,
    /// Bytes of their proposals, and of the files as they are.
    pub review_bytes: usize,
    /// Bytes of the proposals, files and arguments that are queued for Emacs while it is busy.
    pub queued_bytes: usize,
    /// Bytes of the outcomes that are kept after they were sent, in case the stream was broken.
    pub kept_bytes: usize,
    /// How long `closeDiff` waits for Emacs. Well below the time-outs of the client (300 s without
    /// headers, 600 s in all), which would end the connection.
    pub emacs_time: Duration,
    /// Calls of tools for the model that may wait for Emacs at once.
    pub tool_calls: usize,
    /// How long one may take.
    pub tool_time: Duration,
    /// How long the answer to a request may take before it becomes an event stream, which is kept
    /// alive with comments.
    pub stream_after: Duration,
    /// How long a request waits for the first context: less than `stream_after`.
    pub first_context: Duration,
    /// Checks of files that may run at once.
    pub file_checks: usize,
    /// How long one may take.
    pub file_check_time: Duration,
    /// For each host: sessions that may exist at once, reviews that may be open, and their bytes.
    pub host_sessions: usize,
    /// See `host_sessions`.
    pub host_reviews: usize,
    /// See `host_sessions`.
    pub host_review_bytes: usize,
    /// For each host: requests that may be answered at once, event streams among them.
    pub host_requests: usize,
    /// For each host: bytes of messages that are being received or answered.
    pub host_bodies: usize,
    /// For each host: events that may wait for Emacs.
    pub host_events: usize,
    /// Time between two comments on an idle stream. The client gives up after 300 s without a byte;
    /// proxies do so earlier.
    pub keep_alive: Duration,
    /// Time between two checks of the discovery files.
    pub repair_interval: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: descriptor::connections(1152),
            unauthenticated: 64,
            header_time: Duration::from_secs(30),
            body: 64 << 20,
            bodies: 256 << 20,
            body_time: Duration::from_secs(60),
            body_rate: 16 << 10,
            sessions: 512,
            event_readers: 16,
            reviews: 512,
            review_bytes: 512 << 20,
            queued_bytes: 256 << 20,
            kept_bytes: 64 << 20,
            emacs_time: Duration::from_secs(60),
            tool_calls: 8,
            tool_time: Duration::from_secs(20),
            stream_after: Duration::from_secs(1),
            first_context: Duration::from_millis(800),
            file_checks: 16,
            file_check_time: Duration::from_secs(30),
            host_sessions: 32,
            host_reviews: 64,
            host_review_bytes: 192 << 20,
            host_requests: 128,
            host_bodies: 192 << 20,
            host_events: 64,
            keep_alive: Duration::from_secs(15),
            repair_interval: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// The limits of a companion whose user lets a message have `body` bytes: at least a MiB, or there
    /// would be no messages. The other limits are raised so far that one of this size is served while
    /// there are others, and so is a proposal of this size for a file of this size.
    pub fn for_messages(body: usize) -> Limits {
        let body = body.max(1 << 20);
        let usual = Limits::default();
        let at_least = |limit: usize, bodies: usize| limit.max(body.saturating_mul(bodies));
        Limits {
            body,
            bodies: at_least(usual.bodies, 2),
            review_bytes: at_least(usual.review_bytes, 4),
            queued_bytes: at_least(usual.queued_bytes, 4),
            kept_bytes: at_least(usual.kept_bytes, 1),
            host_review_bytes: at_least(usual.host_review_bytes, 3),
            host_bodies: at_least(usual.host_bodies, 2),
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_message_fits_into_all_limits_of_which_none_gets_lower() {
        let usual = Limits::default();
        for body in [0, 1 << 20, 64 << 20, 200 << 20, 1 << 30, usize::MAX] {
            let limits = Limits::for_messages(body);
            assert_eq!(limits.body, body.max(1 << 20));
            for (limit, usual, bodies) in [
                (limits.bodies, usual.bodies, 2),
                (limits.review_bytes, usual.review_bytes, 4),
                (limits.queued_bytes, usual.queued_bytes, 4),
                (limits.kept_bytes, usual.kept_bytes, 1),
                (limits.host_review_bytes, usual.host_review_bytes, 3),
                (limits.host_bodies, usual.host_bodies, 2),
            ] {
                assert!(limit >= usual && limit >= body.saturating_mul(bodies), "{limits:?}");
            }
        }
        assert_eq!(format!("{:?}", Limits::for_messages(usual.body)), format!("{usual:?}"));
    }
}
