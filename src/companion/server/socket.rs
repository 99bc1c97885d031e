//! A connection over loopback, and who is at the client's end.
//!
//! On Linux, a socket is identified by its inode, by which `/proc` shows which process holds it.

use std::net::SocketAddr;

use crate::process::Process;

/// The two ends of a connection as its server sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connection {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

impl Connection {
    /// The process at the client's end. Takes milliseconds.
    pub fn client(self) -> Option<Process> {
        #[cfg(target_os = "linux")]
        return Process::holding(linux::client_inode(self)?);
        #[cfg(not(target_os = "linux"))]
        return Process::connected(self.client, self.server);
    }

    /// Whether the client is known to be another user of this machine. Programs of root may forward
    /// connections out of containers.
    pub fn is_of_another_user(self) -> bool {
        #[cfg(target_os = "linux")]
        return linux::is_of_another_user(self);
        #[cfg(not(target_os = "linux"))]
        return false;
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::Connection;
    use std::net::{IpAddr, SocketAddr};

    use anyhow::{Result, bail};
    use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
    use netlink_packet_sock_diag::SockDiagMessage;
    use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP};
    use netlink_packet_sock_diag::inet::{
        ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags,
    };
    use netlink_sys::{Socket as Netlink, SocketAddr as NetlinkAddr, protocols::NETLINK_SOCK_DIAG};

    /// The inode of the client's socket; `None` if the client has closed it.
    pub fn client_inode(connection: Connection) -> Option<u32> {
        // The table has all connections of the machine, and takes milliseconds to read.
        let asked = ask(connection).map(|socket| socket.inode);
        let inode = asked.or_else(|_| look_up(connection)).ok()?;
        Some(inode).filter(|inode| *inode != CLOSED)
    }

    /// Takes microseconds.
    pub fn is_of_another_user(connection: Connection) -> bool {
        let own = crate::process::own_user();
        ask(connection).is_ok_and(|it| it.inode != CLOSED && it.uid != own && it.uid != 0)
    }

    /// What the kernel gives in place of the inode of a socket that the client has closed.
    const CLOSED: u32 = 0;

    /// Asks the kernel for this one connection, which not all systems answer.
    pub(super) fn ask(Connection { client, server }: Connection) -> Result<InetResponseHeader> {
        let socket_id = SocketId {
            source_port: client.port(),
            destination_port: server.port(),
            source_address: client.ip(),
            destination_address: server.ip(),
            interface_id: 0,
            cookie: [0xff; 8], // any
        };
        let request = InetRequest {
            family: AF_INET,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: StateFlags::all(),
            socket_id,
        };
        match exchange(SockDiagMessage::InetRequest(request))? {
            // If there is no such connection, the answer may be a listener at the client's port.
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found))
                if found.header.socket_id.destination_port == server.port() =>
            {
                Ok(found.header)
            }
            other => bail!("the kernel does not answer: {other:?}"),
        }
    }

    fn exchange(question: SockDiagMessage) -> Result<NetlinkPayload<SockDiagMessage>> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let mut message = NetlinkMessage::new(header, question.into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);

        let socket = Netlink::new(NETLINK_SOCK_DIAG)?;
        socket.send_to(&bytes, &NetlinkAddr::new(0, 0), 0)?;
        let mut answer = Vec::with_capacity(4096);
        // The kernel answers while the question is sent: there is nothing to wait for.
        socket.recv(&mut answer, libc::MSG_DONTWAIT)?;
        Ok(NetlinkMessage::deserialize(&answer)?.payload)
    }

    /// Looks the connection up in the kernel's table.
    pub(super) fn look_up(Connection { client, server }: Connection) -> Result<u32> {
        let (local, remote) = (table_address(client)?, table_address(server)?);
        let table = std::fs::read_to_string("/proc/net/tcp")?;
        let inode = table.lines().find_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let matches = fields.next()? == local && fields.next()? == remote;
            // State, queues, timer, retransmissions, user and timeout stand between.
            fields.nth(6).filter(|_| matches)
        });
        match inode {
            Some(inode) => Ok(inode.parse()?),
            None => bail!("no such connection"),
        }
    }

    /// An address as in that table: four bytes in native order, and the port.
    fn table_address(address: SocketAddr) -> Result<String> {
        let IpAddr::V4(ip) = address.ip() else { bail!("the server listens for IPv4 only") };
        let bytes = u32::from_ne_bytes(ip.octets());
        Ok(format!("{bytes:08X}:{:04X}", address.port()))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::linux::{ask, client_inode, look_up};
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::linux::fs::MetadataExt;

    /// A connection of this process with itself, while its two other values are kept.
    fn connect() -> (Connection, TcpListener, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let stream = TcpStream::connect(server).unwrap();
        let connection = Connection { client: stream.local_addr().unwrap(), server };
        (connection, listener, stream)
    }

    #[test]
    fn both_ways_lead_to_the_socket_of_the_client() {
        let (connection, _listener, stream) = connect();
        let shown = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&stream));
        let inode = u32::try_from(std::fs::metadata(shown).unwrap().st_ino()).unwrap();

        assert_eq!(ask(connection).unwrap().inode, inode);
        assert_eq!(look_up(connection).unwrap(), inode);
        assert_eq!(client_inode(connection), Some(inode));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let (connection, _listener, _stream) = connect();
        let nobody = Connection { client: "127.0.0.1:1".parse().unwrap(), ..connection };
        assert_eq!(client_inode(nobody), None);
        // The kernel shows one that listens for one that is connected.
        let listening = Connection { client: connection.server, ..connection };
        assert_eq!(client_inode(listening), None);
    }

    #[test]
    fn a_client_that_has_gone_has_no_socket() {
        let (connection, listener, stream) = connect();
        let _accepted = listener.accept().unwrap(); // keeps the connection half open
        drop(stream);
        // A child that another test just starts holds all sockets of this process for a moment.
        while client_inode(connection).is_some() {}
    }
}
