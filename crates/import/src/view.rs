//! Notes about values of the original.

pub(crate) use policy::document::View;

use crate::expr::Expr;
use crate::note::{Effect, Note};

/// Notes about a value, and conditions that cannot be expressed exactly because of it.
pub(crate) trait Notes {
    /// A note about this value.
    fn note(&self, effect: Effect, message: impl Into<String>) -> Note;

    /// A condition that cannot be expressed at all.
    fn inexpressible(&self, message: impl Into<String>) -> Expr;

    /// A condition that cannot be expressed, if this has a field besides these: it may limit what the others match.
    fn unknown(&self, known: &[&str]) -> Option<Expr>;

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
        let unknown = self.besides(known).into_iter().next()?;
        Some(unknown.inexpressible("a field that is not known"))
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
