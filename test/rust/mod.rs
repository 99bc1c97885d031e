//! Behaviour of the server over real sockets, one file each.
