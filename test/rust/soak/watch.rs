//! The end of a soak that hangs, wherever it does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Ends the process when the time is over, and says what was being waited for. From a thread of
/// its own, as the test's thread may hang in a call of the companion.
#[derive(Clone)]
pub struct Watch {
    awaited: Arc<Mutex<String>>,
}

impl Watch {
    pub fn over(limit: Duration) -> Watch {
        let watch = Watch { awaited: Arc::default() };
        let awaited = watch.awaited.clone();
        std::thread::spawn(move || {
            std::thread::sleep(limit);
            eprintln!(
                "the soak took longer than {limit:?}: it waits for {}",
                awaited.lock().unwrap()
            );
            std::process::exit(1);
        });
        watch
    }

    /// What the soak does from now on.
    pub fn waits_for(&self, what: impl Into<String>) {
        *self.awaited.lock().unwrap() = what.into();
    }
}
