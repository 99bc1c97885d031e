//! Contexts: where clients work, and what they are sent of what the user looks at.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;

use super::table::Table;
use super::{ActiveSession, Sessions};
use crate::bridge::Event;
use crate::ide::{ActiveFile, IdeContext};
use crate::mcp::client::SessionId;
use crate::mcp::message::notification_json;
use crate::mcp::outbox::Outgoing;
use crate::mcp::session::Session;
use crate::place::Place;

impl Sessions {
    /// Where clients work, without duplicates.
    pub fn places(&self) -> Vec<Place> {
        let mut table = self.table();
        self.update_places(&mut table);
        table.places()
    }

    /// Finds out where clients work now, which determines the contexts that they are sent.
    pub(super) fn update_places(&self, table: &mut Table) {
        for session in table.sessions.values_mut() {
            let place = session.place_now();
            if session.origin.place == place {
                continue;
            }
            session.outbox.forget_context();
            if let Some(context) = table.contexts.get(&place) {
                session.push(Outgoing::Context(context_json(context)));
            }
            session.origin.place = place;
            self.bridge.send(Event::ClientsChanged); // Lisp publishes the context of a new place
        }
    }

    /// Sends the clients in each of these places its context, unless they have it already.
    pub fn publish_contexts(&self, contexts: Vec<(Place, IdeContext)>) {
        let mut table = self.table();
        if table.announced == 0 {
            return;
        }
        for (place, context) in contexts {
            if table.contexts.get(&place) != Some(&context) {
                table.send_context(place, context);
            }
        }
        let places = table.places();
        table.contexts.retain(|place, _| places.contains(place));
        drop(table);
        self.published.notify_waiters();
    }

    /// The active file, for a client of document 003, which is notified of changes from now on. If
    /// there is no context yet, waits for `limits.first_context` for Emacs to publish one.
    pub(crate) async fn active_file(&self, session: &ActiveSession) -> Option<ActiveFile> {
        let place = session.find_place().await;
        let published = self.published.notified();
        {
            let mut table = self.table();
            if let Some(session) = table.sessions.get_mut(&session.session) {
                session.wants_active_file = true;
            }
            if let Some(context) = table.contexts.get(&place) {
                return context.active_file();
            }
            if table.ending || !table.places().contains(&place) {
                return None; // nor will there be one
            }
        }
        let _ = tokio::time::timeout(self.limits.first_context, published).await;
        self.table().contexts.get(&place)?.active_file()
    }
}

impl Table {
    /// Where clients work, without duplicates.
    fn places(&self) -> Vec<Place> {
        let named = self.sessions.values().filter(|session| !session.is_unnamed);
        let of_sessions = named.map(|session| &session.origin.place);
        let of_listeners = self.listeners.all().iter().map(|listener| &listener.place);
        let mut seen = HashSet::new();
        of_sessions.chain(of_listeners).filter(|place| seen.insert(*place)).cloned().collect()
    }

    /// The context for a session.
    pub(super) fn context_of(&self, id: &SessionId) -> Option<&IdeContext> {
        self.contexts.get(&self.sessions.get(id)?.origin.place)
    }

    /// Sends the clients in `place` a new context, each in the format of its document.
    fn send_context(&mut self, place: Place, context: IdeContext) {
        if self.listeners.all().iter().any(|listener| listener.place == place) {
            self.listeners.queue_context(&place, &event_json(&context));
        }
        let message = context_json(&context);
        let active = context.active_file();
        let before = self.contexts.get(&place).map(IdeContext::active_file);
        let active_is_new = before.as_ref() != Some(&active);
        let in_place =
            |session: &&mut Session| !session.is_unnamed && session.origin.place == place;
        for session in self.sessions.values_mut().filter(in_place) {
            session.push(Outgoing::Context(message.clone()));
            if session.wants_active_file && active_is_new {
                session.push(Outgoing::ActiveFile(active_file_json(active.as_ref())));
            }
        }
        self.contexts.insert(place, context);
    }
}

pub(super) fn context_json(context: &IdeContext) -> Arc<str> {
    notification_json("ide/contextUpdate", context).into()
}

/// A context in the form of `/events`.
pub(super) fn event_json(context: &IdeContext) -> Arc<str> {
    notification_json("notifications/context-update", &context.event()).into()
}

fn active_file_json(active: Option<&ActiveFile>) -> Arc<str> {
    let params = active.map_or_else(|| json!({}), |active| json!(active));
    notification_json("activeFileNotification", &params).into()
}
