//! Hosts: the authority of a request without its port.

use std::io::Write;
use std::net::Ipv6Addr;

/// A host that is not one: it is answered with 400.
///
/// Making such a host match nothing would not do: a rule without hosts would still allow it, while what stands behind
/// the proxy may take it for another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the host is not a host name or an address")]
pub struct HostError;

/// A host in canonical form: lower case, without port and trailing dot; IPv6 addresses as RFC 5952 writes them. Where it
/// is not canonical already, it is written to `lowered`. An empty host stays empty, and only rules without hosts match it.
///
/// # Errors
/// When it is anything but labels of letters, digits, `-` and `_` (at most 63 bytes each and 253 together: RFC 1035,
/// 2.3.4), or an IPv6 address in brackets, then perhaps `:` and digits. What else RFC 3986, 3.2.2 lets a name have
/// (triplets, `~` and `!$&'()*+,;=`) no name of a server has; user information (`user@`) is an error.
pub fn host<'a>(raw: &'a [u8], lowered: &'a mut Vec<u8>) -> Result<&'a [u8], HostError> {
    if raw.is_empty() {
        return Ok(raw);
    }
    if raw.starts_with(b"[") {
        return address(raw, lowered);
    }
    let name = name(raw)?;
    if !name.iter().any(u8::is_ascii_uppercase) {
        return Ok(name);
    }
    lowered.clear();
    lowered.extend(name.iter().map(u8::to_ascii_lowercase));
    Ok(lowered)
}

/// `[0::1]:80` to `[::1]`: one address has many spellings, and a `deny` for one of them must hold for all (RFC 5952, 4).
fn address<'a>(raw: &[u8], written: &'a mut Vec<u8>) -> Result<&'a [u8], HostError> {
    let end = raw.iter().position(|byte| *byte == b']').ok_or(HostError)?;
    let (name, port) = raw.split_at_checked(end + 1).ok_or(HostError)?;
    let inside = name.get(1..end).and_then(|inside| std::str::from_utf8(inside).ok()).ok_or(HostError)?;
    let address: Ipv6Addr = inside.parse().map_err(|_| HostError)?;
    if !is_port(port) {
        return Err(HostError);
    }
    written.clear();
    write!(written, "[{address}]").map_err(|_| HostError)?;
    Ok(written)
}

/// `api.example.com.:80` to `api.example.com`.
fn name(raw: &[u8]) -> Result<&[u8], HostError> {
    let end = raw.iter().position(|byte| *byte == b':').unwrap_or(raw.len());
    let (name, port) = raw.split_at_checked(end).ok_or(HostError)?;
    let name = name.strip_suffix(b".").unwrap_or(name);
    if is_name(name) && is_port(port) { Ok(name) } else { Err(HostError) }
}

/// Labels with dots between them. One pass, as every request pays for it.
fn is_name(name: &[u8]) -> bool {
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

/// Nothing, or `:` and digits, also none (RFC 3986, 3.2.3).
fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((first, digits)) => *first == b':' && digits.iter().all(u8::is_ascii_digit),
    }
}
