//! What the clients of one agent may use, or all clients on one host, so that others have theirs.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::limits::Limits;
use crate::quota::Quota;

/// The share of one agent on this machine, or of one host.
#[derive(Debug)]
pub struct Allowance {
    /// Requests that are being answered, event streams among them.
    pub(crate) requests: Arc<Semaphore>,
    /// Bytes of messages that are being received or answered.
    pub(crate) bodies: Arc<Semaphore>,
    /// Calls of tools for the model.
    pub(crate) calls: Semaphore,
    /// Events that wait for Lisp, and their bytes.
    pub(crate) events: Quota,
    pub(crate) event_bytes: Quota,
}

impl Allowance {
    pub(crate) fn new(limits: &Limits) -> Allowance {
        Allowance {
            requests: Arc::new(Semaphore::new(limits.share_requests)),
            bodies: bytes(limits.share_bodies),
            calls: Semaphore::new(limits.share_tool_calls),
            events: Quota::new(limits.share_events),
            event_bytes: Quota::new(limits.share_queued_bytes),
        }
    }
}

/// A permit for each byte within `limit`, or for as many as there can be.
pub(crate) fn bytes(limit: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)))
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance::new(&Limits::default())
    }
}

/// There is one for each agent on this machine, and for each host.
impl PartialEq for Allowance {
    fn eq(&self, other: &Allowance) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Allowance {}
