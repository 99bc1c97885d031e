//! The reviews that await an outcome, and the sessions that own them.
//!
//! A session has at most one open review of a file, and the newest wins: the client identifies a
//! review by its path alone, and would take the outcome of the older one for that of the newer one.
//! Nothing here knows of locks, clocks or connections: `sessions` decides when things happen.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::client::SessionId;
use crate::bridge::CallId;
use crate::ide::ReviewId;

#[derive(Default)]
pub struct Reviews {
    /// The key enforces that rule, as a session and a path have at most one entry.
    open: BTreeMap<Key, Review>,
    last: i64,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    owner: SessionId,
    /// Exactly as the client wrote it, since it identifies the review by this string.
    path: Arc<str>,
}

struct Review {
    id: ReviewId,
    /// The session that opened it; its owner may be another one by now.
    proposer: SessionId,
    /// What a client on a host calls the proposal, another one each time: its relay repeats one if it
    /// did not receive the answer.
    name: Option<Arc<str>>,
    /// The bytes of the proposal, and of the file as it was then.
    bytes: usize,
    /// The call in which the client asked Lisp to decide it.
    deciding: Option<CallId>,
}

/// A review that has come to its end.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub id: ReviewId,
    pub owner: SessionId,
    pub proposer: SessionId,
    pub path: Arc<str>,
    pub name: Option<Arc<str>>,
}

/// How many reviews are open, and their bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub count: usize,
    pub bytes: usize,
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
        self.last += 1;
        let id = ReviewId(self.last);
        let proposer = owner.clone();
        let review = Review { id, proposer, name, bytes, deciding: None };
        let older = self.open.insert(Key::new(owner, path), review);
        (id, older.map(|review| review.id))
    }

    /// The open review of `path` that `owner` has.
    pub fn find(&self, owner: &SessionId, path: &str) -> Option<ReviewId> {
        self.open.get(&Key::new(owner, path)).map(|review| review.id)
    }

    /// Whether the open review of `path` that `owner` has is of the proposal `name`.
    pub fn is_named(&self, owner: &SessionId, path: &str, name: &str) -> bool {
        let review = self.open.get(&Key::new(owner, path));
        review.is_some_and(|review| review.name.as_deref() == Some(name))
    }

    /// All open reviews, oldest first.
    pub fn all(&self) -> Vec<ReviewId> {
        self.ids_where(|_, _| true)
    }

    /// The open reviews of one owner, oldest first.
    pub fn of(&self, owner: &SessionId) -> Vec<ReviewId> {
        self.ids_where(|key, _| key.owner == *owner)
    }

    /// The load of the reviews that `counts` selects, without that of `path` that `owner` has.
    pub fn load_without(
        &self,
        owner: &SessionId,
        path: &str,
        counts: impl Fn(&SessionId) -> bool,
    ) -> Load {
        let others = self.open.iter().filter(|(key, _)| !key.is(owner, path) && counts(&key.owner));
        others.fold(Load::default(), |load, (_, review)| Load {
            count: load.count + 1,
            bytes: load.bytes + review.bytes,
        })
    }

    /// Removes a review. `None` if it was no longer open.
    pub fn end(&mut self, id: ReviewId) -> Option<Ended> {
        let key = self.key_of(id)?;
        let Review { proposer, name, .. } = self.open.remove(&key)?;
        Some(Ended { id, owner: key.owner, proposer, path: key.path, name })
    }

    /// Whether the session that opened the review still owns it.
    pub fn is_owned_by_proposer(&self, id: ReviewId) -> bool {
        self.open.iter().any(|(key, review)| review.id == id && review.proposer == key.owner)
    }

    /// Records that `call` asks for a decision. Returns false if an earlier call does, and is still
    /// awaited as `is_awaited` says.
    pub fn begin_decision(
        &mut self,
        id: ReviewId,
        call: CallId,
        is_awaited: impl Fn(CallId) -> bool,
    ) -> bool {
        let Some(review) = self.open.values_mut().find(|review| review.id == id) else {
            return false;
        };
        let begins = !review.deciding.is_some_and(is_awaited);
        if begins {
            review.deciding = Some(call);
        }
        begins
    }

    /// Those of files that `counts` selects.
    pub fn of_files(&self, owner: &SessionId, counts: impl Fn(&str) -> bool) -> Vec<ReviewId> {
        self.ids_where(|key, _| key.owner == *owner && counts(&key.path))
    }

    /// Makes `successor` the owner of the reviews of `lost`. Of two reviews of one file the newer one
    /// stays open. Returns the others.
    pub fn inherit(&mut self, successor: &SessionId, lost: &SessionId) -> Vec<ReviewId> {
        self.of(lost).into_iter().filter_map(|id| self.give_one(successor, id)).collect()
    }

    fn give_one(&mut self, owner: &SessionId, id: ReviewId) -> Option<ReviewId> {
        let key = self.key_of(id)?;
        let review = self.open.remove(&key)?;
        match self.open.entry(Key { owner: owner.clone(), path: key.path }) {
            Entry::Occupied(other) if other.get().id > id => Some(id),
            Entry::Occupied(mut other) => Some(other.insert(review).id),
            Entry::Vacant(place) => {
                place.insert(review);
                None
            }
        }
    }

    fn key_of(&self, id: ReviewId) -> Option<Key> {
        self.open.iter().find(|(_, review)| review.id == id).map(|(key, _)| key.clone())
    }

    fn ids_where(&self, matches: impl Fn(&Key, &Review) -> bool) -> Vec<ReviewId> {
        let found = self.open.iter().filter(|(key, review)| matches(key, review));
        let mut ids: Vec<ReviewId> = found.map(|(_, review)| review.id).collect();
        ids.sort_unstable();
        ids
    }
}

impl Key {
    fn new(owner: &SessionId, path: &str) -> Key {
        Key { owner: owner.clone(), path: path.into() }
    }

    fn is(&self, owner: &SessionId, path: &str) -> bool {
        self.owner == *owner && *self.path == *path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners() -> [SessionId; 2] {
        ["one", "two"].map(SessionId::from)
    }

    #[test]
    fn a_successor_keeps_the_newer_of_two_reviews() {
        for heir_is_newer in [true, false] {
            let ([lost, successor], mut reviews) = (owners(), Reviews::default());
            let mut order = [&lost, &successor];
            if !heir_is_newer {
                order.reverse();
            }
            let [older, newer] = order.map(|owner| reviews.open(owner, "/a", None, 1).0);
            let (alone, _) = reviews.open(&lost, "/b", None, 1);
            assert_eq!(reviews.inherit(&successor, &lost), [older]);
            assert_eq!(reviews.of(&successor), [newer, alone]);
            assert_eq!(reviews.of(&lost), []);
        }
    }

    #[test]
    fn only_one_call_at_a_time_decides_a_review() {
        let ([one, _], mut reviews) = (owners(), Reviews::default());
        let (review, _) = reviews.open(&one, "/a", None, 1);
        assert!(reviews.begin_decision(review, CallId(1), |_| true));
        assert!(!reviews.begin_decision(review, CallId(2), |call| call == CallId(1)));
        assert!(reviews.begin_decision(review, CallId(3), |_| false));
    }
}
