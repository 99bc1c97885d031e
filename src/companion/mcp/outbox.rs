//! The messages that one session is still to be sent, and those that may have to be sent again.
//!
//! Messages are numbered from 1. `sent` is the last one given to a stream, which does not mean that the
//! client has it: one whose stream broke says what it has received, and the rest is sent again. So an
//! outcome is kept until the client says that, as far as there is room. A context, active file or ping
//! supersedes the one before; an outcome is superseded only by that of a newer review of the same file.

use std::collections::VecDeque;
use std::sync::Arc;

use super::message::notification_json;
use crate::ide::{Decision, Meta, Outcome, ReviewId};

/// Messages that may wait to be sent. If there are more, the client has to read some first.
const MAX_WAITING: usize = 64;
/// Messages that are kept after they were sent, in case the stream was broken: more than reviews may be
/// open, since the user may decide all before that is noticed. `Limits::kept_bytes` limits their bytes.
const MAX_KEPT: usize = 512;

/// A message as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    Context(Arc<str>),
    /// The active file, for clients of document 003.
    ActiveFile(Arc<str>),
    /// Asks whether the client is there.
    Ping(Arc<str>),
    Outcome(Decided),
}

/// The outcome of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    pub review: ReviewId,
    pub path: Arc<str>,
    /// What a client on a host calls the proposal.
    pub name: Option<Arc<str>>,
    pub outcome: Outcome,
    pub form: Form,
}

/// How an outcome is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Whole,
    /// To the session that opened the review: it knows the content.
    Brief,
    /// To clients of document 004.
    Event,
}

#[derive(Debug, Default)]
pub struct Outbox {
    messages: VecDeque<(u64, Outgoing)>,
    last: u64,
    sent: u64,
    /// The stream has not asked for more since it was given the last one.
    writing: bool,
}

impl Outbox {
    pub fn push(&mut self, message: Outgoing) {
        match &message {
            Outgoing::Outcome(new) => {
                if self.outcomes().any(|old| old.path == new.path && old.review > new.review) {
                    return;
                }
                let path = new.path.clone();
                self.forget_outcomes_of(&path);
            }
            _ => {
                let kind = std::mem::discriminant(&message);
                self.messages.retain(|(_, older)| std::mem::discriminant(older) != kind);
            }
        }
        self.last += 1;
        self.messages.push_back((self.last, message));
        let excess = self.sent_messages().count().saturating_sub(MAX_KEPT);
        self.messages.drain(..excess);
    }

    /// The next message that was not sent yet.
    pub fn next(&mut self) -> Option<(u64, Outgoing)> {
        let next = self.messages.iter().find(|(number, _)| *number > self.sent);
        self.writing = next.is_some();
        let (number, message) = next?;
        self.sent = *number;
        Some((*number, message.clone()))
    }

    /// A new stream begins. `received` is the last message that the client has, if it says so;
    /// numbers that we never used are ignored.
    pub fn resume(&mut self, received: Option<u64>) {
        self.sent -= u64::from(std::mem::take(&mut self.writing)); // the client does not have that one
        if let Some(received) = received.filter(|received| *received <= self.last) {
            self.sent = received;
            self.messages.retain(|(number, _)| *number > received);
        }
    }

    /// The client proposes another change of `path`, so it knows the outcome of the one before, or
    /// has given up on it. It would take that outcome for the one of the new proposal.
    pub fn forget_outcomes_of(&mut self, path: &str) {
        self.messages.retain(
            |(_, message)| !matches!(message, Outgoing::Outcome(decided) if *decided.path == *path),
        );
    }

    /// Drops the context and the active file.
    pub fn forget_context(&mut self) {
        self.messages.retain(|(_, message)| {
            !matches!(message, Outgoing::Context(_) | Outgoing::ActiveFile(_))
        });
    }

    /// Whether a context waits to be sent.
    pub fn has_context(&self) -> bool {
        self.after(self.sent).any(|message| matches!(message, Outgoing::Context(_)))
    }

    /// How many outcomes wait to be sent.
    pub fn waiting(&self) -> usize {
        self.after(self.sent).filter(|message| matches!(message, Outgoing::Outcome(_))).count()
    }

