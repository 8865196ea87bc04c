//! Sets of hosts, paths and callers: what two of them have in common.

use std::sync::LazyLock;

use policy::pattern::{Glob, Pattern, Scope, Segment};

use crate::literal::Caller;

/// Whether two sets have something in common cannot be told, or what they have in common cannot be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown;

/// The hosts that both include. Of two scopes, one includes the other or they have nothing in common.
pub(crate) fn common_hosts(one: &[Scope], other: &[Scope]) -> Vec<Scope> {
    let narrower = |a: &Scope, b: &Scope| {
        if a.covers(b) { Some(b.clone()) } else { b.covers(a).then(|| a.clone()) }
    };
    one.iter().flat_map(|a| other.iter().filter_map(move |b| narrower(a, b))).collect()
}

/// The paths that both include; `None` if that cannot be written as patterns.
pub(crate) fn common_paths(one: &[Pattern], other: &[Pattern]) -> Option<Vec<Pattern>> {
    let mut common = Vec::new();
    for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
        match common_path(a, b) {
            Ok(pattern) => common.extend(pattern.filter(|pattern| !common.contains(pattern))),
            Err(Unknown) => return None,
        }
    }
    Some(common)
}

fn common_path(one: &Pattern, other: &Pattern) -> Result<Option<Pattern>, Unknown> {
    if !may_overlap(one, other) {
        return Ok(None);
    }
    let length = one.segments.len().max(other.segments.len());
    let segments: Result<Vec<Segment>, Unknown> = (0..length)
        .map(|number| match (one.segments.get(number), other.segments.get(number)) {
            (Some(a), Some(b)) if a.covers(b) => Ok(b.clone()),
            (Some(a), Some(b)) if b.covers(a) => Ok(a.clone()),
            (Some(_), Some(_)) | (None, None) => Err(Unknown),
            (Some(only), None) | (None, Some(only)) => Ok(only.clone()),
        })
        .collect();
    Ok(Some(Pattern { absolute: one.absolute, segments: segments?, rest: one.rest && other.rest }))
}

/// Whether a path may match both. False only if none does.
pub(crate) fn may_overlap(one: &Pattern, other: &Pattern) -> bool {
    let (a, b) = (one.segments.len(), other.segments.len());
    let length = (a == b) || (a < b && one.rest) || (b < a && other.rest);
    let pairs = || one.segments.iter().zip(&other.segments);
    one.absolute == other.absolute && length && pairs().all(|(a, b)| segments_may_overlap(a, b))
}

fn segments_may_overlap(one: &Segment, other: &Segment) -> bool {
    match (one, other) {
        (Segment::Literal(_), _) => other.covers(one),
        (_, Segment::Literal(_)) => one.covers(other),
        (Segment::Glob(a), Segment::Glob(b)) => globs_may_overlap(a, b),
        _ => true,
    }
}

fn globs_may_overlap(one: &Glob, other: &Glob) -> bool {
    let ends = |glob: &Glob| {
        let first = glob.0.first().map(|piece| piece.to_string()).unwrap_or_default();
        (first, glob.0.last().map(|piece| piece.to_string()).unwrap_or_default())
    };
    let ((a, b), (c, d)) = (ends(one), ends(other));
    (a.starts_with(&c) || c.starts_with(&a)) && (b.ends_with(&d) || d.ends_with(&b))
}

/// Whether two sets of paths may have one in common. `None` is any path.
pub(crate) fn paths_may_overlap(one: Option<&[Pattern]>, other: Option<&[Pattern]>) -> bool {
    match (one, other) {
        (None, _) | (_, None) => true,
        (Some(one), Some(other)) => one.iter().any(|a| other.iter().any(|b| may_overlap(a, b))),
    }
}

/// The callers that are both; `None` if nobody is.
pub(crate) fn common_caller(one: &Caller, other: &Caller) -> Result<Option<Caller>, Unknown> {
    match (one, other) {
        (Caller::Anyone, caller) | (caller, Caller::Anyone) => Ok(Some(caller.clone())),
        (Caller::Authenticated, caller) | (caller, Caller::Authenticated) => Ok(Some(caller.clone())),
        (one, other) if one == other => Ok(Some(one.clone())),
        (Caller::User(_, _), Caller::User(_, _)) => Ok(None),
        (Caller::User(a, _) | Caller::Group(a, _), Caller::User(b, _) | Caller::Group(b, _)) => {
            if a == b {
                Err(Unknown)
            } else {
                Ok(None)
            }
        }
    }
}

/// Any path: those that begin with a slash, and the one of `OPTIONS *`.
pub(crate) static ANY: LazyLock<Vec<Pattern>> =
    LazyLock::new(|| vec![Pattern { absolute: true, segments: Vec::new(), rest: true }, asterisk()]);

/// The path `*` of `OPTIONS *`.
pub(crate) fn asterisk() -> Pattern {
    Pattern { absolute: false, segments: vec![Segment::Literal("*".into())], rest: false }
}
