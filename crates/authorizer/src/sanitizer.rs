//! Header sanitization: sets and removes headers of an allowed request, so that a client cannot
//! spoof what the upstream reads in them.

use crate::answer::Values;
use crate::reason::{Limit, Reason};
use crate::request::Header;
use policy::model::DocumentSecurity;

/// The header names of a policy's `allow_response`, in lower case, to compare with those of a
/// request.
#[derive(Debug)]
pub(crate) struct HeaderSanitizer {
    /// Set on every allowed request, or removed where the value is empty.
    set: Box<[Box<str>]>,
    /// Removed from every allowed request. Contains no name of `set`.
    removed: Box<[Box<str>]>,
    /// Set on requests to a search cluster whose answers must be filtered, and removed from all
    /// others.
    document_security: Option<Box<str>>,
    /// How long all these names are together.
    names_size: usize,
    /// Excludes most headers of a request: they are none of these names, no alias and not
    /// [`CONNECTION`].
    filter: NameFilter,
}

/// The names and their aliases, by length and first byte: one look-up instead of a comparison with
/// each.
#[derive(Debug)]
struct NameFilter {
    /// For each length, a bit for each value of the last five bits of the first byte. Names of 63
    /// bytes and more count as equally long.
    first_bytes: [u32; 64],
}

/// The changes to the headers of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes<'a> {
    pub(crate) sanitizer: &'a HeaderSanitizer,
    /// One value for each name in the sanitizer's `set`, rendered for the caller.
    pub(crate) values: &'a Values,
    /// The values that contain the rule's name, at the same indices.
    pub(crate) with_rule: &'a [String],
    /// The value of the identity header: the last name in the sanitizer's `set`, if the policy has
    /// one.
    pub(crate) identity: Option<&'a str>,
    pub(crate) headers: &'a [Header<'a>],
    /// The indices of those that are aliases, as [`HeaderSanitizer::find_aliases`] found them.
    pub(crate) aliases: &'a [usize],
    /// Whether one of the sanitizer's names may be among the headers, as it found as well.
    pub(crate) may_be_there: bool,
    /// The value of the header that says what to filter; empty if nothing.
    pub(crate) document_security: &'a str,
}

/// The most aliases (see [`HeaderSanitizer::is_alias`]) that a request may have. Each is named in
/// the answer, which stays in memory until the client reads it. Proxies and libraries send none.
const MAX_ALIASES: usize = 16;
/// The header that names headers which only the next server is to see.
const CONNECTION: &[u8] = b"connection";

impl HeaderSanitizer {
    /// A header that is both set and removed is set. Pseudo-headers and `host` are never removed:
    /// Envoy would reject such an answer, or route the request elsewhere.
    pub(crate) fn new(policy: &policy::model::Policy) -> Self {
        let settings = &policy.allow_response;
        let set = settings.set_headers.iter().map(|header| &*header.name);
        let set = set.chain(policy.identity_header.iter().map(|header| &*header.name));
        let set: Box<[Box<str>]> = set.map(lower).collect();
        let is_set = |name: &str| set.iter().any(|set| **set == *name);
        let removable = |name: &str| !name.starts_with(':') && name != "host" && !is_set(name);
        let removed = settings.remove_headers.iter().map(|name| lower(name));
        let removed: Box<[Box<str>]> = removed.filter(|name| removable(name)).collect();
        let document_security =
            policy.search.as_ref().and_then(|search| match &search.document_security {
                DocumentSecurity::Header { name, at: _ } => Some(lower(name)),
                DocumentSecurity::Deny => None,
            });
        let names =
            || set.iter().chain(&removed).chain(&document_security).map(|name| name.as_bytes());
        let filter = NameFilter::new(names());
        let names_size = names().map(<[u8]>::len).sum();
        Self { set, removed, document_security, names_size, filter }
    }

    /// Whether an upstream may confuse this header of a request with one of the policy's: the names
    /// differ only in another character instead of `-`. Servers that pass headers on as environment
    /// variables write `_` for it (RFC 3875, 4.1.18), and some, such as lighttpd, for all
    /// characters but letters and digits. A header with exactly the policy's name is no alias: it
    /// is set or removed anyway.
    fn is_alias(&self, name: &[u8]) -> bool {
        !self.names().any(|set| set.as_bytes().eq_ignore_ascii_case(name))
            && self.is_name_or_alias(name)
    }

    /// Whether this is one of the names, or an alias of one.
    fn is_name_or_alias(&self, name: &[u8]) -> bool {
        self.names().any(|set| is_alias_or_equal(set.as_bytes(), name))
    }

    /// Whether this header has the next server remove a header that is set or removed here: one
    /// that `Connection` names (RFC 9110, 7.6.1). Envoy passes `Connection` on for a request to
    /// switch protocols.
    fn is_undone_by(&self, header: &Header<'_>) -> bool {
        header.name.eq_ignore_ascii_case(CONNECTION)
            && header
                .value
                .split(|byte| *byte == b',')
                .any(|name| self.is_name_or_alias(name.trim_ascii()))
    }

