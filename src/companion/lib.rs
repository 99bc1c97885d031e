//! The IDE companion of Gemini CLI and its forks, without the editor.
//!
//! A [`Companion`] serves MCP over HTTP on a thread of its own. It is told what the user looks at,
//! which it publishes to its clients, and hands out [`Event`]s, above all the changes that clients
//! propose; the editor reports how the user decided them.

#![warn(missing_docs)]

pub mod diff;
pub mod discovery;
pub mod ide;
pub mod ignore;
pub mod panics;

mod agent;
mod allowance;
mod announcement;
mod bridge;
mod companion;
mod file;
mod host;
mod limits;
mod lock;
mod mcp;
mod name;
mod place;
mod process;
mod server;
mod thread;
mod token;
mod wire;

pub use agent::Agent;
pub use allowance::Allowance;
pub use announcement::Announcement;
pub use bridge::{
    Answer, ArgumentValue, Bridge, CallId, CallResult, Contents, Direction, Event, HostFile,
    WireEnd, WireId,
};
pub use companion::Companion;
pub use host::{Host, IgnoreFile};
pub use limits::Limits;
pub use mcp::model_tools::{Argument, ArgumentKind, ModelTool, ModelTools};
pub use mcp::sessions::{Description, Sessions};
pub use place::Place;
pub use token::Token;
