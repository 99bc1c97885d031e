//! What clients on hosts tell in addition, by the relay beside them: what their files contain, since
//! Emacs must not wait for the host to ask it, and what their ignore files say.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::message::{LongText, truncate};
use crate::bridge::{Contents, HostFile};
use crate::host::{Host, IgnoreFile};
use crate::ignore;
use crate::name;

/// The longest name of a proposal, and the longest stamp, in bytes.
const MAX_NAME: usize = 128;

/// The arguments of `openDiff` on a host, but the proposed content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenDiff {
    file_path: String,
    /// Another one for each proposal of the client, and the same if it is repeated.
    proposal: String,
    #[serde(deserialize_with = "required")]
    current: Option<Current>,
    stamp: Option<String>,
    modified: Option<i64>,
}

/// The arguments of `fileWritten`: a file of which a diff is open, or was, has been written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileWritten {
    file_path: String,
    #[serde(deserialize_with = "required")]
    current: Option<Current>,
    stamp: Option<String>,
    modified: Option<i64>,
}

/// The arguments of `ignoreRules`: what `directory`/.geminiignore contains.
#[derive(Deserialize)]
pub struct IgnoreRules {
    directory: String,
    text: Option<String>,
    reason: Option<String>,
}

/// What a file contains; null if there is none.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Current {
    Text(LongText),
    Base64(String),
    /// With the reason, which is only for the log of the relay.
    Unreadable(IgnoredAny),
}

/// A member that may be null, but not missing.
fn required<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Current>, D::Error> {
    Option::deserialize(from)
}

impl OpenDiff {
    /// The file as it is, and the name of the proposal; or why there cannot be such a file.
    pub fn into_parts(self, host: &Arc<Host>) -> Result<(HostFile, String), String> {
        let OpenDiff { file_path, proposal, current, stamp, modified } = self;
        if proposal.len() > MAX_NAME {
            return Err(format!("proposal is longer than {MAX_NAME} bytes"));
        }
        let file = FileWritten { file_path, current, stamp, modified }.into_file(host)?;
        Ok((file, proposal))
    }
}

impl FileWritten {
    /// The file as it is, or why there cannot be such a file.
    pub fn into_file(self, host: &Arc<Host>) -> Result<HostFile, String> {
        let FileWritten { file_path, current, stamp, modified } = self;
        if stamp.as_ref().is_some_and(|stamp| stamp.len() > MAX_NAME) {
            return Err(format!("stamp is longer than {MAX_NAME} bytes"));
        }
        if let Some(fault) = host.fault(&file_path) {
            return Err(format!("filePath {:?} {fault}", truncate(&file_path)));
        }
        let contents = contents(current)?;
        Ok(HostFile { host: host.clone(), path: file_path, contents, stamp, modified })
    }
}

impl IgnoreRules {
    /// The directory, as `Host::ignores` names it, and its ignore file.
    pub fn into_parts(self) -> Result<(String, IgnoreFile), String> {
        let IgnoreRules { directory, text, reason } = self;
        if let Some(fault) = name::fault_on_host(&directory).filter(|_| directory != "/") {
            return Err(format!("directory {:?} {fault}", truncate(&directory)));
        }
        let file = match (reason, text) {
            (Some(reason), _) => IgnoreFile::Unreadable(truncate(&reason)),
            (None, None) => IgnoreFile::Missing,
            (None, Some(text)) if text.len() as u64 <= ignore::MAX_SIZE => IgnoreFile::Text(text),
            (None, Some(_)) => {
                IgnoreFile::Unreadable(format!("it is larger than {} bytes", ignore::MAX_SIZE))
            }
        };
        Ok((directory, file))
    }
}

fn contents(current: Option<Current>) -> Result<Contents, String> {
    Ok(match current {
        None => Contents::Missing,
        Some(Current::Text(text)) => Contents::Bytes(text.0.into_bytes()),
        Some(Current::Base64(text)) => Contents::Bytes(
            BASE64_STANDARD.decode(text).map_err(|error| format!("current.base64: {error}"))?,
        ),
        Some(Current::Unreadable(_)) => Contents::Unreadable,
    })
}
