//! The tools of a companion: `openDiff` and `closeDiff` of document 000, "III"; `getActiveFile` of
//! 003; `acceptDiff` and `rejectDiff` of 004. All clients are offered all of them, and call those
//! that they know.
//!
//! Document 004 differs in the text of the answer to `closeDiff`: clients with a session get it in
//! the form of the newer documents, since clients of 004 have no session.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::endings::LastText;
use super::host_tools::{self, FileWritten, IgnoreRules};
use super::message::{Params, RpcError, Text, ToolCall, ToolResult, truncate};
use super::sessions::{ActiveSession, BUSY, STOPPING, SessionId, Sessions, not_open};
use crate::bridge::{Answer, Awaited, Bridge, CallError, Event};
use crate::file::{FileChecks, Links, open_regular};
use crate::host::Host;
use crate::ide::{ActiveFile, Cursor};
use crate::name;

/// What tool calls need.
pub struct Tools {
    bridge: Arc<Bridge>,
    sessions: Arc<Sessions>,
    checks: FileChecks,
}

/// Why a tool call failed, sent to the client as text.
struct ToolError(String);

/// Why a tool call has no result.
enum Fault {
    UnknownTool,
    Arguments(RpcError),
    Failed(ToolError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CloseDiff {
    file_path: String,
    #[serde(default)]
    suppress_notification: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedDiff {
    file_path: String,
}

impl Tools {
    pub fn new(bridge: Arc<Bridge>, sessions: Arc<Sessions>) -> Tools {
        let limits = sessions.limits();
        let checks = FileChecks::new(limits.file_checks, limits.file_check_time);
        Tools { bridge, sessions, checks }
    }

    /// The result of `tools/list`, all on one page: on hosts only the tools of document 000. A client
    /// with a front of its own, where its user decides, is offered none of diffs: it would wait for
    /// the outcome here, too.
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

    /// Runs `tools/call`.
    pub async fn call(
        &self,
        session: &ActiveSession,
        params: Params,
    ) -> Result<ToolResult, RpcError> {
        let ToolCall { name, arguments } = params.read_call()?;
        let reason = match self.run(session, &name, arguments).await {
            Ok(result) => return Ok(result),
            Err(Fault::Failed(ToolError(reason))) => reason,
            Err(Fault::Arguments(failure)) if session.revision().has_argument_errors() => {
                failure.message
            }
            Err(Fault::Arguments(failure)) => return Err(failure),
            Err(Fault::UnknownTool) => {
                return Err(RpcError::invalid_params(format!("unknown tool {name}")));
            }
        };
        Ok(ToolResult::failure(&reason))
    }

    async fn run(
        &self,
        session: &ActiveSession,
        name: &str,
        mut arguments: Params,
    ) -> Result<ToolResult, Fault> {
        let outcome = match (name, session.host()) {
            ("openDiff", None) => {
                let content = arguments.take_text("newContent")?;
                self.open_diff(session.session(), arguments.read()?, content).await
            }
            ("closeDiff", _) => self.close_diff(session, arguments.read()?).await,
            ("getActiveFile" | "acceptDiff" | "rejectDiff", Some(_)) => Err(ToolError(format!(
                "{name} is for clients on the machine of Emacs only: use openDiff and closeDiff"
            ))),
            ("getActiveFile", None) => {
                drop(arguments);
                Ok(plain(self.active_file(session.session()).await))
            }
            ("acceptDiff", None) => self.decide_diff(session, arguments.read()?, true).await,
            ("rejectDiff", None) => self.decide_diff(session, arguments.read()?, false).await,
            ("openDiff", Some(host)) => {
                let content = arguments.take_text("newContent")?;
                self.open_diff_on_host(session, host, arguments.read()?, content)
            }
            ("fileWritten", Some(host)) => self.file_written(host, arguments.read()?),
            ("ignoreRules", Some(_)) => set_ignore_file(session, arguments.read()?),
            _ => return Err(Fault::UnknownTool),
        };
        outcome.map_err(Fault::Failed)
    }

    /// Queues the review for Emacs and answers at once, with empty content: a busy Emacs is not a
    /// failure, and after an error the client's own "yes" would fail, too.
    async fn open_diff(
        &self,
        session: &SessionId,
        NamedDiff { file_path }: NamedDiff,
        content: String,
    ) -> Result<ToolResult, ToolError> {
        let path = file_path.clone();
        // The file system may be slow, and the streams of other clients must not wait for it.
        let largest = self.sessions.limits().body;
        let check = self.checks.run(move || check_path(&path, largest)).await;
        let bytes = check.unwrap_or_else(|| Err(slow(&file_path)))?;
        self.sessions
            .open_review(session, file_path, content, bytes)
            .map_err(|reason| ToolError(reason.to_string()))?;
        Ok(ToolResult::nothing())
    }

    /// The same for a file on a host, which is not asked: the client tells what the file contains.
    fn open_diff_on_host(
        &self,
        session: &ActiveSession,
        host: &Arc<Host>,
        diff: host_tools::OpenDiff,
        content: String,
    ) -> Result<ToolResult, ToolError> {
        let (file, name) = diff.into_parts(host).map_err(ToolError)?;
        self.sessions
            .open_review_on_host(session.session(), file, content, &name)
            .map_err(|reason| ToolError(reason.to_string()))?;
        Ok(ToolResult::nothing())
    }

    fn file_written(
        &self,
        host: &Arc<Host>,
        written: FileWritten,
    ) -> Result<ToolResult, ToolError> {
        let file = written.into_file(host).map_err(ToolError)?;
        if file.is_here() {
            return Ok(ToolResult::nothing());
        }
        let queued = self.bridge.send_if_room(Event::HostFile(file));
        if queued { Ok(ToolResult::nothing()) } else { Err(ToolError(BUSY.to_owned())) }
    }

    /// Asks Emacs for the text of the review and closes it. If it has ended already, the answer is the
    /// same: the client may not have received it, or the user has just accepted the review. Clients
    /// with a session parse the answer as JSON; those of document 004 get the plain text.
    async fn close_diff(
        &self,
        session: &ActiveSession,
        diff: CloseDiff,
    ) -> Result<ToolResult, ToolError> {
        let silent = diff.suppress_notification.unwrap_or(false);
        let sessions = &self.sessions;
        let content = match sessions.close_review(session.session(), &diff.file_path, silent) {
            None | Some(LastText::Forgotten) => return Err(ToolError(not_open(&diff.file_path))),
            Some(LastText::Rejected) => return Err(rejected(&diff.file_path)),
            Some(LastText::Accepted(content)) => content,
            Some(LastText::Closed { answer, by_proposer }) => {
                let Answer { text, may_omit } = self.answer_of_emacs(answer).await?;
                Some(text).filter(|_| !(may_omit && by_proposer && !session.is_unnamed()))
            }
        };
        Ok(ToolResult::text(match content {
            Some(content) if session.is_unnamed() => Text::Plain(content),
            content => Text::Object(content),
        }))
    }

    /// Has Emacs decide the review as the user would.
    async fn decide_diff(
        &self,
        session: &ActiveSession,
        diff: NamedDiff,
        accept: bool,
    ) -> Result<ToolResult, ToolError> {
        let place = session.find_place().await;
        let (call, answer) = self.bridge.call();
        let sessions = &self.sessions;
        sessions
            .request_decision(session.session(), &diff.file_path, accept, call, place)
            .map_err(ToolError)?;
        Ok(plain(self.answer_of_emacs(answer).await?.text))
    }

    async fn answer_of_emacs(&self, answer: Awaited) -> Result<Answer, ToolError> {
        let answer = answer_within(self.sessions.limits().emacs_time, answer).await;
        answer.map_err(|CallError(reason)| ToolError(reason))
    }

    /// One of the three texts of document 003.
    async fn active_file(&self, session: &SessionId) -> String {
        match self.sessions.active_file(session).await {
            None => "No file is currently active".to_owned(),
            Some(ActiveFile { file_path, cursor: None }) => format!("Active file: {file_path}"),
            Some(ActiveFile { file_path, cursor: Some(Cursor { line, character }) }) => {
                format!("Active file: {file_path} (line: {line}, char: {character})")
            }
        }
    }
}

fn list(tools: &[Value]) -> Box<RawValue> {
    to_raw_value(&json!({ "tools": tools })).expect("a value always serializes")
}

/// The tools, those of document 000 first.
fn all() -> [Value; 5] {
    [
        json!({
            "name": "openDiff",
            "title": "Propose a change",
            "annotations": {
                "readOnlyHint": false, "destructiveHint": false, "openWorldHint": false
            },
            "description": "Open a diff of a file and its proposed new content, which the user \
                can change, accept or reject. Returns at once; the outcome comes as the \
                notification ide/diffAccepted or ide/diffRejected.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "filePath": {
                        "type": "string",
                        "description": "The absolute path of the file; it need not exist yet."
                    },
                    "newContent": {
                        "type": "string",
                        "description": "The proposed content of the whole file."
                    }
                },
                "required": ["filePath", "newContent"]
            }
        }),
        json!({
            "name": "closeDiff",
            "title": "Close a proposed change",
            "annotations": {
                "readOnlyHint": false, "destructiveHint": false, "openWorldHint": false
            },
            "description": "Close the open diff of a file without asking the user. Returns a \
                text: a JSON object whose member content is the final content in the diff, with \
                the user's changes.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "filePath": opened_path(),
                    "suppressNotification": {
                        "type": "boolean",
                        "description": "Do not send ide/diffRejected for this diff."
                    }
                },
                "required": ["filePath"]
            }
        }),
        json!({
            "name": "getActiveFile",
            "title": "Active file",
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
            "description": "Get the currently active file and cursor position",
            "inputSchema": { "type": "object", "properties": {} }
        }),
        // It writes the file.
        decide_tool(
            "acceptDiff",
            "Accept a proposed change",
            true,
            "Accept the open diff of a file, with the user's changes, and apply it to the file. \
            Whoever opened it hears ide/diffAccepted.",
        ),
        decide_tool(
            "rejectDiff",
            "Reject a proposed change",
            false,
            "Reject the open diff of a file, which stays as it is. Whoever opened it hears \
            ide/diffRejected.",
        ),
    ]
}

