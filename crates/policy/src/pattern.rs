//! The actions, scopes and resources that a rule matches.
//!
//! The names are neutral because the engine is: for HTTP, an action is a method, a scope is a host
//! and a resource is a canonical path. All comparisons are byte by byte, so callers must pass
//! canonical values. In these, `%` occurs only at the start of a triplet (RFC 3986, 2.1). A triplet
//! is one character: no glob splits it. `Display` shows the text of the policy language.

mod cover;
mod intersect;

use std::fmt;

use std::sync::Arc;

use crate::canonical::segment_is_name;
use crate::ids::SourceId;

pub use cover::is_below;

/// The actions of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actions {
    /// Any action (`*`).
    Any,
    /// Exactly these: never empty, without duplicates.
    These(Vec<Box<str>>),
}

/// A scope (host) of a rule. A rule without scopes applies to every scope, including an empty
/// scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// `api.example.com`: exactly this host; lower case, without port or trailing dot.
    Exact(Box<str>),
    /// `*.example.com`: one or more labels before this suffix, which is stored without its leading
    /// `*.`.
    Below(Box<str>),
    /// `{tenant}.example.com`: a host with the same number of labels, each of which matches.
    Labels(Vec<HostLabel>),
}

/// A label of [`Scope::Labels`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostLabel {
    /// Exactly this label.
    Literal(Box<str>),
    /// Any label that is not empty (`{tenant}`).
    Any(Box<str>),
}

/// A resource pattern (path) of a rule.
///
/// A resource name is split at `/`. A leading `/` is not part of the first segment: it makes the
/// name absolute, and absolute and relative names never match each other. So `/people/` is
/// absolute, with the segment `people` and an empty segment; `/` is absolute, with one empty
/// segment; `*`, the asterisk-form of `OPTIONS` (RFC 9110, 7.1), is relative, with one segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Whether the name starts with `/`.
    pub absolute: bool,
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// Whether any number of further segments may follow, including none (`/**`). If so, and if
    /// `segments` is empty, the pattern matches every absolute name or, if `absolute` is false,
    /// every relative name.
    pub open_ended: bool,
}

/// A segment of a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Exactly these bytes. May be empty: the segment after a trailing slash.
    Literal(Box<str>),
    /// Any segment except the empty segment, `.` and `..` (`{id}`). The placeholder's name has no
    /// effect on what matches; conditions read the value by this name.
    Any(Box<str>),
    /// A segment that is the subject's user name (`{user}`).
    User,
    /// A segment that is the subject's user name without the prefix of its source (`{user.id}`), if
    /// the subject is from one of these sources.
    UserId(Vec<SourceId>),
    /// A segment that is not empty and matches the glob.
    Glob(Glob),
}

/// A glob over the characters of a segment: the literal pieces that its `*`s separate. There are at
/// least two pieces, because there is at least one `*`. A piece may be empty.
///
/// `index_*` is `["index_", ""]`, `*.json` is `["", ".json"]`, `a*b*c` is `["a", "b", "c"]`.
/// Adjacent `*`s are the same as a single `*`. A percent triplet is one character: `*9` does not
/// match `%C3%A9`, and no piece contains a part of a triplet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Glob(pub Vec<Box<str>>);

/// The subject, as far as patterns depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternSubject<'a> {
    /// The user name, not percent-encoded.
    pub user: &'a [u8],
    /// The length of the source's `user_prefix`, with which the user name begins.
    pub prefix_len: usize,
    /// The source. If it is `None`, `{user.id}` matches nothing.
    pub source: Option<SourceId>,
}

impl<'a> PatternSubject<'a> {
    /// A subject whose source is not known.
    #[must_use]
    pub const fn named(user: &'a [u8]) -> Self {
        Self { user, prefix_len: 0, source: None }
    }

    /// The user name without the prefix.
    #[must_use]
    pub fn id(&self) -> &'a [u8] {
        self.user.get(self.prefix_len..).unwrap_or_default()
    }
}

impl Scope {
    /// Whether this scope includes `scope`, which is in canonical form (lower case, no port, no
    /// trailing dot).
    #[must_use]
    pub fn matches(&self, scope: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => exact.as_bytes() == scope,
            Self::Below(suffix) => scope
                .strip_suffix(suffix.as_bytes())
                .and_then(|front| front.strip_suffix(b"."))
                .is_some_and(|labels| !labels.is_empty()),
            Self::Labels(labels) => {
                let mut parts = scope.split(|byte| *byte == b'.');
                labels.iter().all(|label| parts.next().is_some_and(|part| label.matches(part)))
                    && parts.next().is_none()
            }
        }
    }
}

