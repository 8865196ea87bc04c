//! Listening sockets. They are bound before the server starts, so that a port in use is reported
//! before anything runs. Later, a runtime accepts connections from them.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::task::{Context, Poll};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::address::Address;

/// A bound, listening socket.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A Unix socket. The code that has bound it removes its file.
    Unix(std::os::unix::net::UnixListener),
}

/// A listening socket that is registered with a runtime.
#[derive(Debug)]
pub(crate) enum AsyncListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// With the address of the peer.
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Listener {
    /// The address that it is bound to: with the actual port if port 0 was requested, with an empty
    /// path if a Unix socket has no name.
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

    /// Registers it with the current runtime.
    pub(crate) fn into_async(self) -> io::Result<AsyncListener> {
        match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(AsyncListener::Tcp)
            }
            Self::Unix(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(AsyncListener::Unix)
            }
        }
    }
}

impl AsyncListener {
    pub(crate) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        match self {
            Self::Tcp(listener) => {
                listener.poll_accept(cx).map_ok(|(stream, peer)| Accepted::Tcp(stream, peer))
            }
            Self::Unix(listener) => {
                listener.poll_accept(cx).map_ok(|(stream, _)| Accepted::Unix(stream))
            }
        }
    }
}
