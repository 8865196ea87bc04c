//! Header sanitization: sets and removes headers of an allowed request, so that a client cannot spoof what the upstream
//! reads in them.

use crate::answer::{Rendered, rendered};
use crate::reason::{Limit, Reason};
use crate::request::Header;
use policy::model::DocumentSecurity;

/// The header names of a policy's `allow_response`, in lower case, to compare with those of a request.
#[derive(Debug)]
pub(crate) struct HeaderSanitizer {
    /// Set on every allowed request, or removed where the value is empty.
    set: Box<[Box<str>]>,
    /// Removed from every allowed request. Contains no name of `set`.
    removed: Box<[Box<str>]>,
    /// Set on requests to a search cluster whose answers must be filtered, and removed from all other requests. It is in neither
    /// `set` nor `removed`.
    document_security: Option<Box<str>>,
    /// One bit for each length that one of these names has, or [`CONNECTION`]. Most headers of a request have none of these lengths, so one
    /// bit test shows that they are no alias, instead of a comparison with each name.
    lengths: u128,
}

/// The changes to the headers of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes<'a> {
    pub(crate) sanitizer: &'a HeaderSanitizer,
    /// One value for each name in the sanitizer's `set`, rendered for the caller.
    pub(crate) values: &'a [Rendered],
    /// The values that contain the rule's name, at the same indices.
    pub(crate) with_rule: &'a [String],
    /// The value of the identity header: the last name in the sanitizer's `set`, if the policy has one.
    pub(crate) identity: Option<&'a str>,
    pub(crate) headers: &'a [Header<'a>],
    /// The indices of those that are aliases, as [`HeaderSanitizer::find_aliases`] found them.
    pub(crate) aliases: &'a [usize],
    /// The value of the header that says what to filter; empty if nothing.
    pub(crate) document_security: &'a str,
}

/// The most aliases (see [`HeaderSanitizer::is_alias`]) of different names that a request may have. Each is named in the answer, which stays in memory until
/// the client reads it. Proxies and libraries send none; one for each header of a policy is already suspicious.
const MAX_ALIASES: usize = 16;
/// The header that names headers which only the next server is to see.
const CONNECTION: &[u8] = b"connection";

impl HeaderSanitizer {
    /// A header that is both set and removed is set. Pseudo-headers and `host` are never removed: Envoy would reject
    /// such an answer, or route the request elsewhere.
    pub(crate) fn new(policy: &policy::model::Policy, identity_header: Option<&str>) -> Self {
        let settings = &policy.allow_response;
        let set = settings.set_headers.iter().map(|header| &*header.name).chain(identity_header);
        let set: Box<[Box<str>]> = set.map(lower).collect();
        let is_set = |name: &str| set.iter().any(|set| **set == *name);
        let removable = |name: &str| !name.starts_with(':') && name != "host" && !is_set(name);
        let removed = settings.remove_headers.iter().map(|name| lower(name));
        let removed: Box<[Box<str>]> = removed.filter(|name| removable(name)).collect();
        let document_security = policy.search.as_ref().and_then(|search| match &search.document_security {
            DocumentSecurity::Header { name, at: _ } => Some(lower(name)),
            DocumentSecurity::Deny => None,
        });
        let names = set.iter().chain(&removed).chain(&document_security).map(|name| &**name);
        let mut lengths = names.fold(0, |lengths, name| lengths | length_bit(name.as_bytes()));
        if lengths != 0 {
            lengths |= length_bit(CONNECTION);
        }
        Self { set, removed, document_security, lengths }
    }

    /// Whether an upstream may confuse this header of a request with one of the policy's: the names differ, but only in
    /// another character instead of `-`. Servers that pass headers on as environment variables write `_` for it (RFC 3875, 4.1.18), and
    /// some, such as lighttpd, for all characters but letters and digits. A header with exactly the policy's name is no alias:
    /// it is set or removed anyway.
    fn is_alias(&self, name: &[u8]) -> bool {
        !self.names().any(|known| known.as_bytes().eq_ignore_ascii_case(name)) && self.is_like_one(name)
    }