/// The argument by which a client names an open diff.
fn opened_path() -> Value {
    json!({ "type": "string", "description": "The path that was given to openDiff." })
}

fn decide_tool(name: &str, title: &str, is_destructive: bool, description: &str) -> Value {
    json!({
        "name": name,
        "title": title,
        "annotations": {
            "readOnlyHint": false, "destructiveHint": is_destructive, "openWorldHint": false
        },
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "filePath": opened_path()
            },
            "required": ["filePath"]
        }
    })
}

impl From<RpcError> for Fault {
    fn from(failure: RpcError) -> Fault {
        Fault::Arguments(failure)
    }
}

pub fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn plain(text: impl Into<Arc<str>>) -> ToolResult {
    ToolResult::text(Text::Plain(text.into()))
}

fn set_ignore_file(session: &ActiveSession, rules: IgnoreRules) -> Result<ToolResult, ToolError> {
    let (directory, file) = rules.into_parts().map_err(ToolError)?;
    session.set_ignore_file(&directory, file);
    Ok(ToolResult::nothing())
}

fn rejected(path: &str) -> ToolError {
    ToolError(format!("the diff of {} was rejected", truncate(path)))
}

/// The answer of Lisp to a call, or why there is none after this time.
pub async fn answer_within(time: Duration, mut answer: Awaited) -> Result<Answer, CallError> {
    match tokio::time::timeout(time, answer.wait_for(Option::is_some)).await {
        Ok(Ok(answer)) => answer.clone().expect("it has waited for that"),
        Ok(Err(_)) => Err(CallError(STOPPING.to_owned())),
        Err(_) => Err(CallError(format!("Emacs did not answer for {time:?}"))),
    }
}

