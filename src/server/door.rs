//! Which connections may exist. All are strangers' at first: whoever reaches the port can open
//! some, so these are few, and the newest displaces the oldest. With its first good token a
//! connection takes one of the places of clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::lock::lock;

pub struct Door {
    places: Arc<Semaphore>,
    /// The oldest first.
    strangers: Mutex<VecDeque<Weak<Visitor>>>,
    most_strangers: usize,
}

/// One connection, as long as it lasts.
pub struct Visitor {
    places: Arc<Semaphore>,
    place: OnceLock<OwnedSemaphorePermit>,
    turned_out: Notify,
}

impl Door {
    pub fn new(clients: usize, strangers: usize) -> Door {
        Door {
            places: Arc::new(Semaphore::new(clients)),
            strangers: Mutex::default(),
            most_strangers: strangers,
        }
    }

    /// Lets a stranger in, in place of the oldest if there are too many.
    pub fn enter(&self) -> Arc<Visitor> {
        let visitor = Arc::new(Visitor {
            places: self.places.clone(),
            place: OnceLock::new(),
            turned_out: Notify::new(),
        });
        let mut strangers = lock(&self.strangers);
        strangers.retain(|other| other.upgrade().is_some_and(|other| other.place.get().is_none()));
        while strangers.len() >= self.most_strangers {
            let Some(oldest) = strangers.pop_front() else { break };
            if let Some(oldest) = oldest.upgrade() {
                oldest.turned_out.notify_one();
            }
        }
        strangers.push_back(Arc::downgrade(&visitor));
        visitor
    }
}

impl Visitor {
    /// Takes a place, for the visitor has shown the token. False if there is none left.
    pub fn admit(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        let Ok(place) = self.places.clone().try_acquire_owned() else { return false };
        self.place.set(place).is_ok()
    }

    /// Waits until the visitor has to make room for another.
    pub async fn turned_out(&self) {
        self.turned_out.notified().await;
        if self.place.get().is_some() {
            std::future::pending().await // it showed the token just before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_turned_out(visitor: &Visitor) -> bool {
        pin!(visitor.turned_out()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_stranger_makes_room_and_clients_stay() {
        let door = Door::new(10, 2);
        let client = door.enter();
        assert!(client.admit());
        let strangers = [door.enter(), door.enter(), door.enter()];
        assert!(!is_turned_out(&client));
        assert_eq!(
            strangers.each_ref().map(|visitor| is_turned_out(visitor)),
            [true, false, false]
        );
    }

    #[test]
    fn those_who_left_need_no_room() {
        let door = Door::new(10, 1);
        drop(door.enter());
        let visitor = door.enter();
        assert!(!is_turned_out(&visitor));
    }

    #[test]
    fn places_are_limited_and_given_back() {
        let door = Door::new(1, 10);
        let (first, second) = (door.enter(), door.enter());
        assert!(first.admit());
        assert!(first.admit());
        assert!(!second.admit());
        drop(first);
        assert!(second.admit());
    }
}
