//! Catches panics, and keeps their messages instead of printing them.
//!
//! The default hook writes to stderr, which garbles the screen of a terminal Emacs.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::task::Poll;

use crate::lock::lock;

static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Keeps the message of each panic for `caught`.
pub fn install_hook() {
    std::panic::set_hook(Box::new(|info| {
        *lock(&LAST) = Some(info.to_string().replace('\n', " "));
    }));
}

/// Runs `work`; a panic in it becomes an error, in words for the user.
pub(crate) fn caught<F: Future>(work: F) -> impl Future<Output = Result<F::Output, String>> {
    let mut work = Box::pin(work); // in an async function it would take its place twice
    std::future::poll_fn(move |context| {
        let poll = AssertUnwindSafe(|| work.as_mut().poll(context));
        match std::panic::catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(lock(&LAST).take().unwrap_or_default())),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_and_place() {
        let usual = std::panic::take_hook();
        install_hook();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let run = |text: Option<&'static str>| {
            runtime.block_on(caught(async move {
                assert!(text.is_none(), "{}", text.unwrap());
                1
            }))
        };
        let (fault, fine) = (run(Some("on purpose")).unwrap_err(), run(None));
        std::panic::set_hook(usual);
        assert!(fault.starts_with("panicked at src/companion/panics.rs:"), "{fault}");
        assert!(fault.ends_with(": on purpose"), "{fault}");
        assert_eq!(fine, Ok(1));
    }
}