    /// Bytes of the messages that the client certainly does not have: those that wait, and the one that
    /// is being written.
    pub fn undelivered_bytes(&self) -> usize {
        self.after(self.sent - u64::from(self.writing)).map(Outgoing::len).sum()
    }

    /// The messages with larger numbers.
    fn after(&self, number: u64) -> impl Iterator<Item = &Outgoing> {
        let later = self.messages.iter().skip_while(move |(other, _)| *other <= number);
        later.map(|(_, message)| message)
    }

    /// Bytes of the messages that were sent and are kept in case the stream was broken.
    pub fn kept_bytes(&self) -> usize {
        self.sent_messages().map(|(_, message)| message.len()).sum()
    }

    /// Drops the oldest of the messages that were sent, until they have `excess` bytes less. Keeps the one
    /// that is being written, which the client certainly does not have. Returns how many bytes remain to
    /// be dropped.
    pub fn forget_kept(&mut self, mut excess: usize) -> usize {
        while excess > 0
            && let Some((number, message)) = self.messages.front()
            && *number <= self.sent - u64::from(self.writing)
        {
            excess = excess.saturating_sub(message.len());
            self.messages.pop_front();
        }
        excess
    }

    fn sent_messages(&self) -> impl Iterator<Item = &(u64, Outgoing)> {
        self.messages.iter().take_while(|(number, _)| *number <= self.sent)
    }

    /// Whether so many messages wait to be sent that no more should be added.
    pub fn is_full(&self) -> bool {
        self.after(self.sent).count() > MAX_WAITING
    }

    /// Removes the outcomes, for another session. Some were sent to a stream that may have been broken;
    /// getting one twice does no harm.
    pub fn take_outcomes(&mut self) -> Vec<Decided> {
        let whole = |decided: &Decided| Decided { form: Form::Whole, ..decided.clone() };
        let outcomes = self.outcomes().map(whole).collect();
        self.messages.retain(|(_, message)| !matches!(message, Outgoing::Outcome(_)));
        outcomes
    }

    fn outcomes(&self) -> impl Iterator<Item = &Decided> {
        self.messages.iter().filter_map(|(_, message)| match message {
            Outgoing::Outcome(decided) => Some(decided),
            _ => None,
        })
    }
}

impl Outgoing {
    /// As it goes over the wire. An outcome is serialized only here, since it may be large: neither
    /// Emacs's thread nor whoever holds the lock of the sessions calls this.
    pub fn into_text(self) -> String {
        match self {
            Outgoing::Context(text) | Outgoing::ActiveFile(text) | Outgoing::Ping(text) => {
                text.as_ref().to_owned()
            }
            Outgoing::Outcome(decided) => decided.to_json(),
        }
    }

    /// In memory, about.
    pub fn len(&self) -> usize {
        match self {
            Outgoing::Context(text) | Outgoing::ActiveFile(text) | Outgoing::Ping(text) => {
                text.len()
            }
            Outgoing::Outcome(decided) => match &decided.outcome {
                Outcome::Accepted { content, .. } => content.len(),
                Outcome::Rejected => 0,
            },
        }
    }
}

