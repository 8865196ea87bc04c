//! Paths that a matcher of Envoy matches, as patterns of rolegate.

use policy::pattern::{Glob, Pattern, Segment};

use crate::regex;
use crate::spelling::{canonical, literals, one, starting, written_once};
use crate::term::asterisk;
use crate::text_matcher::Matcher;

/// The paths that match.
#[derive(Clone, Debug)]
pub(crate) struct PathSet {
    /// All of these match.
    pub(crate) under: Vec<Pattern>,
    /// What matches is in these; `None` for any path.
    pub(crate) over: Option<Vec<Pattern>>,
    /// Nearly what matches, where a bit more is acceptable.
    pub(crate) wider: Option<Vec<Pattern>>,
    /// Why these are not the same.
    pub(crate) message: Option<String>,
}

impl PathSet {
    fn exactly(patterns: Vec<Pattern>) -> Self {
        Self { under: Vec::new(), over: Some(patterns), wider: None, message: None }
    }

    fn any() -> Self {
        Self { under: Vec::new(), over: None, wider: None, message: None }
    }

    /// Which paths match is not known.
    pub(crate) fn unknown(message: &str) -> Self {
        Self { message: Some(message.to_owned()), ..Self::any() }
    }

    /// The same where case is ignored.
    pub(crate) fn without_case(self) -> Self {
        let under = if self.message.is_none() { self.over.clone() } else { Some(self.under) };
        let has_case = |text: &str| text.bytes().any(|byte| byte.is_ascii_alphabetic());
        let general = |segment: Segment| match segment {
            Segment::Literal(text) if has_case(&text) => one(),
            Segment::Glob(glob) if glob.0.iter().any(|piece| has_case(piece)) => one(),
            segment => segment,
        };
        let over = self.over.map(|over| {
            let pattern = |pattern: Pattern| Pattern {
                segments: pattern.segments.into_iter().map(general).collect(),
                ..pattern
            };
            over.into_iter().map(pattern).collect()
        });
        let message = "paths are compared in upper and lower case".to_owned();
        Self { under: under.unwrap_or_default(), over, wider: None, message: Some(message) }
    }
}

/// The paths, without their query, that match.
pub(crate) fn of(matcher: &Matcher) -> PathSet {
    match matcher {
        Matcher::Any => PathSet::any(),
        Matcher::Exact(text) => exact(text),
        Matcher::Prefix(text) => prefix(text),
        Matcher::Suffix(_) => PathSet::unknown("a rule has no condition on the end of a path"),
        Matcher::Contains(_) => PathSet::unknown("a rule has no condition on a part of a path"),
        Matcher::Regex(regex) => match regex::patterns(regex) {
            Some(patterns) => PathSet::exactly(patterns),
            None => PathSet::unknown("a rule has no such regular expression"),
        },
        Matcher::Template(text) => template(text),
    }
}

const AMBIGUOUS: &str = "rolegate compares paths in canonical form, which this is not";

fn exact(text: &str) -> PathSet {
    if text == "*" {
        return PathSet::exactly(vec![asterisk()]);
    }
    if !text.starts_with('/') || text.contains(['?', '#']) {
        return PathSet::exactly(Vec::new());
    }
    let Some(canonical) = canonical(text) else {
        // rolegate answers 400 to it.
        return PathSet::exactly(Vec::new());
    };
    let pattern = Pattern { absolute: true, segments: literals(&canonical), rest: false };
    approximately(canonical == text, vec![pattern])
}

/// Exactly these patterns if the text of them is canonical and is written in one way only.
fn approximately(canonical: bool, patterns: Vec<Pattern>) -> PathSet {
    let pieces = patterns.iter().flat_map(|pattern| &pattern.segments);
    let plain = |segment: &Segment| match segment {
        Segment::Literal(text) => written_once(text),
        Segment::Glob(glob) => glob.0.iter().all(|piece| written_once(piece)),
        Segment::One(_) | Segment::User | Segment::UserId(_) => true,
    };
    if canonical && pieces.into_iter().all(plain) {
        return PathSet::exactly(patterns);
    }
    let message = Some(AMBIGUOUS.to_owned());
    PathSet { under: Vec::new(), over: Some(patterns.clone()), wider: Some(patterns), message }
}

fn prefix(text: &str) -> PathSet {
    match text {
        "" => return PathSet::any(),
        "*" => return PathSet::exactly(vec![asterisk()]),
        _ => {}
    }
    let Some((folder, start)) = text.rsplit_once('/').filter(|_| text.starts_with('/')) else {
        return PathSet::exactly(Vec::new());
    };
    if text.contains(['?', '#']) {
        return PathSet::exactly(Vec::new());
    }
    // A path in the folder that is canonical if and only if the folder is.
    let probe = format!("{folder}/x");
    let canonical_folder =
        canonical(&probe).map(|path| path.strip_suffix("/x").unwrap_or_default().to_owned());
    let Some(canonical_folder) = canonical_folder else { return PathSet::exactly(Vec::new()) };
    let is_start = start.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_~!&',=@.".contains(&byte))
        && ![".", ".."].contains(&start);
    let patterns = below_folder(&canonical_folder, if is_start { start } else { "" });
    if is_start && canonical_folder == folder {
        approximately(true, patterns)
    } else {
        // Every path is more than a bit.
        let is_every_path = patterns.iter().any(|pattern| pattern.segments.is_empty());
        let wider = (is_start && !is_every_path).then(|| patterns.clone());
        PathSet { under: Vec::new(), over: Some(patterns), wider, message: Some(AMBIGUOUS.to_owned()) }
    }
}

