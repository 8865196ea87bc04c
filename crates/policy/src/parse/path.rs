//! The path of a rule: `/people/{id}`, `/logs/index_*`, `/files/**`.
//!
//! It is converted to the canonical form of requests, so that the two can be compared byte by byte. A path that no
//! canonical request can have is an error: the rule would look like protection but protect nothing.

mod placeholder;

use crate::canonical::{self, Buffers, LONGEST_SEGMENT, PathError};
use crate::parse::path::placeholder::{
    RESERVED, is_like_caller, like_reserved, more_than_placeholder, name_of, placeholder_of,
};
use crate::parse::percent::{self, Spelling};
use crate::pattern::{Glob, Pattern, Segment};
use document::{Reader, Text, Warning};

pub(crate) use crate::parse::path::placeholder::{is_like_user, meant_by, names_caller};

/// Reads a path. If it encodes a printable character (`%40`), the result is two patterns, because requests may spell it
/// either way.
pub(crate) fn read(reader: &mut Reader, text: &Text<'_>, path: &str) -> Option<Vec<Pattern>> {
    let Some(name) = path.strip_prefix('/') else {
        let help = match path.split_once('/') {
            Some((before, rest)) if before.ends_with(' ') && is_path(&format!("/{rest}")) => {
                format!("did you mean `/{rest}`? Methods are under `methods`")
            }
            Some((before, rest)) if before.contains('.') && is_path(&format!("/{rest}")) => {
                format!("did you mean `/{rest}`? Hosts are under `hosts`")
            }
            _ if is_path(&format!("/{path}")) => format!("did you mean `/{path}`?"),
            _ => "write a path, such as `/people/{id}`".to_owned(),
        };
        reader.error_help(text.locate(path), format!("the path `{path}` does not start with `/`"), help);
        return None;
    };
    if let Some(at) = path.find("{claims}").or_else(|| path.find("{claims.")) {
        let part = path.get(at..).unwrap_or_default();
        let help = "write `{user}` for the caller's name: other claims are not compared with paths";
        reader.error_help(text.locate(part), "a path has no claims", help);
        return None;
    }
    let mut parser = PathParser { reader, text, failed: false };
    parser.check(path);
    let (segments, rest) = parser.segments(query_of(name).map_or(name, |(before, _)| before));
    if parser.failed {
        return None;
    }
    parser.warn_of_several(path);
    let canonical = segments.iter().map(|segment| segment.canonical.clone()).collect();
    let mut patterns = vec![Pattern { absolute: true, segments: canonical, rest }];
    if segments.iter().any(|segment| segment.raw.is_some()) {
        let raw = segments.into_iter().map(|segment| segment.raw.unwrap_or(segment.canonical)).collect();
        patterns.push(Pattern { absolute: true, segments: raw, rest });
    }
    Some(patterns)
}

/// Whether this is a path without errors: only such a path is suggested.
pub(crate) fn is_path(path: &str) -> bool {
    let mut reader = Reader::new(std::path::Path::new("").into());
    read(&mut reader, &Text::of(path), path).is_some()
}

