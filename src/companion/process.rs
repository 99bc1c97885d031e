//! Processes of this machine: whether one lives, where it works, and which one holds a socket.
//!
//! A client that lost its connection may return with a new session: that both are of one process
//! shows that the new one may have what the old one waits for. Known on Linux only: elsewhere no
//! process is found, and timeouts alone decide whether a client is gone.

/// A process; the time when it started distinguishes it from a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub struct Process {
    id: u32,
    started: String,
}

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

/// Programs that forward connections, by their names in `/proc`, which Linux truncates.
const FORWARDERS: [&str; 10] = [
    "ssh",
    "sshd",
    "sshd-session",
    "socat",
    "docker-proxy",
    "rootlessport",
    "slirp4netns",
    "passt",
    "pasta",
    "gvproxy",
];

/// Whether a process with this id lives.
#[cfg(unix)]
pub fn is_alive(id: u32) -> bool {
    // Zero and negative ids are process groups.
    let Some(process) = libc::pid_t::try_from(id).ok().filter(|id| *id > 0) else { return false };
    // Safety: signal 0 only checks for existence.
    let answer = unsafe { libc::kill(process, 0) };
    let exists = answer == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH);
    exists && !is_zombie(id)
}

#[cfg(not(unix))]
pub fn is_alive(_id: u32) -> bool {
    true // not known cheaply
}

#[cfg(not(unix))]
fn is_zombie(_id: u32) -> bool {
    false
}

/// Whether a process has ended but was not reaped by its parent, which in a container may be for
/// good.
#[cfg(unix)]
fn is_zombie(id: u32) -> bool {
    stat_fields(id).is_some_and(|fields| fields.first().is_some_and(|state| state == "Z"))
}

/// The fields of `/proc/ID/stat` after the name, which may contain anything. The first is the
/// state.
#[cfg(unix)]
fn stat_fields(id: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

impl Process {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether this program forwards connections of others, which it may outlive.
    pub fn forwards(&self) -> bool {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.id)).unwrap_or_default();
        FORWARDERS.contains(&name.trim_end().split('.').next().unwrap_or_default())
    }

    /// The working directory. None for programs that forward connections, and for Emacs, in which
    /// each buffer has its own.
    pub fn directory(&self) -> Option<String> {
        if self.id == std::process::id() || self.forwards() {
            return None;
        }
        let directory = std::fs::read_link(format!("/proc/{}/cwd", self.id)).ok()?;
        Some(directory.to_string_lossy().into_owned())
    }

    pub fn is_alive(&self) -> bool {
        !is_zombie(self.id) && Process::with_id(self.id).as_ref() == Some(self)
    }
}

#[cfg(target_os = "linux")]
impl Process {
    /// The process with this id, if there is one.
    pub fn with_id(id: u32) -> Option<Process> {
        const START_TIME: usize = 19; // field 22, the state being field 3
        let started = stat_fields(id)?.get(START_TIME)?.clone();
        Some(Process { id, started })
    }

    /// The process of this user that holds the socket with this inode. Searches the file
    /// descriptors of processes, the `likely` ones first, which may take long.
    pub fn with_socket(inode: u32, likely: &[Process]) -> Option<Process> {
        let socket = format!("socket:[{inode}]");
        let likely = likely.iter().map(|process| process.id);
        let all = std::iter::once_with(process_ids).flatten(); // only if needed
        let id = likely.chain(all).find(|id| holds(*id, &socket))?;
        Process::with_id(id)
    }
}

#[cfg(not(target_os = "linux"))]
impl Process {
    pub fn with_id(_id: u32) -> Option<Process> {
        None
    }

    pub fn with_socket(_inode: u32, _likely: &[Process]) -> Option<Process> {
        None
    }
}

/// All processes, newest first, since most clients are young.
#[cfg(target_os = "linux")]
fn process_ids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    ids.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
    ids
}

#[cfg(target_os = "linux")]
fn holds(id: u32, socket: &str) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{id}/fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        std::fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == socket)
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_speaks_for_others_is_known_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        for (name, forwards) in [("socat", true), ("pasta.avx2", true), ("node", false)] {
            let program = directory.path().join(name);
            std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
            let mut child = std::process::Command::new(program).arg("60").spawn().unwrap();
            assert_eq!(Process::with_id(child.id()).unwrap().forwards(), forwards, "{name}");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_later_process_with_the_same_id_is_another_one() {
        let other = Process { id: std::process::id(), started: "0".to_owned() };
        assert!(!other.is_alive());
    }

    #[test]
    fn what_is_no_id_of_a_process_does_not_live() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(0)); // our group
        assert!(!is_alive(u32::MAX)); // all processes
        assert!(!is_alive(i32::MIN as u32));
    }

    #[test]
    fn the_dead_do_not_live() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::with_id(child.id()).unwrap();
        assert!(process.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive());
    }
}
