//! What both sides know of each review, and whether that is consistent.

/// A review, named by the client that proposed it and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub client: usize,
    pub review: usize,
}

/// How a review ended: whether it was accepted.
pub type Accepted = bool;

#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The client has the answer that it is open.
    pub answered: bool,
    /// Lisp has the event that opens it.
    pub opened: bool,
    /// The decision of the user, or of a stop.
    pub decided: Option<Accepted>,
    /// The client asked to close it; true if silently.
    pub silent: Option<bool>,
    /// Lisp has the event that closes it.
    pub closed: bool,
    pub received: Vec<Accepted>,
    /// Received again by a session that inherited it.
    pub repeated: Vec<Accepted>,
}

#[derive(Default)]
pub struct Records {
    /// By client and number.
    records: Vec<Vec<Record>>,
}

/// How many outcomes were right, and how many were not.
#[derive(Debug, Default)]
pub struct Verdict {
    pub due: usize,
    pub received: usize,
    pub lost: usize,
    pub doubled: usize,
    /// Reviews that were closed without a notification.
    pub silenced: usize,
    /// Received for a review without an outcome, or other than decided; or reviews that were lost.
    pub wrong: usize,
}

impl Key {
    /// The file that the client names. It does not exist, so nothing is read.
    pub fn path(self) -> String {
        format!("/no/such/{}/{}", self.client, self.review)
    }

    pub fn of_path(path: &str) -> Key {
        let mut numbers = path.strip_prefix("/no/such/").expect(path).split('/');
        let mut next = || numbers.next().and_then(|text| text.parse().ok()).expect(path);
        Key { client: next(), review: next() }
    }

    /// A text that differs from that of any other review.
    pub fn text(self, length: usize) -> String {
        self.path().repeat(length / self.path().len())
    }

    /// The answer when its client closes it: none of the texts that the user accepts.
    pub fn text_of_closed(self) -> String {
        self.path() + " closed"
    }

    pub fn is_text_of(self, text: &str) -> bool {
        text.replace(&self.path(), "").is_empty()
    }
}

impl Record {
    /// The outcome that the client has to receive.
    fn due(&self) -> Option<Accepted> {
        match self.closed {
            true => (self.silent == Some(false)).then_some(false),
            false => self.decided,
        }
    }

    fn is_consistent(&self) -> bool {
        let kinds =
            self.received.iter().chain(&self.repeated).all(|kind| Some(*kind) == self.due());
        let known = self.opened || !self.answered;
        let ended = !self.opened || self.closed || self.decided.is_some();
        kinds && known && ended && !(self.closed && self.decided.is_some())
    }
}

impl Records {
    pub fn of(&mut self, key: Key) -> &mut Record {
        let Key { client, review } = key;
        self.records.resize_with(self.records.len().max(client + 1), Vec::new);
        let records = &mut self.records[client];
        records.resize_with(records.len().max(review + 1), Record::default);
        &mut records[review]
    }

    fn all(&self) -> impl Iterator<Item = (Key, &Record)> {
        self.records.iter().enumerate().flat_map(|(client, records)| {
            let key = move |review| Key { client, review };
            records.iter().enumerate().map(move |(review, record)| (key(review), record))
        })
    }

    /// How many outcomes are still to be received.
    pub fn outstanding(&self) -> usize {
        self.all()
            .filter(|(_, record)| record.due().is_some() && record.received.is_empty())
            .count()
    }

    /// Judges all reviews, and prints those that are inconsistent.
    pub fn judge(&self) -> Verdict {
        let mut verdict = Verdict::default();
        for (key, record) in self.all() {
            let due = usize::from(record.due().is_some());
            let received = record.received.len();
            verdict.due += due;
            verdict.received += received;
            verdict.lost += usize::from(received < due);
            verdict.doubled += received.saturating_sub(1);
            verdict.silenced += usize::from(record.closed && record.silent == Some(true));
            verdict.wrong += usize::from(!record.is_consistent());
            if received != due || !record.is_consistent() {
                println!("inconsistent: {key:?} {record:?}");
            }
        }
        verdict
    }
}
