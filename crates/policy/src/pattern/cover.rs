//! Whether a pattern covers another pattern: it matches everything that the other matches.

use super::{Actions, Glob, Pattern, Scope, Segment, cuts_triplet};

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
            (Self::Exact(_), Self::Below(_)) => false,
        }
    }
}

/// Whether a host is below another.
#[must_use]
pub fn is_below(host: &str, other: &str) -> bool {
    host.strip_suffix(other).is_some_and(|front| front.ends_with('.'))
}

impl Pattern {
    /// Whether this matches everything that `other` matches. May be false where it does: two globs
    /// are compared by their ends.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let (most, fewest) = (self.segments.len(), other.segments.len());
        let length = if self.rest { most <= fewest } else { most == fewest && !other.rest };
        let mut pairs = self.segments.iter().zip(&other.segments);
        self.absolute == other.absolute
            && length
            && pairs.all(|(cover, segment)| cover.covers(segment))
    }
}

impl Segment {
    /// Whether this matches each segment that `other` matches. May be false where it does, as for
    /// [`Pattern::covers`].
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (cover, Self::Literal(literal)) => {
                !matches!(cover, Self::User | Self::UserId(_))
                    && cover.matches(literal.as_bytes(), None)
            }
            (Self::One(_), _) | (Self::User, Self::User) => true,
            (Self::Glob(cover), Self::Glob(glob)) => covers_glob(cover, glob),
            (Self::UserId(cover), Self::UserId(sources)) => {
                sources.iter().all(|source| cover.contains(source))
            }
            (Self::Glob(cover), Self::One(_) | Self::User | Self::UserId(_)) => {
                cover.0.iter().all(|piece| piece.is_empty())
            }
            (Self::Literal(_) | Self::User | Self::UserId(_), _) => false,
        }
    }
}

/// A sufficient condition, but not necessary: equal, or a piece on each side of a single `*`.
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

/// Whether a piece of a glob ends in another piece. The digits of a triplet are not an end.
fn ends_with(piece: &str, end: &str) -> bool {
    let before = piece.strip_suffix(end);
    before.is_some_and(|before| !cuts_triplet(piece.as_bytes(), before.len()))
}
