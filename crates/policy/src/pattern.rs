//! What a rule matches: actions, scopes and resources.
//!
//! The names are neutral because the engine is: for HTTP an action is a method, a scope is a host and a resource is a
//! canonical path. Everything here is compared byte for byte; whoever asks brings canonical values. What is shown
//! (`Display`) is the text of the policy language.

use std::fmt;

/// The actions of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actions {
    /// Any action at all (`*`).
    Any,
    /// Exactly these, at least one, without repetition.
    These(Vec<Box<str>>),
}

/// One scope (host) of a rule. A rule without any applies to every scope, also to an empty one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// `api.example.com`: exactly this one, lower case, without port or trailing dot.
    Exact(Box<str>),
    /// `*.example.com`: one or more labels before this suffix, which is kept without its leading `*.`.
    Below(Box<str>),
}

/// One resource pattern (path) of a rule.
///
/// A resource name is split at `/`. A leading `/` is not part of the first segment: it makes the name absolute, and an
/// absolute name and a relative one never match each other. So `/people/` is absolute with the segments `people` and
/// the empty one, `/` is absolute with one empty segment, and `*`, the asterisk-form of `OPTIONS` (RFC 9110, 7.1), is
/// relative with one segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Whether the name starts with `/`.
    pub absolute: bool,
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// Whether any number of further segments may follow, also none (`/**`). With no segments at all this is every
    /// absolute (or relative) name.
    pub rest: bool,
}

/// One segment of a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Exactly these bytes, which may be none (the segment after a trailing slash).
    Literal(Box<str>),
    /// Exactly one segment that is not empty, `.` or `..` (`{id}`); the name is for the reader.
    One(Box<str>),
    /// Exactly one segment, which names the caller's user (`{user}`).
    Owner,
    /// Exactly one segment that is not empty and matches the glob.
    Glob(Glob),
}

/// A glob over the bytes of one segment: the literal pieces between the `*`s, at least two of them.
///
/// `index_*` is `["index_", ""]`, `*.json` is `["", ".json"]`, `a*b*c` is `["a", "b", "c"]`. Adjacent `*`s are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Glob(pub Vec<Box<str>>);

impl Scope {
    /// Whether a scope in canonical form (lower case, no port, no trailing dot) is this one or below it.
    #[must_use]
    pub fn matches(&self, scope: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => exact.as_bytes() == scope,
            Self::Below(suffix) => scope
                .strip_suffix(suffix.as_bytes())
                .and_then(|front| front.strip_suffix(b"."))
                .is_some_and(|labels| !labels.is_empty()),
        }
    }
}

impl Actions {
    /// Whether this action is one of them.
    #[must_use]
    pub fn matches(&self, action: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::These(actions) => actions.iter().any(|one| one.as_bytes() == action),
        }
    }
}

impl Pattern {
    /// Whether a canonical resource name matches, asked by the user of this name (as it is, not encoded), if it has one.
    #[must_use]
    pub fn matches(&self, resource: &[u8], owner: Option<&[u8]>) -> bool {
        let (absolute, name) = match resource.strip_prefix(b"/") {
            Some(name) => (true, name),
            None => (false, resource),
        };
        if absolute != self.absolute {
            return false;
        }
        let mut names = name.split(|byte| *byte == b'/');
        for segment in &self.segments {
            match names.next() {
                Some(name) if segment.matches(name, owner) => {}
                _ => return false,
            }
        }
        self.rest || names.next().is_none()
    }
}

impl Segment {
    /// Whether one segment of a canonical name matches.
    #[must_use]
    pub fn matches(&self, name: &[u8], owner: Option<&[u8]>) -> bool {
        match self {
            Self::Literal(literal) => literal.as_bytes() == name,
            Self::One(_) => !matches!(name, b"" | b"." | b".."),
            Self::Owner => !name.is_empty() && owner.is_some_and(|user| crate::canonical::names(name, user)),
            Self::Glob(glob) => !name.is_empty() && glob.matches(name),
        }
    }
}

impl Glob {
    /// Whether the whole of `name` matches.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let Some((first, rest)) = self.0.split_first() else { return false };
        let Some((last, middle)) = rest.split_last() else { return first.as_bytes() == name };
        let Some(mut name) = name.strip_prefix(first.as_bytes()) else { return false };
        for piece in middle {
            let Some((_, after)) = split_after(name, piece.as_bytes()) else { return false };
            name = after;
        }
        name.ends_with(last.as_bytes())
    }
}

impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::These(actions) => f.write_str(&actions.join("|")),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(exact) => f.write_str(exact),
            Self::Below(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut slash = if self.absolute { "/" } else { "" };
        for segment in &self.segments {
            write!(f, "{slash}{segment}")?;
            slash = "/";
        }
        if self.rest { write!(f, "{slash}**") } else { Ok(()) }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => f.write_str(literal),
            Self::One(name) => write!(f, "{{{name}}}"),
            Self::Owner => f.write_str("{user}"),
            Self::Glob(glob) => f.write_str(&glob.0.join("*")),
        }
    }
}

/// What stands before and after the first place where `piece` stands in `name`.
fn split_after<'a>(name: &'a [u8], piece: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    (0..=name.len()).find_map(|at| {
        let (before, from) = name.split_at_checked(at)?;
        Some((before, from.strip_prefix(piece)?))
    })
}
