//! What clients on hosts tell in addition, by the relay beside them: what their files contain, and what
//! their ignore files say. Emacs does not ask the host, since it would have to wait for that.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::message::{LongText, truncate};
use crate::bridge::{Contents, HostFile};
use crate::host::{Host, IgnoreFile};
use crate::ignore;
use crate::name;

/// The longest name of a proposal, and the longest stamp, in bytes.
pub const MAX_NAME: usize = 128;

/// A file as it is, in the arguments of `openDiff` and `fileWritten`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileOnHost {
    file_path: String,
    /// It may be null, but not missing.
    #[serde(deserialize_with = "Option::deserialize")]
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

impl FileOnHost {
    /// The file, or why there cannot be such a file.
    pub fn into_file(self, host: &Arc<Host>) -> Result<HostFile, String> {
        let FileOnHost { file_path: path, current, stamp, modified } = self;
        if stamp.as_ref().is_some_and(|stamp| stamp.len() > MAX_NAME) {
            return Err(format!("stamp is longer than {MAX_NAME} bytes"));
        }
        if let Some(fault) = host.fault(&path) {
            return Err(format!("filePath {:?} {fault}", truncate(&path)));
        }
        let contents = match current {
            None => Contents::Missing,
            Some(Current::Text(text)) => Contents::Bytes(text.0.into_bytes()),
            Some(Current::Base64(text)) => Contents::Bytes(
                BASE64_STANDARD.decode(text).map_err(|error| format!("current.base64: {error}"))?,
            ),
            Some(Current::Unreadable(_)) => Contents::Unreadable,
        };
        Ok(HostFile { host: host.clone(), path, contents, stamp, modified })
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
