//! How paths are spelled: their canonical form, and whether a rule matches a single spelling.

use policy::canonical::{self, Buffers};
use policy::pattern::{Glob, Pattern, Segment};

/// The paths below `folder` whose next segment begins with `start`.
pub(crate) fn starting(folder: &[Segment], start: &str) -> Vec<Pattern> {
    let pattern = |last: Option<Segment>, rest| Pattern {
        absolute: true,
        segments: folder.iter().cloned().chain(last).collect(),
        open_ended: rest,
    };
    match start {
        "" if folder.is_empty() => vec![pattern(None, true)],
        "" => vec![
            pattern(Some(Segment::Literal("".into())), false),
            pattern(Some(any_segment()), true),
        ],
        start => vec![pattern(Some(Segment::Glob(Glob(vec![start.into(), "".into()]))), true)],
    }
}

/// Whether this path is canonical and has a single spelling.
pub(crate) fn is_plain(path: &str) -> bool {
    is_canonical(path) && has_single_spelling(path)
}

pub(crate) fn is_canonical(path: &str) -> bool {
    canonical(path).is_some_and(|canonical| canonical == path)
}

/// The canonical form of a path without a query; `None` if rolegate answers 400 to it.
pub(crate) fn canonical(path: &str) -> Option<String> {
    let mut buffers = Buffers::default();
    let paths = canonical::path(b"GET", path.as_bytes(), &mut buffers).ok()?;
    String::from_utf8(paths.first().to_vec()).ok()
}

pub(crate) fn literals(path: &str) -> Vec<Segment> {
    let segments = path.strip_prefix('/').unwrap_or(path).split('/');
    segments.map(|text| Segment::Literal(text.into())).collect()
}

pub(crate) fn any_segment() -> Segment {
    Segment::Any("any".into())
}

/// Whether a rule that matches this text matches no other spelling of it, such as a percent-encoded
/// spelling.
pub(crate) fn has_single_spelling(text: &str) -> bool {
    !text.contains([
        '%', ';', '*', '{', '}', '[', ']', '(', ')', '+', '<', '>', ':', '^', '$', '|', '"',
    ])
}
