//! What is asked, and reading it: whatever cannot be judged is refused here, before anybody is identified.

use policy::canonical::{self, Buffers, Readings};

use crate::verdict::Reason;

/// A request, as it came.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, byte for byte.
    pub method: &'a [u8],
    /// The host, with its port and in its own case.
    pub host: &'a [u8],
    /// The path with its query, raw.
    pub path: &'a [u8],
    /// The header lines, duplicates and all. Names in any case; pseudo-headers may be among them and count for nothing.
    pub headers: &'a [Header<'a>],
    /// What the proxy calls the request, for the body of a refusal; may be empty.
    pub id: &'a [u8],
}

/// A header line.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// What of a request takes part in the decision. No other header does, whatever it claims about the path, the method
/// or the client.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) paths: Readings<'a>,
    pub(crate) authorization: Option<&'a [u8]>,
}

/// Where a request is read into, as far as it is not in canonical form already.
#[derive(Debug, Default)]
pub(crate) struct ReadScratch {
    host: Vec<u8>,
    paths: Buffers,
}

/// Reads a request.
pub(crate) fn read<'a>(request: &Request<'a>, scratch: &'a mut ReadScratch) -> Result<Read<'a>, Reason> {
    let ReadScratch { host, paths } = scratch;
    if !is_token(request.method) {
        return Err(Reason::InvalidMethod);
    }
    Ok(Read {
        method: request.method,
        paths: canonical::path(request.method, request.path, paths).map_err(Reason::InvalidPath)?,
        host: canonical::host(request.host, host).map_err(Reason::InvalidHost)?,
        authorization: authorization(request.headers)?,
    })
}

/// The value of the one `Authorization`. There is exactly one or none (RFC 9110, 11.6.2 and 5.3): neither two lines nor
/// two in one, as proxies join them.
pub(crate) fn authorization<'a>(headers: &[Header<'a>]) -> Result<Option<&'a [u8]>, Reason> {
    let mut lines = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(b"authorization"));
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() || (line.value.contains(&b',') && !may_have_commas(line.value)) {
        return Err(Reason::DuplicateAuthorization);
    }
    // Without an early end the compiler looks at many bytes at once: tokens are long.
    if line.value.iter().fold(false, |found, byte| found | byte.is_ascii_control()) {
        return Err(Reason::ControlBytes);
    }
    Ok(Some(line.value))
}

/// Whether the value has a scheme whose credentials may have a comma in them, such as Digest (RFC 7616, 3.4). Those of Basic
/// and Bearer have none (RFC 7617, 2; RFC 6750, 2.1), and all other schemes are refused whatever follows.
fn may_have_commas(value: &[u8]) -> bool {
    let scheme = value.split(|byte| *byte == b' ').next().unwrap_or_default();
    is_token(scheme) && ![&b"basic"[..], b"bearer"].iter().any(|ours| scheme.eq_ignore_ascii_case(ours))
}

/// RFC 9110, 5.6.2.
fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}
