//! How the last review of each file has ended, for a client that asks once more because the connection
//! broke before it had the answer: a repeated `closeDiff` gets the same answer, and a repeated
//! `openDiff` opens no second review.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::bridge::Awaited;

/// Endings that a session remembers: many more proposals than its client has under way at once.
const MAX: usize = 256;

#[derive(Default)]
pub struct Endings {
    /// Oldest first, one for each path.
    all: VecDeque<Ending>,
}

pub struct Ending {
    path: Arc<str>,
    pub name: Option<Arc<str>>,
    at: Instant,
    last: LastText,
}

/// What remains of the review.
#[derive(Clone, Debug)]
pub enum LastText {
    Rejected,
    /// The user has accepted this text; `None` if the client knows it.
    Accepted(Option<Arc<String>>),
    /// The client has closed the review, and Lisp tells the text. It may be omitted if it is what the
    /// client has proposed, and `by_proposer`: in the session in which it was proposed.
    Closed {
        answer: Awaited,
        by_proposer: bool,
    },
    /// There was no room for the text.
    Forgotten,
}

impl Endings {
    /// Records how the review of `path` has ended. `name` is what its client calls the proposal.
    pub fn add(&mut self, path: Arc<str>, name: Option<Arc<str>>, last: LastText) {
        self.forget(&path);
        if self.all.len() >= MAX {
            self.all.pop_front();
        }
        self.all.push_back(Ending { path, name, at: Instant::now(), last });
    }

    /// The client proposes another change of `path`.
    pub fn forget(&mut self, path: &str) {
        self.retain(|other| other != path);
    }

    /// Keeps those of the paths that `is_wanted` selects.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.all.retain(|ending| is_wanted(&ending.path));
    }

    /// Adds those of an earlier session, of other paths.
    pub fn inherit(&mut self, mut earlier: Endings) {
        earlier.all.append(&mut self.all);
        self.all = earlier.all.split_off(earlier.all.len().saturating_sub(MAX));
    }

    /// What remains of the last review of `path`, unless that ended too long ago.
    pub fn last_text(&self, path: &str, kept_time: Duration) -> Option<&LastText> {
        let ending = self.find(path).filter(|ending| ending.at.elapsed() < kept_time)?;
        Some(&ending.last)
    }

    pub fn find(&self, path: &str) -> Option<&Ending> {
        self.all.iter().find(|ending| *ending.path == *path)
    }

    /// The bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.all.iter().map(|ending| ending.last.len()).sum()
    }

    /// Forgets the oldest texts, until there are `excess` bytes less. Returns how many bytes remain
    /// to be forgotten.
    pub fn forget_texts(&mut self, mut excess: usize) -> usize {
        for ending in self.all.iter_mut().filter(|ending| ending.last.len() > 0) {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(ending.last.len());
            ending.last = LastText::Forgotten;
        }
        excess
    }
}

impl LastText {
    fn len(&self) -> usize {
        match self {
            LastText::Accepted(Some(text)) => text.len(),
            LastText::Closed { answer, .. } => match &*answer.borrow() {
                Some(Ok(answer)) => answer.text.len(),
                _ => 0,
            },
            LastText::Rejected | LastText::Accepted(None) | LastText::Forgotten => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_text_is_known_after_texts_are_forgotten() {
        let mut endings = Endings::default();
        endings.add("/a".into(), None, LastText::Rejected);
        endings.add("/b".into(), None, LastText::Accepted(Some("b".to_owned().into())));
        endings.forget_texts(1);
        let last_text = |path| endings.last_text(path, Duration::MAX);
        assert!(matches!(last_text("/a"), Some(LastText::Rejected)));
        assert!(matches!(last_text("/b"), Some(LastText::Forgotten)));
    }
}
