//! How much of something there is, and how much there may be.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A count with a limit, without a lock: when several threads ask at the same time whether there is
/// room, each may add what it wants, and the limit is exceeded by no more than that.
#[derive(Debug)]
pub struct Quota {
    used: AtomicUsize,
    limit: usize,
}

impl Quota {
    pub fn new(limit: usize) -> Quota {
        Quota { used: AtomicUsize::new(0), limit }
    }

    /// Whether `amount` more is within the limit.
    pub fn has_room_for(&self, amount: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(amount) <= self.limit
    }

    /// Adds `amount`, whether there is room or not.
    pub fn add(&self, amount: usize) {
        self.used.fetch_add(amount, Ordering::Relaxed);
    }

    /// Removes what was added.
    pub fn remove(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_limit_counts_until_it_is_removed() {
        let quota = Quota::new(3);
        assert!(quota.has_room_for(3) && !quota.has_room_for(4));
        quota.add(2);
        assert!(quota.has_room_for(1) && !quota.has_room_for(2));
        quota.add(2);
        assert!(!quota.has_room_for(0));
        quota.remove(2);
        assert!(quota.has_room_for(1) && !quota.has_room_for(usize::MAX));
    }
}
