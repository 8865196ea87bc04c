//! What happens to the headers of an allowed request, so that what the upstream reads in them is from us.

use crate::answer::{Filled, filled_in};
use crate::request::Header;

/// The headers of a policy's `allow_response`, ready to be used.
#[derive(Debug)]
pub(crate) struct HeaderSanitizer {
    /// Set, or removed where the value comes out empty, on every allowed request.
    set: Box<[Box<str>]>,
    /// Removed from every allowed request; none of `set`.
    removed: Box<[Box<str>]>,
    /// The lengths of all of them, one bit each: most headers of a request are told apart by it.
    lengths: u128,
}

/// How the headers of one request are changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes<'a> {
    pub(crate) sanitizer: &'a HeaderSanitizer,
    /// One for each of the sanitizer's `set`.
    pub(crate) values: &'a [Filled],
    /// The values of those that name the rule.
    pub(crate) by_rule: &'a [String],
    pub(crate) headers: &'a [Header<'a>],
}

impl HeaderSanitizer {
    /// What is both set and removed is set. Neither a pseudo-header nor `host` is ever removed: Envoy would refuse
    /// such an answer, or send the request elsewhere.
    pub(crate) fn new(settings: &policy::model::AllowResponse) -> Self {
        let set: Box<[Box<str>]> = settings.set_headers.iter().map(|header| lower(&header.name)).collect();
        let set_too = |name: &str| set.iter().any(|set| **set == *name);
        let removable = |name: &str| !name.starts_with(':') && name != "host" && !set_too(name);
        let removed = settings.remove_headers.iter().map(|name| lower(name));
        let removed: Box<[Box<str>]> = removed.filter(|name| removable(name)).collect();
        let lengths =
            set.iter().chain(&removed).fold(0, |lengths, name| lengths | length_bit(name.as_bytes()));
        Self { set, removed, lengths }
    }

    /// Whether a header of a request would pass for one of ours with a server that takes `_` or `.` for `-`, as those do
    /// that hand headers on as environment variables (RFC 3875, 4.1.18).
    fn is_alias(&self, name: &[u8]) -> bool {
        self.lengths & length_bit(name) != 0
            && self.names().any(|ours| alike(ours.as_bytes(), name))
            && !self.names().any(|ours| ours.as_bytes().eq_ignore_ascii_case(name))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.set.iter().chain(&self.removed).map(|name| &**name)
    }
}

impl<'a> Changes<'a> {
    pub(crate) fn set(self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
        self.names_and_values().filter_map(|(name, value)| Some((name, value?)))
    }

    pub(crate) fn remove(self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let empty = self.names_and_values().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        let removed = self.sanitizer.removed.iter().map(|name| &**name);
        empty.chain(removed).chain(self.aliases())
    }

    fn names_and_values(self) -> impl Iterator<Item = (&'a str, Option<&'a str>)> + Clone + use<'a> {
        let names = self.sanitizer.set.iter().map(|name| &**name);
        names.enumerate().map(move |(at, name)| (name, filled_in(self.values, self.by_rule, at)))
    }

    fn aliases(self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let aliases = self.headers.iter().filter(move |header| self.sanitizer.is_alias(header.name));
        aliases.filter_map(|header| std::str::from_utf8(header.name).ok())
    }
}

fn lower(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}

fn length_bit(name: &[u8]) -> u128 {
    1 << name.len().min(127)
}

fn alike(one: &[u8], other: &[u8]) -> bool {
    let fold = |byte: &u8| if matches!(byte, b'_' | b'.') { b'-' } else { byte.to_ascii_lowercase() };
    one.iter().map(fold).eq(other.iter().map(fold))
}