fn slow(path: &str) -> ToolError {
    ToolError(format!("the file system of {} does not answer", truncate(path)))
}

/// Refuses paths that cannot be a local file of at most `largest` bytes. Returns its size in bytes.
fn check_path(path: &str, largest: usize) -> Result<usize, ToolError> {
    let refuse = |reason: &str| Err(ToolError(format!("filePath {:?} {reason}", truncate(path))));
    if let Some(fault) = name::fault(path) {
        return refuse(&fault);
    }
    if is_of_the_system(path) {
        return refuse("is no file but a part of the system");
    }
    match std::fs::metadata(path) {
        Ok(file) if file.is_dir() => refuse("is a directory"),
        Ok(file) if !file.is_file() => refuse("is no regular file"),
        Ok(file) if file.len() > largest as u64 => refuse("is too large a file"),
        Ok(file) => match open_regular(Path::new(path), Links::Follow) {
            Ok(_) => Ok(file.len() as usize),
            Err(error) => refuse(&format!("cannot be read: {error}")),
        },
        // A new file. Directories may be missing, too: the client creates them.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => refuse(&format!("cannot be a file: {error}")),
    }
}

/// Whether `path` is in a virtual file system of the kernel.
fn is_of_the_system(path: &str) -> bool {
    let is_system = |real: PathBuf| ["/proc", "/sys", "/dev"].iter().any(|it| real.starts_with(it));
    cfg!(unix) && real_name(Path::new(path)).is_some_and(is_system)
}