/// The path that the author of a regular expression for whole paths probably wants: `/orders/**` for `/orders/.*$`.
pub(crate) fn of_regex(regex: &str) -> Option<String> {
    let segments: Vec<&str> =
        regex.strip_suffix('$').unwrap_or(regex).strip_prefix('/')?.split('/').collect();
    let last = segments.len() - 1;
    let path: String = segments
        .iter()
        .enumerate()
        .map(|(number, segment)| match *segment {
            any if ANYTHING.contains(&any) => if number == last { "/**" } else { "/{id}" }.to_owned(),
            segment if regex_fault(segment).is_some() => "/{id}".to_owned(),
            segment => format!("/{segment}"),
        })
        .collect();
    (!path.contains(".*") && is_path(&path)).then_some(path)
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

impl ParsedSegment {
    /// The minimum length in bytes of a request's segment that matches. Counts the raw form if requests may use it.
    fn shortest(&self) -> usize {
        match self.raw.as_ref().unwrap_or(&self.canonical) {
            Segment::Literal(literal) => literal.len(),
            Segment::Glob(glob) => glob.0.iter().map(|piece| piece.len()).sum(),
            Segment::One(_) | Segment::User | Segment::UserId(_) => 1,
        }
    }
}

/// A path being read.
struct PathParser<'r, 't> {
    reader: &'r mut Reader,
    text: &'r Text<'t>,
    failed: bool,
}

impl PathParser<'_, '_> {
    /// Checks that do not depend on the segments.
    fn check(&mut self, path: &str) {
        let (before, query) = query_of(path).unzip();
        for (at, character) in before.unwrap_or(path).char_indices() {
            let part = path.get(at..).unwrap_or_default();
            match character {
                '\\' if is_class_escape(part) => {}
                '\\' if part.starts_with(r"\/") || part.starts_with(r"\.") => {
                    let help = "leave it out: a path is not a regular expression";
                    self.error(part, "`\\` never matches: such a request is denied", help);
                }
                '\\' => self.error(part, "`\\` never matches: such a request is denied", "write `/`"),
                ' ' => self.error(part, "a space never matches: requests carry it encoded", "write `%20`"),
                _ if character.is_ascii_control() => {
                    self.error(part, "a control character never matches", "leave it out");
                }
                _ => {}
            }
        }
        if let Some(query) = query {
            let help = "end the path before it: it applies to every query";
            self.error(query, "a query or fragment never takes part in matching", help);
            return;
        }
        for triplet in ["%3F", "%3f", "%23"] {
            if let Some(at) = path.find(triplet) {
                let help = "make sure that the path before it is covered by a rule as well";
                let message =
                    format!("a request with `{triplet}` must be allowed with and without what follows it");
                let part = path.get(at..).unwrap_or_default();
                self.reader.warning_help(self.text.locate(part), Warning::PathParameter, message, help);
            }
        }
        if path.contains(';') {
            let help = "make sure that the path without its parameters is covered by a rule as well";
            let message = "a request with `;` must be allowed with and without what follows it";
            self.reader.warning_help(self.text.locate(path), Warning::PathParameter, message, help);
        }
    }

    /// Warns of a path that looks like several: `/a,/b`, or `/a|b/**`.
    fn warn_of_several(&mut self, path: &str) {
        let is_item = self.text.text == path;
        if let Some(at) = JOINTS.iter().find_map(|joint| path.find(joint)).filter(|at| !is_plus(path, *at)) {
            let part = path.get(at..).unwrap_or_default();
            let (message, help) = if is_item {
                ("this is one path", "write each path as an item of its own")
            } else {
                (
                    "the short form takes one path",
                    "write one rule for each path, or the long form with `paths`",
                )
            };
            self.reader.warning_help(self.text.locate(part), Warning::SeveralPaths, message, help);
            return;
        }
        let Some(segment) = path.split('/').find(|segment| are_alternatives(segment)) else { return };
        let message = format!("`{segment}` matches one segment: a path has no alternatives");
        let help = if is_item {
            "write a path for each of them"
        } else {
            "write a rule for each of them, or the long form with `paths`"
        };
        self.reader.warning_help(self.text.locate(segment), Warning::SeveralPaths, message, help);
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
                    self.reader.warning_help(self.text.locate(part), Warning::SingleSegment, message, help);
                    segments.extend(self.segment(part));
                }
                "" if number < last => {
                    self.error(part, "`//` never matches: slashes of requests are merged", "write one `/`");
                }
                part if number == last && has_rest(part) => {
                    let own = part.trim_matches('*');
                    let help = format!("did you mean `/{own}/**`? It is the segment and everything below");
                    self.error(part, "`**` is not a segment of its own", help);
                }
                part => {
                    if part.ends_with("...") && !part.contains(['*', '{', '}']) {
                        self.warn_of_dots(part, number == last);
                    }
                    segments.extend(self.segment(part));
                }
            }
        }
        (segments, rest)
    }

    /// Warns of a segment that ends in `...`, as Go and Bazel write what is below.
    fn warn_of_dots(&mut self, part: &str, is_last: bool) {
        let help = match part.trim_end_matches('.') {
            _ if !is_last => {
                "`**` is only the last segment: write `{id}` for exactly one segment, or a rule for \
                              each number of segments"
                    .to_owned()
            }
            "" => "did you mean `**`?".to_owned(),
            name => format!("did you mean `/{name}/**`?"),
        };
        let message = format!("`{part}` is matched literally");
        self.reader.warning_help(self.text.locate(part), Warning::LikePlaceholder, message, help);
    }

    fn segment(&mut self, part: &str) -> Option<ParsedSegment> {
        if part.contains('"') {
            let help = "remove it if it is left over, or write `%22` for the character itself";
            self.error(part, format!("`{part}` has a quote in it"), help);
            return None;
        }
        if part.len() > 1 && part.ends_with('\'') {
            let message = format!("`{part}` ends with a quote, which is matched literally");
            let help = "remove it if it is left over";
            self.reader.warning_help(self.text.locate(part), Warning::LikePlaceholder, message, help);
        }
        if let Some((message, help)) = regex_fault(part) {
            self.error(part, message, help);
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
        if let Some(meant) = meant_by(part) {
            let message = format!("`{part}` is matched literally");
            let help = format!("did you mean `{meant}`?");
            self.reader.warning_help(self.text.locate(part), Warning::LikePlaceholder, message, help);
        }
        if read.shortest() > LONGEST_SEGMENT {
            let help = "match a long segment by `{id}` or by a shorter glob";
            let message =
                format!("a segment of over {LONGEST_SEGMENT} bytes never matches: such a request is denied");
            self.error(part, message, help);
            return None;
        }
        Some(read)
    }

    fn placeholder(&mut self, part: &str) -> Option<Segment> {
        let inner = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        match inner.filter(|name| !name.contains(['{', '}'])) {
            Some("user") => Some(Segment::User),
            // Its sources are resolved with those of the rule.
            Some("user.id") => Some(Segment::UserId(Vec::new())),
            Some("") => {
                self.error(part, "a placeholder without a name", "write `{id}`");
                None
            }
            Some(name)
                if name.chars().all(|character| character.is_alphanumeric() || "_-.".contains(character)) =>
            {
                if let Some(message) = like_reserved(name) {
                    self.error(part, message, RESERVED);
                    return None;
                }
                if name.ends_with("...") {
                    let help = "write `**` at the end for any number of segments, or `{id}` for exactly one";
                    self.error(part, format!("`{part}` is not a placeholder"), help);
                    return None;
                }
                if let Some((why, help)) = is_like_caller(name) {
                    let message = format!("`{part}` matches any segment: {why}");
                    self.reader.warning_help(self.text.locate(part), Warning::LikePlaceholder, message, help);
                } else if is_like_user(name) {
                    let message =
                        format!("`{part}` matches any segment: only `{{user}}` is the caller's name");
                    let help =
                        "did you mean `{user}`, or `{user.id}` with `user_id_from`? If not, call it `{id}`";
                    self.reader.warning_help(self.text.locate(part), Warning::LikePlaceholder, message, help);
                }
                Some(Segment::One(name.into()))
            }
            Some(name) => {
                let help = match name.contains([':', '?', '=']).then(|| name_of(name)) {
                    Some(name) if names_caller(name) => {
                        format!("did you mean `{{{name}}}`? It is the caller's name alone")
                    }
                    Some(name) if is_path(&format!("/{{{name}}}")) => {
                        format!("did you mean `{{{name}}}`? A placeholder matches any one segment")
                    }
                    Some(_) => "write `{id}` for any one segment".to_owned(),
                    None if names_caller(name.trim_matches('*')) => {
                        format!("did you mean `{{{}}}`?", name.trim_matches('*'))
                    }
                    None if name.contains(['*', '+']) => {
                        "write `**` at the end for any number of segments".to_owned()
                    }
                    None => "a name has letters, digits, `_`, `-` and `.`".to_owned(),
                };
                self.error(part, format!("`{part}` is not a placeholder"), help);
                None
            }
            None => {
                let help = more_than_placeholder(part);
                self.error(part, format!("`{part}` has more than a placeholder in it"), help);
                None
            }
        }
    }

    fn glob(&mut self, part: &str) -> Option<ParsedSegment> {
        let spellings: Option<Vec<Spelling<'_>>> =
            part.split('*').map(|piece| self.spelling(piece)).collect();
        let spellings = spellings?;
        for spelling in &spellings {
            // Of a piece, only what does not depend on what `*` is. Where bytes of a character are missing, they may be there.
            if let Some(error @ (PathError::EncodedSlash | PathError::NestedEncoding)) =
                fault_of_requests(&spelling.canonical)
            {
                self.never(part, error);
                return None;
            }
        }
        let raw = spellings.iter().any(|spelling| spelling.raw.is_some()).then(|| {
            let pieces =
                spellings.iter().map(|spelling| spelling.raw.as_ref().unwrap_or(&spelling.canonical));
            Segment::Glob(Glob(pieces.map(|piece| piece.as_str().into()).collect()))
        });
        let pieces = spellings.iter().map(|spelling| spelling.canonical.as_str().into()).collect();
        Some(ParsedSegment { canonical: Segment::Glob(Glob(pieces)), raw })
    }

    fn literal(&mut self, part: &str) -> Option<ParsedSegment> {
        let spelling = self.spelling(part)?;
        if matches!(spelling.canonical.as_str(), "." | "..") {
            let help = "write the path that it leads to";
            self.error(part, format!("`{part}` never matches: dot segments of requests are removed"), help);
            return None;
        }
        if !percent::is_utf8(&spelling.canonical) {
            let help = "encode the UTF-8 bytes of each character";
            self.error(part, format!("`{part}` never matches: it is not UTF-8"), help);
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
        self.error(part, message, "write the path as requests have it, or leave the rule out");
    }

    fn spelling<'p>(&mut self, piece: &'p str) -> Option<Spelling<'p>> {
        match percent::read(piece) {
            Ok(spelling) => {
                if let Some((triplet, character)) = spelling.needless {
                    let message =
                        format!("`{triplet}` covers `{character}` as well: requests may spell it either way");
                    let help = format!("write `{character}`");
                    self.reader.warning_help(
                        self.text.locate(triplet),
                        Warning::EncodedCharacter,
                        message,
                        help,
                    );
                }
                Some(spelling)
            }
            Err((part, error)) => {
                self.error(part, format!("`{part}` {}", error.message()), error.help());
                None
            }
        }
    }

    fn error(&mut self, part: &str, message: impl Into<String>, help: impl Into<String>) {
        self.failed = true;
        self.reader.error_help(self.text.locate(part), message, help);
    }
}

