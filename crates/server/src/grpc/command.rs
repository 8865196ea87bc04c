//! The commands that the acceptor and the server send to a worker.

use std::net::SocketAddr;

/// An accepted connection that is not served yet.
#[derive(Debug)]
pub(super) enum Accepted {
    /// With the address of the peer.
    Tcp(std::net::TcpStream, SocketAddr),
    Unix(std::os::unix::net::UnixStream),
}

/// A command to a worker.
#[derive(Debug)]
pub(super) enum Command {
    /// Serve this connection.
    Serve(Accepted),
    /// Close an idle connection, because file descriptors have run out.
    CloseIdle,
    /// Shut down all connections gracefully, then end.
    Drain,
}
