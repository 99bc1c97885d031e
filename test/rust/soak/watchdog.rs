//! Ends a soak that hangs, wherever it does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Ends the process when its time is over, and says what it was waiting for. Runs on a thread of
/// its own, since the main thread may hang in a call of the companion.
#[derive(Clone)]
pub struct Watchdog {
    awaited: Arc<Mutex<String>>,
}

impl Watchdog {
    pub fn over(limit: Duration) -> Watchdog {
        let watchdog = Watchdog { awaited: Arc::default() };
        let awaited = watchdog.awaited.clone();
        std::thread::spawn(move || {
            std::thread::sleep(limit);
            eprintln!(
                "the soak took longer than {limit:?}: it waits for {}",
                awaited.lock().unwrap()
            );
            std::process::exit(1);
        });
        watchdog
    }

    /// Records what the soak is waiting for now.
    pub fn waits_for(&self, what: impl Into<String>) {
        *self.awaited.lock().unwrap() = what.into();
    }
}
