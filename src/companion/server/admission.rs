//! How many connections there may be. Anyone who reaches the port can open some, so few may be
//! unauthenticated, and a new one evicts the oldest. With its first valid token a connection becomes
//! one of those of clients. If there are too many of these, the one evicted is idle: clients keep
//! connections for later requests, and open new ones when these are closed. An event stream is a
//! request that is being answered, and no connection evicts one with such a request. Each agent has
//! a share of them, and each host.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::allowance::Allowance;
use crate::limits::Limits;
use crate::lock::lock;

pub struct Gate {
    limits: Limits,
    connections: Mutex<Connections>,
}

/// The connections that were admitted, by their numbers, which ascend.
#[derive(Default)]
struct Connections {
    last: u64,
    open: BTreeMap<u64, Open>,
}

struct Open {
    /// It is a channel of a wire, which has only so many.
    by_wire: bool,
    /// Of its client, once that has shown a valid token.
    allowance: Option<Arc<Allowance>>,
    /// Requests that are being answered.
    requests: usize,
    /// When the last one was answered.
    idle_since: Instant,
    evicted: Arc<Notify>,
}

/// The admission of one connection, held until that is closed.
pub struct Admission {
    gate: Arc<Gate>,
    number: u64,
    evicted: Arc<Notify>,
}

/// Held while a request is answered.
pub struct InUse {
    admission: Arc<Admission>,
}

impl Gate {
    pub fn new(limits: Limits) -> Gate {
        Gate { limits, connections: Mutex::default() }
    }

    /// Admits a new connection; evicts the oldest unauthenticated one if there are too many. A host
    /// neither has a place among these nor evicts one: its channels are bounded by its wire.
    pub fn admit(self: &Arc<Self>, by_wire: bool) -> Arc<Admission> {
        let mut connections = lock(&self.connections);
        let most = if by_wire { usize::MAX } else { self.limits.unauthenticated };
        connections.make_room(most, |open| !open.by_wire && open.allowance.is_none());
        connections.last += 1;
        let (number, evicted) = (connections.last, Arc::new(Notify::new()));
        let (allowance, idle_since) = (None, Instant::now());
        let open = Open { by_wire, allowance, requests: 0, idle_since, evicted: evicted.clone() };
        connections.open.insert(number, open);
        Arc::new(Admission { gate: self.clone(), number, evicted })
    }
}

impl Connections {
    /// Makes the connection with this number that of a client with `allowance`.
    fn authenticate(
        &mut self,
        number: u64,
        allowance: &Arc<Allowance>,
        limits: &Limits,
    ) -> Option<&mut Open> {
        if self.open.get(&number)?.allowance.is_none() {
            let is_own = |open: &Open| open.allowance.as_ref() == Some(allowance);
            self.make_room(limits.share_connections, is_own)?;
            self.make_room(limits.connections, |open| open.allowance.is_some())?;
        }
        let open = self.open.get_mut(&number)?;
        open.allowance = Some(allowance.clone());
        Some(open)
    }

    /// If there are `most` of those that `counts` selects, or more, evicts the one of them that has
    /// been idle for longest. None if all are in use.
    fn make_room(&mut self, most: usize, counts: impl Fn(&Open) -> bool + Copy) -> Option<()> {
        let counted = self.open.iter().filter(|(_, open)| counts(open));
        if counted.clone().count() >= most {
            let idle = counted.filter(|(_, open)| open.requests == 0);
            let (&longest, _) = idle.min_by_key(|(_, open)| open.idle_since)?;
            self.open.remove(&longest)?.evicted.notify_one();
        }
        Some(())
    }
}

impl Admission {
    /// Records that a request of a client with `allowance`, with a valid token, is to be answered. None
    /// if that is one connection too many, or if this connection has to make room for another.
    pub fn begin_request(self: &Arc<Self>, allowance: &Arc<Allowance>) -> Option<InUse> {
        let mut connections = lock(&self.gate.connections);
        connections.authenticate(self.number, allowance, &self.gate.limits)?.requests += 1;
        Some(InUse { admission: self.clone() })
    }

    /// Waits until the connection has to make room for another.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        lock(&self.gate.connections).open.remove(&self.number);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut connections = lock(&self.admission.gate.connections);
        if let Some(open) = connections.open.get_mut(&self.admission.number) {
            open.requests -= 1;
            open.idle_since = Instant::now();
        }
    }
}
