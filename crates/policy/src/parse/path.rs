//! The path of a rule: `/people/{id}`, `/logs/index_*`, `/files/**`.
//!
//! It is converted to the canonical form of requests, so that the two can be compared byte by byte.
//! A path that no canonical request can have is an error: the rule would look like protection but
//! protect nothing.

use std::sync::Arc;

use crate::canonical::{self, Buffers, LONGEST_SEGMENT, PathError};
use crate::parse::percent::{self, Spelling};
use crate::pattern::{Glob, Pattern, Segment};
use document::{Reader, Text, Warning, closest};

/// Reads a path. If it encodes a printable character (`%40`), the result is two patterns, because
/// requests may spell it either way.
pub(crate) fn read(reader: &mut Reader, text: &Text<'_>, path: &str) -> Option<Vec<Pattern>> {
    let Some(name) = path.strip_prefix('/') else {
        let help = "write a path, such as `/people/{id}`: methods and hosts are not a part of it";
        reader.error_help(
            text.locate(path),
            format!("the path `{path}` does not start with `/`"),
            help,
        );
        return None;
    };
    let mut parser = PathParser { reader, text, failed: false };
    parser.check(path);
    if parser.failed {
        return None;
    }
    let (segments, rest) = parser.segments(name);
    if parser.failed {
        return None;
    }
    parser.warn_of_several(path);
    let canonical = segments.iter().map(|segment| segment.canonical.clone()).collect();
    let mut patterns = vec![Pattern { absolute: true, segments: canonical, rest }];
    if segments.iter().any(|segment| segment.raw.is_some()) {
        let raw =
            segments.into_iter().map(|segment| segment.raw.unwrap_or(segment.canonical)).collect();
        patterns.push(Pattern { absolute: true, segments: raw, rest });
    }
    Some(patterns)
}

/// Whether this is a path without errors: only such a path is suggested.
pub(crate) fn is_path(path: &str) -> bool {
    let mut reader = Reader::new(std::path::Path::new("").into());
    let path: Arc<str> = path.into();
    read(&mut reader, &Text::of(&path), &path).is_some()
}

/// The path `*` of `OPTIONS *` (RFC 9110, 7.1).
pub(crate) fn asterisk() -> Pattern {
    Pattern { absolute: false, segments: vec![Segment::Literal("*".into())], rest: false }
}

/// A segment in canonical form, and with its printable characters raw if that differs.
struct ParsedSegment {
    canonical: Segment,
    raw: Option<Segment>,
}

struct PathParser<'r, 't> {
    reader: &'r mut Reader,
    text: &'r Text<'t>,
    failed: bool,
}

impl PathParser<'_, '_> {
    /// Checks that do not depend on the segments.
    fn check(&mut self, path: &str) {
        for (at, character) in path.char_indices() {
            let part = path.get(at..).unwrap_or_default();
            match character {
                '?' | '#' => {
                    let help = "end the path before it: it applies to every query";
                    self.error(part, "a query or fragment never takes part in matching", help);
                    return;
                }
                '\\' => {
                    let help = "write `/`, or leave it out: a path is not a regular expression";
                    self.error(part, "`\\` never matches: such a request is denied", help);
                }
                ' ' => self.error(
                    part,
                    "a space never matches: requests carry it encoded",
                    "write `%20`",
                ),
                _ if character.is_ascii_control() => {
                    self.error(part, "a control character never matches", "leave it out");
                }
                _ => {}
            }
        }
        for parameter in ["%3F", "%3f", "%23", ";"] {
            if let Some(at) = path.find(parameter) {
                let help = "make sure that the path before it is covered by a rule as well";
                let message = format!(
                    "a request with `{parameter}` must be allowed with and without what follows it"
                );
                self.warn(
                    path.get(at..).unwrap_or_default(),
                    Warning::PathParameter,
                    message,
                    help,
                );
            }
        }
    }

    /// Warns of a path that looks like several: `/a,/b`, or `/a|b/**`.
    fn warn_of_several(&mut self, path: &str) {
        let joint = [",/", "|/", "&/"].iter().find_map(|joint| path.find(joint));
        let joined = joint.and_then(|at| path.get(at..));
        let alternatives = || path.split('/').find(|segment| are_alternatives(segment));
        if let Some(part) = joined.or_else(alternatives) {
            let message = "this is one path: a path has no alternatives";
            let help = "write a rule for each path, or the long form with `paths`";
            self.warn(part, Warning::SeveralPaths, message, help);
        }
    }