/// Placeholders, each with the index of its segment or label.
pub type PlaceholderIndices = Vec<(Arc<str>, usize)>;

impl Scope {
    /// Its placeholders.
    #[must_use]
    pub fn placeholders(&self) -> PlaceholderIndices {
        let Self::Labels(labels) = self else { return Vec::new() };
        let names = labels.iter().enumerate().filter_map(|(index, label)| match label {
            HostLabel::Any(name) => Some(((&**name).into(), index)),
            HostLabel::Literal(_) => None,
        });
        names.collect()
    }
}

impl HostLabel {
    fn matches(&self, part: &[u8]) -> bool {
        match self {
            Self::Literal(literal) => literal.as_bytes() == part,
            Self::Any(_) => !part.is_empty(),
        }
    }
}

impl Actions {
    /// Whether these include `action`.
    #[must_use]
    pub fn matches(&self, action: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::These(actions) => actions.iter().any(|name| name.as_bytes() == action),
        }
    }
}

impl Pattern {
    /// Its placeholders but `{user}` and `{user.id}`.
    #[must_use]
    pub fn placeholders(&self) -> PlaceholderIndices {
        let names = self.segments.iter().enumerate().filter_map(|(index, segment)| match segment {
            Segment::Any(name) => Some(((&**name).into(), index)),
            Segment::Literal(_) | Segment::User | Segment::UserId(_) | Segment::Glob(_) => None,
        });
        names.collect()
    }

    /// Whether a canonical resource name matches. `subject` is `None` for an anonymous caller.
    #[must_use]
    pub fn matches(&self, resource: &[u8], subject: Option<PatternSubject<'_>>) -> bool {
        let (absolute, relative) = match resource.strip_prefix(b"/") {
            Some(relative) => (true, relative),
            None => (false, resource),
        };
        if absolute != self.absolute {
            return false;
        }
        let mut parts = relative.split(|byte| *byte == b'/');
        for segment in &self.segments {
            match parts.next() {
                Some(part) if segment.matches(part, subject) => {}
                _ => return false,
            }
        }
        self.open_ended || parts.next().is_none()
    }
}

impl Segment {
    /// Whether `part`, a segment of a canonical name, matches.
    #[must_use]
    pub fn matches(&self, part: &[u8], subject: Option<PatternSubject<'_>>) -> bool {
        match self {
            Self::Literal(literal) => literal.as_bytes() == part,
            Self::Any(_) => !matches!(part, b"" | b"." | b".."),
            Self::User => {
                !part.is_empty()
                    && subject.is_some_and(|subject| segment_is_name(part, subject.user))
            }
            Self::UserId(sources) => {
                !part.is_empty()
                    && subject.is_some_and(|subject| {
                        subject.source.is_some_and(|source| sources.contains(&source))
                            && segment_is_name(part, subject.id())
                    })
            }
            Self::Glob(glob) => !part.is_empty() && glob.matches(part),
        }
    }
}

impl Glob {
    /// Whether `name`, a segment of a canonical name, matches as a whole.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        self.matches_from(name, |offset| !cuts_triplet(name, offset))
    }

    /// Whether `name`, such as the name of a file, matches as a whole. `%` is a character like any
    /// other.
    pub(crate) fn matches_plain(&self, name: &[u8]) -> bool {
        self.matches_from(name, |_| true)
    }

    /// Whether `name` matches, if a piece after a `*` may start only at offsets for which
    /// `may_start` is true. Each piece is matched at the first possible offset, which leaves the
    /// most of the name for later pieces.
    fn matches_from(&self, name: &[u8], may_start: impl Fn(usize) -> bool) -> bool {
        let (first, middle, last) = match &*self.0 {
            [] => return false,
            [piece] => return piece.as_bytes() == name,
            [first, middle @ .., last] => (first, middle, last),
        };
        let Some(end) = name.len().checked_sub(last.len()).filter(|_| starts_at(name, 0, first))
        else {
            return false;
        };
        let mut offset = first.len();
        for piece in middle {
            let Some(start) =
                (offset..=end).find(|start| starts_at(name, *start, piece) && may_start(*start))
            else {
                return false;
            };
            offset = start + piece.len();
        }
        offset <= end && starts_at(name, end, last) && may_start(end)
    }
}

