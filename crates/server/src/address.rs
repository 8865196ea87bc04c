//! Addresses to listen on, as written in settings.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on: `127.0.0.1:9191`, `[::1]:9191`, `localhost:9191` or
/// `unix:/run/rolegate.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

/// An address, or `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// Listen on this address.
    On(Address),
    /// Do not listen.
    Off,
}

/// Why a text is not an address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// `unix:` without a path.
    #[error("`unix:` needs a path, such as `unix:/run/rolegate.sock`")]
    NoPath,
    /// Neither an IP address with a port nor a Unix socket.
    #[error(
        "not an address: write one such as `127.0.0.1:9191`, `[::1]:9191` or \
         `unix:/run/rolegate.sock`"
    )]
    Malformed,
    /// Neither an address nor `off`.
    #[error(
        "not an address: write one such as `127.0.0.1:9192`, `[::1]:9192` or \
         `unix:/run/rolegate.sock`, or `off`"
    )]
    MalformedOrOff,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.strip_prefix("unix:") {
            Some("") => Err(AddressError::NoPath),
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => tcp(text).map(Self::Tcp),
        }
    }
}

/// Parses an IP address and a port. Names other than `localhost` are not allowed: they would have
/// to be looked up, and could resolve to any address.
fn tcp(text: &str) -> Result<SocketAddr, AddressError> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| AddressError::Malformed)
}

impl FromStr for AdminAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::On).map_err(|error| match error {
            AddressError::NoPath => error,
            AddressError::Malformed | AddressError::MalformedOrOff => AddressError::MalformedOrOff,
        })
    }
}

impl Address {
    /// Whether only clients on this machine can connect.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(address) => address.fmt(f),
            Self::Off => f.write_str("off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, AdminAddress};

    #[test]
    fn parses_what_it_displays() {
        for text in ["127.0.0.1:9191", "[::1]:0", "unix:/run/a.sock", "unix:relative.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("localhost:80".parse::<Address>().unwrap().to_string(), "127.0.0.1:80");
        assert_eq!("off".parse::<AdminAddress>().unwrap(), AdminAddress::Off);
    }

    #[test]
    fn loopback_addresses_and_unix_sockets_are_local() {
        fn local(text: &str) -> bool {
            text.parse::<Address>().unwrap().is_local()
        }
        for text in
            ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/a.sock"]
        {
            assert!(local(text), "{text}");
        }
        for text in [
            "0.0.0.0:1",
            "[::]:1",
            "[::ffff:0.0.0.0]:1",
            "192.0.2.1:1",
            "[2001:db8::1]:1",
            "10.0.0.1:1",
        ] {
            assert!(!local(text), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_addresses() {
        for text in [
            "",
            "9191",
            ":9191",
            "example.com:80",
            "127.0.0.1",
            "unix:",
            "127.0.0.1:99999",
            "localhost:x",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
