//! Header sanitization: sets and removes headers of an allowed request, so that a client cannot
//! spoof their values.

use std::sync::Arc;

use crate::answer::Values;
use crate::cookies;
use crate::reason::{Limit, Reason};
use crate::request::Header;
use policy::model::{COOKIE, DocumentSecurity};

/// The header names of a policy's `allow_response` and of API keys, in lower case, to compare with
/// those of a request.
#[derive(Debug)]
pub(crate) struct HeaderSanitizer {
    /// Set on every allowed request, or removed where the value is empty.
    set: Box<[Box<str>]>,
    /// Removed from every allowed request. Contains no name of `set`.
    removed: Box<[Box<str>]>,
    /// Set on requests to a search cluster whose answers must be filtered. Removed from all other
    /// requests.
    document_security: Option<Box<str>>,
    /// Cookies that are removed from every allowed request.
    cookies: Box<[Arc<str>]>,
    /// The length of these names in total.
    names_size: usize,
    /// Excludes most headers of a request with a single look-up.
    filter: NameFilter,
}

/// A filter for these names, their aliases and [`CONNECTION`], by length and first byte.
#[derive(Debug)]
struct NameFilter {
    /// For each length, a bit for each value of the last five bits of the first byte. Names of 63
    /// bytes and more count as equally long.
    first_bytes: [u32; 64],
}

/// The changes to the headers of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes<'a> {
    pub(crate) sanitizer: &'a HeaderSanitizer,
    /// The values of the names in the sanitizer's `set`, rendered for the caller.
    pub(crate) values: &'a Values,
    /// The values that contain the rule's name, at the same indices.
    pub(crate) with_rule: &'a [String],
    /// The value of the identity header. If the policy has it, its name is the last in the
    /// sanitizer's `set`.
    pub(crate) identity: Option<&'a str>,
    pub(crate) headers: &'a [Header<'a>],
    /// The indices of the headers that are aliases, from [`HeaderSanitizer::find_aliases`].
    pub(crate) aliases: &'a [usize],
    /// Whether the headers may have names of the sanitizer, from the same function.
    pub(crate) may_have_names: bool,
    /// The value of the header with the filters; empty if there are none.
    pub(crate) document_security: &'a str,
    /// The cookies that remain if the policy removes some cookies of the request.
    pub(crate) cookies: Option<&'a str>,
}

/// Maximum number of aliases (see [`HeaderSanitizer::is_alias`]) in a request. The answer names
/// each, and stays in memory until the client reads it. Proxies and libraries send none.
const MAX_ALIASES: usize = 16;
/// The header that names headers which only the next server is to see.
const CONNECTION: &str = "connection";

impl HeaderSanitizer {
    /// A header that is both set and removed is set. Pseudo-headers and `host` are never removed:
    /// Envoy would reject such an answer, or route the request elsewhere.
    pub(crate) fn new(policy: &policy::model::Policy) -> Self {
        let settings = &policy.allow_response;
        let set = settings.set_headers.iter().map(|header| &*header.name);
        let set = set.chain(policy.identity_header.iter().map(|header| &*header.name));
        let set: Box<[Box<str>]> = set.map(lower).collect();
        // An application that logs its headers must not log API keys.
        let api_key = policy.identity.api_key_header();
        let removed = settings.remove_headers.iter().map(|name| &**name).chain(api_key);
        let removed = removed
            .map(lower)
            .filter(|name| !name.starts_with(':') && **name != *"host" && !set.contains(name));
        let removed: Box<[Box<str>]> = removed.collect();
        let document_security =
            policy.search.as_ref().and_then(|search| match &search.document_security {
                DocumentSecurity::Header { name, at: _ } => Some(lower(name)),
                DocumentSecurity::Deny => None,
            });
        let cookies: Box<[Arc<str>]> = settings.remove_cookies.iter().cloned().collect();
        let names = set.iter().chain(&removed).chain(&document_security).map(|name| &**name);
        let names = names.chain(cookies.first().map(|_| COOKIE));
        let filter = NameFilter::new(names.clone());
        let names_size = names.map(str::len).sum();
        Self { set, removed, document_security, cookies, names_size, filter }
    }