/// Whether this offset of a canonical name is inside a triplet: at its first or second digit.
#[must_use]
pub fn cuts_triplet(name: &[u8], offset: usize) -> bool {
    offset < name.len()
        && [1, 2].into_iter().any(|distance| {
            offset.checked_sub(distance).and_then(|start| name.get(start)) == Some(&b'%')
        })
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
            Self::Labels(labels) => {
                for (index, label) in labels.iter().enumerate() {
                    write!(f, "{}{label}", if index == 0 { "" } else { "." })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for HostLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => f.write_str(literal),
            Self::Any(name) => write!(f, "{{{name}}}"),
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
        if self.open_ended { write!(f, "{slash}**") } else { Ok(()) }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => f.write_str(literal),
            Self::Any(name) => write!(f, "{{{name}}}"),
            Self::User => f.write_str("{user}"),
            Self::UserId(_) => f.write_str("{user.id}"),
            Self::Glob(glob) => f.write_str(&glob.0.join("*")),
        }
    }
}

fn starts_at(name: &[u8], offset: usize, piece: &str) -> bool {
    name.get(offset..).is_some_and(|from| from.starts_with(piece.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Glob, Segment, cuts_triplet};

    /// All the texts of up to so many of these parts, each text once.
    fn texts(parts: &[&str], most: usize) -> BTreeSet<String> {
        let mut texts = BTreeSet::from([String::new()]);
        for _ in 0..most {
            let longer: Vec<String> = texts
                .iter()
                .flat_map(|text| parts.iter().map(move |part| format!("{text}{part}")))
                .collect();
            texts.extend(longer);
        }
        texts
    }

    /// A name as its characters.
    fn characters(mut name: &str) -> Vec<&str> {
        let mut characters = Vec::new();
        while !name.is_empty() {
            let (character, after) = name.split_at(if name.starts_with('%') { 3 } else { 1 });
            characters.push(character);
            name = after;
        }
        characters
    }

    /// The meaning of a glob, by trying everything.
    fn matches(glob: &[&str], name: &[&str]) -> bool {
        match (glob.split_first(), name.split_first()) {
            (None, _) => name.is_empty(),
            (Some((&"*", after)), None) => matches(after, name),
            (Some((&"*", after)), Some((_, left))) => matches(after, name) || matches(glob, left),
            (Some((one, after)), Some((character, left))) => {
                one == character && matches(after, left)
            }
            (Some(_), None) => false,
        }
    }

    /// RFC 3986, 2.1.
    #[test]
    fn a_glob_matches_characters_of_which_a_triplet_is_one() {
        let names = texts(&["A", "9", "2", "5", "%A9", "%25"], 4);
        let mut matched = 0;
        for text in texts(&["*", "9", "A", "25", "%A9", "%25"], 4) {
            if !text.contains('*') || text.contains("**") {
                continue;
            }
            let glob = Glob(text.split('*').map(Into::into).collect());
            for name in &names {
                let wanted = matches(&characters(&text), &characters(name));
                assert_eq!(glob.matches(name.as_bytes()), wanted, "`{text}` and `{name}`");
                let of_segment = Segment::Glob(glob.clone()).matches(name.as_bytes(), None);
                assert_eq!(of_segment, wanted && !name.is_empty(), "`{text}` and `{name}`");
                matched += usize::from(wanted);
            }
        }
        assert!(matched > 10_000, "{matched}");
    }

    #[test]
    fn in_a_plain_name_a_percent_sign_is_a_character_like_any_other() {
        let glob = Glob(["", "0.yaml"].map(Into::into).into());
        assert!(glob.matches_plain(b"a%20.yaml") && glob.matches_plain(b"a%0.yaml"));
        assert!(!glob.matches(b"a%20.yaml"));
    }

    #[test]
    fn only_the_digits_of_a_triplet_are_its_rest() {
        let cut: Vec<usize> =
            (0..=10).filter(|place| cuts_triplet(b"%25a%40%C3", *place)).collect();
        assert_eq!(cut, [1, 2, 5, 6, 8, 9]);
        assert!(!cuts_triplet(b"", 0) && !cuts_triplet(b"%20", 3) && !cuts_triplet(b"%20", 4));
    }
}
