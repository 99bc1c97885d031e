//! Processes where there is no `/proc`, as on macOS: what the programs lsof and ps say. To run them
//! takes tens of milliseconds, so everything about a process is asked when it is found.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use super::{ACP, is_forwarder};

/// A process; what it does distinguishes it from a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    id: u32,
    name: String,
    arguments: String,
    directory: Option<String>,
}

impl Process {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether this program forwards connections of others, which it may outlive.
    pub fn forwards(&self) -> bool {
        // The name may be that of the file, and what a program of sshd does may follow it.
        let name = self.name.rsplit('/').next().unwrap_or_default();
        is_forwarder(name.split(':').next().unwrap_or_default())
    }

    /// Whether it is a CLI whose user sits in another front end, which speaks ACP with it.
    pub fn has_own_front(&self) -> bool {
        self.arguments.split_whitespace().any(|it| ACP.contains(&it))
    }

    /// The working directory when it was found. None for programs that forward connections, and for
    /// Emacs, in which each buffer has its own.
    pub fn directory(&self) -> Option<String> {
        self.directory.clone().filter(|_| self.id != std::process::id() && !self.forwards())
    }

    pub fn is_alive(&self) -> bool {
        super::is_alive(self.id)
    }

    /// The process at the end `client` of a connection.
    pub fn connected(client: SocketAddr, server: SocketAddr) -> Option<Process> {
        let address = format!("-iTCP@{client}");
        let sockets = output("lsof", &["-nP", "-a", &address, "-sTCP:ESTABLISHED", "-Fpn"])?;
        Process::with_id(holder(&sockets, client, server)?)
    }

    /// The process with this id, if there is one.
    pub fn with_id(id: u32) -> Option<Process> {
        let number = id.to_string();
        let name = output("ps", &["-o", "comm=", "-p", &number])?.trim().to_owned();
        let arguments = output("ps", &["-ww", "-o", "args=", "-p", &number])?.trim().to_owned();
        let files = output("lsof", &["-a", "-p", &number, "-d", "cwd", "-Fn"]).unwrap_or_default();
        Some(Process { id, name, arguments, directory: directory(&files) })
    }
}

/// What a program prints, if it succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    // Otherwise, lsof replaces what is not ASCII, as Emacs may have been started without a terminal.
    command.args(arguments).env("LC_CTYPE", "en_US.UTF-8").stdin(Stdio::null());
    #[cfg(unix)] // or else C-g in the terminal of Emacs ends it
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// The first process that holds the socket at the end `client`, in a list by lsof: a line `p` with each
/// process, and lines `n` with the ends of its connections. Its children, which follow it, may have
/// inherited it.
fn holder(sockets: &str, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let ends = format!("n{client}->{server}");
    let (before, _) = sockets.split_once(&format!("{ends}\n"))?;
    before.lines().rev().find_map(|line| line.strip_prefix('p'))?.parse().ok()
}

fn directory(files: &str) -> Option<String> {
    files.lines().find_map(|line| line.strip_prefix('n')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn process(name: &str, arguments: &str) -> Process {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        Process { id: 1, name, arguments, directory: Some("/project".to_owned()) }
    }

    #[test]
    fn the_client_is_the_first_process_at_its_end_of_the_connection() {
        let [client, server] = ["127.0.0.1:52711", "127.0.0.1:49230"].map(|it| it.parse().unwrap());
        let sockets = "p501\nf12\nn127.0.0.1:49230->127.0.0.1:52711\n\
                       p4242\nf9\nn127.0.0.1:52710->127.0.0.1:49230\n\
                       f23\nn127.0.0.1:52711->127.0.0.1:49230\n\
                       p4250\nf23\nn127.0.0.1:52711->127.0.0.1:49230\n";
        assert_eq!(holder(sockets, client, server), Some(4242));
        assert_eq!(holder(sockets, server, client), Some(501));
        assert_eq!(holder("", client, server), None);
        assert_eq!(directory("p4242\nfcwd\nn/Users/me/a b/ü\n").unwrap(), "/Users/me/a b/ü");
        assert_eq!(directory("p4242\n"), None);
    }

    #[test]
    fn what_a_mac_printed_is_understood() {
        // Of what a user of macOS recorded in 2022, with more fields than we ask for.
        let sockets = "p1004\ncWhatsApp Helper\nLuser\nf15\nPTCP\n\
                       n192.168.1.226:57634->157.240.20.52:443\n\
                       p1006\ncNotion Helper\nLuser\nf21\nPTCP\n\
                       n192.168.1.226:58655->104.18.7.183:443\nf23\nPTCP\n\
                       n127.0.0.1:57580->127.0.0.1:49233\nf26\nPTCP\nn*:5000\n";
        let [client, server] = ["127.0.0.1:57580", "127.0.0.1:49233"].map(|it| it.parse().unwrap());
        assert_eq!(holder(sockets, client, server), Some(1006));
        assert_eq!(holder(sockets, server, client), None);
    }

    #[test]
    fn programs_are_known_by_their_names_and_arguments() {
        let cli = "node /opt/homebrew/bin/gemini";
        let acp = format!("{cli} --experimental-acp --model x");
        for (name, arguments, forwards, has_own_front) in [
            ("/opt/homebrew/bin/node", cli, false, false),
            ("node", &acp, false, true),
            ("node", "node gemini --prompt --acpx", false, false),
            ("/usr/bin/ssh", "ssh -R 4000:localhost:4000 host", true, false),
            ("sshd-session: me@ttys001", "sshd-session: me@ttys001", true, false),
            ("/Applications/Docker.app/Contents/MacOS/com.docker.backend", "", true, false),
        ] {
            let process = process(name, arguments);
            assert_eq!(process.forwards(), forwards, "{name}");
            assert_eq!(process.has_own_front(), has_own_front, "{arguments}");
            assert_eq!(process.directory().is_some(), !forwards, "{name}");
        }
    }

    #[test]
    fn the_programs_of_this_machine_say_what_is_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let stream = TcpStream::connect(server).unwrap();
        let _accepted = listener.accept().unwrap();
        if output("lsof", &["-v"]).is_none() {
            eprintln!("skipped: there is no lsof");
            return;
        }
        let has_own_group = "test $(ps -o pgid= -p $$) = $$";
        assert!(output("sh", &["-c", has_own_group]).is_some());
        let found = Process::connected(stream.local_addr().unwrap(), server).unwrap();
        assert_eq!(found.id(), std::process::id());
        assert_eq!(found.directory(), None); // as for Emacs
        let here = std::env::current_dir().unwrap();
        assert_eq!(found.directory.as_deref(), here.to_str());
        assert!(found.is_alive() && found.arguments.contains("companion"), "{found:?}");
    }
}