    /// Whether an upstream may confuse this header of a request with a header of the policy: the
    /// names differ only in characters that are neither letters nor digits. Servers that pass
    /// headers on as environment variables write `_` for `-` (RFC 3875, 4.1.18), and some, such as
    /// lighttpd, for all these characters. A header with exactly the policy's name is no alias: it
    /// is set or removed anyway.
    fn is_alias(&self, name: &[u8]) -> bool {
        !self.names().any(|set| set.as_bytes().eq_ignore_ascii_case(name))
            && self.is_name_or_alias(name)
    }

    fn is_name_or_alias(&self, name: &[u8]) -> bool {
        self.names().any(|set| is_alias_or_equal(set.as_bytes(), name))
    }

    /// Whether this is a `Connection` header that names a header of the policy. The next server
    /// would remove that header (RFC 9110, 7.6.1). Envoy passes `Connection` on for a request to
    /// switch protocols.
    fn is_undone_by(&self, header: &Header<'_>) -> bool {
        header.name.eq_ignore_ascii_case(CONNECTION.as_bytes())
            && header
                .value
                .split(|byte| *byte == b',')
                .any(|name| self.is_name_or_alias(name.trim_ascii()))
    }

    /// Finds the aliases among the headers of a request, each name once: removing a header removes
    /// all its lines, and ignores case (RFC 9110, 5.1). Returns whether the headers may have names
    /// of the sanitizer.
    ///
    /// # Errors
    /// When there are more than [`MAX_ALIASES`], or the next server would undo a change.
    pub(crate) fn find_aliases(
        &self,
        headers: &[Header<'_>],
        aliases: &mut Vec<usize>,
    ) -> Result<bool, Reason> {
        aliases.clear();
        let mut may_have_names = false;
        for (at, header) in
            headers.iter().enumerate().filter(|(_, header)| self.filter.may_be(header.name))
        {
            may_have_names = true;
            if self.is_undone_by(header) {
                return Err(Reason::ConnectionHeader);
            }
            if !self.is_alias(header.name) {
                continue;
            }
            let mut earlier = aliases.iter().filter_map(|index| headers.get(*index));
            if earlier.any(|alias| alias.name.eq_ignore_ascii_case(header.name)) {
                continue;
            }
            if aliases.len() == MAX_ALIASES {
                return Err(Reason::Limit(Limit::HeaderLines));
            }
            aliases.push(at);
        }
        Ok(may_have_names)
    }

    /// The value of the `Cookie` header without the cookies that the policy removes; empty if no
    /// cookie remains, `None` if the request has no cookie that the policy removes.
    ///
    /// # Errors
    /// If the rest is not UTF-8: an answer cannot carry it.
    pub(crate) fn remaining_cookies<'b>(
        &self,
        headers: &[Header<'_>],
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<&'b str>, Reason> {
        if self.cookies.is_empty() {
            return Ok(None);
        }
        let lines = headers.iter().filter(|header| cookies::is_cookie(header.name));
        if !cookies::write_without(lines.map(|line| line.value), &self.cookies, buffer) {
            return Ok(None);
        }
        str::from_utf8(buffer).map(Some).map_err(|_| Reason::InvalidCookies)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.set.iter().chain(&self.removed).chain(&self.document_security);
        names.map(|name| &**name).chain(self.cookies.first().map(|_| COOKIE))
    }
}

impl NameFilter {
    /// Adds [`CONNECTION`] to the names, unless there are none.
    fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let mut filter = Self { first_bytes: [0; 64] };
        let mut names = names.peekable();
        let connection = names.peek().map(|_| CONNECTION);
        for name in names.chain(connection) {
            // The case of a letter is in a higher bit. An alias may have any other character in
            // place of a character that is neither a letter nor a digit.
            let initial = name.bytes().next().unwrap_or_default();
            let bits = if initial.is_ascii_alphanumeric() { 1 << (initial & 31) } else { u32::MAX };
            if let Some(bits_of_length) = filter.first_bytes.get_mut(name.len().min(63)) {
                *bits_of_length |= bits;
            }
        }
        filter
    }

    fn may_be(&self, name: &[u8]) -> bool {
        let initial = name.first().copied().unwrap_or_default();
        let bits = self.first_bytes.get(name.len().min(63));
        bits.is_some_and(|bits| bits & 1 << (initial & 31) != 0)
    }
}

impl<'a> Changes<'a> {
    /// An upper bound of the length of all names and values; `None` if they must be counted.
    pub(crate) fn bound(self) -> Option<usize> {
        let values = self
            .values
            .size
            .filter(|_| self.aliases.is_empty() && self.document_security.is_empty())?;
        let values = values + self.identity.map_or(0, str::len) + self.cookies.map_or(0, str::len);
        Some(self.sanitizer.names_size + values)
    }

