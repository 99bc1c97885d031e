//! The reviews that await an outcome, and the sessions that own them.
//!
//! A session has at most one open review of a file, and the newest wins: the client identifies a
//! review by its path alone, and would take the outcome of the older one for that of the newer one.
//! Nothing here knows of locks, clocks or connections: `sessions` decides when things happen.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::client::SessionId;
use crate::bridge::CallId;
use crate::ide::ReviewId;

#[derive(Default)]
pub struct Reviews {
    /// Oldest first.
    open: BTreeMap<ReviewId, Review>,
    last: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Review {
    pub id: ReviewId,
    pub owner: SessionId,
    /// The session that opened it; its owner may be another one by now.
    pub proposer: SessionId,
    /// Exactly as the client wrote it, since it identifies the review by this string.
    pub path: Arc<str>,
    /// What a client on a host calls the proposal, another one each time: its relay repeats one if it
    /// did not receive the answer.
    pub name: Option<Arc<str>>,
    /// The bytes of the proposal, and of the file as it was then.
    pub bytes: usize,
    /// The call in which the client asked Lisp to decide it.
    deciding: Option<CallId>,
}

impl Reviews {
    /// Opens a review. Returns it, and the one that it replaces.
    pub fn open(
        &mut self,
        owner: &SessionId,
        path: &str,
        name: Option<Arc<str>>,
        bytes: usize,
    ) -> (ReviewId, Option<ReviewId>) {
        let older = self.find(owner, path).map(|older| older.id);
        if let Some(older) = older {
            self.open.remove(&older);
        }
        self.last += 1;
        let id = ReviewId(self.last);
        let (proposer, owner, path) = (owner.clone(), owner.clone(), path.into());
        let review = Review { id, owner, proposer, path, name, bytes, deciding: None };
        self.open.insert(id, review);
        (id, older)
    }

    /// The open review of `path` that `owner` has.
    pub fn find(&self, owner: &SessionId, path: &str) -> Option<&Review> {
        self.all().find(|review| review.is_of(owner, path))
    }

    /// All open reviews, oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Review> {
        self.open.values()
    }

    /// The open reviews of one owner, oldest first.
    pub fn of(&self, owner: &SessionId) -> Vec<ReviewId> {
        self.all().filter(|review| review.owner == *owner).map(|review| review.id).collect()
    }

    /// Removes a review. `None` if it was no longer open.
    pub fn end(&mut self, id: ReviewId) -> Option<Review> {
        self.open.remove(&id)
    }

    /// Records that `call` asks for a decision. Returns false if an earlier call does, and is still
    /// awaited as `is_awaited` says.
    pub fn begin_decision(
        &mut self,
        id: ReviewId,
        call: CallId,
        is_awaited: impl Fn(CallId) -> bool,
    ) -> bool {
        let review = self.open.get_mut(&id);
        let Some(review) = review.filter(|review| !review.deciding.is_some_and(is_awaited)) else {
            return false;
        };
        review.deciding = Some(call);
        true
    }

    /// Makes `successor`, which has no review of the same files, the owner of the reviews of `lost`.
    pub fn inherit(&mut self, successor: &SessionId, lost: &SessionId) {
        for review in self.open.values_mut().filter(|review| review.owner == *lost) {
            review.owner = successor.clone();
        }
    }
}

impl Review {
    pub fn is_of(&self, owner: &SessionId, path: &str) -> bool {
        self.owner == *owner && *self.path == *path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_call_at_a_time_decides_a_review() {
        let mut reviews = Reviews::default();
        let (review, _) = reviews.open(&SessionId::from("one"), "/a", None, 1);
        assert!(reviews.begin_decision(review, CallId(1), |_| true));
        assert!(!reviews.begin_decision(review, CallId(2), |call| call == CallId(1)));
        assert!(reviews.begin_decision(review, CallId(3), |_| false));
    }
}
