//! The intersection of two patterns.

use super::{Actions, Glob, HostLabel, Pattern, Scope, Segment, is_below};

impl Actions {
    /// The actions that both include; `None` if there are none.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, actions) | (actions, Self::Any) => Some(actions.clone()),
            (Self::These(a), Self::These(b)) => {
                let common: Vec<Box<str>> = a.iter().filter(|n| b.contains(n)).cloned().collect();
                (!common.is_empty()).then_some(Self::These(common))
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
            (Self::Below(a), Self::Below(b)) if a == b || is_below(a, b) => Some(self.clone()),
            (Self::Below(a), Self::Below(b)) => is_below(b, a).then(|| other.clone()),
            (Self::Labels(labels), Self::Below(suffix))
            | (Self::Below(suffix), Self::Labels(labels)) => {
                let suffix: Vec<HostLabel> =
                    suffix.split('.').map(|label| HostLabel::Literal(label.into())).collect();
                let (front, end) =
                    labels.split_at_checked(labels.len().checked_sub(suffix.len())?)?;
                let end = common_labels(end, &suffix)?;
                (!front.is_empty()).then(|| Self::from_labels([front, &end].concat()))
            }
            (Self::Labels(a), Self::Labels(b)) => common_labels(a, b).map(Self::from_labels),
        }
    }

    /// The hosts with these labels: a single host if no label is a placeholder.
    fn from_labels(labels: Vec<HostLabel>) -> Self {
        let literals: Option<Vec<&str>> = labels
            .iter()
            .map(|label| match label {
                HostLabel::Literal(literal) => Some(&**literal),
                HostLabel::Any(_) => None,
            })
            .collect();
        match literals {
            Some(literals) => Self::Exact(literals.join(".").into()),
            None => Self::Labels(labels),
        }
    }
}

/// The labels that both match; `None` if there are none.
fn common_labels(one: &[HostLabel], other: &[HostLabel]) -> Option<Vec<HostLabel>> {
    let pairs = one.iter().zip(other);
    let common = pairs.map(|pair| match pair {
        (HostLabel::Any(_), label) | (label, HostLabel::Any(_)) => Some(label.clone()),
        (HostLabel::Literal(one), HostLabel::Literal(other)) => {
            (one == other).then(|| HostLabel::Literal(one.clone()))
        }
    });
    (one.len() == other.len()).then(|| common.collect())?
}

impl Pattern {
    /// The resources that both match; `None` if there are none. The result is not exact in two
    /// cases. Where two globs meet, it may miss some resources: see `Glob::intersection`. Where
    /// `{user}` or `{user.id}` meets another of these or a glob, it may have too many.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let (a, b) = (self.segments.len(), other.segments.len());
        if self.absolute != other.absolute
            || a < b && !self.open_ended
            || b < a && !other.open_ended
        {
            return None;
        }
        let mut segments = Vec::with_capacity(a.max(b));
        for (segment, other_segment) in self.segments.iter().zip(&other.segments) {
            segments.push(segment.intersection(other_segment)?);
        }
        let longer = if a < b { other } else { self };
        segments.extend(longer.segments.get(a.min(b)..).unwrap_or_default().iter().cloned());
        let open_ended =
            if a == b { self.open_ended && other.open_ended } else { longer.open_ended };
        Some(Self { absolute: self.absolute, segments, open_ended })
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
            (segment, Self::Literal(literal)) | (Self::Literal(literal), segment) => {
                segment.matches(literal.as_bytes(), None).then(|| Self::Literal(literal.clone()))
            }
            (Self::Any(_), segment) | (segment, Self::Any(_)) => Some(segment.clone()),
            (Self::Glob(a), Self::Glob(b)) => a.intersection(b).map(Self::Glob),
            (Self::Glob(_), user @ (Self::User | Self::UserId(_)))
            | (user, Self::User | Self::UserId(_) | Self::Glob(_)) => Some(user.clone()),
        }
    }
}

impl Glob {
    /// A glob for the names that both match: the longer start, the middle pieces of both, and the
    /// longer end. It misses names in which these pieces overlap, or are in another order.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let ([start_a, middle_a @ .., end_a], [start_b, middle_b @ .., end_b]) =
            (&*self.0, &*other.0)
        else {
            return None;
        };
        let start = [start_a, start_b].into_iter().max_by_key(|piece| piece.len())?;
        let end = [end_a, end_b].into_iter().max_by_key(|piece| piece.len())?;
        let fits = start.starts_with(&**start_a)
            && start.starts_with(&**start_b)
            && end.ends_with(&**end_a)
            && end.ends_with(&**end_b);
        let pieces = [start].into_iter().chain(middle_a).chain(middle_b).chain([end]);
        fits.then(|| Self(pieces.cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Actions, Glob, Pattern, Scope, Segment};

    fn pattern(text: &str) -> Pattern {
        let segment = |text: &str| match text {
            "{id}" => Segment::Any("id".into()),
            "{user}" => Segment::User,
            text if text.contains('*') => {
                Segment::Glob(Glob(text.split('*').map(Into::into).collect()))
            }
            text => Segment::Literal(text.into()),
        };
        let (text, open_ended) =
            text.strip_suffix("/**").map_or((text, false), |text| (text, true));
        let segments = text.split('/').skip(1).map(segment).collect();
        Pattern { absolute: true, segments, open_ended }
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
