//! The network of the client of a check: networks share the time for verifying credentials fairly.

#[cfg(test)]
use std::net::Ipv4Addr;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr as _;

/// An IPv4 address, or the /64 of an IPv6 address, because a host may use the whole /64. All
/// clients without an IP address share a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientNetwork(Option<IpAddr>);

impl ClientNetwork {
    /// The network of an address, as text in the form that Envoy writes.
    pub fn from_address(address: &[u8]) -> Self {
        let address =
            std::str::from_utf8(address).ok().and_then(|text| IpAddr::from_str(text).ok());
        Self(address.map(|address| match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(prefix_64(address)),
        }))
    }

    /// A different network for each number.
    #[cfg(test)]
    pub fn numbered(number: u32) -> Self {
        Self(Some(IpAddr::V4(Ipv4Addr::from_bits(number))))
    }
}

fn prefix_64(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_equal() {
        let network = |text: &str| ClientNetwork::from_address(text.as_bytes());
        assert_eq!(network("2001:db8:1:2::1"), network("2001:db8:1:2:ffff::9"));
        assert_ne!(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("192.0.2.1"), ClientNetwork::numbered(0xC000_0201));
        for text in ["", "@unix", "\u{FF}", "192.0.2.1:80"] {
            assert_eq!(network(text), ClientNetwork::default(), "{text}");
        }
    }
}
