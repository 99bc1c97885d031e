//! The calls of one session that are being answered, and how to cancel them.

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::message::Id;

#[derive(Default)]
pub struct Cancels {
    cancels: HashMap<Box<str>, oneshot::Sender<()>>,
}

impl Cancels {
    /// Adds a call. The receiver gets a value when the call is cancelled.
    pub fn begin(&mut self, id: &Id) -> oneshot::Receiver<()> {
        let (cancel, cancelled) = oneshot::channel();
        self.cancels.insert(id.as_str().into(), cancel);
        cancelled
    }

    pub fn cancel(&mut self, id: &Id) {
        if let Some(cancel) = self.cancels.remove(id.as_str()) {
            let _ = cancel.send(());
        }
    }

    /// Removes the call if it is over. If its client has reused the id, the entry is that of the
    /// later call, and stays.
    pub fn end(&mut self, id: &Id) {
        if self.cancels.get(id.as_str()).is_some_and(oneshot::Sender::is_closed) {
            self.cancels.remove(id.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::message::{Message, parse};

    fn id() -> Id {
        match parse(&br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#[..].into()) {
            Ok(Message::Request(request)) => request.id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ending_a_call_keeps_another_with_the_same_id() {
        let mut calls = Cancels::default();
        let first = calls.begin(&id());
        let mut second = calls.begin(&id());
        drop(first);
        calls.end(&id());
        calls.cancel(&id());
        assert_eq!(second.try_recv(), Ok(()));
        drop(calls.begin(&id()));
        calls.end(&id());
        assert!(calls.cancels.is_empty());
    }
}
