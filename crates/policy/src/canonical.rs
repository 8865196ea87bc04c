//! The one reading of a path and of a host that rules and requests are compared in.

/// Why a path cannot be judged. Each is answered with 400 and the reason `invalid_path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PathError {
    /// Not a path at all.
    #[error("does not start with `/`")]
    NotAbsolute,
}

/// All the ways a path may be read by what stands behind the proxy.
///
/// A request is allowed only if every reading in `all` is allowed and no `deny` rule matches one in `deny_only`.
#[derive(Debug, Default)]
pub struct Readings<'a> {
    first: std::borrow::Cow<'a, [u8]>,
    more: Vec<Vec<u8>>,
    deny_only: Vec<Vec<u8>>,
}

impl<'a> Readings<'a> {
    /// The canonical path: the reading that is shown in logs.
    #[must_use]
    pub fn first(&self) -> &[u8] {
        &self.first
    }

    /// The readings that must all be allowed: the canonical path first.
    pub fn all(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.first()).chain(self.more.iter().map(Vec::as_slice))
    }

    /// The readings that no `deny` rule may match; they need not be allowed.
    pub fn deny_only(&self) -> impl Iterator<Item = &[u8]> {
        self.deny_only.iter().map(Vec::as_slice)
    }
}

/// Reads the `:path` of a request: raw, with its query.
///
/// # Errors
/// When it is ambiguous or not a path.
pub fn path<'a>(method: &[u8], raw: &'a [u8]) -> Result<Readings<'a>, PathError> {
    let _ = (method, raw);
    todo!()
}

/// A host in canonical form: lower case, without port and trailing dot. Borrowed where it is canonical already.
#[must_use]
pub fn host(raw: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let _ = raw;
    todo!()
}

/// Whether a segment of a canonical path names this user, however it is encoded.
#[must_use]
pub fn names(segment: &[u8], user: &[u8]) -> bool {
    let _ = (segment, user);
    todo!()
}