    /// Finds the aliases among the headers of a request, each name once: removing a header removes
    /// all its lines, and ignores case (RFC 9110, 5.1). Returns whether one of the names may be
    /// among the headers.
    ///
    /// # Errors
    /// When there are more than [`MAX_ALIASES`], or the next server would undo a change.
    pub(crate) fn find_aliases(
        &self,
        headers: &[Header<'_>],
        aliases: &mut Vec<usize>,
    ) -> Result<bool, Reason> {
        aliases.clear();
        let mut may_be_there = false;
        for (at, header) in
            headers.iter().enumerate().filter(|(_, header)| self.filter.may_be(header.name))
        {
            may_be_there = true;
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
        Ok(may_be_there)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.set.iter().chain(&self.removed).chain(&self.document_security).map(|name| &**name)
    }
}

impl NameFilter {
    /// Of these names, and [`CONNECTION`] unless there are none.
    fn new<'n>(names: impl Iterator<Item = &'n [u8]>) -> Self {
        let mut filter = Self { first_bytes: [0; 64] };
        let mut names = names.peekable();
        let connection = names.peek().map(|_| CONNECTION);
        for name in names.chain(connection) {
            // A letter differs from its other case in a higher bit. All characters but letters and
            // digits are the same in aliases.
            let first = name.first().copied().unwrap_or_default();
            let bits = if first.is_ascii_alphanumeric() { 1 << (first & 31) } else { u32::MAX };
            if let Some(bits_of_length) = filter.first_bytes.get_mut(name.len().min(63)) {
                *bits_of_length |= bits;
            }
        }
        filter
    }

    fn may_be(&self, name: &[u8]) -> bool {
        let first = name.first().copied().unwrap_or_default();
        self.first_bytes.get(name.len().min(63)).is_some_and(|bits| bits & 1 << (first & 31) != 0)
    }
}

impl<'a> Changes<'a> {
    /// How long all names and values are together, at most; `None` where that would have to be
    /// counted.
    pub(crate) fn bound(self) -> Option<usize> {
        let values = self
            .values
            .size
            .filter(|_| self.aliases.is_empty() && self.document_security.is_empty())?;
        Some(self.sanitizer.names_size + values + self.identity.map_or(0, str::len))
    }

    /// Whether the request has a header of this name, which is one of the sanitizer's.
    pub(crate) fn is_there(self, name: &str) -> bool {
        let is_there =
            || self.headers.iter().any(|header| header.name.eq_ignore_ascii_case(name.as_bytes()));
        debug_assert!(self.may_be_there || !is_there(), "the filter has overlooked {name}");
        self.may_be_there && is_there()
    }

    pub(crate) fn set(self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
        let document_security =
            self.sanitizer.document_security.as_deref().map(|name| (name, self.document_security));
        self.names_and_values()
            .filter_map(|(name, value)| Some((name, value?)))
            .chain(document_security.filter(|(_, value)| !value.is_empty()))
    }

    pub(crate) fn remove(self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let empty =
            self.names_and_values().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        let document_security =
            self.sanitizer.document_security.as_ref().filter(|_| self.document_security.is_empty());
        let removed = self.sanitizer.removed.iter().chain(document_security).map(|name| &**name);
        empty.chain(removed).chain(self.aliases())
    }

    fn names_and_values(
        self,
    ) -> impl Iterator<Item = (&'a str, Option<&'a str>)> + Clone + use<'a> {
        let names = self.sanitizer.set.iter().map(|name| &**name);
        names.enumerate().map(move |(at, name)| {
            let is_rendered = at < self.values.count();
            (
                name,
                if is_rendered { self.values.rendered(self.with_rule, at) } else { self.identity },
            )
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

/// Whether two names are equal if case is ignored, and each character that a name may have beside
/// letters and digits counts as `-` (RFC 9110, 5.6.2).
fn is_alias_or_equal(a: &[u8], b: &[u8]) -> bool {
    let fold = |byte: &u8| match byte {
        b'!' | b'#'..=b'\'' | b'*' | b'+' | b'.' | b'^'..=b'`' | b'|' | b'~' => b'-',
        byte => byte.to_ascii_lowercase(),
    };
    a.len() == b.len() && a.iter().map(fold).eq(b.iter().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that is a known name or an alias of one is overlooked.
    #[test]
    fn the_filter_lets_all_that_is_like_a_name_pass() {
        let long = format!("x{}", "-long".repeat(20));
        let names =
            ["x-user", "x-user-roles", "_x", "!", "9-lives", "z", "x-users", &long, "connection"];
        let filter = NameFilter::new(names.iter().map(|name| name.as_bytes()));
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
        assert!(!filter.may_be(CONNECTION) && !filter.may_be(b""));
    }
}
