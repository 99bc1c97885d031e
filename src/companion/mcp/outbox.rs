//! The messages that one session is still to be sent, and those that may have to be sent again.
//!
//! Messages are numbered from 1. `sent` is the last one given to a stream, which does not mean that the
//! client has it: one whose stream broke says what it has received, and the rest is sent again. So an
//! outcome is kept until the client says that, as far as there is room. A context, active file or
//! ping supersedes the one before; an outcome is superseded only by that of a newer review of the
//! same file.

use std::collections::VecDeque;
use std::sync::Arc;

use super::client::SessionId;
use crate::ide::ReviewId;

/// Messages that may wait to be sent. With more of them the client has to read first.
const MAX_WAITING: usize = 64;
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Messages that are kept after they were sent, in case the stream was broken: as many as reviews may
/// be open, since the user may decide all before that is noticed. `Limits::kept_bytes` limits their
/// bytes.
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
    /// The session that opened it.
    pub proposer: SessionId,
    pub path: Arc<str>,
    pub text: Arc<str>,
    /// Sent instead of `text` to the session that opened the review: it knows the content.
    pub brief: Option<Arc<str>>,
    /// A later session of the same client has proposed another change of the file: the client no
    /// longer waits for this.
    pub superseded: bool,
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
        self.trim();
    }

    /// The next message that was not sent yet.
    pub fn next(&mut self) -> Option<(u64, Arc<str>)> {
        let next = self.messages.iter().find(|(number, _)| *number > self.sent);
        self.writing = next.is_some();
        let (number, message) = next?;
        self.sent = *number;
        Some((*number, message.text().clone()))
    }

    /// Notes that the client gets all these messages in another way.
    pub fn mark_all_sent(&mut self) {
        self.sent = self.last;
        self.writing = false;
        self.trim();
    }

    /// A new stream begins. `received` is the last message that the client has, if it says so;
    /// numbers that we never used are ignored.
    pub fn resume(&mut self, received: Option<u64>) {
        self.writing = false;
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

    /// The client proposes another change of `path` in a later session.
    pub fn supersede(&mut self, path: &str) {
        for (_, message) in &mut self.messages {
            if let Outgoing::Outcome(decided) = message {
                decided.superseded |= *decided.path == *path;
            }
        }
    }

    /// Drops what the user looks at.
    pub fn forget_context(&mut self) {
        self.messages.retain(|(_, message)| {
            !matches!(message, Outgoing::Context(_) | Outgoing::ActiveFile(_))
        });
    }

    /// Whether a context waits to be sent.
    pub fn has_context(&self) -> bool {
        let context = |message: &Outgoing| matches!(message, Outgoing::Context(_));
        self.messages.iter().any(|(number, message)| *number > self.sent && context(message))
    }

    /// Whether an outcome waits to be sent.
    pub fn has_outcome(&self) -> bool {
        self.waiting() > 0
    }

    /// How many outcomes wait to be sent.
    pub fn waiting(&self) -> usize {
        let outcome = |message: &Outgoing| matches!(message, Outgoing::Outcome(_));
        let waits = |(number, message): &&(u64, Outgoing)| *number > self.sent && outcome(message);
        self.messages.iter().filter(waits).count()
    }

    /// Bytes of all messages that wait to be sent.
    pub fn waiting_bytes(&self) -> usize {
        let waiting = self.messages.iter().filter(|(number, _)| *number > self.sent);
        waiting.map(|(_, message)| message.len()).sum()
    }

    /// Bytes of the messages that the client certainly does not have: those that wait, and the one that
    /// is being written.
    pub fn undelivered_bytes(&self) -> usize {
        let sent = self.sent - u64::from(self.writing);
        let undelivered = self.messages.iter().filter(|(number, _)| *number > sent);
        undelivered.map(|(_, message)| message.len()).sum()
    }

    /// Bytes of the messages that were sent and are kept in case the stream was broken.
    pub fn kept_bytes(&self) -> usize {
        self.sent_messages().map(|(_, message)| message.len()).sum()
    }

    /// Drops the oldest of the messages that were sent, until these have `excess` bytes less, or only
    /// the one is left that the client certainly does not have, since it is being written.
    pub fn forget_kept(&mut self, excess: usize) {
        let wanted = self.kept_bytes().saturating_sub(excess);
        while self.kept_bytes() > wanted && self.forget_oldest_kept() {}
    }

    /// Returns whether a message was dropped.
    fn forget_oldest_kept(&mut self) -> bool {
        let is_written = |number: u64| number < self.sent || number == self.sent && !self.writing;
        let found = self.messages.front().is_some_and(|(number, _)| is_written(*number));
        found && self.messages.pop_front().is_some()
    }

    fn sent_messages(&self) -> impl Iterator<Item = &(u64, Outgoing)> {
        self.messages.iter().take_while(|(number, _)| *number <= self.sent)
    }

    /// Whether so many messages wait to be sent that no more should be added.
    pub fn is_full(&self) -> bool {
        let count = self.messages.iter().filter(|(number, _)| *number > self.sent).count();
        count > MAX_WAITING || self.waiting_bytes() > MAX_WAITING_BYTES
    }

    /// Removes the outcomes that match, for another session. Some were sent to a stream that may
    /// have been broken; getting one twice does no harm.
    pub fn take_outcomes(&mut self, matches: impl Fn(&Decided) -> bool) -> Vec<Decided> {
        let mut taken = Vec::new();
        self.messages.retain(|(_, message)| match message {
            Outgoing::Outcome(decided) if matches(decided) => {
                taken.push(Decided { brief: None, ..decided.clone() });
                false
            }
            _ => true,
        });
        taken
    }

    fn outcomes(&self) -> impl Iterator<Item = &Decided> {
        self.messages.iter().filter_map(|(_, message)| match message {
            Outgoing::Outcome(decided) => Some(decided),
            _ => None,
        })
    }

    /// Drops the oldest of the messages that were sent, beyond the limit.
    fn trim(&mut self) {
        let excess = self.sent_messages().count().saturating_sub(MAX_KEPT);
        self.messages.drain(..excess);
    }
}

