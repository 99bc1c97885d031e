//! `initialize`: what a client says of itself, and what it is told; the revisions of MCP.

use serde::Deserialize;
use serde_json::{Value, json};

/// A revision of MCP that we support. Revisions are dates, so they sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(&'static str);

impl Revision {
    pub const NEWEST: Revision = Revision("2025-11-25");
    /// Without 2025-03-26, which demands JSON-RPC batches.
    const ALL: [Revision; 3] = [Revision::NEWEST, Revision("2025-06-18"), Revision("2024-11-05")];

    pub fn named(name: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.0 == name)
    }

    /// What to offer to a client that asks for the revision `name`: that one, or the one before it if
    /// we do not support it, or else our newest. The client may refuse it.
    pub fn offered(name: &str) -> Revision {
        Revision::ALL.into_iter().find(|revision| revision.0 <= name).unwrap_or(Revision::NEWEST)
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// Whether invalid arguments are reported as an error of the tool, which the model sees, rather
    /// than of the protocol.
    pub fn has_argument_errors(self) -> bool {
        self >= Revision("2025-11-25")
    }
}

/// The parameters of `initialize`, all of them optional.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hello {
    protocol_version: Option<String>,
    client_info: ClientInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClientInfo {
    name: String,
    version: String,
}

impl Hello {
    pub fn revision(&self) -> Revision {
        self.protocol_version.as_deref().map_or(Revision::NEWEST, Revision::offered)
    }

    /// The name of the client and its version, for the user.
    pub fn client(&self) -> (String, String) {
        (sanitize(&self.client_info.name), sanitize(&self.client_info.version))
    }
}

/// The result of `initialize`.
pub fn answer(revision: Revision) -> Value {
    json!({
        "protocolVersion": revision.as_str(),
        "capabilities": { "tools": {} },
        "serverInfo": {
            "name": "gemini-companion",
            "title": "Emacs",
            "version": env!("CARGO_PKG_VERSION"),
        },
    })
}

/// A name as it is shown to the user: shortened, and without control characters, line separators
/// and changes of the writing direction.
fn sanitize(name: &str) -> String {
    let disturbs = |character: char| {
        character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(character, '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    name.chars().filter(|character| !disturbs(*character)).take(64).collect()
}
