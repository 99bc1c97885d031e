//! Behaviour of a companion as clients and the disk see it: real sockets, no mocks.

mod calls;
mod discovery;
mod life;
mod reviews;
mod status;
mod streams;
mod support;
