//! Whether a pattern covers another pattern: it matches everything that the other matches.

use super::{Actions, Glob, HostLabel, Pattern, Scope, Segment, cuts_triplet};

impl Actions {
    /// Whether these include all of `other`.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::These(_), Self::Any) => false,
            (Self::These(cover), Self::These(actions)) => {
                actions.iter().all(|action| cover.contains(action))
            }
        }
    }
}

impl Scope {
    /// Whether this includes each host that `other` includes.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (cover, Self::Exact(exact)) => cover.matches(exact.as_bytes()),
            (Self::Below(cover), Self::Below(suffix)) => cover == suffix || is_below(suffix, cover),
            (Self::Below(suffix), Self::Labels(labels)) => {
                let mut suffix_labels = suffix.rsplit('.');
                let mut labels = labels.iter().rev();
                suffix_labels.all(|part| {
                    matches!(labels.next(), Some(HostLabel::Literal(label)) if **label == *part)
                }) && labels.next().is_some()
            }
            (Self::Labels(cover), Self::Labels(labels)) => {
                let mut pairs = cover.iter().zip(labels);
                cover.len() == labels.len()
                    && pairs
                        .all(|(cover, label)| matches!(cover, HostLabel::Any(_)) || cover == label)
            }
            (Self::Exact(_), Self::Below(_) | Self::Labels(_))
            | (Self::Labels(_), Self::Below(_)) => false,
        }
    }
}

/// Whether `host` is below `other`, as `a.example.com` is below `example.com`.
#[must_use]
pub fn is_below(host: &str, other: &str) -> bool {
    host.strip_suffix(other).is_some_and(|front| front.ends_with('.'))
}

impl Pattern {
    /// Whether this matches everything that `other` matches. Globs are compared only at their ends.
    /// So the result `false` may be wrong, but `true` is always right.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let (count, other_count) = (self.segments.len(), other.segments.len());
        let length_fits = if self.open_ended {
            count <= other_count
        } else {
            count == other_count && !other.open_ended
        };
        let mut pairs = self.segments.iter().zip(&other.segments);
        self.absolute == other.absolute
            && length_fits
            && pairs.all(|(cover, segment)| cover.covers(segment))
    }
}

impl Segment {
    /// Whether this matches each segment that `other` matches. `false` may be wrong, as in
    /// [`Pattern::covers`].
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (cover, Self::Literal(literal)) => {
                !matches!(cover, Self::User | Self::UserId(_))
                    && cover.matches(literal.as_bytes(), None)
            }
            (Self::Any(_), _) | (Self::User, Self::User) => true,
            (Self::Glob(cover), Self::Glob(glob)) => covers_glob(cover, glob),
            (Self::UserId(cover), Self::UserId(sources)) => {
                sources.iter().all(|source| cover.contains(source))
            }
            (Self::Glob(cover), Self::Any(_) | Self::User | Self::UserId(_)) => {
                cover.0.iter().all(|piece| piece.is_empty())
            }
            (Self::Literal(_) | Self::User | Self::UserId(_), _) => false,
        }
    }
}

/// True if the globs are equal, or if `cover` has a single `*` and `glob` begins and ends like
/// `cover`. False for all other globs, even if `cover` does cover `glob`.
fn covers_glob(cover: &Glob, glob: &Glob) -> bool {
    if cover == glob {
        return true;
    }
    let ([before, after], Some(first), Some(last)) =
        (cover.0.as_slice(), glob.0.first(), glob.0.last())
    else {
        return false;
    };
    first.starts_with(&**before) && ends_with(last, after)
}

/// Whether a piece of a glob ends in `end`. It does not if `end` begins inside a triplet: `%41`
/// does not end in `1`.
fn ends_with(piece: &str, end: &str) -> bool {
    let before = piece.strip_suffix(end);
    before.is_some_and(|before| !cuts_triplet(piece.as_bytes(), before.len()))
}
