//! Sockets that are bound before the server starts, so that a port in use is reported before anything runs.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A bound, listening socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A Unix socket. The code that has bound it removes its file.
    Unix(std::os::unix::net::UnixListener),
}

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// IP address and port: the actual port if port 0 was requested.
    Tcp(SocketAddr),
    /// The file of a Unix socket; `None` if it has no name.
    Unix(Option<PathBuf>),
}

impl Listener {
    /// The address that it is bound to.
    ///
    /// # Errors
    /// When the system does not report it.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                Ok(Address::Unix(address.as_pathname().map(PathBuf::from)))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix:(unnamed)"),
        }
    }
}
