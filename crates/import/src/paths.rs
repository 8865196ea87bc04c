//! Paths that a matcher of Envoy matches, as patterns of rolegate.

use policy::pattern::{Glob, Pattern, Segment};

use crate::regex;
use crate::spelling::{
    any_segment, canonical, has_single_spelling, is_canonical, literals, starting,
};
use crate::term::asterisk;
use crate::text_matcher::Matcher;

/// The paths that match.
#[derive(Clone, Debug)]
pub(crate) struct PathSet {
    /// Every matching path matches one of these; `None` for any path.
    pub(crate) patterns: Option<Vec<Pattern>>,
    /// The difference, if the patterns match more than the matcher.
    pub(crate) difference: Option<Difference>,
}

#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// The matcher matches all paths of these patterns.
    pub(crate) under: Vec<Pattern>,
    /// Whether `--allow-wider` may accept the wider patterns.
    pub(crate) is_acceptable: bool,
    pub(crate) message: &'static str,
}

impl PathSet {
    fn exactly(patterns: Vec<Pattern>) -> Self {
        Self { patterns: Some(patterns), difference: None }
    }

    fn inexact(patterns: Option<Vec<Pattern>>, is_acceptable: bool, message: &'static str) -> Self {
        let difference = Difference { under: Vec::new(), is_acceptable, message };
        Self { patterns, difference: Some(difference) }
    }

    /// Any path may match.
    fn unknown(message: &'static str) -> Self {
        Self::inexact(None, false, message)
    }

    /// The patterns of a matcher's text. They are exact if the text is canonical and no text with a
    /// percent-encoding means the same. Otherwise they are an approximation.
    fn exactly_if(is_canonical: bool, patterns: Vec<Pattern>) -> Self {
        let is_unambiguous =
            patterns.iter().flat_map(|pattern| &pattern.segments).all(|segment| match segment {
                Segment::Literal(text) => has_single_spelling(text),
                Segment::Glob(glob) => glob.0.iter().all(|piece| has_single_spelling(piece)),
                Segment::Any(_) | Segment::User | Segment::UserId(_) => true,
            });
        if is_canonical && is_unambiguous {
            return Self::exactly(patterns);
        }
        Self::inexact(Some(patterns), true, AMBIGUOUS)
    }

    /// The paths that match if case is ignored.
    fn without_case(mut self) -> Self {
        let with_case = self.patterns.clone();
        let has_case = |text: &str| text.bytes().any(|byte| byte.is_ascii_alphabetic());
        for segment in self.patterns.iter_mut().flatten().flat_map(|path| &mut path.segments) {
            match segment {
                Segment::Literal(text) if has_case(text) => *segment = any_segment(),
                Segment::Glob(glob) if glob.0.iter().any(|piece| has_case(piece)) => {
                    *segment = any_segment();
                }
                _ => {}
            }
        }
        if self.patterns == with_case {
            return self;
        }
        let under = match self.difference {
            None => with_case.unwrap_or_default(),
            Some(difference) => difference.under,
        };
        let message = "rolegate compares paths case-sensitively";
        self.difference = Some(Difference { under, is_acceptable: false, message });
        self
    }
}

/// The paths, without their query, that match.
pub(crate) fn matching(matcher: &Matcher, ignore_case: bool) -> PathSet {
    let set = match matcher {
        Matcher::Any => PathSet { patterns: None, difference: None },
        Matcher::Exact(text) => exact(text),
        Matcher::Prefix(text) => prefix(text),
        Matcher::Suffix(_) => PathSet::unknown("a rule has no condition on the end of a path"),
        Matcher::Contains(_) => PathSet::unknown("a rule has no condition on a part of a path"),
        Matcher::Regex(regex) => regex::patterns(regex).map_or_else(
            || PathSet::unknown("a rule cannot express this regular expression"),
            PathSet::exactly,
        ),
        Matcher::Template(text) => template(text)
            .unwrap_or_else(|| PathSet::unknown("a rule cannot express this template")),
    };
    if ignore_case { set.without_case() } else { set }
}

const AMBIGUOUS: &str = "rolegate compares paths in canonical form, and this path is not canonical";

fn exact(text: &str) -> PathSet {
    if text == "*" {
        return PathSet::exactly(vec![asterisk()]);
    }
    // rolegate answers 400 to a path without a canonical form.
    let canonical = canonical(text).filter(|_| text.starts_with('/') && !text.contains(['?', '#']));
    let Some(canonical) = canonical else { return PathSet::exactly(Vec::new()) };
    let pattern = Pattern { absolute: true, segments: literals(&canonical), open_ended: false };
    PathSet::exactly_if(canonical == text, vec![pattern])
}

