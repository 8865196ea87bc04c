//! Canonical hosts: the authority of a request without its port.

use std::io::Write;
use std::net::Ipv6Addr;

/// The host is invalid. Answered with 400.
///
/// Such a host matches no rule with hosts, but this is not enough. A rule without hosts would still
/// allow the request, and the backend may interpret the host differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the host is not a host name or an address")]
pub struct HostError;

/// Returns a host in canonical form: lower case, without port and trailing dot, IPv6 addresses as
/// in RFC 5952. The result is a part of `raw`, or else is written to `buffer`. An empty host stays
/// empty; only rules without hosts match it.
///
/// # Errors
/// If it is neither labels of letters, digits, `-` and `_` (at most 63 bytes each and 253 together:
/// RFC 1035, 2.3.4) nor an IPv6 address in brackets, each optionally followed by `:` and digits.
/// RFC 3986, 3.2.2 also permits triplets, `~` and `!$&'()*+,;=`, but no server has such a name.
/// User information (`user@`) is an error.
pub fn host<'a>(raw: &'a [u8], buffer: &'a mut Vec<u8>) -> Result<&'a [u8], HostError> {
    if raw.is_empty() {
        return Ok(raw);
    }
    if raw.starts_with(b"[") {
        return address(raw, buffer);
    }
    let name = name(raw)?;
    if !name.iter().any(u8::is_ascii_uppercase) {
        return Ok(name);
    }
    buffer.clear();
    buffer.extend(name.iter().map(u8::to_ascii_lowercase));
    Ok(buffer)
}

/// Turns `[0::1]:80` into `[::1]` (RFC 5952, 4). An address has many spellings, and a `deny` rule
/// must apply to all of them.
fn address<'a>(raw: &[u8], canonical: &'a mut Vec<u8>) -> Result<&'a [u8], HostError> {
    let end = raw.iter().position(|byte| *byte == b']').ok_or(HostError)?;
    let (name, port) = raw.split_at_checked(end + 1).ok_or(HostError)?;
    let inside =
        name.get(1..end).and_then(|inside| std::str::from_utf8(inside).ok()).ok_or(HostError)?;
    let address: Ipv6Addr = inside.parse().map_err(|_| HostError)?;
    if !is_port(port) {
        return Err(HostError);
    }
    canonical.clear();
    write!(canonical, "[{address}]").map_err(|_| HostError)?;
    Ok(canonical)
}

/// Cuts the port and the trailing dot off: `api.example.com.:80` becomes `api.example.com`.
fn name(raw: &[u8]) -> Result<&[u8], HostError> {
    let end = raw.iter().position(|byte| *byte == b':').unwrap_or(raw.len());
    let (name, port) = raw.split_at_checked(end).ok_or(HostError)?;
    let name = name.strip_suffix(b".").unwrap_or(name);
    if is_name(name) && is_port(port) { Ok(name) } else { Err(HostError) }
}

/// Whether a name is labels separated by dots. A single pass, because every request pays for it.
fn is_name(name: &[u8]) -> bool {
    // The length of the current label.
    let mut label = 0;
    for byte in name {
        match byte {
            b'.' if label == 0 => return false,
            b'.' => label = 0,
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'A'..=b'Z' if label < 63 => label += 1,
            _ => return false,
        }
    }
    label > 0 && name.len() <= 253
}

/// Whether a text is empty, or `:` and any number of digits, including none (RFC 3986, 3.2.3).
fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((first, digits)) => *first == b':' && digits.iter().all(u8::is_ascii_digit),
    }
}
