//! The names of findings in arguments.

use document::FindingKind;

use crate::error::InvalidValue;

/// The kind of findings with this name.
pub(super) fn finding_kind<K: FindingKind>(name: &str) -> Result<K, InvalidValue> {
    let names: Vec<&str> = K::ALL.iter().map(|kind| kind.name()).collect();
    if let Some(kind) = K::ALL.iter().find(|kind| kind.name() == name) {
        return Ok(*kind);
    }
    let help = match document::closest(name, names.iter().copied()) {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("there are {}", names.join(", ")),
    };
    Err(InvalidValue(format!("no finding is called `{name}`: {help}")))
}
