//! The path of a rule: `/people/{id}`, `/logs/index_*`, `/files/**`.
//!
//! It is converted to the canonical form of requests, so that the two can be compared byte by byte.
//! A path that no canonical request can have is an error: the rule would look like protection but
//! protect nothing.

use crate::canonical::{self, Buffers, MAX_SEGMENT, PathError};
use crate::parse::percent::{self, Spelling};
use crate::parse::values::claim_path;
use crate::pattern::{Glob, Pattern, Segment};
use document::{Key, Mark, Reader, Text, Warning, closest};

/// Reads a path. If it encodes a printable character (`%40`), the result is two patterns, because
/// requests may spell it either way.
pub(crate) fn read(reader: &mut Reader, text: &Text<'_>, path: &str) -> Option<Vec<Pattern>> {
    let errors = reader.errors();
    let mut parser = PathParser { reader, text };
    let Some(relative) = path.strip_prefix('/') else {
        let message = format!("the path `{path}` does not start with `/`");
        let help = "write a path, such as `/people/{id}`: methods and hosts are not a part of it";
        return parser.reject(path, message, help);
    };
    parser.check(path);
    if parser.reader.errors() > errors {
        return None;
    }
    let (segments, open_ended) = parser.segments(relative);
    if parser.reader.errors() > errors {
        return None;
    }
    parser.warn_of_several(path);
    let canonical = segments.iter().map(|segment| segment.canonical.clone()).collect();
    let mut patterns = vec![Pattern { absolute: true, segments: canonical, open_ended }];
    if segments.iter().any(|segment| segment.decoded.is_some()) {
        let decoded = segments
            .into_iter()
            .map(|segment| segment.decoded.unwrap_or(segment.canonical))
            .collect();
        patterns.push(Pattern { absolute: true, segments: decoded, open_ended });
    }
    Some(patterns)
}

/// Whether this is a path without errors. Messages suggest only such paths.
pub(crate) fn is_path(path: &str) -> bool {
    let mut reader = Reader::new(std::path::Path::new("").into());
    let key = Key { at: Mark::START, text: path.into() };
    read(&mut reader, &Text::from_key(&key), &key.text).is_some()
}

/// The path `*` of `OPTIONS *` (RFC 9110, 7.1).
pub(crate) fn asterisk() -> Pattern {
    Pattern { absolute: false, segments: vec![Segment::Literal("*".into())], open_ended: false }
}

/// A segment in canonical form, and with its printable characters decoded if that differs.
struct ParsedSegment {
    canonical: Segment,
    decoded: Option<Segment>,
}

struct PathParser<'r, 't> {
    reader: &'r mut Reader,
    text: &'r Text<'t>,
}

impl PathParser<'_, '_> {
    /// Checks that do not depend on the segments.
    fn check(&mut self, path: &str) {
        for (at, character) in path.char_indices() {
            let (message, help) = match character {
                '?' | '#' => (
                    "a query or fragment never takes part in matching",
                    "remove it: a rule applies to every query of its path",
                ),
                '\\' => (
                    "`\\` never matches: such a request is denied",
                    "write `/`, or leave it out: a path is not a regular expression",
                ),
                ' ' => ("a space never matches: requests carry it encoded", "write `%20`"),
                _ if character.is_ascii_control() => {
                    ("a control character never matches", "leave it out")
                }
                _ => continue,
            };
            self.error(path.get(at..).unwrap_or_default(), message, help);
            if matches!(character, '?' | '#') {
                return;
            }
        }
        for parameter in ["%3F", "%3f", "%23", ";"] {
            if let Some(part) = path.find(parameter).and_then(|at| path.get(at..)) {
                let message = format!(
                    "a request with `{parameter}` is allowed only if the path before the `{parameter}` is \
                     allowed, too"
                );
                let help = "make sure that a rule allows the path before it as well";
                self.warn(part, Warning::PathParameter, message, help);
            }
        }
    }