/// `path` with symbolic links resolved, even if nothing exists there yet. `None` if there are more
/// links than the system follows, which then finds no file there.
fn real_name(path: &Path) -> Option<PathBuf> {
    const MAX_LINKS: usize = 40; // as in Linux
    let (mut real, mut rest) = (PathBuf::new(), Vec::new());
    push_components(&mut rest, path);
    let mut links = 0;
    while let Some(component) = rest.pop() {
        if component == ".." {
            real.pop();
            continue;
        }
        real.push(component);
        if let Ok(target) = std::fs::read_link(&real) {
            links += 1;
            if links > MAX_LINKS {
                return None;
            }
            real.pop();
            push_components(&mut rest, &target);
        }
    }
    Some(real)
}

/// Pushes the components of `path` so that the first one is popped first.
fn push_components(rest: &mut Vec<OsString>, path: &Path) {
    rest.extend(path.components().rev().map(|component| component.as_os_str().to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(path: &str) -> Option<String> {
        check_path(path, 1 << 20).err().map(|ToolError(reason)| reason)
    }

    #[test]
    #[cfg(windows)]
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

    #[test]
    #[cfg(unix)]
    fn only_local_absolute_files_are_reviewed() {
        assert_eq!(reason("/no/such/directory/file.txt"), None);
        assert_eq!(reason(concat!(env!("CARGO_MANIFEST_DIR"), "/lib.rs")), None);
        for (path, why) in [
            ("relative.txt", "must be absolute"),
            ("", "must be absolute"),
            ("/ssh:host:/etc/passwd", "remote"),
            ("/-:host:", "remote"),
            (env!("CARGO_MANIFEST_DIR"), "is a directory"),
            ("/no/such/directory/", "is a directory"),
            ("/dev/null", "part of the system"),
            ("/proc/self/mem", "part of the system"),
            ("/a/../b", "must not contain \"..\""),
            ("/a/./b", "must not contain \".\""),
            ("/./ssh:host:/b", "must not contain \".\""),
            ("/a//b", "must not contain \"//\""),
            ("/a//ssh:host:/b", "must not contain \"//\""),
            ("//ssh:host:/b", "remote"),
            ("/:/ssh:host:/b", "remote"),
            ("/:/etc/passwd", "remote"),
            ("/host:/b", "remote"),
            ("/[ssh/host]b", "remote"),
            ("/etc/hostname/below-a-file", "cannot be a file"),
            ("/a\0b", "NUL"),
        ] {
            let reason = reason(path).unwrap_or_default();
            assert!(reason.contains(why), "{path}: {reason}");
        }
    }
}
