//! Paths that a matcher of Envoy matches, as patterns of rolegate.

use policy::pattern::{Glob, Pattern, Segment};

use crate::regex;
use crate::spelling::{canonical, literals, one, starting, written_once};
use crate::term::asterisk;
use crate::text_matcher::Matcher;

/// The paths that match.
#[derive(Clone, Debug)]
pub(crate) struct PathSet {
    /// Each path that matches is in these; `None` for any path.
    pub(crate) patterns: Option<Vec<Pattern>>,
    /// Why not all of these match.
    pub(crate) difference: Option<Difference>,
}

#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// All of these match.
    pub(crate) under: Vec<Pattern>,
    /// Whether it can be accepted to allow all of the patterns, which is a bit more.
    pub(crate) is_acceptable: bool,
    pub(crate) message: &'static str,
}

impl PathSet {
    fn exactly(patterns: Vec<Pattern>) -> Self {
        Self { patterns: Some(patterns), difference: None }
    }

    fn any() -> Self {
        Self { patterns: None, difference: None }
    }

    fn inexact(patterns: Option<Vec<Pattern>>, is_acceptable: bool, message: &'static str) -> Self {
        Self {
            patterns,
            difference: Some(Difference { under: Vec::new(), is_acceptable, message }),
        }
    }

    /// Which paths match is not known.
    pub(crate) fn unknown(message: &'static str) -> Self {
        Self::inexact(None, false, message)
    }

    /// The same where case is ignored.
    pub(crate) fn without_case(self) -> Self {
        let under = match self.difference {
            None => self.patterns.clone().unwrap_or_default(),
            Some(difference) => difference.under,
        };
        let has_case = |text: &str| text.bytes().any(|byte| byte.is_ascii_alphabetic());
        let general = |segment: Segment| match segment {
            Segment::Literal(text) if has_case(&text) => one(),
            Segment::Glob(glob) if glob.0.iter().any(|piece| has_case(piece)) => one(),
            segment => segment,
        };
        let mut patterns = self.patterns;
        for pattern in patterns.iter_mut().flatten() {
            pattern.segments = pattern.segments.drain(..).map(general).collect();
        }
        let message = "paths are compared in upper and lower case";
        Self { patterns, difference: Some(Difference { under, is_acceptable: false, message }) }
    }
}

/// The paths, without their query, that match.
pub(crate) fn matching(matcher: &Matcher) -> PathSet {
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
    // rolegate answers 400 to a path without a canonical form.
    let canonical = canonical(text).filter(|_| text.starts_with('/') && !text.contains(['?', '#']));
    let Some(canonical) = canonical else { return PathSet::exactly(Vec::new()) };
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
    PathSet::inexact(Some(patterns), true, AMBIGUOUS)
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
    let is_start =
        start.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_~!&',=@.".contains(&byte))
            && ![".", ".."].contains(&start);
    let patterns = below_folder(&canonical_folder, if is_start { start } else { "" });
    if is_start && canonical_folder == folder {
        return approximately(true, patterns);
    }
    // Every path is more than a bit.
    let is_every_path = patterns.iter().any(|pattern| pattern.segments.is_empty());
    PathSet::inexact(Some(patterns), is_start && !is_every_path, AMBIGUOUS)
}

/// The paths below a folder whose next segment starts with this.
fn below_folder(folder: &str, start: &str) -> Vec<Pattern> {
    let segments = if folder.is_empty() { Vec::new() } else { literals(folder) };
    starting(&Pattern { absolute: true, segments, rest: true }, start)
}

/// `/users/{id}/**` of Envoy.
fn template(text: &str) -> PathSet {
    const MESSAGE: &str = "a `{name}` of rolegate is any segment, also with characters such as `=` that a template excludes";
    let unknown = || PathSet::unknown("a rule has no such template");
    let is_canonical = |path: String| canonical(&path).is_some_and(|canonical| canonical == path);
    let Some(text) = without_variables(text) else { return unknown() };
    let mut segments = Vec::new();
    let (mut is_near, mut has_operator) = (true, false);
    let mut parts = text.split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        if part == "**" && is_last {
            let below = starting(&Pattern { absolute: true, segments, rest: true }, "");
            return PathSet::inexact(Some(below), true, MESSAGE);
        }
        let Some(end) = part.strip_prefix('*') else {
            let is_text = is_literal(part) || part.is_empty() && is_last;
            if !is_text || !is_canonical(format!("/{part}")) {
                return unknown();
            }
            segments.push(Segment::Literal(part.into()));
            continue;
        };
        has_operator = true;
        if end.is_empty() {
            segments.push(one());
        } else if !is_literal(end) || !is_last {
            return unknown();
        } else if end.starts_with(|first: char| first.is_ascii_hexdigit()) {
            // To Envoy, `A9` may be the end of `%C3%A9`; a glob does not split a triplet.
            segments.push(one());
            is_near = false;
        } else if is_canonical(format!("/x{end}")) {
            segments.push(Segment::Glob(Glob(vec!["".into(), end.into()])));
        } else {
            return unknown();
        }
    }
    let patterns = vec![Pattern { absolute: true, segments, rest: false }];
    if has_operator {
        PathSet::inexact(Some(patterns), is_near, MESSAGE)
    } else {
        approximately(true, patterns)
    }
}

/// A template without its first slash, and with the pattern of each variable in its place: `*` for
/// `{name}`, `a/**` for `{name=a/**}`. `None` if a variable is not valid or begins within a
/// segment: Envoy does not start with such a text.
fn without_variables(template: &str) -> Option<String> {
    let mut flat = String::new();
    let mut rest = template.strip_prefix('/')?;
    while let Some((before, variable)) = rest.split_once('{') {
        let (variable, after) = variable.split_once('}')?;
        flat += before;
        let (name, pattern) = variable.split_once('=').unwrap_or((variable, "*"));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty()
            || !name.bytes().all(is_name)
            || !pattern.split('/').all(|part| ["*", "**"].contains(&part) || is_literal(part))
            || !flat.is_empty() && !flat.ends_with('/')
        {
            return None;
        }
        flat += pattern;
        rest = after;
    }
    Some(flat + rest)
}

/// Whether Envoy takes this for literal text: what RFC 3986 calls `pchar`, besides `*` and `=`.
fn is_literal(text: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()+,;:@".contains(&byte);
    !text.is_empty() && text.bytes().all(is_known)
}
