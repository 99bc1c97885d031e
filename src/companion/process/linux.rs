//! Processes in `/proc`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{ACP, is_forwarder};

/// A process; the time when it started distinguishes it from a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    id: u32,
    started: u64,
}

/// Whether a process has ended and was not reaped by its parent, which in a container may be for good.
pub fn is_zombie(id: u32) -> bool {
    Stat::of(id).is_some_and(|stat| stat.is_zombie)
}

impl Process {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether this program forwards connections of others, which it may outlive.
    pub fn forwards(&self) -> bool {
        let name = read(&format!("/proc/{}/comm", self.id), 64).unwrap_or_default();
        is_forwarder(name.trim_end())
    }

    /// Whether it is a CLI whose user sits in another front end, which speaks ACP with it.
    pub fn has_own_front(&self) -> bool {
        let arguments = read(&format!("/proc/{}/cmdline", self.id), 64 << 10).unwrap_or_default();
        arguments.split('\0').any(|it| ACP.contains(&it))
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
        Stat::of(self.id).is_some_and(|stat| !stat.is_zombie && stat.started == self.started)
    }

    /// The process with this id, if there is one.
    pub fn with_id(id: u32) -> Option<Process> {
        Some(Process { id, started: Stat::of(id)?.started })
    }

    /// The process of this user that holds the socket with this inode. Searches the file descriptors of
    /// all processes, newest first, since most clients are young: may take milliseconds.
    pub fn holding(inode: u32) -> Option<Process> {
        let socket = format!("socket:[{inode}]");
        let all = std::fs::read_dir("/proc").ok()?.flatten();
        let mut ids: Vec<u32> =
            all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        ids.sort_unstable_by(|one, other| other.cmp(one));
        let (mut id, descriptor) =
            ids.into_iter().find_map(|id| Some((id, descriptor_of(id, &socket)?)))?;
        // Children inherit it, if only until they run another program.
        while let Some(Stat { parent, .. }) = Stat::of(id)
            && is_descriptor_of(parent, &descriptor, &socket)
        {
            id = parent;
        }
        Process::with_id(id)
    }
}

/// What `/proc/ID/stat` says about a process.
struct Stat {
    is_zombie: bool,
    parent: u32,
    started: u64,
}

impl Stat {
    fn of(id: u32) -> Option<Stat> {
        // Field 22; the state is field 3, after the name, which may contain anything.
        const FROM_PARENT_TO_START: usize = 17;
        let stat = read(&format!("/proc/{id}/stat"), 1024)?;
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let is_zombie = fields.next()? == "Z";
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(FROM_PARENT_TO_START)?.parse().ok()?;
        Some(Stat { is_zombie, parent, started })
    }
}

/// The contents of a file of `/proc`, or the first `length` bytes. As its size is not known, `std::fs`
/// would read it in small pieces, and the kernel generates all of it for each. The name of a process
/// may be any bytes, and may be cut within a character.
fn read(path: &str, length: usize) -> Option<String> {
    let mut bytes = Vec::with_capacity(length);
    File::open(path).ok()?.take(length as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_descriptor_of(id: u32, descriptor: &OsStr, socket: &str) -> bool {
    let target = std::fs::read_link(Path::new(&format!("/proc/{id}/fd")).join(descriptor));
    target.is_ok_and(|target| target.as_os_str() == socket)
}

/// The descriptor by which a process holds a socket.
fn descriptor_of(id: u32, socket: &str) -> Option<OsString> {
    let descriptors = std::fs::read_dir(format!("/proc/{id}/fd")).ok()?;
    let mut names = descriptors.flatten().map(|descriptor| descriptor.file_name());
    names.find(|name| is_descriptor_of(id, name, socket))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// A process that sleeps while this is there.
    pub struct Sleeper(Child);

    impl Sleeper {
        pub fn named(name: &str) -> Sleeper {
            let directory = tempfile::tempdir().unwrap();
            let program = directory.path().join(name);
            std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
            Sleeper(Command::new(program).arg("60").spawn().unwrap())
        }

        pub fn process(&self) -> Process {
            Process::with_id(self.0.id()).unwrap()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn a_program_that_speaks_for_others_is_known_by_its_name() {
        for name in ["socat", "pasta.avx2", "com.docker.backend"] {
            assert!(Sleeper::named(name).process().forwards(), "{name}");
        }
        assert!(!Sleeper::named("node").process().forwards());
    }

    #[test]
    fn a_process_is_known_whose_name_is_cut_within_a_character() {
        let sleeper = Sleeper::named("fourteen-bytesé"); // 15 of its bytes are kept
        assert!(sleeper.process().is_alive());
        let name = std::fs::read(format!("/proc/{}/comm", sleeper.0.id())).unwrap();
        assert!(std::str::from_utf8(&name).is_err());
    }

    #[test]
    fn a_later_process_with_the_same_id_is_another_one() {
        let other = Process { id: std::process::id(), started: 0 };
        assert!(!other.is_alive());
    }

    #[test]
    fn a_child_that_has_inherited_a_socket_is_not_taken_for_its_owner() {
        use std::os::fd::AsRawFd;
        use std::os::linux::fs::MetadataExt;
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let descriptor = socket.as_raw_fd();
        let path = format!("/proc/self/fd/{descriptor}");
        let inode = u32::try_from(std::fs::metadata(path).unwrap().st_ino()).unwrap();
        // Safety: the descriptor is open.
        assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) }, 0);
        let child = Sleeper::named("sleep");
        let (descriptor, socket) = (descriptor.to_string(), format!("socket:[{inode}]"));
        assert!(is_descriptor_of(child.0.id(), descriptor.as_ref(), &socket));
        assert_eq!(Process::holding(inode).unwrap().id(), std::process::id());
    }
}
