//! The latest context of each place.
//!
//! A place is where a client works: a directory, if that is known. Lisp decides which context
//! belongs to which place; nothing here knows about projects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ide::{IdeContext, Notification};
use crate::process::Process;

use super::message::notification_json;

/// Where a client works.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Not known.
    Unknown,
    /// Its working directory.
    Directory(Arc<str>),
}

/// The context of one place, and the message for clients of the newest documents. Messages for
/// clients of older documents are made on demand.
pub struct Context {
    pub snapshot: IdeContext,
    pub message: Arc<str>,
}

/// The latest context of each place, for clients that connect later.
#[derive(Default)]
pub struct Contexts {
    known: HashMap<Place, Context>,
}

impl Place {
    /// The working directory of `process`.
    pub(crate) fn of(process: Option<&Process>) -> Place {
        process.and_then(Process::directory).as_deref().into()
    }

    /// The directory, if it is known.
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

    /// Whether `place` has the same context already.
    pub fn is_known(&self, place: &Place, context: &Context) -> bool {
        self.get(place).is_some_and(|known| known.message == context.message)
    }

    /// Sets the context of `place`. Returns the one before.
    pub fn set(&mut self, place: Place, context: Context) -> Option<Context> {
        self.known.insert(place, context)
    }

    /// Drops the contexts of all other places.
    pub fn keep(&mut self, places: &[Place]) {
        let places: HashSet<_> = places.iter().collect();
        self.known.retain(|place, _| places.contains(place));
    }

    pub fn forget(&mut self) {
        self.known.clear();
    }
}