fn prefix(text: &str) -> PathSet {
    match text {
        "" => return PathSet { patterns: None, difference: None },
        "*" => return PathSet::exactly(vec![asterisk()]),
        _ => {}
    }
    let parts = text.rsplit_once('/').filter(|_| text.starts_with('/'));
    let Some((folder, start)) = parts.filter(|_| !text.contains(['?', '#'])) else {
        return PathSet::exactly(Vec::new());
    };
    // A path in the folder has a canonical form if and only if the folder has a canonical form.
    let Some(path) = canonical(&format!("{folder}/x")) else {
        return PathSet::exactly(Vec::new());
    };
    let canonical_folder = path.strip_suffix("/x").unwrap_or_default();
    // The ASCII characters that have a single spelling and mean nothing in a pattern.
    let is_plain_start =
        start.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_~!&',=@.".contains(&byte))
            && ![".", ".."].contains(&start);
    let segments =
        if canonical_folder.is_empty() { Vec::new() } else { literals(canonical_folder) };
    let patterns = starting(&segments, if is_plain_start { start } else { "" });
    if is_plain_start && canonical_folder == folder {
        return PathSet::exactly_if(true, patterns);
    }
    // Patterns for every path are too wide to be accepted.
    let is_every_path = patterns.iter().any(|pattern| pattern.segments.is_empty());
    PathSet::inexact(Some(patterns), is_plain_start && !is_every_path, AMBIGUOUS)
}

/// A URI template of Envoy, such as `/users/{id}/**`; `None` if no patterns approximate it.
fn template(text: &str) -> Option<PathSet> {
    const MESSAGE: &str = "`{name}` in rolegate matches any segment, including characters such as \
                           `=` that a template excludes";
    let text = without_variables(text)?;
    let mut segments = Vec::new();
    let (mut is_acceptable, mut has_operator) = (true, false);
    let mut parts = text.split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        if part == "**" && is_last {
            return Some(PathSet::inexact(Some(starting(&segments, "")), true, MESSAGE));
        }
        let Some(end) = part.strip_prefix('*') else {
            let is_text = is_template_literal(part) || part.is_empty() && is_last;
            if !is_text || !is_canonical(&format!("/{part}")) {
                return None;
            }
            segments.push(Segment::Literal(part.into()));
            continue;
        };
        has_operator = true;
        if end.is_empty() {
            segments.push(any_segment());
        } else if !is_template_literal(end) || !is_last {
            return None;
        } else if end.starts_with(|first: char| first.is_ascii_hexdigit()) {
            // To Envoy, `A9` may be the end of `%C3%A9`. A glob does not split `%A9`.
            segments.push(any_segment());
            is_acceptable = false;
        } else if is_canonical(&format!("/x{end}")) {
            segments.push(Segment::Glob(Glob(vec!["".into(), end.into()])));
        } else {
            return None;
        }
    }
    let patterns = vec![Pattern { absolute: true, segments, open_ended: false }];
    Some(if has_operator {
        PathSet::inexact(Some(patterns), is_acceptable, MESSAGE)
    } else {
        PathSet::exactly_if(true, patterns)
    })
}

/// A template without its first slash, each variable replaced by its pattern: `*` for `{name}`,
/// `a/**` for `{name=a/**}`. `None` if a variable is not valid or begins within a segment: Envoy
/// does not start with such a template.
fn without_variables(template: &str) -> Option<String> {
    let mut flat = String::new();
    let mut remaining = template.strip_prefix('/')?;
    while let Some((before, variable)) = remaining.split_once('{') {
        let (variable, after) = variable.split_once('}')?;
        flat += before;
        let (name, pattern) = variable.split_once('=').unwrap_or((variable, "*"));
        let is_valid = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && pattern
                .split('/')
                .all(|part| ["*", "**"].contains(&part) || is_template_literal(part))
            && (flat.is_empty() || flat.ends_with('/'));
        if !is_valid {
            return None;
        }
        flat += pattern;
        remaining = after;
    }
    Some(flat + remaining)
}

/// Whether this is literal text to Envoy: the `pchar` of RFC 3986 without `*` and `=`.
fn is_template_literal(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()+,;:@".contains(&byte))
}