impl Outgoing {
    fn text(&self) -> &Arc<str> {
        match self {
            Outgoing::Context(text) | Outgoing::ActiveFile(text) | Outgoing::Ping(text) => text,
            Outgoing::Outcome(Decided { text, brief, .. }) => brief.as_ref().unwrap_or(text),
        }
    }

    /// In memory.
    fn len(&self) -> usize {
        match self {
            Outgoing::Outcome(Decided { text, brief: Some(brief), .. }) => text.len() + brief.len(),
            message => message.text().len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(text: &str) -> Outgoing {
        Outgoing::Context(text.into())
    }

    /// The outcome `oN` of review N, of a file of its own.
    fn outcome(number: i64) -> Outgoing {
        decided(number, &format!("/{number}"))
    }

    fn decided(number: i64, path: &str) -> Outgoing {
        Outgoing::Outcome(Decided {
            review: ReviewId(number),
            proposer: "session".into(),
            path: path.into(),
            text: format!("o{number}").into(),
            brief: None,
            superseded: false,
        })
    }

    fn remaining_outcomes(outbox: &mut Outbox) -> Vec<String> {
        let outcomes = outbox.take_outcomes(|_| true);
        outcomes.into_iter().map(|decided| decided.text.to_string()).collect()
    }

    fn drain(outbox: &mut Outbox) -> Vec<String> {
        let all = std::iter::from_fn(|| outbox.next()).take(1000); // none has as many
        all.map(|(_, text)| text.to_string()).collect()
    }

    /// The outcome of review N, of a file of its own, with so much text.
    fn long_outcome(number: i64, text: &Arc<str>) -> Outgoing {
        let Outgoing::Outcome(decided) = outcome(number) else { unreachable!() };
        Outgoing::Outcome(Decided { text: text.clone(), ..decided })
    }

    fn text_of(length: usize) -> Arc<str> {
        "x".repeat(length).into()
    }

    #[test]
    fn a_context_supersedes_the_one_before_and_no_outcome() {
        let mut outbox = Outbox::default();
        for message in [context("c1"), outcome(1), context("c2"), outcome(2), context("c3")] {
            outbox.push(message);
        }
        assert_eq!(drain(&mut outbox), ["o1", "o2", "c3"]);
    }

    #[test]
    fn each_message_is_handed_out_once() {
        let mut outbox = Outbox::default();
        outbox.push(outcome(1));
        assert_eq!(drain(&mut outbox), ["o1"]);
        outbox.resume(None);
        assert_eq!(drain(&mut outbox), [""; 0]);
    }

    #[test]
    fn another_session_hears_the_whole_of_an_outcome() {
        let mut outbox = Outbox::default();
        let Outgoing::Outcome(whole) = outcome(1) else { panic!("an outcome") };
        outbox.push(Outgoing::Outcome(Decided { brief: Some("b1".into()), ..whole }));
        assert_eq!(outbox.waiting_bytes(), "o1b1".len());
        assert_eq!(drain(&mut outbox), ["b1"]);
        let mut successor = Outbox::default();
        for decided in outbox.take_outcomes(|_| true) {
            successor.push(Outgoing::Outcome(decided));
        }
        assert_eq!(drain(&mut successor), ["o1"]);
    }

    #[test]
    fn what_a_client_did_not_receive_is_handed_out_again_in_order() {
        let mut outbox = Outbox::default();
        for message in [outcome(1), outcome(2), outcome(3)] {
            outbox.push(message);
        }
        assert_eq!(drain(&mut outbox).len(), 3);
        outbox.resume(Some(1));
        assert_eq!(drain(&mut outbox), ["o2", "o3"]);
        outbox.resume(Some(99));
        assert_eq!(drain(&mut outbox), [""; 0]);
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
    fn an_outcome_is_forgotten_when_its_file_is_proposed_again() {
        let mut outbox = Outbox::default();
        outbox.push(outcome(1));
        outbox.push(outcome(2));
        outbox.forget_outcomes_of("/1");
        assert_eq!(remaining_outcomes(&mut outbox), ["o2"]);
    }

    #[test]
    fn of_two_outcomes_of_a_file_that_of_the_newer_review_is_heard() {
        for order in [[1, 2], [2, 1]] {
            let mut outbox = Outbox::default();
            for number in order {
                outbox.push(decided(number, "/a"));
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
    fn a_message_supersedes_none_of_another_kind() {
        let (file, ping) = (|text: &str| Outgoing::ActiveFile(text.into()), Outgoing::Ping);
        let mut outbox = Outbox::default();
        for message in [context("c"), file("f1"), ping("p1".into()), file("f2"), ping("p2".into())]
        {
            outbox.push(message);
        }
        assert_eq!(drain(&mut outbox), ["c", "f2", "p2"]);
    }

    #[test]
    fn what_the_user_looks_at_is_forgotten_and_nothing_else() {
        let mut outbox = Outbox::default();
        let (file, ping) = (Outgoing::ActiveFile("f".into()), Outgoing::Ping("p".into()));
        for message in [context("c"), file, ping, outcome(1)] {
            outbox.push(message);
        }
        outbox.forget_context();
        assert_eq!(drain(&mut outbox), ["p", "o1"]);
    }

    #[test]
    fn outcomes_are_superseded_by_what_is_proposed_of_the_same_file() {
        let mut outbox = Outbox::default();
        outbox.push(outcome(1));
        outbox.push(outcome(2));
        outbox.push(outcome(3));
        outbox.supersede("/1");
        outbox.supersede("/3");
        let superseded = outbox.take_outcomes(|_| true).into_iter().map(|it| it.superseded);
        assert!(superseded.eq([true, false, true]));
    }

    #[test]
    fn outcomes_are_taken_one_by_one() {
        let mut outbox = Outbox::default();
        outbox.push(outcome(1));
        outbox.push(outcome(2));
        assert_eq!(outbox.take_outcomes(|decided| *decided.path == *"/2").len(), 1);
        assert_eq!(drain(&mut outbox), ["o1"]);
    }

    #[test]
    fn what_was_handed_out_does_not_wait() {
        let mut outbox = Outbox::default();
        outbox.push(context("context"));
        outbox.push(outcome(1));
        let seen = |outbox: &Outbox| {
            assert_eq!(outbox.has_outcome(), outbox.waiting() == 1);
            (outbox.has_context(), outbox.waiting(), outbox.waiting_bytes())
        };
        assert_eq!(seen(&outbox), (true, 1, "contexto1".len()));
        outbox.next();
        assert_eq!(seen(&outbox), (false, 1, "o1".len()));
        outbox.next();
        assert_eq!(seen(&outbox), (false, 0, 0));
        assert_eq!(outbox.undelivered_bytes(), "o1".len()); // it is being written
        outbox.next();
        assert_eq!(outbox.undelivered_bytes(), 0);
    }

    #[test]
    fn it_is_full_when_too_many_messages_wait() {
        let mut outbox = Outbox::default();
        for number in 0..MAX_WAITING {
            outbox.push(outcome(number as i64));
        }
        assert!(!outbox.is_full());
        outbox.push(outcome(MAX_WAITING as i64));
        assert!(outbox.is_full());
        outbox.next();
        assert!(!outbox.is_full());
    }

    #[test]
    fn it_is_full_when_too_many_bytes_wait() {
        let mut outbox = Outbox::default();
        let half = text_of(32 << 20);
        outbox.push(long_outcome(1, &half));
        outbox.push(long_outcome(2, &half));
        assert!(!outbox.is_full());
        outbox.push(long_outcome(3, &text_of(1)));
        assert!(outbox.is_full());
        outbox.next();
        assert!(!outbox.is_full());
    }

    #[test]
    fn of_what_was_handed_out_the_oldest_is_forgotten_first() {
        let mut outbox = Outbox::default();
        for number in 0..4 {
            outbox.push(long_outcome(number, &text_of(10)));
        }
        for _ in 0..3 {
            outbox.next();
        }
        assert_eq!(outbox.kept_bytes(), 30);
        outbox.forget_kept(11);
        assert_eq!(outbox.kept_bytes(), 10);
        assert_eq!(outbox.waiting_bytes(), 10);
    }

    #[test]
    fn a_message_that_is_being_written_is_not_forgotten() {
        let mut outbox = Outbox::default();
        let long = text_of(16 << 20);
        outbox.push(long_outcome(1, &long));
        outbox.next();
        // The client does not read, or the network is interrupted, and point moves.
        outbox.push(context("c"));
        outbox.forget_kept(usize::MAX);
        outbox.resume(Some(0));
        assert_eq!(drain(&mut outbox), [&long, "c"]);
        // Now all is written.
        outbox.forget_kept(usize::MAX);
        assert_eq!(remaining_outcomes(&mut outbox), [""; 0]);
    }
}
