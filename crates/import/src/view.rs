//! Notes about values of the original.

pub(crate) use document::View;

use crate::expr::Expr;
use crate::note::{Effect, Note};

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