    fn segments(&mut self, name: &str) -> (Vec<ParsedSegment>, bool) {
        let parts: Vec<&str> = name.split('/').collect();
        let last = parts.len().saturating_sub(1);
        let mut segments = Vec::with_capacity(parts.len());
        let mut rest = false;
        for (number, part) in parts.iter().enumerate() {
            match *part {
                "**" if number == last => rest = true,
                "**" => {
                    let help = "write `{id}` for exactly one segment, or a rule for each number of segments";
                    self.error(part, "`**` is not the last segment", help);
                }
                "*" if number == last => {
                    let message = "`*` at the end matches one segment only";
                    let help = "write `**` for everything below, or `{id}` for exactly one segment";
                    self.warn(part, Warning::SingleSegment, message, help);
                    segments.extend(self.segment(part));
                }
                "" if number < last => {
                    self.error(
                        part,
                        "`//` never matches: slashes of requests are merged",
                        "write one `/`",
                    );
                }
                part => segments.extend(self.segment(part)),
            }
        }
        (segments, rest)
    }

    fn segment(&mut self, part: &str) -> Option<ParsedSegment> {
        if part.contains('"') {
            let help = "remove it if it is left over, or write `%22` for the character itself";
            self.error(part, format!("`{part}` has a quote in it"), help);
            return None;
        }
        if is_regex(part) {
            let help = "write `{id}` for any one segment, and `**` at the end for everything below; `%24`, `%5B` \
                        and `%5D` are the characters `$`, `[` and `]`";
            self.error(part, format!("`{part}` is a regular expression, and a path is not"), help);
            return None;
        }
        if part.contains(['{', '}']) {
            return self.placeholder(part).map(|canonical| ParsedSegment { canonical, raw: None });
        }
        if part.contains("**") {
            let help = "write `*` inside a segment, and `/**` for any number of further segments";
            self.error(part, "`**` is not a segment of its own", help);
            return None;
        }
        let read = if part.contains('*') { self.glob(part) } else { self.literal(part) }?;
        if is_like_placeholder(part) {
            let help = "write `{id}` for any one segment, `{user}` for the caller's name, and `**` at the end \
                        for everything below";
            let message = format!("`{part}` is matched literally");
            self.warn(part, Warning::LikePlaceholder, message, help);
        }
        if shortest(read.raw.as_ref().unwrap_or(&read.canonical)) > LONGEST_SEGMENT {
            let message = format!(
                "a segment of over {LONGEST_SEGMENT} bytes never matches: such a request is denied"
            );
            self.error(part, message, "match a long segment by `{id}` or by a shorter glob");
            return None;
        }
        Some(read)
    }

    fn placeholder(&mut self, part: &str) -> Option<Segment> {
        let name =
            part.strip_prefix('{').and_then(|part| part.strip_suffix('}')).unwrap_or_default();
        match name {
            "user" => return Some(Segment::User),
            // Its sources are resolved with those of the rule.
            "user.id" => return Some(Segment::UserId(Vec::new())),
            _ => {}
        }
        let is_of_name = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
        if name.is_empty() || name.ends_with("...") || !name.chars().all(is_of_name) {
            let help = "a placeholder is a whole segment, such as `{id}`, or `{user}` for the caller's name, without a \
                        type; write a brace of the path itself as `%7B` or `%7D`";
            self.error(part, format!("`{part}` is not a placeholder"), help);
            return None;
        }
        if is_like_claim(name) {
            let help =
                "write `{user}` for the caller's name, or `{user.id}` for it without its prefix";
            self.error(part, format!("`{part}` is not known in a path"), help);
            return None;
        }
        if is_like_caller(name) {
            let message =
                format!("`{part}` matches any segment: only `{{user}}` is the caller's name");
            let help =
                "did you mean `{user}`, or `{user.id}` with `user_id_from`? If not, call it `{id}`";
            self.warn(part, Warning::LikePlaceholder, message, help);
        }
        Some(Segment::One(name.into()))
    }

    fn glob(&mut self, part: &str) -> Option<ParsedSegment> {
        let pieces: Option<Vec<Spelling<'_>>> =
            part.split('*').map(|piece| self.spelling(piece)).collect();
        let pieces = pieces?;
        // Other faults depend on the text in place of the `*`, such as the missing bytes of a
        // character.
        let fault = pieces
            .iter()
            .find_map(|piece| fault_of_requests(&piece.canonical).filter(is_of_a_piece));
        if let Some(error) = fault {
            self.never(part, error);
            return None;
        }
        let canonical = pieces.iter().map(|piece| piece.canonical.as_str().into()).collect();
        let raw = pieces
            .iter()
            .map(|piece| piece.raw.as_ref().unwrap_or(&piece.canonical).as_str().into());
        let raw = Segment::Glob(Glob(raw.collect()));
        let has_raw = pieces.iter().any(|piece| piece.raw.is_some());
        Some(ParsedSegment {
            canonical: Segment::Glob(Glob(canonical)),
            raw: has_raw.then_some(raw),
        })
    }

