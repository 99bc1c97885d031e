//! The latest context of each place.
//!
//! A place is where a client works: a directory, if that is known. Lisp decides which context
//! belongs to which place; nothing here knows about projects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ide::{IdeContext, Notification};
use crate::place::Place;

use super::message::notification_json;

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
