//! The file descriptors of connections.
//!
//! Emacs waits for its own by `select`, which knows none from `SELECTABLE` on: so it limits itself
//! to those below, whatever the system allows. Our connections need no `select`. Once there are
//! many, they get descriptors above, so that enough of those below remain for Emacs.

use tokio::net::TcpStream;

/// `FD_SETSIZE`.
#[cfg(unix)]
const SELECTABLE: usize = 1024;

/// The descriptors below `SELECTABLE` that connections may have when `limit` is the number of
/// descriptors that the process may have.
#[cfg(unix)]
fn own_share(limit: usize) -> usize {
    limit.min(SELECTABLE) / 8 * 5
}

#[cfg(unix)]
pub use unix::{connections, leave_low_ones};

/// How many connections of `wanted` there can be.
#[cfg(not(unix))]
pub fn connections(wanted: usize) -> usize {
    wanted
}

#[cfg(not(unix))]
pub fn leave_low_ones(connection: TcpStream) -> std::io::Result<TcpStream> {
    Ok(connection)
}

#[cfg(unix)]
mod unix {
    use std::io::{Error, Result};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

    use super::{SELECTABLE, TcpStream, own_share};

    /// How many connections of `wanted` there can be.
    pub fn connections(wanted: usize) -> usize {
        let Ok(limit) = limit() else { return wanted.min(own_share(256)) };
        let count = |limit| usize::try_from(limit).unwrap_or(usize::MAX);
        let above = count(limit.rlim_max).saturating_sub(SELECTABLE);
        wanted.min(own_share(count(limit.rlim_cur)).saturating_add(above))
    }

    /// Gives a connection a descriptor that Emacs has no use for, if it has one that Emacs may need.
    pub fn leave_low_ones(connection: TcpStream) -> Result<TcpStream> {
        if !is_needed(connection.as_raw_fd()) {
            return Ok(connection);
        }
        let connection = connection.into_std()?;
        let moved = duplicate(connection.as_raw_fd());
        TcpStream::from_std(moved.map_or(connection, Into::into))
    }

    fn is_needed(descriptor: RawFd) -> bool {
        let own = limit().map_or(0, |limit| own_share(limit.rlim_cur as usize));
        (own..SELECTABLE).contains(&(descriptor as usize))
    }

    /// Duplicates a descriptor to one from `SELECTABLE` on. If the process may have none, its limit
    /// is raised for a moment: if it stayed so, Emacs might get one, and fail.
    pub(super) fn duplicate(descriptor: RawFd) -> Result<OwnedFd> {
        let duplicate = || {
            // Safety: the call touches no memory, and nobody else owns what it returns.
            match unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, SELECTABLE as RawFd) } {
                -1 => Err(Error::last_os_error()),
                copy => Ok(unsafe { OwnedFd::from_raw_fd(copy) }),
            }
        };
        duplicate().or_else(|_| {
            let limit = limit()?;
            // All that the limits of connections can need.
            let enough = 4 * SELECTABLE as libc::rlim_t;
            set_limit(libc::rlimit { rlim_cur: enough.min(limit.rlim_max), ..limit })?;
            let copy = duplicate();
            set_limit(limit)?;
            copy
        })
    }

    pub(super) fn limit() -> Result<libc::rlimit> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // Safety: the pointer is to a live value of the right type.
        match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
            0 => Ok(limit),
            _ => Err(Error::last_os_error()),
        }
    }

    pub(super) fn set_limit(limit: libc::rlimit) -> Result<()> {
        // Safety: the pointer is to a live value of the right type.
        match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::unix::{duplicate, limit, set_limit};
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_part_of_what_emacs_can_select_is_for_connections() {
        assert_eq!([256, 1024, 20_000].map(own_share), [160, 640, 640]);
        assert_eq!(connections(10), 10);
    }

    #[test]
    fn a_descriptor_above_those_of_emacs_leaves_its_limit() {
        let usual = limit().unwrap();
        if usual.rlim_max <= SELECTABLE as libc::rlim_t {
            return; // there are none
        }
        // As Emacs has it.
        set_limit(libc::rlimit { rlim_cur: SELECTABLE as libc::rlim_t, ..usual }).unwrap();
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let moved = duplicate(socket.as_raw_fd());
        let after = limit().unwrap();
        set_limit(usual).unwrap();
        let moved = std::net::TcpListener::from(moved.unwrap());
        assert!(moved.as_raw_fd() >= SELECTABLE as std::os::fd::RawFd);
        assert_eq!(moved.local_addr().unwrap(), socket.local_addr().unwrap());
        assert_eq!(after.rlim_cur, SELECTABLE as libc::rlim_t);
    }
}