/// The paths below a folder whose next segment starts with this.
fn below_folder(folder: &str, start: &str) -> Vec<Pattern> {
    let segments = if folder.is_empty() { Vec::new() } else { literals(folder) };
    starting(&Pattern { absolute: true, segments, rest: true }, start)
}

/// `/users/{id}/**` of Envoy.
fn template(text: &str) -> PathSet {
    const MESSAGE: &str =
        "a `{name}` of rolegate is any segment, also with characters such as `=` that a template excludes";
    let unknown = || PathSet::unknown("a rule has no such template");
    let is_canonical = |path: String| canonical(&path).is_some_and(|canonical| canonical == path);
    let Some(parts) = template_parts(text) else { return unknown() };
    let mut segments = Vec::new();
    let mut is_near = true;
    for (number, part) in parts.iter().enumerate() {
        match part {
            Part::Literal(text) if is_canonical(format!("/{text}")) => {
                segments.push(Segment::Literal(text.as_str().into()));
            }
            Part::Segment(end) if end.is_empty() => segments.push(one()),
            // To Envoy, `A9` may be the end of `%C3%A9`; a glob does not split a triplet.
            Part::Segment(end) if end.starts_with(|first: char| first.is_ascii_hexdigit()) => {
                segments.push(one());
                is_near = false;
            }
            Part::Segment(end) if is_canonical(format!("/x{end}")) => {
                segments.push(Segment::Glob(Glob(vec!["".into(), end.as_str().into()])));
            }
            Part::Rest(end) if end.is_empty() && number + 1 == parts.len() => {
                let all = starting(&Pattern { absolute: true, segments, rest: true }, "");
                return wider(all, MESSAGE);
            }
            Part::Literal(_) | Part::Segment(_) | Part::Rest(_) => return unknown(),
        }
    }
    let set = wider(vec![Pattern { absolute: true, segments, rest: false }], MESSAGE);
    if is_near { set } else { PathSet { wider: None, ..set } }
}

fn wider(patterns: Vec<Pattern>, message: &str) -> PathSet {
    let only_literals = patterns.iter().all(|pattern| {
        !pattern.rest && pattern.segments.iter().all(|segment| matches!(segment, Segment::Literal(_)))
    });
    if only_literals {
        return approximately(true, patterns);
    }
    PathSet {
        under: Vec::new(),
        over: Some(patterns.clone()),
        wider: Some(patterns),
        message: Some(message.to_owned()),
    }
}

/// What a template matches between two slashes, or from one to the end of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This text; it is empty after a slash at the end.
    Literal(String),
    /// `*`: one segment that is not empty, with this end.
    Segment(String),
    /// `**`: any number of segments, with this end.
    Rest(String),
}

/// The parts of a template, with those of its variables; `None` if it is none. Envoy does not start with such a text.
fn template_parts(template: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut text = template.strip_prefix('/')?;
    loop {
        // A slash at the end.
        if text.is_empty() {
            parts.push(Part::Literal(String::new()));
            return Some(parts);
        }
        if let Some(inside) = text.strip_prefix('{') {
            let (inside, after) = inside.split_once('}')?;
            parts.extend(template_variable(inside)?);
            text = after;
        } else {
            let (part, after) = template_part(text)?;
            parts.push(part);
            text = after;
        }
        let Some(after) = text.strip_prefix('/') else { break };
        text = after;
    }
    if !text.is_empty() {
        parts.last_mut()?.end_with(text)?;
    }
    Some(parts)
}

/// The parts of a variable, without its braces.
fn template_variable(inside: &str) -> Option<Vec<Part>> {
    let (name, mut pattern) = inside.split_once('=').unwrap_or((inside, "*"));
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let mut parts = Vec::new();
    loop {
        let (part, after) = template_part(pattern)?;
        parts.push(part);
        if after.is_empty() {
            return Some(parts);
        }
        pattern = after.strip_prefix('/')?;
    }
}

/// An operator or a literal, and the text after it.
fn template_part(text: &str) -> Option<(Part, &str)> {
    if let Some(after) = text.strip_prefix("**") {
        return Some((Part::Rest(String::new()), after));
    }
    if let Some(after) = text.strip_prefix('*') {
        return Some((Part::Segment(String::new()), after));
    }
    let literal = text.split('/').next().filter(|literal| is_literal(literal))?;
    Some((Part::Literal(literal.to_owned()), text.strip_prefix(literal)?))
}

impl Part {
    /// Adds the text after the last part.
    fn end_with(&mut self, text: &str) -> Option<()> {
        let (Self::Literal(end) | Self::Segment(end) | Self::Rest(end)) = self;
        end.push_str(Some(text).filter(|text| is_literal(text))?);
        Some(())
    }
}

/// Whether Envoy takes this for literal text: what RFC 3986 calls `pchar`, besides `*` and `=`.
fn is_literal(text: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()+,;:@".contains(&byte);
    !text.is_empty() && text.bytes().all(is_known)
}
