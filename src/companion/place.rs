//! Where clients work.

use std::sync::Arc;

use crate::process::Process;

/// Where a client works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// Not known.
    #[default]
    Unknown,
    /// Its working directory.
    Directory(Arc<str>),
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