    /// Whether the request has a header of this name. The name is from [`Changes::set`] or
    /// [`Changes::remove`].
    pub(crate) fn is_in_request(self, name: &str) -> bool {
        debug_assert!(self.may_have_names || !self.has_header(name), "{name} was overlooked");
        self.may_have_names && self.has_header(name)
    }

    fn has_header(self, name: &str) -> bool {
        self.headers.iter().any(|header| header.name.eq_ignore_ascii_case(name.as_bytes()))
    }

    pub(crate) fn set(self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
        let document_security =
            self.sanitizer.document_security.as_deref().map(|name| (name, self.document_security));
        self.names_and_values()
            .filter_map(|(name, value)| Some((name, value?)))
            .chain(document_security.filter(|(_, value)| !value.is_empty()))
            .chain(self.cookies.filter(|c| !c.is_empty()).map(|c| (COOKIE, c)))
    }

    pub(crate) fn remove(self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let removed = self.sanitizer.removed.iter().map(|name| &**name);
        let cookie = self.cookies.filter(|c| c.is_empty()).map(|_| COOKIE);
        self.without_value().chain(removed).chain(cookie).chain(self.aliases())
    }

    /// The names that are set on other requests, and not on this request.
    pub(crate) fn without_value(self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let without_value =
            self.names_and_values().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        let document_security = self
            .sanitizer
            .document_security
            .as_deref()
            .filter(|_| self.document_security.is_empty());
        without_value.chain(document_security)
    }

    /// Whether nothing must be removed from this request in particular: no cookie, no alias, and no
    /// header that the policy sets on other requests only.
    pub(crate) fn only_set_headers(self) -> bool {
        self.cookies.is_none()
            && self.aliases.is_empty()
            && !(self.may_have_names && self.without_value().any(|name| self.has_header(name)))
    }

    fn names_and_values(
        self,
    ) -> impl Iterator<Item = (&'a str, Option<&'a str>)> + Clone + use<'a> {
        let names = self.sanitizer.set.iter().map(|name| &**name);
        names.enumerate().map(move |(at, name)| {
            let is_identity = at >= self.values.count();
            let rendered = self.values.rendered(self.with_rule, at);
            (name, if is_identity { self.identity } else { rendered })
        })
    }

    fn aliases(self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let headers = self.aliases.iter().filter_map(move |at| self.headers.get(*at));
        headers.filter_map(|header| std::str::from_utf8(header.name).ok())
    }
}

fn lower(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}

/// Whether two names are equal after [`fold_byte`].
fn is_alias_or_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().map(fold_byte).eq(b.iter().map(fold_byte))
}

/// Maps a byte of a header name (RFC 9110, 5.6.2) to lower case, or to `-` if it is neither a
/// letter nor a digit.
fn fold_byte(byte: &u8) -> u8 {
    match byte {
        b'!' | b'#'..=b'\'' | b'*' | b'+' | b'.' | b'^'..=b'`' | b'|' | b'~' => b'-',
        byte => byte.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_lets_each_name_and_alias_pass() {
        let long = format!("x{}", "-long".repeat(20));
        let names =
            ["x-user", "x-user-roles", "_x", "!", "9-lives", "z", "x-users", &long, "connection"];
        let filter = NameFilter::new(names.into_iter());
        let mut passed = 0;
        for name in names {
            let upper = name.to_ascii_uppercase();
            for start in [name.as_bytes(), upper.as_bytes()] {
                for (at, byte) in
                    (0..start.len()).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte)))
                {
                    let changed: Vec<u8> = start
                        .iter()
                        .enumerate()
                        .map(|(index, old)| if index == at { byte } else { *old })
                        .collect();
                    if is_alias_or_equal(name.as_bytes(), &changed) {
                        assert!(filter.may_be(&changed), "{}", changed.escape_ascii());
                        passed += 1;
                    }
                }
            }
        }
        assert!(passed > 1000, "{passed}");
        for other in
            ["", ":method", ":authority", "user-agent", "x-forwarded-proto", "accept", "1-lives"]
        {
            assert!(!filter.may_be(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn without_names_nothing_passes() {
        let filter = NameFilter::new(std::iter::empty());
        assert!(!filter.may_be(CONNECTION.as_bytes()) && !filter.may_be(b""));
    }
}
