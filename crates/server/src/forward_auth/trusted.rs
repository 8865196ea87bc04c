//! Which peers may ask for checks over HTTP.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use condition::Network;

use super::ForwardAuth;
use crate::checks::notices::Peer;

/// A network of proxies, such as `10.0.0.0/8`; an address alone is a network, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedNetwork(Network);

/// A text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a network: write one such as `10.0.0.0/8`, `127.0.0.1` or `2001:db8::/32`")]
pub struct NetworkError;

impl FromStr for TrustedNetwork {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let alone = text.parse::<IpAddr>().map(|address| {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            format!("{text}/{bits}")
        });
        Network::parse(alone.as_deref().unwrap_or(text)).map(Self).ok_or(NetworkError)
    }
}

impl TrustedNetwork {
    /// Whether this network has all addresses of its family, IPv4 or IPv6.
    pub(crate) fn is_everybody(self) -> bool {
        self.0.prefix == 0
    }
}

impl ForwardAuth {
    /// Whether this peer may ask.
    pub(crate) fn trusts(&self, peer: Peer) -> bool {
        match (&self.trusted, peer) {
            (None, _) | (_, Peer::Unix) => true,
            (Some(networks), Peer::Tcp(address)) => is_in(networks, address),
        }
    }
}

fn is_in(networks: &[TrustedNetwork], address: SocketAddr) -> bool {
    let address = address.ip().to_canonical();
    networks.iter().any(|network| network.0.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_networks_are_trusted() {
        let networks =
            ["10.0.0.0/8", "127.0.0.1", "2001:db8::/32"].map(|text| text.parse().unwrap());
        for (address, trusted) in [
            ("10.1.2.3:1", true),
            ("[::ffff:10.1.2.3]:1", true),
            ("127.0.0.1:1", true),
            ("127.0.0.2:1", false),
            ("[2001:db8::1]:1", true),
            ("[2001:db9::1]:1", false),
            ("[::1]:1", false),
            ("11.0.0.1:1", false),
        ] {
            assert_eq!(is_in(&networks, address.parse().unwrap()), trusted, "{address}");
        }
        assert!(!is_in(&[], "127.0.0.1:1".parse().unwrap()));
    }

    #[test]
    fn what_is_not_a_network_is_refused() {
        for text in ["", "all", "10.0.0.0/33", "::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "10/8"] {
            assert_eq!(text.parse::<TrustedNetwork>(), Err(NetworkError), "{text}");
        }
        assert!("0.0.0.0/0".parse::<TrustedNetwork>().unwrap().is_everybody());
    }
}