/// Why every request with this segment is denied, if so: `a%252Fb` hides a separator, `..;` a dot segment.
fn fault_of_requests(canonical: &str) -> Option<PathError> {
    // Others have one interpretation.
    if !canonical.contains(['%', ';']) {
        return None;
    }
    let path = format!("/a/{canonical}");
    let fault = canonical::path(b"GET", path.as_bytes(), &mut Buffers::default()).err()?;
    // These are reported for globs, too.
    let is_reported =
        matches!(fault, PathError::SegmentTooLong | PathError::ForbiddenByte | PathError::Backslash);
    (!is_reported).then_some(fault)
}

/// What joins two paths in the notation of other systems.
const JOINTS: [&str; 4] = [",/", "|/", "&/", "+/"];

/// Whether this `+` belongs to a name, such as that of C++.
fn is_plus(path: &str, at: usize) -> bool {
    path.get(..at).is_some_and(|before| before.ends_with('+'))
}

/// Whether a segment looks like a choice of names: `internal|private`, or `internal,private`.
fn are_alternatives(segment: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte))
    };
    ['|', ','].iter().any(|joint| segment.contains(*joint) && segment.split(*joint).all(is_name))
}

/// The path before its query or fragment, if it has one, and from there on. In `{id?}` there is none.
fn query_of(path: &str) -> Option<(&str, &str)> {
    let in_placeholder =
        |at: usize| path.get(..at).is_some_and(|before| before.rfind('{') > before.rfind('}'));
    let (at, _) = path.match_indices(['?', '#']).find(|(at, _)| !in_placeholder(*at))?;
    path.split_at_checked(at)
}

