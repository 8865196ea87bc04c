//! The `kid`s of tokens that have no key.

/// Maximum number of `kid`s that are kept.
const MAX_KIDS: usize = 16;
/// Maximum length of a `kid` that is kept, in bytes. Issuers use names, UUIDs and thumbprints of up
/// to 64 bytes.
const MAX_KID: usize = 256;

/// The `kid`s of tokens for which a set has no key: reasons to fetch the set again. Bounded,
/// because a client chooses the `kid` of its token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownKids {
    kids: Vec<Box<str>>,
    /// Whether there were more `kid`s, which were not kept.
    more: bool,
}

impl UnknownKids {
    /// Adds a `kid`.
    pub fn add(&mut self, kid: &str) {
        if self.kids.iter().any(|added| **added == *kid) {
            return;
        }
        if kid.len() > MAX_KID || self.kids.len() >= MAX_KIDS {
            self.more = true;
        } else {
            self.kids.push(kid.into());
        }
    }

    /// Adds the `kid`s of another list.
    pub fn extend(&mut self, other: &Self) {
        other.kids().for_each(|kid| self.add(kid));
        self.more |= other.more;
    }

    /// Removes the `kid`s for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.kids.retain(|kid| keep(kid));
    }

    /// The `kid`s that are kept.
    pub fn kids(&self) -> impl Iterator<Item = &str> {
        self.kids.iter().map(|kid| &**kid)
    }

    /// Whether no `kid` was unknown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kids.is_empty() && !self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_bounded_and_still_counts() {
        let mut unknown = UnknownKids::default();
        assert!(unknown.is_empty());
        (0..1000).for_each(|number| unknown.add(&number.to_string()));
        assert_eq!(unknown.kids().count(), MAX_KIDS);
        unknown.retain(|_| false);
        assert_eq!(unknown.kids().count(), 0);
        assert!(!unknown.is_empty(), "there were more");
    }

    #[test]
    fn a_long_kid_is_not_kept_but_counts() {
        let mut unknown = UnknownKids::default();
        unknown.add(&"k".repeat(MAX_KID + 1));
        assert_eq!(unknown.kids().count(), 0);
        assert!(!unknown.is_empty());
    }
}
