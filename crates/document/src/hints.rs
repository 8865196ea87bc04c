//! Keys and shapes that people write by habit from other systems, and the help for each.

/// The hints of a format.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    /// Keys that other systems use.
    pub keys: &'static [KeyHint],
    /// Values of the wrong shape: the value as messages call it, the shape that it must have, and
    /// the help.
    pub shapes: &'static [(&'static str, &'static str, &'static str)],
}

/// The mapping as messages call it; keys of other systems, in lower case; the key of this format
/// with the same meaning, if there is one; and the help. An empty help is ``did you mean `KEY`?``.
pub type KeyHint = (&'static str, &'static [&'static str], Option<&'static str>, &'static str);

impl Hints {
    /// No hints: only similar keys are suggested.
    pub const NONE: Self = Self { keys: &[], shapes: &[] };

    /// The key that was meant, if any, and the help.
    pub(crate) fn key(&self, mapping: &str, key: &str) -> Option<(Option<&'static str>, String)> {
        let key = key.to_ascii_lowercase();
        let (.., meant, help) =
            self.keys.iter().find(|(name, keys, ..)| *name == mapping && keys.contains(&&*key))?;
        let help = match meant {
            Some(meant) if help.is_empty() => format!("did you mean `{meant}`?"),
            _ => (*help).to_owned(),
        };
        Some((*meant, help))
    }

    pub(crate) fn shape(&self, value: &str, expected: &str) -> Option<&'static str> {
        self.shapes
            .iter()
            .find(|(name, shape, _)| *name == value && *shape == expected)
            .map(|(.., help)| *help)
    }
}
