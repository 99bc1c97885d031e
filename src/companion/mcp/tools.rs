//! The tools of a companion: `openDiff` and `closeDiff` of document 000, "III"; `getActiveFile` of
//! 003; `acceptDiff` and `rejectDiff` of 004. `Tools::list` says who is offered which; clients call
//! those that they know.
//!
//! Document 004 differs in the text of the answer to `closeDiff`: clients with a session get it in
//! the form of the newer documents, since clients of 004 have no session.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::endings::LastText;
use super::host_tools::{FileOnHost, IgnoreRules, MAX_NAME};
use super::message::{Output, Params, RpcError, truncate};
use super::sessions::{ActiveSession, BUSY, STOPPING, Sessions, not_open};
use crate::bridge::{Answer, Awaited, Bridge, CallResult, Event};
use crate::file::{FileChecks, Links, open_regular};
use crate::host::Host;
use crate::ide::{ActiveFile, Cursor};
use crate::name;

pub struct Tools {
    bridge: Arc<Bridge>,
    sessions: Arc<Sessions>,
    checks: FileChecks,
}

/// Why a tool call has no result.
enum Fault {
    UnknownTool,
    Arguments(RpcError),
    /// Sent to the client as text.
    Failed(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CloseDiff {
    file_path: String,
    suppress_notification: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedDiff {
    file_path: String,
}

impl Tools {
    pub fn new(bridge: Arc<Bridge>, sessions: Arc<Sessions>) -> Tools {
        let limits = &sessions.limits;
        let checks = FileChecks::new(limits.file_checks, limits.file_check_time);
        Tools { bridge, sessions, checks }
    }

    /// The result of `tools/list`, all on one page: on hosts only the tools of document 000. A client
    /// with a front end of its own, where its user decides, is offered no tools for diffs: it would
    /// wait for the outcome here, too.
    pub fn list(on_host: bool, has_own_front: bool) -> &'static RawValue {
        type List = LazyLock<Box<RawValue>>;
        static ALL: List = LazyLock::new(|| list(&all()));
        static NEWEST: List = LazyLock::new(|| list(&all()[..2]));
        static WITHOUT_DIFFS: List = LazyLock::new(|| list(&all()[2..3]));
        static NONE: List = LazyLock::new(|| list(&[]));
        match (on_host, has_own_front) {
            (false, false) => &ALL,
            (true, false) => &NEWEST,
            (false, true) => &WITHOUT_DIFFS,
            (true, true) => &NONE,
        }
    }

    pub async fn call(&self, session: &ActiveSession, params: Params) -> Result<Output, RpcError> {
        let (name, arguments) = params.read_call()?;
        match self.run(session, &name, arguments).await {
            Ok(result) => Ok(result),
            Err(Fault::Failed(reason)) => Ok(Output::failure(&reason)),
            Err(Fault::Arguments(failure)) if session.revision.has_argument_errors() => {
                Ok(Output::failure(&failure.message))
            }
            Err(Fault::Arguments(failure)) => Err(failure),
            Err(Fault::UnknownTool) => {
                Err(RpcError::invalid_params(format!("unknown tool {name}")))
            }
        }
    }

    async fn run(
        &self,
        session: &ActiveSession,
        name: &str,
        mut arguments: Params,
    ) -> Result<Output, Fault> {
        match (name, &session.host) {
            ("openDiff", None) => {
                let content = arguments.take_text("newContent")?;
                self.open_diff(session, arguments.read()?, content).await
            }
            ("openDiff", Some(host)) => {
                let content = arguments.take_text("newContent")?;
                let proposal = arguments.take_text("proposal")?;
                self.open_diff_on_host(session, host, arguments.read()?, content, &proposal)
            }
            ("closeDiff", _) => self.close_diff(session, arguments.read()?).await,
            ("getActiveFile", None) => Ok(self.active_file(session).await),
            ("acceptDiff", None) => self.decide_diff(session, arguments.read()?, true).await,
            ("rejectDiff", None) => self.decide_diff(session, arguments.read()?, false).await,
            ("getActiveFile" | "acceptDiff" | "rejectDiff", Some(_)) => {
                Err(Fault::Failed(format!(
                    "{name} is for clients on the machine of Emacs only: use openDiff and closeDiff"
                )))
            }
            ("fileWritten", Some(host)) => self.file_written(host, arguments.read()?),
            ("ignoreRules", Some(_)) => {
                let (directory, file) = arguments.read::<IgnoreRules>()?.into_parts()?;
                session.set_ignore_file(&directory, file);
                Ok(Output::nothing())
            }
            _ => Err(Fault::UnknownTool),
        }
    }

    /// Queues the review for Emacs and answers at once, with empty content: a busy Emacs is not a
    /// failure, and after an error the client's own "yes" would fail, too.
    async fn open_diff(
        &self,
        session: &ActiveSession,
        NamedDiff { file_path }: NamedDiff,
        content: String,
    ) -> Result<Output, Fault> {
        let _turn = session.in_turn(&file_path).await;
        let path = file_path.clone();
        // The file system may be slow, and the streams of other clients must not wait for it.
        let largest = self.sessions.limits.body;
        let check = self.checks.run(move || check_path(&path, largest)).await;
        let slow = || format!("the file system of {} does not answer", truncate(&file_path));
        let bytes = check.ok_or_else(slow)??;
        self.sessions.open_review(&session.session, file_path, content, bytes, None)?;
        Ok(Output::nothing())
    }

    /// The same for a file on a host, which is not asked: the client tells what the file contains. It
    /// gives each proposal a new name, but repeats one by the same name.
    fn open_diff_on_host(
        &self,
        session: &ActiveSession,
        host: &Arc<Host>,
        file: FileOnHost,
        content: String,
        proposal: &str,
    ) -> Result<Output, Fault> {
        if proposal.len() > MAX_NAME {
            return Err(Fault::Failed(format!("proposal is longer than {MAX_NAME} bytes")));
        }
        let file = file.into_file(host)?;
        let (path, bytes, on_host) = (file.path.clone(), file.contents.size(), (file, proposal));
        self.sessions.open_review(&session.session, path, content, bytes, Some(on_host))?;
        Ok(Output::nothing())
    }

    /// Tells Emacs that a file on a host, for which a diff is or was open, has been written.
    fn file_written(&self, host: &Arc<Host>, file: FileOnHost) -> Result<Output, Fault> {
        let file = file.into_file(host)?;
        if !file.is_here() && !self.bridge.send_if_room(Event::HostFile(file)) {
            return Err(BUSY.into());
        }
        Ok(Output::nothing())
    }

    /// Asks Emacs for the text of the review and closes it. If it has ended already, the answer is the
    /// same: the client may not have received it, or the user has just accepted the review. Clients
    /// with a session parse the answer as JSON; those of document 004 get the plain text. If the user
    /// decides in the client before the file of the proposal is checked, that comes first.
    async fn close_diff(&self, session: &ActiveSession, diff: CloseDiff) -> Result<Output, Fault> {
        let silent = diff.suppress_notification.unwrap_or(false);
        let path = &diff.file_path;
        let turn = session.in_turn(path).await;
        let closed = self.sessions.close_review(&session.session, path, silent);
        drop(turn);
        let content = match closed {
            None | Some(LastText::Forgotten) => return Err(not_open(path).into()),
            Some(LastText::Rejected) => {
                return Err(format!("the diff of {} was rejected", truncate(path)).into());
            }
            Some(LastText::Accepted(content)) => content,
            Some(LastText::Closed { answer, by_proposer }) => {
                let Answer { text, may_omit } = self.answer_of_emacs(answer).await?;
                Some(text).filter(|_| !(may_omit && by_proposer && !session.is_unnamed()))
            }
        };
        Ok(match content {
            Some(content) if session.is_unnamed() => Output::text(&content),
            content => Output::final_content(content),
        })
    }

    /// Has Emacs decide the review as the user would.
    async fn decide_diff(
        &self,
        session: &ActiveSession,
        diff: NamedDiff,
        accept: bool,
    ) -> Result<Output, Fault> {
        let place = session.find_place().await;
        let (call, answer) = self.bridge.call();
        let path = &diff.file_path;
        self.sessions.request_decision(&session.session, path, accept, call, place)?;
        Ok(Output::text(&self.answer_of_emacs(answer).await?.text))
    }

    async fn answer_of_emacs(&self, answer: Awaited) -> CallResult {
        answer_within(self.sessions.limits.emacs_time, answer).await
    }

    /// One of the three texts of document 003.
    async fn active_file(&self, session: &ActiveSession) -> Output {
        Output::text(&match self.sessions.active_file(session).await {
            None => "No file is currently active".to_owned(),
            Some(ActiveFile { file_path, cursor: None }) => format!("Active file: {file_path}"),
            Some(ActiveFile { file_path, cursor: Some(Cursor { line, character }) }) => {
                format!("Active file: {file_path} (line: {line}, char: {character})")
            }
        })
    }
}

impl From<RpcError> for Fault {
    fn from(failure: RpcError) -> Fault {
        Fault::Arguments(failure)
    }
}

impl<T: Into<String>> From<T> for Fault {
    fn from(reason: T) -> Fault {
        Fault::Failed(reason.into())
    }
}

fn list(tools: &[Value]) -> Box<RawValue> {
    to_raw_value(&json!({ "tools": tools })).expect("a value always serializes")
}

/// The tools, those of document 000 first.
fn all() -> [Value; 5] {
    let opened = json!({
        "filePath": { "type": "string", "description": "The path that was given to openDiff." }
    });
    let mut closed = opened.clone();
    closed["suppressNotification"] = json!({
        "type": "boolean", "description": "Do not send ide/diffRejected for this diff."
    });
    let proposed = json!({
        "filePath": {
            "type": "string",
            "description": "The absolute path of the file; it need not exist yet."
        },
        "newContent": {
            "type": "string", "description": "The proposed content of the whole file."
        }
    });
    [
        tool(
            ["openDiff", "Propose a change"],
            "Open a diff of a file and its proposed new content, which the user can change, accept \
            or reject. Returns at once; the outcome comes as the notification ide/diffAccepted or \
            ide/diffRejected.",
            proposed,
            &["filePath", "newContent"],
        ),
        tool(
            ["closeDiff", "Close a proposed change"],
            "Close the open diff of a file without asking the user. Returns a text: a JSON object \
            whose member content is the final content in the diff, with the user's changes.",
            closed,
            &["filePath"],
        ),
        json!({
            "name": "getActiveFile",
            "title": "Active file",
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
            "description": "Get the currently active file and cursor position",
            "inputSchema": { "type": "object", "properties": {} }
        }),
        tool(
            ["acceptDiff", "Accept a proposed change"],
            "Accept the open diff of a file, with the user's changes, and apply it to the file. \
            Whoever opened it hears ide/diffAccepted.",
            opened.clone(),
            &["filePath"],
        ),
        tool(
            ["rejectDiff", "Reject a proposed change"],
            "Reject the open diff of a file, which stays as it is. Whoever opened it hears \
            ide/diffRejected.",
            opened,
            &["filePath"],
        ),
    ]
}

/// A tool about a diff. Only `acceptDiff` writes the file.
fn tool([name, title]: [&str; 2], description: &str, takes: Value, required: &[&str]) -> Value {
    let writes = name == "acceptDiff";
    json!({
        "name": name,
        "title": title,
        "annotations": { "readOnlyHint": false, "destructiveHint": writes, "openWorldHint": false },
        "description": description,
        "inputSchema": { "type": "object", "properties": takes, "required": required }
    })
}

/// The answer of Lisp to a call, or why there is none after this time.
pub async fn answer_within(time: Duration, mut answer: Awaited) -> CallResult {
    match tokio::time::timeout(time, answer.wait_for(Option::is_some)).await {
        Ok(Ok(answer)) => answer.clone().expect("it has waited for that"),
        Ok(Err(_)) => Err(STOPPING.to_owned()),
        Err(_) => Err(format!("Emacs did not answer for {time:?}")),
    }
}

/// Refuses paths that cannot be a local file of at most `largest` bytes. Returns its size in bytes.
fn check_path(path: &str, largest: usize) -> Result<usize, String> {
    let refuse = |reason: &str| Err(format!("filePath {:?} {reason}", truncate(path)));
    if let Some(fault) = name::fault(path) {
        return refuse(&fault);
    }
    let path = Path::new(path);
    if is_of_the_system(path) {
        return refuse("is part of the system, not a file");
    }
    match std::fs::metadata(path) {
        Ok(file) if file.is_dir() => refuse("is a directory"),
        Ok(file) if !file.is_file() => refuse("is not a regular file"),
        Ok(file) if file.len() > largest as u64 => refuse("is too large a file"),
        Ok(file) => match open_regular(path, Links::Follow) {
            Ok(_) => Ok(file.len() as usize),
            Err(error) => refuse(&format!("cannot be read: {error}")),
        },
        // A new file. Directories may be missing, too: the client creates them.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => refuse(&format!("cannot be a file: {error}")),
    }
}

/// Whether `path`, or where it would be created, is in a virtual file system of the kernel.
fn is_of_the_system(path: &Path) -> bool {
    let real = || path.ancestors().find_map(|it| it.canonicalize().ok());
    let is_system = |real: PathBuf| ["/proc", "/sys", "/dev"].iter().any(|it| real.starts_with(it));
    cfg!(unix) && real().is_some_and(is_system)
}

#[cfg(all(test, windows))]
mod tests {
    use super::*;

    fn reason(path: &str) -> Option<String> {
        check_path(path, 1 << 20).err()
    }

    #[test]
    fn names_with_drives_are_reviewed() {
        for path in ["C:\\no\\such\\file.txt", "c:/no/such/file.txt"] {
            assert_eq!(reason(path), None);
        }
        for (path, why) in [
            ("relative.txt", "must be absolute"),
            ("C:relative.txt", "must be absolute"),
            ("\\no\\drive.txt", "must be absolute"),
            ("/ssh:host:/file", "remote"),
            ("C:\\a\\..\\b", "must not contain \"..\""),
            ("C:\\a\\", "is a directory"),
            ("\\\\server\\share\\a", "must not contain \"//\""),
            ("\\\\?\\C:\\a", "must not contain \"//\""),
        ] {
            let reason = reason(path).unwrap_or_default();
            assert!(reason.contains(why), "{path}: {reason}");
        }
    }
}
