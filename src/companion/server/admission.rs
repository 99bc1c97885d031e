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
    clients: HashMap<u64, Client>,
}

/// A connection that has shown a valid token.
struct Client {
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
    ) -> Option<&mut Client> {
        if self.unauthenticated.contains_key(&number) {
            let is_own = |client: &Client| client.allowance == *allowance;
            if self.clients.values().filter(|client| is_own(client)).count()
                >= limits.share_connections
            {
                self.evict_idle(is_own)?;
            } else if self.clients.len() >= limits.connections {
                self.evict_idle(|_| true)?;
            }
            let evicted = self.unauthenticated.remove(&number)?;
            let idle_since = Instant::now();
            let client = Client { allowance: allowance.clone(), requests: 0, idle_since, evicted };
            self.clients.insert(number, client);
        }
        self.clients.get_mut(&number)
    }

    /// Evicts the one of the clients that `counts` selects which has been idle for longest. None if
    /// all are in use.
    fn evict_idle(&mut self, counts: impl Fn(&Client) -> bool) -> Option<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::LazyLock;
    use std::task::{Context, Waker};
    use std::time::Duration;

    fn gate(connections: usize, unauthenticated: usize) -> Arc<Gate> {
        Arc::new(Gate::new(Limits { connections, unauthenticated, ..Limits::default() }))
    }

    /// What begins a request of the one agent that most tests have.
    trait Begin {
        fn begin(&self) -> Option<InUse>;
    }

    impl Begin for Arc<Admission> {
        fn begin(&self) -> Option<InUse> {
            static ONE: LazyLock<Arc<Allowance>> = LazyLock::new(Arc::default);
            self.begin_request(&ONE)
        }
    }

    fn is_evicted(admission: &Arc<Admission>) -> bool {
        pin!(admission.evicted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// A connection on which a request was answered at this second of the clock.
    async fn idle_since_now(gate: &Arc<Gate>) -> Arc<Admission> {
        tokio::time::advance(Duration::from_secs(1)).await;
        let admission = gate.admit();
        drop(admission.begin().unwrap());
        admission
    }

    #[test]
    fn the_oldest_unauthenticated_connection_makes_room_and_clients_stay() {
        let gate = gate(10, 2);
        let client = gate.admit();
        drop(client.begin().unwrap());
        let unauthenticated = [gate.admit(), gate.admit(), gate.admit()];
        assert!(!is_evicted(&client));
        assert_eq!(unauthenticated.each_ref().map(is_evicted), [true, false, false]);
        assert!(unauthenticated[0].begin().is_none());
    }

    #[test]
    fn closed_connections_need_no_room() {
        let gate = gate(1, 1);
        drop(gate.admit());
        let admission = gate.admit();
        assert!(!is_evicted(&admission));
        let used = admission.begin();
        let other = gate.admit();
        assert!(other.begin().is_none());
        drop((admission, used));
        assert!(other.begin().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_that_is_idle_for_longest_makes_room() {
        let gate = gate(3, 10);
        let first = idle_since_now(&gate).await;
        let second = idle_since_now(&gate).await;
        let third = idle_since_now(&gate).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(first.begin().unwrap()); // now it is the second that was used longest ago
        let new = gate.admit();
        assert!(new.begin().is_some());
        assert_eq!([&first, &second, &third, &new].map(is_evicted), [false, true, false, false]);
        assert!(second.begin().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_a_request_makes_no_room() {
        let gate = gate(2, 10);
        let busy = idle_since_now(&gate).await;
        let requests = [busy.begin().unwrap(), busy.begin().unwrap()];
        let idle = idle_since_now(&gate).await;
        let new = gate.admit();
        let _used = new.begin().unwrap();
        assert_eq!([&busy, &idle].map(is_evicted), [false, true]);
        let refused = gate.admit();
        assert!(refused.begin().is_none());
        let [one, other] = requests;
        drop(one);
        assert!(refused.begin().is_none());
        drop(other);
        assert!(refused.begin().is_some());
        assert!(is_evicted(&busy) && !is_evicted(&refused));
    }

    #[test]
    fn an_agent_evicts_only_its_own_connections_beyond_its_share() {
        let limits = Limits { connections: 4, share_connections: 2, ..Limits::default() };
        let gate = Arc::new(Gate::new(limits));
        let (one, other) = (Arc::default(), Arc::default());
        let others = gate.admit();
        drop(others.begin_request(&other).unwrap());
        let own = [gate.admit(), gate.admit(), gate.admit()];
        let _used = own[0].begin_request(&one).unwrap();
        drop(own[1].begin_request(&one).unwrap());
        let _also_used = own[2].begin_request(&one).unwrap();
        assert_eq!(own.each_ref().map(is_evicted), [false, true, false]);
        assert!(gate.admit().begin_request(&one).is_none());
        assert!(!is_evicted(&others) && gate.admit().begin_request(&other).is_some());
    }

    #[test]
    fn who_has_no_token_evicts_no_client() {
        let gate = gate(1, 1);
        let client = gate.admit();
        drop(client.begin().unwrap());
        let _unauthenticated = [gate.admit(), gate.admit(), gate.admit()];
        assert!(!is_evicted(&client));
        assert!(client.begin().is_some());
    }
}
