//! Behaviour of a companion as clients and the disk see it: real sockets, no mocks.

mod calls;
#[cfg(soak)]
mod cost;
mod diff;
mod discovery;
mod fixtures;
pub mod hostile;
mod life;
mod limits;
mod places;
mod reviews;
#[cfg(soak)]
mod soak;
mod status;
mod streams;
mod support;
mod trace;
mod transcripts;
mod unnamed;
mod wire;
