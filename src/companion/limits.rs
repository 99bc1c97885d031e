//! Limits on what clients may use, timeouts, and intervals.

use std::time::Duration;

/// Bytes of a message, unless the user says otherwise.
const USUAL_BODY: usize = 64 << 20;
/// The part of a share that is for other messages while one of the largest size is received.
const FOR_OTHERS: usize = 16 << 20;
/// How many agents may use up their shares, and leave others theirs: Gemini CLI and its forks on this
/// machine, or hosts in their place.
const SHARES: usize = 3;

/// What clients may use. The default is for production.
///
/// Limits called `share_...` are for the clients of one agent on this machine, or for all clients on one
/// host; the others are for all of them together, or for one request.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "one comment is for a limit and for the share of it that follows")]
pub struct Limits {
    /// Authenticated connections: two for each session, an event stream and one for requests, and
    /// some more. One more evicts the one that is idle for longest.
    pub connections: usize,
    pub share_connections: usize,
    /// Connections that have shown no valid token yet. One more evicts the oldest.
    pub unauthenticated: usize,
    /// Time for the headers of a request, and between two requests. Streams are not affected: their
    /// request has been read.
    pub header_time: Duration,
    /// Requests that may be answered at once, event streams among them.
    pub share_requests: usize,
    /// Bytes of one message, which may contain a whole file.
    pub body: usize,
    /// Bytes of all messages that are being received or answered.
    pub bodies: usize,
    pub share_bodies: usize,
    /// Time for the body of a request to begin to arrive, and to go on.
    pub body_time: Duration,
    /// Sessions that may exist at once. Most clients never end theirs, so the least recently used
    /// one makes room.
    pub sessions: usize,
    pub share_sessions: usize,
    /// A session without a stream or requests is removed after this time.
    pub idle_time: Duration,
    /// A session of a client on a host, whose relay ends it with the client, is removed after this
    /// time without a stream: the way there may be interrupted for as long as a laptop is elsewhere.
    pub host_time: Duration,
    /// The same if the way is open: the relay takes seconds to return. But Lisp tells when the way is
    /// interrupted, and may be busy; a relay that comes too late begins anew, with its open diffs.
    pub reachable_time: Duration,
    /// Readers of `/events` that each agent may have. Each is sent all outcomes, so that each may hold
    /// as much of them as the others together.
    pub event_readers: usize,
    /// Reviews that may be open at once.
    pub reviews: usize,
    pub share_reviews: usize,
    /// Bytes of their proposals, and of the files as they are.
    pub review_bytes: usize,
    pub share_review_bytes: usize,
    /// Events that may wait for Emacs while it is busy, of those that clients cause.
    pub share_events: usize,
    /// Bytes of these events.
    pub queued_bytes: usize,
    pub share_queued_bytes: usize,
    /// Bytes of outcomes of reviews that are kept after they were sent, in case the stream or the
    /// connection was broken.
    pub kept_bytes: usize,
    /// How long they are kept for clients that ask once more.
    pub kept_time: Duration,
    /// How long a review of a client without a session stays open: nothing shows whether that client is
    /// still there.
    pub unnamed_time: Duration,
    /// How long `closeDiff` waits for Emacs. Well below the time-outs of the client (300 s without
    /// headers, 600 s in all), which would end the connection.
    pub emacs_time: Duration,
    /// Calls of tools for the model that may wait for Emacs at once.
    pub tool_calls: usize,
    pub share_tool_calls: usize,
    /// How long one may take.
    pub tool_time: Duration,
    /// How long the answer to a request may take before it becomes an event stream, which is kept
    /// alive with comments, and shows a relay that Emacs will answer.
    pub stream_after: Duration,
    /// How long a request waits for the first context: less than `stream_after`.
    pub first_context: Duration,
    /// Checks of files that may run at once.
    pub file_checks: usize,
    /// How long one may take.
    pub file_check_time: Duration,
    /// Time between two comments on a stream. The client gives up after 300 s without a byte; proxies
    /// do so earlier.
    pub keep_alive: Duration,
    /// Time between two checks of the discovery files.
    pub repair_interval: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::for_messages(USUAL_BODY)
    }
}

impl Limits {
    /// The limits of a companion whose user lets a message have `body` bytes: at least a MiB, or there
    /// would be no messages, and at most a GiB. The other limits are raised so far that each agent may
    /// send a message of this size while others arrive, and may propose a text of this size for a file
    /// of this size.
    pub fn for_messages(body: usize) -> Limits {
        let body = body.clamp(1 << 20, 1 << 30);
        let largest = body.max(USUAL_BODY);
        let share_bodies = largest + FOR_OTHERS;
        let share_review_bytes = largest.saturating_mul(2);
        // Gemini CLI makes all calls of an answer at once.
        let share_tool_calls = 16;
        Limits {
            connections: 250,
            share_connections: 80,
            unauthenticated: 64,
            header_time: Duration::from_secs(30),
            share_requests: 64,
            body,
            bodies: share_bodies.saturating_mul(SHARES),
            share_bodies,
            body_time: Duration::from_secs(60),
            sessions: 64,
            share_sessions: 20,
            idle_time: Duration::from_secs(120),
            host_time: Duration::from_secs(3600),
            reachable_time: Duration::from_secs(60),
            event_readers: 16,
            reviews: 128,
            share_reviews: 40,
            review_bytes: share_review_bytes.saturating_mul(SHARES),
            share_review_bytes,
            share_events: 80,
            queued_bytes: largest.saturating_mul(SHARES),
            share_queued_bytes: largest,
            kept_bytes: largest,
            kept_time: Duration::from_secs(600),
            unnamed_time: Duration::from_secs(24 * 3600),
            emacs_time: Duration::from_secs(60),
            tool_calls: SHARES * share_tool_calls,
            share_tool_calls,
            tool_time: Duration::from_secs(20),
            stream_after: Duration::from_secs(1),
            first_context: Duration::from_millis(800),
            file_checks: 16,
            file_check_time: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            repair_interval: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_message_fits_into_all_limits_of_which_none_gets_lower() {
        let usual = Limits::default();
        for body in [0, 1 << 20, 64 << 20, 200 << 20, 1 << 30] {
            let limits = Limits::for_messages(body);
            assert_eq!(limits.body, body.max(1 << 20), "{limits:?}");
            for (limit, usual, bodies) in [
                (limits.bodies, usual.bodies, SHARES),
                (limits.share_bodies, usual.share_bodies, 1),
                (limits.review_bytes, usual.review_bytes, 2 * SHARES),
                (limits.share_review_bytes, usual.share_review_bytes, 2),
                (limits.queued_bytes, usual.queued_bytes, SHARES),
                (limits.share_queued_bytes, usual.share_queued_bytes, 1),
                (limits.kept_bytes, usual.kept_bytes, 1),
            ] {
                assert!(limit >= usual && limit >= body.saturating_mul(bodies), "{limits:?}");
            }
        }
    }
}