    /// Whether this is one of the names, or an alias of one.
    fn is_like_one(&self, name: &[u8]) -> bool {
        self.names().any(|known| is_alias_or_equal(known.as_bytes(), name))
    }

    /// Whether this header has the next server remove a header that is set or removed here: it removes what `Connection` names
    /// (RFC 9110, 7.6.1). Envoy does that itself, and takes the header out, but for a request to switch protocols, whose
    /// `Connection` it passes on.
    fn is_undone_by(&self, header: &Header<'_>) -> bool {
        header.name.eq_ignore_ascii_case(CONNECTION)
            && header.value.split(|byte| *byte == b',').any(|name| self.is_like_one(name.trim_ascii()))
    }

    /// Finds the aliases among the headers of a request, each name once: removing a header removes all its lines, and
    /// ignores case (RFC 9110, 5.1).
    ///
    /// # Errors
    /// When there are more than [`MAX_ALIASES`], or the next server would undo a change.
    pub(crate) fn find_aliases(
        &self,
        headers: &[Header<'_>],
        aliases: &mut Vec<usize>,
    ) -> Result<(), Reason> {
        aliases.clear();
        let has_length = |header: &Header<'_>| self.lengths & length_bit(header.name) != 0;
        for (at, header) in headers.iter().enumerate().filter(|(_, header)| has_length(header)) {
            if self.is_undone_by(header) {
                return Err(Reason::ConnectionHeader);
            }
            if !self.is_alias(header.name) {
                continue;
            }
            let same = |other: &usize| {
                headers.get(*other).is_some_and(|other| other.name.eq_ignore_ascii_case(header.name))
            };
            if aliases.iter().any(same) {
                continue;
            }
            if aliases.len() == MAX_ALIASES {
                return Err(Reason::Limit(Limit::HeaderLines));
            }
            aliases.push(at);
        }
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.set.iter().chain(&self.removed).chain(&self.document_security).map(|name| &**name)
    }
}

impl<'a> Changes<'a> {
    pub(crate) fn set(self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
        let document_security =
            self.sanitizer.document_security.as_deref().map(|name| (name, self.document_security));
        self.names_and_values()
            .filter_map(|(name, value)| Some((name, value?)))
            .chain(document_security.filter(|(_, value)| !value.is_empty()))
    }

    pub(crate) fn remove(self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let empty = self.names_and_values().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        let document_security =
            self.sanitizer.document_security.as_ref().filter(|_| self.document_security.is_empty());
        let removed = self.sanitizer.removed.iter().chain(document_security).map(|name| &**name);
        empty.chain(removed).chain(self.aliases())
    }

    fn names_and_values(self) -> impl Iterator<Item = (&'a str, Option<&'a str>)> + Clone + use<'a> {
        let names = self.sanitizer.set.iter().map(|name| &**name);
        names.enumerate().map(move |(at, name)| {
            let is_rendered = at < self.values.len();
            (name, if is_rendered { rendered(self.values, self.with_rule, at) } else { self.identity })
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

fn length_bit(name: &[u8]) -> u128 {
    1 << name.len().min(127)
}

/// Whether two names are equal if case is ignored, and each character that a name may have beside letters and digits counts as `-`
/// (RFC 9110, 5.6.2).
fn is_alias_or_equal(one: &[u8], other: &[u8]) -> bool {
    let fold = |byte: &u8| match byte {
        b'!' | b'#'..=b'\'' | b'*' | b'+' | b'.' | b'^'..=b'`' | b'|' | b'~' => b'-',
        byte => byte.to_ascii_lowercase(),
    };
    one.len() == other.len() && one.iter().map(fold).eq(other.iter().map(fold))
}
