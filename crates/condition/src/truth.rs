//! Truth where `None` is "cannot be computed", as in CEL: a value that decides counts, whatever the
//! other is.

/// `one && other`
#[must_use]
pub fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        (None, _) | (_, None) => None,
    }
}

/// `one || other`
#[must_use]
pub fn or(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    and(one.map(|value| !value), other.map(|value| !value)).map(|value| !value)
}
