//! A loopback port at which nothing listens until a test or a program of it does.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

use crate::process::Failed;

/// A port of 127.0.0.1 to which connections are refused until a server binds it. The system gives
/// it to nobody else meanwhile, because it is bound; without that, the server that a test starts
/// next may get it. Servers that set `SO_REUSEADDR` can bind it, as those of Rust's standard
/// library, Tokio and Envoy do.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _bound: TcpSocket,
}

impl ReservedPort {
    /// Reserves a port until the value is dropped.
    pub fn new() -> Result<Self, Failed> {
        Self::bind().map_err(|error| Failed::io("port", &error))
    }

    fn bind() -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { address: socket.local_addr()?, _bound: socket })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_refuses_connections_and_can_be_bound_again_and_again() {
        let port = ReservedPort::new().unwrap();
        for _ in 0..2 {
            let refused = TcpStream::connect(port.address()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            let listener = TcpListener::bind(port.address()).unwrap();
            TcpStream::connect(port.address()).unwrap();
            drop(listener);
        }
    }

    #[test]
    fn a_reserved_port_is_given_to_nobody_else() {
        let port = ReservedPort::new().unwrap();
        let others: Vec<TcpListener> =
            (0..500).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap() != port.address()));
    }
}
