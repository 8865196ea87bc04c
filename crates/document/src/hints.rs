//! Keys, and values of the wrong type, that people write by habit from other systems, and the help
//! for each.

/// The hints of a format.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    /// Keys that other systems use.
    pub keys: &'static [KeyHint],
    /// Values of the wrong type: the value as messages call it, the type that it must have, and the
    /// help.
    pub wrong_types: &'static [(&'static str, &'static str, &'static str)],
}

/// The mapping as messages call it; keys of other systems, in lower case; the key of this format
/// with the same meaning, if any; and the help. An empty help is ``did you mean `KEY`?``.
pub type KeyHint = (&'static str, &'static [&'static str], Option<&'static str>, &'static str);

impl Hints {
    /// No hints: only similar keys are suggested.
    pub const NONE: Self = Self { keys: &[], wrong_types: &[] };

    /// For a key of another system: the key that was meant, if any, and the help.
    pub(crate) fn foreign_key(
        &self,
        mapping: &str,
        key: &str,
    ) -> Option<(Option<&'static str>, String)> {
        let key = key.to_ascii_lowercase();
        let (.., meant, help) =
            self.keys.iter().find(|(name, keys, ..)| *name == mapping && keys.contains(&&*key))?;
        let help = match meant {
            Some(meant) if help.is_empty() => format!("did you mean `{meant}`?"),
            _ => (*help).to_owned(),
        };
        Some((*meant, help))
    }

    /// The help for a value that is not of the expected type.
    pub(crate) fn wrong_type(&self, value: &str, expected: &str) -> Option<&'static str> {
        self.wrong_types
            .iter()
            .find(|(name, type_name, _)| *name == value && *type_name == expected)
            .map(|(.., help)| *help)
    }
}
