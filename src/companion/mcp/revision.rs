//! Revisions of the Model Context Protocol, and their differences that matter here.

/// A revision of MCP that we support. Revisions are dates, so they sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(&'static str);

impl Revision {
    pub const NEWEST: Revision = Revision("2025-11-25");
    const ALL: [Revision; 4] =
        [Revision::NEWEST, Revision("2025-06-18"), Revision("2025-03-26"), Revision("2024-11-05")];

    pub fn named(name: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.0 == name)
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// Whether it has JSON-RPC batches.
    pub fn has_batches(self) -> bool {
        self <= Revision("2025-03-26")
    }

    /// Whether invalid arguments are reported as an error of the tool, which the model sees, rather
    /// than of the protocol.
    pub fn has_argument_errors(self) -> bool {
        self >= Revision("2025-11-25")
    }
}
