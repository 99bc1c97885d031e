//! Catches panics, and keeps their messages instead of printing them.
//!
//! The default hook writes to stderr, which garbles the screen of a terminal Emacs.

use std::future::Future;
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::sync::Mutex;
use std::task::Poll;

static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Keeps the message of each panic for `caught`.
pub fn install_hook() {
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut last) = LAST.lock() {
            *last = Some(describe(info));
        }
    }));
}

/// A panic, in words for the user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panic(String);

impl std::fmt::Display for Panic {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Takes the last panic.
fn take() -> Panic {
    let last = LAST.lock().ok().and_then(|mut last| last.take());
    Panic(last.unwrap_or_else(|| "unknown panic".to_owned()))
}

/// Runs `work`; a panic in it becomes an error.
pub(crate) fn caught<F: Future>(work: F) -> impl Future<Output = Result<F::Output, Panic>> {
    let mut work = Box::pin(work); // in an async function it would take its place twice
    std::future::poll_fn(move |context| {
        let poll = AssertUnwindSafe(|| work.as_mut().poll(context));
        match std::panic::catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(take())),
        }
    })
}

fn describe(info: &PanicHookInfo) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let message = text.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic");
    match info.location() {
        Some(place) => format!("{message} ({}:{})", place.file(), place.line()),
        None => message.to_owned(),
    }
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
        assert!(fault.to_string().starts_with("on purpose (src/companion/panics.rs:"), "{fault}");
        assert_eq!(fine, Ok(1));
    }
}
