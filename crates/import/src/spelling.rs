//! How paths are spelled: their canonical form, and whether a rule matches one spelling only; and
//! names that are free.

use policy::canonical::{self, Buffers};
use policy::pattern::{Glob, Pattern, Segment};

/// The paths below the segments of a pattern whose next segment starts with this.
pub(crate) fn starting(folder: &Pattern, start: &str) -> Vec<Pattern> {
    let with = |last: Option<Segment>, rest| Pattern {
        segments: folder.segments.iter().cloned().chain(last).collect(),
        rest,
        ..folder.clone()
    };
    match start {
        "" if folder.segments.is_empty() => vec![with(None, true)],
        "" => vec![with(Some(Segment::Literal("".into())), false), with(Some(one()), true)],
        start => vec![with(Some(Segment::Glob(Glob(vec![start.into(), "".into()]))), true)],
    }
}

/// Whether this path is canonical, and a rule can match it and no other spelling of it.
pub(crate) fn is_plain(path: &str) -> bool {
    canonical(path).is_some_and(|canonical| canonical == path) && written_once(path)
}

/// The canonical form of a path without a query; `None` if each request with it is invalid.
pub(crate) fn canonical(path: &str) -> Option<String> {
    let mut buffers = Buffers::default();
    let paths = canonical::path(b"GET", path.as_bytes(), &mut buffers).ok()?;
    String::from_utf8(paths.first().to_vec()).ok()
}

pub(crate) fn literals(path: &str) -> Vec<Segment> {
    path.strip_prefix('/')
        .unwrap_or(path)
        .split('/')
        .map(|text| Segment::Literal(text.into()))
        .collect()
}

pub(crate) fn one() -> Segment {
    Segment::One("any".into())
}

/// Whether a rule can match this text and no other spelling of it.
pub(crate) fn written_once(text: &str) -> bool {
    !text.contains([
        '%', ';', '*', '{', '}', '[', ']', '(', ')', '+', '<', '>', ':', '^', '$', '|', '"',
    ])
}

/// The first free name among those that `name` makes of an empty text, `-2`, `-3`, and so on.
pub(crate) fn first_free(
    name: impl Fn(&str) -> String,
    is_free: impl Fn(&String) -> bool,
) -> String {
    let numbers = std::iter::once(String::new()).chain((2..).map(|number| format!("-{number}")));
    numbers.map(|number| name(&number)).find(is_free).unwrap_or_default()
}
