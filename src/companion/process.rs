//! Processes of this machine: whether one lives, where it works, and which one holds a socket.
//!
//! A client that lost its connection may return with a new session: if both sessions are of one process,
//! the new one may have what the old one waits for. Where no process is found, as on Windows, timeouts
//! alone decide whether a client is gone.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", allow(dead_code))]
mod programs;

#[cfg(unix)]
use rustix::io::Errno;
#[cfg(unix)]
use rustix::process::{Pid, test_kill_process};

#[cfg(target_os = "linux")]
pub use linux::Process;
#[cfg(all(test, target_os = "linux"))]
pub use linux::tests::Sleeper;
#[cfg(not(target_os = "linux"))]
pub use programs::Process;

/// Identifies where process ids are unique: in this PID namespace, until the machine reboots.
/// `None` if that is not known.
#[cfg(target_os = "linux")]
pub fn id_space() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// Elsewhere there are no PID namespaces.
#[cfg(not(target_os = "linux"))]
pub fn id_space() -> Option<String> {
    Some(std::env::consts::OS.to_owned())
}

/// Programs that forward connections.
const FORWARDERS: [&str; 12] = [
    "ssh",
    "sshd",
    "sshd-session",
    "socat",
    "docker-proxy",
    "com.docker.backend",
    "vpnkit",
    "rootlessport",
    "slirp4netns",
    "passt",
    "pasta",
    "gvproxy",
];

/// Whether a program forwards connections; Linux tells 15 bytes of its `name`.
fn is_forwarder(name: &str) -> bool {
    let beginning = name.split('.').next().unwrap_or_default();
    FORWARDERS
        .iter()
        .any(|known| [name, beginning].contains(known) || known.get(..15) == Some(name))
}

/// The arguments that have a CLI speak ACP.
const ACP: [&str; 2] = ["--acp", "--experimental-acp"];

/// The user of this process.
#[cfg(unix)]
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a process with this id lives.
#[cfg(unix)]
pub fn is_alive(id: u32) -> bool {
    // Zero and negative ids are process groups.
    let Some(process) = i32::try_from(id).ok().filter(|id| *id > 0).and_then(Pid::from_raw) else {
        return false;
    };
    #[cfg(target_os = "linux")]
    if linux::is_zombie(id) {
        return false;
    }
    test_kill_process(process) != Err(Errno::SRCH)
}

#[cfg(windows)]
pub fn is_alive(id: u32) -> bool {
    use windows_sys::Win32::Foundation::*;
    use windows_sys::Win32::System::Threading::*;
    // Safety: the handle is used until it is closed.
    unsafe {
        let process = OpenProcess(PROCESS_SYNCHRONIZE, 0, id);
        if process.is_null() {
            return GetLastError() != ERROR_INVALID_PARAMETER; // it is of another user
        }
        let is_alive = WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
        CloseHandle(process);
        is_alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_id_of_a_process_does_not_live() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(0)); // our group
        assert!(!is_alive(u32::MAX)); // all processes
        assert!(!is_alive(i32::MIN as u32));
    }
}
