//! Differences between an imported policy and its original.

use std::fmt::{self, Write as _};

use document::Place;

/// A difference between the imported policy and its original, or something to know about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// Its place in the original.
    pub at: Place,
    /// The path of the field in its document, such as `rules.policies.staff.principals[0]`.
    pub path: String,
    /// The difference.
    pub message: String,
    /// Its meaning for requests.
    pub effect: Effect,
}

/// The meaning of a note for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The imported policy denies requests that the original allows, because something cannot be
    /// expressed. `--partial` accepts this.
    Stricter,
    /// The imported policy allows requests that the original denies, which `--allow-wider` accepts.
    Wider,
    /// The imported policy allows more for unusual requests: other spellings of paths that Envoy
    /// does not normalize, or tokens whose groups are a string. Or the application trusts a header
    /// that a client sent, which the original would remove. `--allow-wider` is not needed. Almost
    /// every import has such a note. If each needed the option, people would always give it, and
    /// accept [`Effect::Wider`] as well.
    Unexpected,
    /// The imported policy denies more for unusual requests: those with several lines of a header,
    /// or with a token whose claim has another type. `--partial` is not needed: almost every
    /// condition has such a note.
    Unusual,
    /// The answers are the same.
    Same,
}

/// The words in the message of an approximated denial that state its effect.
pub(crate) const MORE_DENIED: &str = "more is denied";

impl Effect {
    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stricter => "stricter",
            Self::Wider => "wider",
            Self::Unexpected | Self::Unusual | Self::Same => "note",
        }
    }
}

impl Note {
    /// A note about the value at this place and path.
    pub(crate) fn new(
        (at, path): &(Place, String),
        effect: Effect,
        message: impl Into<String>,
    ) -> Self {
        Self { at: at.clone(), path: path.clone(), message: message.into(), effect }
    }

    /// The note for a denial that no allowed request matches.
    pub(crate) fn without_effect(self) -> Self {
        if self.effect != Effect::Stricter {
            return self;
        }
        let message = self.message.replace(MORE_DENIED, "nothing that is allowed matches it");
        Self { message, effect: Effect::Same, ..self }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { String::new() } else { format!("`{}`: ", self.path) };
        let text = format!("{}: {}: {path}{}", self.at, self.effect.name(), self.message);
        for character in text.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}
