//! What the user looks at, as it is told in each place.
//!
//! A place is where a client works: a directory as Emacs names it, which may be known or not. What
//! there is to hear in each, Lisp says: here nothing is known of projects.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ide::{IdeContext, Notification};
use crate::process::Process;

use super::message::notification_json;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Of a client of which nobody says where it works.
    Unknown,
    Directory(Arc<str>),
}

/// What is told in one place, and how the newest clients are told. The few of older kinds are told in
/// other words, which are made when there are any.
pub struct Context {
    pub snapshot: IdeContext,
    pub message: Arc<str>,
}

/// The latest context of each place, for those that come later.
#[derive(Default)]
pub struct Contexts {
    known: HashMap<Place, Context>,
}

impl Place {
    /// Where the client works that is this process.
    pub fn of(process: Option<&Process>) -> Place {
        process.and_then(Process::directory).as_deref().into()
    }

    pub fn directory(&self) -> Option<&str> {
        match self {
            Place::Unknown => None,
            Place::Directory(directory) => Some(directory),
        }
    }
}

impl From<Option<&str>> for Place {
    fn from(directory: Option<&str>) -> Place {
        directory.map_or(Place::Unknown, |directory| Place::Directory(directory.into()))
    }
}

impl Context {
    pub fn new(snapshot: IdeContext) -> Context {
        let message = notification_json(&Notification::ContextUpdate(&snapshot)).into();
        Context { snapshot, message }
    }
}

impl Contexts {
    pub fn get(&self, place: &Place) -> Option<&Context> {
        self.known.get(place)
    }

    /// Whether this is what is told in `place` already.
    pub fn is_known(&self, place: &Place, context: &Context) -> bool {
        self.get(place).is_some_and(|known| known.message == context.message)
    }

    /// Notes what is told in `place`. Returns what was told before.
    pub fn set(&mut self, place: Place, context: Context) -> Option<Context> {
        self.known.insert(place, context)
    }

    /// Forgets what was told in places where nobody is now.
    pub fn keep(&mut self, places: &[Place]) {
        self.known.retain(|place, _| places.contains(place));
    }

    pub fn forget(&mut self) {
        self.known.clear();
    }
}
