//! Where the server listens: sockets that are bound already, so that a taken port is known before anything starts.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A bound, listening socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A Unix socket. Whoever bound it removes its file.
    Unix(std::os::unix::net::UnixListener),
}

/// Where a listener can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port: the real one, where port 0 was asked for.
    Tcp(SocketAddr),
    /// The file of a Unix socket; `None` if it has no name.
    Unix(Option<PathBuf>),
}

impl Listener {
    /// Where it can be reached.
    ///
    /// # Errors
    /// When the system does not tell.
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
