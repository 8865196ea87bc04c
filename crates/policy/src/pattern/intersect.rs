//! What two patterns both match.

use super::{Actions, Glob, Pattern, Scope, Segment, is_below};

impl Actions {
    /// The actions that are among both; `None` if there are none.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, actions) | (actions, Self::Any) => Some(actions.clone()),
            (Self::These(one), Self::These(other)) => {
                let both: Vec<Box<str>> =
                    one.iter().filter(|action| other.contains(action)).cloned().collect();
                (!both.is_empty()).then_some(Self::These(both))
            }
        }
    }
}

impl Scope {
    /// The hosts that both include; `None` if there are none.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (scope, Self::Exact(exact)) | (Self::Exact(exact), scope) => {
                scope.matches(exact.as_bytes()).then(|| Self::Exact(exact.clone()))
            }
            (Self::Below(one), Self::Below(other)) if one == other || is_below(one, other) => {
                Some(self.clone())
            }
            (Self::Below(one), Self::Below(below)) => is_below(below, one).then(|| other.clone()),
        }
    }
}

impl Pattern {
    /// What both match; `None` if that is nothing. It may be less than all where both have a glob
    /// with several `*`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let (one, two) = (self.segments.len(), other.segments.len());
        if self.absolute != other.absolute || one < two && !self.rest || two < one && !other.rest {
            return None;
        }
        let mut segments = Vec::with_capacity(one.max(two));
        for (segment, of_other) in self.segments.iter().zip(&other.segments) {
            segments.push(segment.intersection(of_other)?);
        }
        let longer = if one < two { other } else { self };
        segments.extend(longer.segments.get(one.min(two)..).unwrap_or_default().iter().cloned());
        let rest = if one == two { self.rest && other.rest } else { longer.rest };
        Some(Self { absolute: self.absolute, segments, rest })
    }
}

impl Segment {
    fn intersection(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            // A user may have any name.
            (Self::Literal(literal), Self::User | Self::UserId(_))
            | (Self::User | Self::UserId(_), Self::Literal(literal)) => {
                (!literal.is_empty()).then(|| Self::Literal(literal.clone()))
            }
            (one, Self::Literal(literal)) | (Self::Literal(literal), one) => {
                one.matches(literal.as_bytes(), None).then(|| Self::Literal(literal.clone()))
            }
            (Self::One(_), segment) | (segment, Self::One(_)) => Some(segment.clone()),
            (Self::Glob(one), Self::Glob(other)) => one.intersection(other).map(Self::Glob),
            (Self::Glob(_), user) | (user, Self::User | Self::UserId(_) | Self::Glob(_)) => {
                Some(user.clone())
            }
        }
    }
}

impl Glob {
    /// A glob for what both match: it begins like the one with the longer start, and ends like the
    /// one with the longer end.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let ([first, middle @ .., last], [of_other, middle_of_other @ .., last_of_other]) =
            (&*self.0, &*other.0)
        else {
            return None;
        };
        let start = [first, of_other].into_iter().max_by_key(|piece| piece.len())?;
        let end = [last, last_of_other].into_iter().max_by_key(|piece| piece.len())?;
        let fits = start.starts_with(&**first)
            && start.starts_with(&**of_other)
            && end.ends_with(&**last)
            && end.ends_with(&**last_of_other);
        let pieces = [start].into_iter().chain(middle).chain(middle_of_other).chain([end]);
        fits.then(|| Self(pieces.cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Actions, Glob, Pattern, Scope, Segment};

    fn pattern(text: &str) -> Pattern {
        let segment = |text: &str| match text {
            "{id}" => Segment::One("id".into()),
            "{user}" => Segment::User,
            text if text.contains('*') => {
                Segment::Glob(Glob(text.split('*').map(Into::into).collect()))
            }
            text => Segment::Literal(text.into()),
        };
        let (text, rest) = text.strip_suffix("/**").map_or((text, false), |text| (text, true));
        let segments = text.split('/').skip(1).map(segment).collect();
        Pattern { absolute: true, segments, rest }
    }

    #[test]
    fn paths_that_both_match() {
        for (one, other, both) in [
            ("/a", "/a", Some("/a")),
            ("/a", "/b", None),
            ("/**", "/a/{id}", Some("/a/{id}")),
            ("/**", "/a/**", Some("/a/**")),
            ("/a/**", "/{id}", Some("/a")),
            ("/a/**", "/{id}/b/**", Some("/a/b/**")),
            ("/a/b", "/a", None),
            ("/a/b", "/a/b/**", Some("/a/b")),
            ("/{id}", "/*.env", Some("/*.env")),
            ("/*.env", "/*.bak", None),
            ("/x*", "/*.bak", Some("/x*.bak")),
            ("/x*.bak", "/xy*", Some("/xy*.bak")),
            ("/x*z*", "/y*", None),
            ("/{user}", "/a", Some("/a")),
            ("/{user}", "/{id}", Some("/{user}")),
            ("/{user}", "/a*", Some("/{user}")),
            ("/{user}", "/", None),
            ("/a*", "/", None),
        ] {
            let (one, other, both) = (pattern(one), pattern(other), both.map(pattern));
            assert_eq!(one.intersection(&other), both, "{one} {other}");
            assert_eq!(other.intersection(&one), both, "{other} {one}");
        }
    }

    #[test]
    fn methods_and_hosts_that_both_match() {
        let these = |list: &[&str]| Actions::These(list.iter().map(|one| (*one).into()).collect());
        assert_eq!(Actions::Any.intersection(&these(&["GET"])), Some(these(&["GET"])));
        assert_eq!(
            these(&["GET", "PUT"]).intersection(&these(&["PUT", "POST"])),
            Some(these(&["PUT"]))
        );
        assert_eq!(these(&["GET"]).intersection(&these(&["PUT"])), None);
        let (exact, below) =
            (|name: &str| Scope::Exact(name.into()), |name: &str| Scope::Below(name.into()));
        for (one, other, both) in [
            (exact("a.b"), exact("a.b"), Some(exact("a.b"))),
            (exact("a.b"), below("b"), Some(exact("a.b"))),
            (exact("b"), below("b"), None),
            (below("b"), below("a.b"), Some(below("a.b"))),
            (below("b"), below("c"), None),
        ] {
            assert_eq!(one.intersection(&other), both, "{one} {other}");
            assert_eq!(other.intersection(&one), both, "{other} {one}");
        }
    }
}
