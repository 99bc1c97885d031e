//! Behaviour of a companion as clients and the disk see it: real sockets, no mocks.

/// The name of a file of this machine, which on Windows begins with a drive.
#[cfg(not(windows))]
macro_rules! local {
    ($name:literal) => {
        $name
    };
}
#[cfg(windows)]
macro_rules! local {
    ($name:literal) => {
        concat!("C:", $name)
    };
}

mod agents;
mod announcement;
mod bounds;
mod calls;
mod diff;
mod discovery;
mod endings;
mod floods;
mod fronts;
mod host_wires;
mod hostile;
mod hosts;
mod ide;
mod lifecycle;
mod limits;
mod model_tools;
mod places;
mod process;
mod reviews;
mod rights;
mod status;
mod streams;
mod support;
mod trace;
mod transcripts;
mod unnamed;
mod wire;
