//! How many connections there may be. Anyone who reaches the port can open some, so few may be
//! unauthenticated, and a new one evicts the oldest. With its first valid token a connection becomes
//! one of those of clients. If there are too many of these, the one evicted is idle: clients keep
//! connections for later requests, and open new ones when these are closed. An event stream is a
//! request that is being answered, and no connection evicts one with such a request.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lock::lock;

pub struct Gate {
    max_clients: usize,
    max_unauthenticated: usize,
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
    pub fn new(clients: usize, unauthenticated: usize) -> Gate {
        Gate {
            max_clients: clients,
            max_unauthenticated: unauthenticated,
            connections: Mutex::default(),
        }
    }

    /// Admits a new connection; evicts the oldest unauthenticated one if there are too many.
    pub fn admit(self: &Arc<Self>) -> Arc<Admission> {
        let mut connections = lock(&self.connections);
        while connections.unauthenticated.len() >= self.max_unauthenticated {
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
    /// Makes the connection with this number that of a client, of which there may be `max`.
    fn authenticate(&mut self, number: u64, max: usize) -> Option<&mut Client> {
        if self.unauthenticated.contains_key(&number) {
            if self.clients.len() >= max {
                self.evict_idle()?;
            }
            let evicted = self.unauthenticated.remove(&number)?;
            let client = Client { requests: 0, idle_since: Instant::now(), evicted };
            self.clients.insert(number, client);
        }
        self.clients.get_mut(&number)
    }

    /// Evicts the client that has been idle for longest. None if all are in use.
    fn evict_idle(&mut self) -> Option<()> {
        let idle = self.clients.iter().filter(|(_, client)| client.requests == 0);
        let (&longest, _) = idle.min_by_key(|(_, client)| client.idle_since)?;
        self.clients.remove(&longest)?.evicted.notify_one();
        Some(())
    }
}

impl Admission {
    /// Notes that a request with a valid token is to be answered. None if that is one connection
    /// too many, or if this connection has to make room for another.
    pub fn begin_request(self: &Arc<Self>) -> Option<InUse> {
        let mut connections = lock(&self.gate.connections);
        connections.authenticate(self.number, self.gate.max_clients)?.requests += 1;
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
    use std::task::{Context, Waker};
    use std::time::Duration;

    fn gate(clients: usize, unauthenticated: usize) -> Arc<Gate> {
        Arc::new(Gate::new(clients, unauthenticated))
    }

    fn is_evicted(admission: &Arc<Admission>) -> bool {
        pin!(admission.evicted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// A connection on which a request was answered at this second of the clock.
    async fn idle_since_now(gate: &Arc<Gate>) -> Arc<Admission> {
        tokio::time::advance(Duration::from_secs(1)).await;
        let admission = gate.admit();
        drop(admission.begin_request().unwrap());
        admission
    }

    #[test]
    fn the_oldest_unauthenticated_connection_makes_room_and_clients_stay() {
        let gate = gate(10, 2);
        let client = gate.admit();
        drop(client.begin_request().unwrap());
        let unauthenticated = [gate.admit(), gate.admit(), gate.admit()];
        assert!(!is_evicted(&client));
        assert_eq!(unauthenticated.each_ref().map(is_evicted), [true, false, false]);
        assert!(unauthenticated[0].begin_request().is_none());
    }

    #[test]
    fn closed_connections_need_no_room() {
        let gate = gate(1, 1);
        drop(gate.admit());
        let admission = gate.admit();
        assert!(!is_evicted(&admission));
        let used = admission.begin_request();
        let other = gate.admit();
        assert!(other.begin_request().is_none());
        drop((admission, used));
        assert!(other.begin_request().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_that_is_idle_for_longest_makes_room() {
        let gate = gate(3, 10);
        let first = idle_since_now(&gate).await;
        let second = idle_since_now(&gate).await;
        let third = idle_since_now(&gate).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(first.begin_request().unwrap()); // now it is the second that was used longest ago
        let new = gate.admit();
        assert!(new.begin_request().is_some());
        assert_eq!([&first, &second, &third, &new].map(is_evicted), [false, true, false, false]);
        assert!(second.begin_request().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_a_request_makes_no_room() {
        let gate = gate(2, 10);
        let busy = idle_since_now(&gate).await;
        let requests = [busy.begin_request().unwrap(), busy.begin_request().unwrap()];
        let idle = idle_since_now(&gate).await;
        let new = gate.admit();
        let _used = new.begin_request().unwrap();
        assert_eq!([&busy, &idle].map(is_evicted), [false, true]);
        let refused = gate.admit();
        assert!(refused.begin_request().is_none());
        let [one, other] = requests;
        drop(one);
        assert!(refused.begin_request().is_none());
        drop(other);
        assert!(refused.begin_request().is_some());
        assert!(is_evicted(&busy) && !is_evicted(&refused));
    }

    #[test]
    fn who_has_no_token_evicts_no_client() {
        let gate = gate(1, 1);
        let client = gate.admit();
        drop(client.begin_request().unwrap());
        let _unauthenticated = [gate.admit(), gate.admit(), gate.admit()];
        assert!(!is_evicted(&client));
        assert!(client.begin_request().is_some());
    }
}
