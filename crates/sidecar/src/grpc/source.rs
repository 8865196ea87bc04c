//! The source of a check: sources share the time for verifying credentials fairly.

#[cfg(test)]
use std::net::Ipv4Addr;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr as _;

/// The network of a client's address (`attributes.source.address`): an IPv4 address, or the /64 of an IPv6 address,
/// because one host has all addresses of a /64. All clients without an IP address are one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Source(Option<IpAddr>);

impl Source {
    /// The source of an address, as text in the form that Envoy writes.
    pub(super) fn of(address: &[u8]) -> Self {
        let address = std::str::from_utf8(address).ok().and_then(|text| IpAddr::from_str(text).ok());
        Self(address.map(|address| match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(network(address)),
        }))
    }

    /// A different source for each number.
    #[cfg(test)]
    pub(super) fn numbered(number: u32) -> Self {
        Self(Some(IpAddr::V4(Ipv4Addr::from_bits(number))))
    }
}

fn network(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_source() {
        let source = |text: &str| Source::of(text.as_bytes());
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("192.0.2.1"), Source::numbered(0xC000_0201));
        for text in ["", "@unix", "\u{FF}", "192.0.2.1:80"] {
            assert_eq!(source(text), Source::default(), "{text}");
        }
    }
}
