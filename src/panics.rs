//! Panics: caught, and kept for the log instead of printed.
//!
//! The default hook writes to stderr, which garbles the screen of a terminal Emacs.

use std::future::Future;
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::sync::Mutex;
use std::task::Poll;

static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Keeps the message of each panic in this module's code for `caught`.
pub fn install_hook() {
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut last) = LAST.lock() {
            *last = Some(describe(info));
        }
    }));
}

/// The message of the last panic, once.
fn take() -> String {
    let last = LAST.lock().ok().and_then(|mut last| last.take());
    last.unwrap_or_else(|| "unknown panic".to_owned())
}

/// Runs `work`; a panic in it becomes its message.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        let poll = AssertUnwindSafe(|| work.as_mut().poll(context));
        match std::panic::catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(take())),
        }
    })
    .await
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
        assert!(fault.starts_with("on purpose (src/panics.rs:"), "{fault}");
        assert_eq!(fine, Ok(1));
    }
}