    /// Warns of a path that looks like several: `/a,/b`, or `/a|b/**`.
    fn warn_of_several(&mut self, path: &str) {
        let separators = [",/", "|/", "&/"];
        let offset = separators.iter().find_map(|separator| path.find(separator));
        let from_separator = offset.and_then(|offset| path.get(offset..));
        if let Some(part) = from_separator
            .or_else(|| path.split('/').find(|segment| looks_like_alternatives(segment)))
        {
            let message = "this is one path: a path has no alternatives";
            let help = "write a rule for each path, or the long form with `paths`";
            self.warn(part, Warning::SeveralPaths, message, help);
        }
    }

    /// The segments, and whether `**` follows.
    fn segments(&mut self, relative: &str) -> (Vec<ParsedSegment>, bool) {
        let parts = split(relative);
        let last = parts.len().saturating_sub(1);
        let mut segments = Vec::with_capacity(parts.len());
        for (index, part) in parts.into_iter().enumerate() {
            match part {
                "**" if index == last => return (segments, true),
                "**" => {
                    let help = "write `{id}` for exactly one segment, or a rule for each number of \
                                segments";
                    self.error(part, "`**` is not the last segment", help);
                }
                "" if index < last => {
                    let message = "`//` never matches: slashes of requests are merged";
                    self.error(part, message, "write one `/`");
                }
                _ => {
                    if part == "*" && index == last {
                        let message = "`*` at the end matches one segment only";
                        let help =
                            "write `**` for everything below, or `{id}` for exactly one segment";
                        self.warn(part, Warning::SingleSegment, message, help);
                    }
                    segments.extend(self.segment(part));
                }
            }
        }
        (segments, false)
    }

    fn segment(&mut self, part: &str) -> Option<ParsedSegment> {
        if part.contains('"') {
            let help = "remove it if it is left over, or write `%22` for the character itself";
            return self.reject(part, format!("`{part}` has a quote in it"), help);
        }
        if is_regex(part) {
            let message = format!("`{part}` is a regular expression, and a path is not");
            let help = "write `{id}` for any one segment, and `**` at the end for everything \
                        below; `%24`, `%5B` and `%5D` are the characters `$`, `[` and `]`";
            return self.reject(part, message, help);
        }
        if part.contains(['{', '}']) {
            return self
                .placeholder(part)
                .map(|canonical| ParsedSegment { canonical, decoded: None });
        }
        if part.contains("**") {
            let help = "write `*` inside a segment, and `/**` for any number of further segments";
            return self.reject(part, "`**` is not a segment of its own", help);
        }
        let segment = if part.contains('*') { self.glob(part) } else { self.literal(part) }?;
        if is_like_placeholder(part) {
            let message = format!("`{part}` is matched literally");
            let help = "write `{id}` for any one segment, `{user}` for the caller's name, and `**` \
                        at the end for everything below";
            self.warn(part, Warning::LikePlaceholder, message, help);
        }
        if min_length(segment.decoded.as_ref().unwrap_or(&segment.canonical)) > MAX_SEGMENT {
            let message = format!(
                "a segment of over {MAX_SEGMENT} bytes never matches: such a request is denied"
            );
            let help = "match a long segment by `{id}` or by a shorter glob";
            return self.reject(part, message, help);
        }
        Some(segment)
    }

    fn placeholder(&mut self, part: &str) -> Option<Segment> {
        let name =
            part.strip_prefix('{').and_then(|part| part.strip_suffix('}')).unwrap_or_default();
        match name {
            "user" => return Some(Segment::User),
            // `user_ids.rs` adds the sources later, from `user_id_from`.
            "user.id" => return Some(Segment::UserId(Vec::new())),
            _ => {}
        }
        if let Some(path) = name.strip_prefix("claims.") {
            return claim_path(self.reader, self.text, path).map(|_| Segment::Any(name.into()));
        }
        if name.is_empty()
            || name.ends_with("...")
            || name.contains(|letter: char| !letter.is_alphanumeric() && !"_-.".contains(letter))
        {
            let help = "a placeholder is a whole segment, such as `{id}`, or `{user}` for the \
                        caller's name, without a type; write a brace of the path itself as `%7B` \
                        or `%7D`";
            return self.reject(part, format!("`{part}` is not a placeholder"), help);
        }
        if is_like_claim(name) {
            let help = "write `{user}` for the caller's name, or `{claims.tenant}` for a claim of \
                        its token";
            return self.reject(part, format!("`{part}` is not supported in a path"), help);
        }
        if is_like_caller(name) {
            let message =
                format!("`{part}` matches any segment: only `{{user}}` is the caller's name");
            let help =
                "did you mean `{user}`, or `{user.id}` with `user_id_from`? If not, call it `{id}`";
            self.warn(part, Warning::LikePlaceholder, message, help);
        }
        Some(Segment::Any(name.into()))
    }

