//! How many connections there may be. Anyone who reaches the port can open some, so few may be
//! unauthenticated, and a new one evicts the oldest. With its first valid token a connection becomes
//! one of those of clients. If there are too many of these, the one evicted is idle: clients keep
//! connections for later requests, and open new ones when these are closed. An event stream is a
//! request that is being answered, and no connection evicts one with such a request. Each agent has
//! a share of them, and each host.

use std::collections::{BTreeMap, HashMap};
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
    unauthenticated: BTreeMap<u64, Arc<Notify>>,
    clients: HashMap<u64, Admitted>,
}

/// A connection that has shown a valid token.
struct Admitted {
    allowance: Arc<Allowance>,
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

    /// Admits a new connection; evicts the oldest unauthenticated one if there are too many.
    pub fn admit(self: &Arc<Self>) -> Arc<Admission> {
        let mut connections = lock(&self.connections);
        while connections.unauthenticated.len() >= self.limits.unauthenticated {
            let Some((_, oldest)) = connections.unauthenticated.pop_first() else { break };
            oldest.notify_one();
        }
        connections.last += 1;
        let (number, evicted) = (connections.last, Arc::new(Notify::new()));
        connections.unauthenticated.insert(number, evicted.clone());
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
    ) -> Option<&mut Admitted> {
        if self.unauthenticated.contains_key(&number) {
            let is_own = |client: &Admitted| client.allowance == *allowance;
            if self.clients.values().filter(|client| is_own(client)).count()
                >= limits.share_connections
            {
                self.evict_idle(is_own)?;
            } else if self.clients.len() >= limits.connections {
                self.evict_idle(|_| true)?;
            }
            let evicted = self.unauthenticated.remove(&number)?;
            let idle_since = Instant::now();
            let client =
                Admitted { allowance: allowance.clone(), requests: 0, idle_since, evicted };
            self.clients.insert(number, client);
        }
        self.clients.get_mut(&number)
    }

    /// Evicts the one of the clients that `counts` selects which has been idle for longest. None if
    /// all are in use.
    fn evict_idle(&mut self, counts: impl Fn(&Admitted) -> bool) -> Option<()> {
        let idle = self.clients.iter().filter(|(_, client)| client.requests == 0 && counts(client));
        let (&longest, _) = idle.min_by_key(|(_, client)| client.idle_since)?;
        self.clients.remove(&longest)?.evicted.notify_one();
        Some(())
    }
}

impl Admission {
    /// Notes that a request with a valid token is to be answered, of a client with `allowance`. None
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
        let mut connections = lock(&self.gate.connections);
        connections.unauthenticated.remove(&self.number);
        connections.clients.remove(&self.number);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut connections = lock(&self.admission.gate.connections);
        if let Some(client) = connections.clients.get_mut(&self.admission.number) {
            client.requests -= 1;
            client.idle_since = Instant::now();
        }
    }
}
