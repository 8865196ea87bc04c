//! Canonical hosts: the authority of a request without its port.

use std::io::Write;
use std::net::Ipv6Addr;

/// The host is invalid. Answered with 400.
///
/// It is not enough to let such a host match nothing: a rule without hosts would still allow the request, while the
/// backend may take the host for another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the host is not a host name or an address")]
pub struct HostError;

/// Returns a host in canonical form: lower case, without port and trailing dot, IPv6 addresses as in RFC 5952. If it is
/// not canonical already, it is written to `lowered`. An empty host stays empty; only rules without hosts match it.
///
/// # Errors
/// Unless it is labels of letters, digits, `-` and `_` (at most 63 bytes each and 253 together: RFC 1035, 2.3.4) or an
/// IPv6 address in brackets, optionally followed by `:` and digits. RFC 3986, 3.2.2 also permits triplets, `~` and
/// `!$&'()*+,;=`, but no server has such a name. User information (`user@`) is an error.
pub fn host<'a>(raw: &'a [u8], lowered: &'a mut Vec<u8>) -> Result<&'a [u8], HostError> {
    if raw.is_empty() {
        return Ok(raw);
    }
    if raw.starts_with(b"[") {
        return address(raw, lowered);
    }
    let (name, has_upper_case) = name(raw)?;
    if !has_upper_case {
        return Ok(name);
    }
    lowered.clear();
    lowered.extend(name.iter().map(u8::to_ascii_lowercase));
    Ok(lowered)
}

/// `[0::1]:80` to `[::1]`. An address has many spellings, and a `deny` for one of them must apply to all (RFC 5952, 4).
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

/// The kinds of bytes in names.
const OTHER: u8 = 0;
/// Lower-case letters, digits, `-` and `_`.
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const DOT: u8 = 3;
const COLON: u8 = 4;

static KINDS: [u8; 256] = kinds();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler: the index is below 256")]
const fn kinds() -> [u8; 256] {
    let mut kinds = [OTHER; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        kinds[byte as usize] = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'.' => DOT,
            b':' => COLON,
            _ => OTHER,
        };
        byte += 1;
    }
    kinds
}

/// `api.example.com.:80` to `api.example.com`, and whether it has upper-case letters. One pass, because every request pays for it.
fn name(raw: &[u8]) -> Result<(&[u8], bool), HostError> {
    let (mut end, mut label, mut has_upper_case) = (raw.len(), 0, false);
    for (at, byte) in raw.iter().enumerate() {
        let kind = KINDS.get(usize::from(*byte)).copied().unwrap_or(OTHER);
        // The first: nearly all bytes are of this kind.
        if kind == LOWER {
            label += 1;
            continue;
        }
        match kind {
            UPPER => (label, has_upper_case) = (label + 1, true),
            DOT if label > 0 && label <= LONGEST_LABEL => label = 0,
            COLON => {
                end = at;
                break;
            }
            _ => return Err(HostError),
        }
    }
    let (name, port) = raw.split_at_checked(end).ok_or(HostError)?;
    // A dot at the end is that of the root.
    let name = if label == 0 { name.strip_suffix(b".").ok_or(HostError)? } else { name };
    let is_name = label <= LONGEST_LABEL && name.len() <= LONGEST_NAME;
    if is_name && is_port(port) { Ok((name, has_upper_case)) } else { Err(HostError) }
}

/// The length of a label, in bytes (RFC 1035, 2.3.4).
const LONGEST_LABEL: usize = 63;
/// The length of a name, in bytes, as text without a dot at its end.
const LONGEST_NAME: usize = 253;

/// Empty, or `:` and any number of digits, including none (RFC 3986, 3.2.3).
fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((first, digits)) => *first == b':' && digits.iter().all(u8::is_ascii_digit),
    }
}