    fn literal(&mut self, part: &str) -> Option<ParsedSegment> {
        let spelling = self.spelling(part)?;
        if matches!(spelling.canonical.as_str(), "." | "..") {
            let help = "write the path that it leads to";
            self.error(
                part,
                format!("`{part}` never matches: dot segments of requests are removed"),
                help,
            );
            return None;
        }
        if let Some(error) = fault_of_requests(&spelling.canonical) {
            self.never(part, error);
            return None;
        }
        let raw = spelling.raw.map(|raw| Segment::Literal(raw.into()));
        Some(ParsedSegment { canonical: Segment::Literal(spelling.canonical.into()), raw })
    }

    fn never(&mut self, part: &str, error: PathError) {
        let message = format!("`{part}` never matches: a request with it is denied ({error})");
        let help = match error {
            PathError::BadTriplet => {
                "write two hex digits after `%`, or `%25` for the character itself"
            }
            PathError::EncodedSlash => "write `/`",
            PathError::InvalidUtf8 => "encode the UTF-8 bytes of each character",
            _ => "write the path as requests have it, or leave the rule out",
        };
        self.error(part, message, help);
    }

    fn spelling<'p>(&mut self, piece: &'p str) -> Option<Spelling<'p>> {
        match percent::read(piece) {
            Ok(spelling) => {
                if let Some((triplet, character)) = spelling.needless {
                    let message = format!(
                        "`{triplet}` covers `{character}` as well: requests may spell it either way"
                    );
                    let help = format!("write `{character}`");
                    self.warn(triplet, Warning::EncodedCharacter, message, help);
                }
                Some(spelling)
            }
            Err((part, error)) => {
                self.never(part, error);
                None
            }
        }
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

    fn error(&mut self, part: &str, message: impl Into<String>, help: impl Into<String>) {
        self.failed = true;
        self.reader.error_help(self.text.locate(part), message, help);
    }
}

/// Why every request with this segment is denied, if so: `a%252Fb` hides a separator, `..;` a dot
/// segment.
fn fault_of_requests(canonical: &str) -> Option<PathError> {
    // Others have one interpretation.
    if !canonical.contains(['%', ';']) {
        return None;
    }
    let path = format!("/a/{canonical}");
    let fault = canonical::path(b"GET", path.as_bytes(), &mut Buffers::default()).err();
    // Requests may spell the segment with fewer bytes.
    fault.filter(|error| *error != PathError::SegmentTooLong)
}

/// The minimum length in bytes of a request's segment that matches.
fn shortest(segment: &Segment) -> usize {
    match segment {
        Segment::Literal(literal) => literal.len(),
        Segment::Glob(glob) => glob.0.iter().map(|piece| piece.len()).sum(),
        Segment::One(_) | Segment::User | Segment::UserId(_) => 1,
    }
}

/// Whether a piece of a glob has this fault, whichever text is in place of the `*`.
fn is_of_a_piece(error: &PathError) -> bool {
    matches!(error, PathError::EncodedSlash | PathError::NestedEncoding)
}

/// Whether a segment looks like a choice of names: `internal|private`, or `internal,private`.
fn are_alternatives(segment: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte))
    };
    ['|', ','].iter().any(|joint| segment.contains(*joint) && segment.split(*joint).all(is_name))
}

/// Whether a segment looks like a regular expression: `.*`, `^a`, `a$`, `[0-9]+`, `(a|b)`.
fn is_regex(part: &str) -> bool {
    let is_within = |open: char, close: char, inner: char| {
        part.split_once(open)
            .is_some_and(|(_, after)| after.contains(close) && after.contains(inner))
    };
    [".*", ".+", "(.*)", "(.+)"].contains(&part)
        || part.starts_with('^')
        || part.ends_with('$')
        || is_within('[', ']', ']')
        || is_within('(', ')', '|')
}

/// Whether a segment looks like a placeholder of another system (`:id`, `$id`, `<int:id>`, `...`),
/// or has a quote that is left over.
fn is_like_placeholder(part: &str) -> bool {
    let name = part.strip_prefix([':', '$']);
    name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()))
        || (part.starts_with('<') && part.ends_with('>'))
        || part.ends_with("...")
        || (part.len() > 1 && part.ends_with('\''))
}

/// Whether a placeholder with this name looks like a claim of the caller, which paths do not have:
/// it would match any segment.
fn is_like_claim(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let (object, field) = name.split_once('.').unwrap_or((&name, ""));
    let of_caller =
        ["user", "claims", "claim", "token", "jwt", "subject", "principal", "auth", "caller"];
    object == "claims" || (!field.is_empty() && of_caller.contains(&object))
}

/// Whether the author of a placeholder with this name probably wants the caller's name: a rule for
/// `/users/{username}` lets each caller reach every user.
fn is_like_caller(name: &str) -> bool {
    const LIKE_USER: &str = "user username user_name user-name userid user_id user-id name sub subject uid me self owner caller \
                             login principal preferred_username email group groups role roles";
    let name = name.to_ascii_lowercase();
    LIKE_USER.split_whitespace().any(|word| word == name) || closest(&name, ["user"]).is_some()
}