/// Whether this is a placeholder with `**` after it.
fn has_rest(part: &str) -> bool {
    let own = part.trim_matches('*');
    part.ends_with("**") && own.starts_with('{') && is_path(&format!("/{own}"))
}

/// What segments of regular expressions match any text.
const ANYTHING: [&str; 4] = [".*", ".+", "(.*)", "(.+)"];

/// Whether a text starts with a class of characters of regular expressions, such as `\d`.
fn is_class_escape(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next() == Some('\\')
        && characters.next().is_some_and(|class| "dDwWsS".contains(class))
        && !characters.next().is_some_and(char::is_alphanumeric)
}

/// Why a segment looks like a regular expression, or like a variable of a shell, and what to write instead.
fn regex_fault(part: &str) -> Option<(String, String)> {
    if let Some(name) = part.strip_prefix("${").and_then(|part| part.strip_suffix('}')) {
        let help = placeholder_of(name).unwrap_or_else(|| "write `{id}` for any one segment".to_owned());
        return Some((format!("`{part}` is not a placeholder"), help));
    }
    let is_class = || part.split_once('[').is_some_and(|(_, after)| after.contains(']'));
    let is_group =
        || part.split_once('(').is_some_and(|(_, after)| after.contains('|') && after.contains(')'));
    let inner = part.trim_start_matches('^').trim_end_matches('$');
    let help = if ANYTHING.contains(&inner) {
        "write `*` for exactly one segment, and `**` at the end for any number of them"
    } else if part.starts_with('^') || part.ends_with('$') {
        "leave it out: a pattern matches the whole path (`%24` is the character `$`)"
    } else if part.char_indices().any(|(at, _)| part.get(at..).is_some_and(is_class_escape)) {
        "write `{id}` for any segment"
    } else if is_class() {
        "write `{id}` for any segment, or `%5B` and `%5D` for the characters themselves"
    } else if is_group() {
        "write one path for each of them"
    } else {
        return None;
    };
    Some((format!("`{part}` is a regular expression, and a path is not"), help.to_owned()))
}
