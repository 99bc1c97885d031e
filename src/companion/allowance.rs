//! What the clients of one agent may use, or all clients on one host, so that others have theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::limits::Limits;

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

/// A count with a limit, without a lock: when several threads ask at the same time whether there is
/// room, each may add what it wants, and the limit is exceeded by no more than that.
#[derive(Debug)]
pub(crate) struct Quota {
    used: AtomicUsize,
    limit: usize,
}

impl Quota {
    pub(crate) fn new(limit: usize) -> Quota {
        Quota { used: AtomicUsize::new(0), limit }
    }

    /// Whether `amount` more is within the limit.
    pub(crate) fn has_room_for(&self, amount: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(amount) <= self.limit
    }

    /// Adds `amount`, whether there is room or not.
    pub(crate) fn add(&self, amount: usize) {
        self.used.fetch_add(amount, Ordering::Relaxed);
    }

    /// Removes what was added.
    pub(crate) fn remove(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::Relaxed);
    }
}
