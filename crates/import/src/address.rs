//! Conditions on the address of the client.

use std::net::IpAddr;

use document::View;

use crate::Options;
use crate::expr::{Expr, Notes as _};
use crate::note::Effect;
use crate::sources::Sources;
use crate::when::{Doubt, When};

/// Which of the addresses that Envoy knows a condition is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Address {
    /// Of the connection, or as PROXY protocol says: `source_ip` of RBAC. It is `source.ip`.
    Connection,
    /// Of the connection: `direct_remote_ip` of RBAC, `source.ip` of Istio.
    Peer,
    /// As Envoy trusts `x-forwarded-for` or PROXY protocol: `remote_ip`.
    Client,
}

/// The condition that this address is in a network.
pub(crate) fn condition(
    view: &View<'_>,
    address: Address,
    network: (&str, Option<&str>),
    sources: &Sources,
    options: &Options,
) -> Expr {
    let addresses = sources.addresses;
    let Some(network) = written(network) else {
        return view.inexpressible("this is not a network");
    };
    let when = When::Test(format!("cidr('{network}').containsIP(source.ip)"));
    let message = "a client without an IP address, such as one at a Unix socket, is denied where \
                   its address decides";
    let doubt = Doubt { note: view.note(Effect::Unusual, message), only_negated: true };
    let difference = match address {
        Address::Client if !addresses.are_of_connections => {
            "`source.ip` is the address of the connection, which is the client's only with \
             `use_remote_address: true`, and not where Envoy trusts `x-forwarded-for`"
        }
        Address::Peer if addresses.may_be_forwarded => {
            "`source.ip` is the address that PROXY protocol tells"
        }
        _ => "",
    };
    if !difference.is_empty() {
        let nearly = view.when(when, [doubt]);
        return view.nearly(nearly, Expr::always(), options.allow_wider, difference);
    }
    if !addresses.are_of_connections {
        let message = "inside Envoy, `source.ip` is the address that `x-forwarded-for` tells, \
                       unless the listener has `use_remote_address: true`; in the sidecar it is \
                       that of the connection";
        sources.note_once(view.note(Effect::Unexpected, message));
    }
    view.when(when, [doubt])
}

/// The network as a condition has it. An IPv4-mapped network has none: such clients are IPv4.
fn written((address, length): (&str, Option<&str>)) -> Option<String> {
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Some(bits), |length| length.parse::<u8>().ok())?;
    (length <= bits && address.to_canonical() == address).then(|| format!("{address}/{length}"))
}

/// `10.0.0.0/8`, or a single address.
pub(crate) fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)))
}
