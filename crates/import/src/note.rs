//! What an imported policy does not have, and what that means.

use std::fmt;

use document::{Place, View};

use crate::expr::Expr;

/// A difference between the imported policy and its original, or something to know about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// Its place in the original.
    pub at: Place,
    /// The path of the field in its document, such as `rules.policies.staff.principals[0]`.
    pub path: String,
    /// What is different.
    pub message: String,
    /// What it means.
    pub effect: Effect,
}

/// What a note means for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The imported policy denies requests that the original allows, because something cannot be expressed.
    Stricter,
    /// The imported policy allows requests that the original denies; only where that was accepted.
    Wider,
    /// The imported policy allows more if requests are as the original does not expect them: other spellings of paths, where
    /// nothing normalizes them, and tokens whose claim of groups is a text; or an application believes headers of a client that
    /// the original removes. Almost every original has one of these, so that they need not be accepted: who always accepts them,
    /// accepts what is really wider as well.
    Unexpected,
    /// The answers are the same.
    Same,
}

/// What an approximation of a denial means.
pub(crate) const MORE_DENIED: &str = "more is denied";

impl Effect {
    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stricter => "stricter",
            Self::Wider => "wider",
            Self::Unexpected | Self::Same => "note",
        }
    }
}

impl Note {
    /// The same, where it does not matter that more is denied.
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
        let escaped = text.chars().map(|character| {
            if character.is_control() {
                character.escape_default().to_string()
            } else {
                character.to_string()
            }
        });
        f.write_str(&escaped.collect::<String>())
    }
}

/// Notes about a value, and conditions that cannot be expressed exactly because of it.
pub(crate) trait Notes {
    /// A note about this value.
    fn note(&self, effect: Effect, message: impl Into<String>) -> Note;

    /// A condition that cannot be expressed at all.
    fn inexpressible(&self, message: impl Into<String>) -> Expr;

    /// Conditions that cannot be expressed, if this has fields besides these: they may limit what the others match.
    fn unknown(&self, known: &[&str]) -> Option<Expr>;

    /// The items of a list, which is the only field of this, combined. Without an item, or with another field, it is not known what
    /// this matches: that all of none hold would be always.
    fn combined(&self, key: &str, combine: impl FnOnce(&[View<'_>]) -> Expr) -> Expr;

    /// A condition that is nearly this one, in which a bit more may hold: that is not allowed unless it is accepted.
    fn nearly(&self, nearly: Expr, over: Expr, accepted: bool, message: &str) -> Expr;

    /// A condition between two others.
    fn between(&self, under: Expr, over: Expr, message: impl Into<String>) -> Expr;
}

impl Notes for View<'_> {
    fn note(&self, effect: Effect, message: impl Into<String>) -> Note {
        Note { at: self.place(), path: self.path.clone(), message: message.into(), effect }
    }

    fn inexpressible(&self, message: impl Into<String>) -> Expr {
        let note = self.note(Effect::Stricter, message);
        Expr::Between {
            under: Box::new(Expr::never()),
            over: Box::new(Expr::always()),
            note,
            acceptable: false,
        }
    }

    fn unknown(&self, known: &[&str]) -> Option<Expr> {
        let unknown = self.besides(known);
        let all = || unknown.iter().map(|field| field.inexpressible("a field that is not known")).collect();
        (!unknown.is_empty()).then(|| Expr::All(all()))
    }

    fn combined(&self, key: &str, combine: impl FnOnce(&[View<'_>]) -> Expr) -> Expr {
        let all = self.list(key);
        if all.is_empty() {
            return self.inexpressible(format!("`{key}` are expected here"));
        }
        self.unknown(&[key]).unwrap_or_else(|| combine(&all))
    }

    fn nearly(&self, nearly: Expr, over: Expr, accepted: bool, message: &str) -> Expr {
        let effect = if accepted { Effect::Wider } else { Effect::Stricter };
        let under = Box::new(if accepted { nearly } else { Expr::never() });
        Expr::Between { under, over: Box::new(over), note: self.note(effect, message), acceptable: !accepted }
    }

    fn between(&self, under: Expr, over: Expr, message: impl Into<String>) -> Expr {
        let note = self.note(Effect::Stricter, message);
        Expr::Between { under: Box::new(under), over: Box::new(over), note, acceptable: false }
    }
}