impl Decided {
    fn to_json(&self) -> String {
        let method = match (&self.outcome, self.form) {
            (Outcome::Accepted { .. }, Form::Event) => "notifications/ide/diffAccepted",
            (Outcome::Rejected, Form::Event) => "notifications/ide/diffRejected",
            (Outcome::Accepted { .. }, _) => "ide/diffAccepted",
            (Outcome::Rejected, _) => "ide/diffRejected",
        };
        let content = match &self.outcome {
            Outcome::Accepted { .. } if self.form == Form::Brief => Some(""),
            Outcome::Accepted { content, .. } => Some(content.as_str()),
            Outcome::Rejected => None,
        };
        let meta = self.name.as_deref().map(|proposal| Meta { proposal });
        notification_json(method, &Decision { file_path: &self.path, content, meta })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn context(text: &str) -> Outgoing {
        Outgoing::Context(text.into())
    }

    /// An outcome of a review of a file of its own.
    pub fn accepted(review: ReviewId, text: impl Into<String>) -> Decided {
        Decided {
            path: format!("/{}", review.0).into(),
            review,
            name: None,
            outcome: Outcome::accepted(text),
            form: Form::Whole,
        }
    }

    /// The text of a message, and of an outcome that of its content.
    pub fn content(message: Outgoing) -> String {
        match message {
            Outgoing::Outcome(Decided { outcome: Outcome::Accepted { content, .. }, .. }) => {
                content.as_ref().to_owned()
            }
            message => message.into_text(),
        }
    }

    /// The outcome `oN` of review N.
    fn outcome(number: i64) -> Outgoing {
        Outgoing::Outcome(accepted(ReviewId(number), format!("o{number}")))
    }

    fn remaining_outcomes(outbox: &mut Outbox) -> Vec<String> {
        outbox.take_outcomes().into_iter().map(|it| content(Outgoing::Outcome(it))).collect()
    }

    fn drain(outbox: &mut Outbox) -> Vec<String> {
        let all = std::iter::from_fn(|| outbox.next()).take(1000); // none has as many
        all.map(|(_, message)| content(message)).collect()
    }

    #[test]
    fn a_message_supersedes_those_of_its_kind_and_no_outcome() {
        let file = |text: &str| Outgoing::ActiveFile(text.into());
        let ping = |text: &str| Outgoing::Ping(text.into());
        let mut outbox = Outbox::default();
        let early = [context("c1"), outcome(1), file("f1"), ping("p1"), context("c2"), outcome(2)];
        for message in early.into_iter().chain([file("f2"), context("c3"), ping("p2")]) {
            outbox.push(message);
        }
        assert_eq!(drain(&mut outbox), ["o1", "o2", "f2", "c3", "p2"]);
    }

    #[test]
    fn what_a_client_received_is_forgotten() {
        let mut outbox = Outbox::default();
        outbox.push(outcome(1));
        outbox.push(outcome(2));
        assert_eq!(drain(&mut outbox).len(), 2);
        outbox.resume(Some(1));
        assert_eq!(remaining_outcomes(&mut outbox), ["o2"]);
    }

    #[test]
    fn of_two_outcomes_of_a_file_that_of_the_newer_review_is_heard() {
        for order in [[1, 2], [2, 1]] {
            let mut outbox = Outbox::default();
            for number in order {
                let outcome = accepted(ReviewId(number), format!("o{number}"));
                outbox.push(Outgoing::Outcome(Decided { path: "/a".into(), ..outcome }));
            }
            assert_eq!(drain(&mut outbox), ["o2"]);
        }
    }

    #[test]
    fn what_was_handed_out_is_kept_within_bounds_and_what_was_not_is_kept() {
        let mut outbox = Outbox::default();
        for number in 0..600 {
            outbox.push(outcome(number));
        }
        assert_eq!(drain(&mut outbox).len(), 600);
        outbox.push(outcome(600));
        outbox.resume(Some(0));
        assert_eq!(drain(&mut outbox).len(), MAX_KEPT + 1);
    }

    #[test]
    fn what_was_handed_out_does_not_wait() {
        let mut outbox = Outbox::default();
        outbox.push(context("context"));
        outbox.push(outcome(1));
        let seen =
            |outbox: &Outbox| (outbox.has_context(), outbox.waiting(), outbox.undelivered_bytes());
        assert_eq!(seen(&outbox), (true, 1, "contexto1".len()));
        outbox.next();
        assert_eq!(seen(&outbox), (false, 1, "contexto1".len())); // the context is being written
        outbox.next();
        assert_eq!(seen(&outbox), (false, 0, "o1".len()));
        outbox.next();
        assert_eq!(outbox.undelivered_bytes(), 0);
    }

    #[test]
    fn a_message_that_is_being_written_is_not_forgotten() {
        let mut outbox = Outbox::default();
        outbox.push(outcome(1));
        outbox.next();
        // The client does not read, or the network is interrupted, and point moves.
        outbox.push(context("c"));
        outbox.forget_kept(usize::MAX);
        outbox.resume(None);
        assert_eq!(drain(&mut outbox), ["o1", "c"]);
        // Now all is written.
        outbox.forget_kept(usize::MAX);
        assert_eq!(remaining_outcomes(&mut outbox), [""; 0]);
    }
}