    fn glob(&mut self, part: &str) -> Option<ParsedSegment> {
        let pieces: Option<Vec<Spelling<'_>>> =
            part.split('*').map(|piece| self.spelling(piece)).collect();
        let pieces = pieces?;
        // Only these two errors are certain, whatever text is in place of the `*`. Another error
        // may go away: the text after the piece `%C3`, the first byte of a character, may be its
        // second byte.
        let mut errors = pieces.iter().filter_map(|piece| why_always_denied(&piece.canonical));
        if let Some(error) = errors
            .find(|error| matches!(error, PathError::EncodedSlash | PathError::NestedEncoding))
        {
            return self.reject_unmatched(part, error);
        }
        let canonical = pieces.iter().map(|piece| &piece.canonical);
        let decoded = pieces.iter().map(|piece| piece.decoded.as_ref().unwrap_or(&piece.canonical));
        let has_decoded = pieces.iter().any(|piece| piece.decoded.is_some());
        Some(ParsedSegment {
            canonical: Segment::Glob(Glob(canonical.map(|piece| piece.as_str().into()).collect())),
            decoded: has_decoded
                .then(|| Segment::Glob(Glob(decoded.map(|piece| piece.as_str().into()).collect()))),
        })
    }

    fn literal(&mut self, part: &str) -> Option<ParsedSegment> {
        let spelling = self.spelling(part)?;
        if matches!(spelling.canonical.as_str(), "." | "..") {
            let message = format!("`{part}` never matches: dot segments of requests are removed");
            return self.reject(part, message, "write the path that it leads to");
        }
        if let Some(error) = why_always_denied(&spelling.canonical) {
            return self.reject_unmatched(part, error);
        }
        let decoded = spelling.decoded.map(|decoded| Segment::Literal(decoded.into()));
        Some(ParsedSegment { canonical: Segment::Literal(spelling.canonical.into()), decoded })
    }

    fn spelling<'p>(&mut self, piece: &'p str) -> Option<Spelling<'p>> {
        let spelling = match percent::read(piece) {
            Ok(spelling) => spelling,
            Err((part, error)) => return self.reject_unmatched(part, error),
        };
        if let Some((triplet, character)) = spelling.needlessly_encoded {
            let message = format!(
                "`{triplet}` covers `{character}` as well: requests may spell it either way"
            );
            let help = format!("write `{character}`");
            self.warn(triplet, Warning::EncodedCharacter, message, help);
        }
        Some(spelling)
    }

    /// Reports a part that no request can have.
    fn reject_unmatched<T>(&mut self, part: &str, error: PathError) -> Option<T> {
        let message = format!("`{part}` never matches: a request with it is denied ({error})");
        let help = match error {
            PathError::BadTriplet => {
                "write two hex digits after `%`, or `%25` for the character itself"
            }
            PathError::EncodedSlash => "write `/`",
            PathError::InvalidUtf8 => "encode the UTF-8 bytes of each character",
            _ => "write the path as requests have it, or leave the rule out",
        };
        self.reject(part, message, help)
    }

    fn warn(
        &mut self,
        part: &str,
        kind: Warning,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.reader.warning_help(self.text.locate(part), kind, message, help);
    }

    fn error(&mut self, part: &str, message: &str, help: &str) {
        self.reader.error_help(self.text.locate(part), message, help);
    }

    fn reject<T>(&mut self, part: &str, message: impl Into<String>, help: &str) -> Option<T> {
        self.reader.reject(self.text.locate(part), message, help)
    }
}

