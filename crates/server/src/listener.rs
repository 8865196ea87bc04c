//! Sockets that are bound before the server starts, so that a port in use is reported before anything runs.

use std::io;
use std::path::PathBuf;

use crate::address::Address;

/// A bound, listening socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A Unix socket. The code that has bound it removes its file.
    Unix(std::os::unix::net::UnixListener),
}

impl Listener {
    /// The address that it is bound to: with the actual port if port 0 was requested, with an empty path if a Unix
    /// socket has no name.
    ///
    /// # Errors
    /// When the system does not report it.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                Ok(Address::Unix(address.as_pathname().map(PathBuf::from).unwrap_or_default()))
            }
        }
    }
}
