//! What the clients of one agent may use, or all clients on one host, so that others have theirs.

use std::fmt;
use std::sync::Arc;

use crate::limits::Limits;
use crate::quota::{Quota, Share};

/// The share of one agent on this machine, or of one host.
pub struct Allowance {
    /// Requests that are being answered, event streams among them.
    requests: Arc<Quota>,
    /// Bytes of messages that are being received or answered.
    bodies: Arc<Quota>,
    /// Calls of tools for the model.
    calls: Arc<Quota>,
    /// Events that wait for Lisp, and their bytes.
    pub(crate) events: Quota,
    pub(crate) event_bytes: Quota,
}

impl Allowance {
    pub(crate) fn new(limits: &Limits) -> Allowance {
        Allowance {
            requests: Arc::new(Quota::new(limits.share_requests)),
            bodies: Arc::new(Quota::new(limits.share_bodies)),
            calls: Arc::new(Quota::new(limits.share_tool_calls)),
            events: Quota::new(limits.share_events),
            event_bytes: Quota::new(limits.share_queued_bytes),
        }
    }

    /// Begins a request, unless too many are being answered.
    pub(crate) fn begin_request(&self) -> Option<Share> {
        Share::one_of(&self.requests)
    }

    /// Begins a call of a tool for the model, unless too many are running.
    pub(crate) fn begin_call(&self) -> Option<Share> {
        Share::one_of(&self.calls)
    }

    pub(crate) fn bodies(&self) -> &Arc<Quota> {
        &self.bodies
    }
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance::new(&Limits::default())
    }
}

impl fmt::Debug for Allowance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Allowance")
    }
}

/// There is one for each agent on this machine, and for each host.
impl PartialEq for Allowance {
    fn eq(&self, other: &Allowance) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Allowance {}