/// Splits a path at each `/`, but not inside `{claims.…}`: a place of a claim, such as
/// `/tenant/id`, has slashes of its own.
pub(crate) fn split(path: &str) -> Vec<&str> {
    let (mut parts, mut start, mut in_claim) = (Vec::new(), 0, false);
    for (at, letter) in path.char_indices() {
        match letter {
            '{' if path.get(at..).is_some_and(|from| from.starts_with("{claims.")) => {
                in_claim = true;
            }
            '}' => in_claim = false,
            '/' if !in_claim => {
                parts.push(path.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(path.get(start..).unwrap_or_default());
    parts
}

/// Why every request with this segment is denied, if it is: `a%252Fb` hides a separator, and `..;`
/// a dot segment.
fn why_always_denied(canonical: &str) -> Option<PathError> {
    // A segment without these characters has a single interpretation, which is not denied.
    if !canonical.contains(['%', ';']) {
        return None;
    }
    let path = format!("/a/{canonical}");
    let error = canonical::path(b"GET", path.as_bytes(), &mut Buffers::default()).err();
    // A request may have the segment with fewer encoded characters, and then it is shorter.
    error.filter(|error| *error != PathError::SegmentTooLong)
}

/// The length in bytes of the shortest segment that matches.
fn min_length(segment: &Segment) -> usize {
    match segment {
        Segment::Literal(literal) => literal.len(),
        Segment::Glob(glob) => glob.0.iter().map(|piece| piece.len()).sum(),
        Segment::Any(_) | Segment::User | Segment::UserId(_) => 1,
    }
}

/// Whether a segment looks like a choice of names: `internal|private`, or `internal,private`.
fn looks_like_alternatives(segment: &str) -> bool {
    ['|', ','].into_iter().any(|sign| segment.contains(sign) && segment.split(sign).all(is_name))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte))
}

/// Whether a segment looks like a regular expression: `.*`, `^a`, `a$`, `[0-9]+`, `(a|b)`.
fn is_regex(part: &str) -> bool {
    let has_class = part.split_once('[').is_some_and(|(_, after)| after.contains(']'));
    let has_choice =
        part.split_once('(').is_some_and(|(_, after)| after.contains(')') && after.contains('|'));
    [".*", ".+", "(.*)", "(.+)"].contains(&part)
        || part.starts_with('^')
        || part.ends_with('$')
        || has_class
        || has_choice
}

/// Whether a segment looks like a placeholder of another system (`:id`, `$id`, `<int:id>`, `...`),
/// or ends in a stray quote.
fn is_like_placeholder(part: &str) -> bool {
    let name = part.strip_prefix([':', '$']);
    name.is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_alphabetic()))
        || (part.starts_with('<') && part.ends_with('>'))
        || part.ends_with("...")
        || (part.len() > 1 && part.ends_with('\''))
}

/// Whether a placeholder with this name looks like a claim of the caller, but is written in another
/// way: as an ordinary placeholder it would match any segment.
fn is_like_claim(name: &str) -> bool {
    const CALLER: &str = "user claims claim token jwt subject principal auth caller";
    let name = name.to_ascii_lowercase();
    let (object, field) = name.split_once('.').unwrap_or((&name, ""));
    object == "claims" || !field.is_empty() && CALLER.split(' ').any(|word| word == object)
}

/// Whether the author of a placeholder with this name probably wants the caller's name: a rule for
/// `/users/{username}` lets each caller reach every user.
fn is_like_caller(name: &str) -> bool {
    const LIKE_USER: &str = "user username user_name user-name userid user_id user-id name sub \
                             subject uid me self owner caller login principal preferred_username \
                             email group groups role roles";
    let name = name.to_ascii_lowercase();
    LIKE_USER.split(' ').any(|word| word == name) || closest(&name, ["user"]).is_some()
}
