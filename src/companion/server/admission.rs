//! How many connections there may be. Anyone who reaches the port can open some, so few may be
//! unauthenticated, and a new one evicts the oldest. With its first valid token a connection takes
//! one of the slots of clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::lock::lock;

pub struct Gate {
    slots: Arc<Semaphore>,
    /// Oldest first.
    unauthenticated: Mutex<VecDeque<Weak<Admission>>>,
    max_unauthenticated: usize,
}

/// The admission of one connection, held until that is closed.
pub struct Admission {
    slots: Arc<Semaphore>,
    slot: OnceLock<OwnedSemaphorePermit>,
    evicted: Notify,
}

impl Gate {
    pub fn new(clients: usize, unauthenticated: usize) -> Gate {
        Gate {
            slots: Arc::new(Semaphore::new(clients)),
            unauthenticated: Mutex::default(),
            max_unauthenticated: unauthenticated,
        }
    }

    /// Admits a new connection; evicts the oldest unauthenticated one if there are too many.
    pub fn admit(&self) -> Arc<Admission> {
        let admission = Arc::new(Admission {
            slots: self.slots.clone(),
            slot: OnceLock::new(),
            evicted: Notify::new(),
        });
        let mut unauthenticated = lock(&self.unauthenticated);
        unauthenticated
            .retain(|other| other.upgrade().is_some_and(|other| other.slot.get().is_none()));
        while unauthenticated.len() >= self.max_unauthenticated {
            let Some(oldest) = unauthenticated.pop_front() else { break };
            if let Some(oldest) = oldest.upgrade() {
                oldest.evicted.notify_one();
            }
        }
        unauthenticated.push_back(Arc::downgrade(&admission));
        admission
    }
}

impl Admission {
    /// Takes a slot, for the connection has shown a valid token. False if there is none left.
    pub fn authenticate(&self) -> bool {
        if self.slot.get().is_some() {
            return true;
        }
        let Ok(slot) = self.slots.clone().try_acquire_owned() else { return false };
        self.slot.set(slot).is_ok()
    }

    /// Waits until the connection has to make room for another.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
        if self.slot.get().is_some() {
            std::future::pending().await // it was authenticated in the meantime
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_evicted(admission: &Admission) -> bool {
        pin!(admission.evicted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_unauthenticated_connection_makes_room_and_clients_stay() {
        let gate = Gate::new(10, 2);
        let client = gate.admit();
        assert!(client.authenticate());
        let unauthenticated = [gate.admit(), gate.admit(), gate.admit()];
        assert!(!is_evicted(&client));
        assert_eq!(
            unauthenticated.each_ref().map(|admission| is_evicted(admission)),
            [true, false, false]
        );
    }

    #[test]
    fn closed_connections_need_no_room() {
        let gate = Gate::new(10, 1);
        drop(gate.admit());
        let admission = gate.admit();
        assert!(!is_evicted(&admission));
    }

    #[test]
    fn slots_are_limited_and_released() {
        let gate = Gate::new(1, 10);
        let (first, second) = (gate.admit(), gate.admit());
        assert!(first.authenticate());
        assert!(first.authenticate());
        assert!(!second.authenticate());
        drop(first);
        assert!(second.authenticate());
    }
}
