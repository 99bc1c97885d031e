//! What companions exchange with their clients beyond MCP: the context, and the outcomes of reviews.
//!
//! Shapes as in document 000, "II. The Context Interface" and "III. The Diffing Interface". Optional
//! members are omitted rather than null: the client's schema rejects null, and it disconnects.

use std::sync::Arc;

use serde::Serialize;

/// How many files are listed, most recently focused ones first; the client uses no more.
pub(crate) const MAX_OPEN_FILES: usize = 10;

/// Longest selection sent, in UTF-16 code units, the measure of the client.
pub(crate) const MAX_SELECTION: usize = 16_384;

/// Identifies a review, here and in Lisp. Clients identify reviews by file path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReviewId(pub i64);

/// How the user decided a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Accepted with this content, which the client writes to the file.
    Accepted {
        /// The final content, with changes of the user. It may be large, and is never copied.
        content: Arc<String>,
        /// Whether the content is what the client proposed, and the client is known to understand
        /// an empty content as just that. It understands any other content as an edit by the user,
        /// and sends all of it to its model.
        may_omit: bool,
    },
    /// Rejected; the file stays as it is.
    Rejected,
}

/// A snapshot of what the user looks at.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdeContext {
    workspace_state: WorkspaceState,
}

/// The active file in the format of document 003.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActiveFile {
    pub file_path: String,
    /// Both counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkspaceState {
    open_files: Vec<File>,
    /// `Some(true)` if the user trusts the workspace, else `None`: then the client decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_trusted: Option<bool>,
}

/// An open file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    /// Its absolute name.
    pub path: String,
    /// When the file was last focused, in milliseconds since 1970.
    pub timestamp: i64,
    /// `Some(true)` for the file that the user looks at, else `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_active: Option<bool>,
    /// Where point is, in the active file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// The selected text, in the active file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected_text: Option<String>,
}

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cursor {
    /// From 1.
    pub line: i64,
    /// From 1, in UTF-16 code units.
    pub character: i64,
}

/// The parameters of the notification of an outcome.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision<'a> {
    pub file_path: &'a str,
    /// `None` if it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta<'a>>,
}

/// What a relay needs to know of an outcome besides; clients ignore it.
#[derive(Serialize)]
pub(crate) struct Meta<'a> {
    /// What the relay calls the proposal.
    pub proposal: &'a str,
}

impl IdeContext {
    /// A snapshot of `files`, most recently focused ones first.
    ///
    /// Keeps what clients use, and makes the timestamps distinct: clients sort files by them, and
    /// the one with the latest is the active file.
    pub fn new(mut files: Vec<File>) -> IdeContext {
        files.truncate(MAX_OPEN_FILES);
        let mut earlier_than = i64::MAX;
        for file in &mut files {
            file.timestamp = file.timestamp.min(earlier_than - 1);
            earlier_than = file.timestamp;
            if let Some(text) = &mut file.selected_text {
                truncate_utf16(text, MAX_SELECTION);
            }
        }
        IdeContext { workspace_state: WorkspaceState { open_files: files, is_trusted: None } }
    }

    /// The same, of a workspace that the user trusts.
    pub fn trusted(mut self) -> IdeContext {
        self.workspace_state.is_trusted = Some(true);
        self
    }

    /// The snapshot as JSON, indented for a reader.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("strings and numbers always serialize")
    }

    /// The active file for document 003, with the cursor counted from 0.
    pub(crate) fn active_file(&self) -> Option<ActiveFile> {
        let from_zero =
            |cursor: &Cursor| Cursor { line: cursor.line - 1, character: cursor.character - 1 };
        self.active().map(|file| ActiveFile {
            file_path: file.path.clone(),
            cursor: file.cursor.as_ref().map(from_zero),
        })
    }

    /// The snapshot in the format of document 004.
    pub(crate) fn event(&self) -> serde_json::Value {
        let files = &self.workspace_state.open_files;
        let open: Vec<_> = files
            .iter()
            .map(|file| serde_json::json!({ "path": file.path, "timestamp": file.timestamp }))
            .collect();
        let mut event = serde_json::json!({ "openFiles": open });
        if let Some(file) = self.active() {
            let mut active = serde_json::json!({ "path": file.path });
            if let Some(cursor) = &file.cursor {
                active["cursorPosition"] = serde_json::json!(cursor);
            }
            if let Some(text) = &file.selected_text {
                active["selection"] = serde_json::json!(text);
            }
            event["activeFile"] = active;
        }
        event
    }

    fn active(&self) -> Option<&File> {
        self.workspace_state.open_files.iter().find(|file| file.is_active == Some(true))
    }
}

impl Outcome {
    /// Accepted, with content that must not be omitted.
    pub fn accepted(content: impl Into<String>) -> Outcome {
        Outcome::Accepted { content: Arc::new(content.into()), may_omit: false }
    }
}

/// Cuts `text` to at most `limit` UTF-16 code units, never within a character.
fn truncate_utf16(text: &mut String, limit: usize) {
    let mut units = 0;
    let end = text.char_indices().find_map(|(start, character)| {
        units += character.len_utf16();
        (units > limit).then_some(start)
    });
    if let Some(end) = end {
        text.truncate(end);
    }
}
