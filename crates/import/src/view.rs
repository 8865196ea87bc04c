//! A value of the original with its place and its path, for notes.

use std::path::Path;
use std::sync::Arc;

use policy::Place;
use policy::document::{Mark, Node, Value};

use crate::expr::Expr;
use crate::note::{Effect, Note};

/// A value of a document.
#[derive(Clone, Debug)]
pub(crate) struct View<'n> {
    node: &'n Node,
    at: Mark,
    file: &'n Arc<Path>,
    /// The path of the field in the document.
    pub(crate) path: String,
}

impl<'n> View<'n> {
    /// The root of a document.
    pub(crate) fn root(node: &'n Node, file: &'n Arc<Path>) -> Self {
        Self { node, at: node.at, file, path: String::new() }
    }

    /// The value of this key, unless it is nothing. Fields of Envoy may be written in snake case or in camel case.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        self.entries().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The values of several keys, one below the other.
    pub(crate) fn at(&self, keys: &[&str]) -> Option<Self> {
        keys.iter().try_fold(self.clone(), |view, key| view.get(key))
    }

    /// The entries of a mapping with their keys in snake case; none of another value.
    pub(crate) fn entries(&self) -> Vec<(String, Self)> {
        self.named_entries().into_iter().map(|(key, view)| (snake(&key), view)).collect()
    }

    /// The entries of a mapping with their keys as they are.
    pub(crate) fn named_entries(&self) -> Vec<(String, Self)> {
        let Value::Map(entries) = &self.node.value else { return Vec::new() };
        let entries = entries.iter().filter(|(_, node)| !node.is_nothing());
        entries
            .map(|(key, node)| {
                let dot = if self.path.is_empty() { "" } else { "." };
                let path = format!("{}{dot}{}", self.path, key.text);
                (key.text.to_string(), Self { node, at: key.at, file: self.file, path })
            })
            .collect()
    }

    /// The items of a list; none of another value.
    pub(crate) fn items(&self) -> Vec<Self> {
        let Value::List(items) = &self.node.value else { return Vec::new() };
        let view = |(number, node): (usize, &'n Node)| Self {
            node,
            at: node.at,
            file: self.file,
            path: format!("{}[{number}]", self.path),
        };
        items.iter().enumerate().map(view).collect()
    }

    /// The items of a list under a key.
    pub(crate) fn list(&self, key: &str) -> Vec<Self> {
        self.get(key).map(|view| view.items()).unwrap_or_default()
    }

    /// A text, a number or a boolean, as it is written.
    pub(crate) fn text(&self) -> Option<&'n str> {
        match &self.node.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The text under a key.
    pub(crate) fn text_of(&self, key: &str) -> Option<&'n str> {
        self.get(key)?.text()
    }

    /// The texts of a list under a key; `None` if an item is not a text, or the value is not a list.
    pub(crate) fn texts_of(&self, key: &str) -> Option<Vec<&'n str>> {
        match self.get(key) {
            None => Some(Vec::new()),
            Some(list) if matches!(&list.node.value, Value::List(_)) => {
                list.items().iter().map(Self::text).collect()
            }
            Some(_) => None,
        }
    }

    /// Whether the value under a key is `true`.
    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.text_of(key) == Some("true")
    }

    /// Its place.
    pub(crate) fn place(&self) -> Place {
        Place { file: self.file.clone(), line: self.at.line, column: self.at.column }
    }

    /// The entries whose keys are none of these.
    pub(crate) fn besides(&self, known: &[&str]) -> Vec<Self> {
        let unknown = self.entries().into_iter().filter(|(key, _)| !known.contains(&&**key));
        unknown.map(|(_, view)| view).collect()
    }

    /// A note about this value.
    pub(crate) fn note(&self, effect: Effect, message: impl Into<String>) -> Note {
        Note { at: self.place(), path: self.path.clone(), message: message.into(), effect }
    }

    /// A condition that cannot be expressed at all.
    pub(crate) fn inexpressible(&self, message: impl Into<String>) -> Expr {
        let note = self.note(Effect::Stricter, message);
        Expr::Between {
            under: Box::new(Expr::never()),
            over: Box::new(Expr::always()),
            note,
            acceptable: false,
        }
    }

    /// A condition that is nearly this one, in which a bit more may hold: that is not allowed unless it is accepted.
    pub(crate) fn nearly(&self, nearly: Expr, over: Expr, accepted: bool, message: &str) -> Expr {
        let effect = if accepted { Effect::Wider } else { Effect::Stricter };
        let under = Box::new(if accepted { nearly } else { Expr::never() });
        Expr::Between { under, over: Box::new(over), note: self.note(effect, message), acceptable: !accepted }
    }

    /// A condition between two others.
    pub(crate) fn between(&self, under: Expr, over: Expr, message: impl Into<String>) -> Expr {
        let note = self.note(Effect::Stricter, message);
        Expr::Between { under: Box::new(under), over: Box::new(over), note, acceptable: false }
    }
}

/// `urlPath` to `url_path` (the JSON names of protocol buffers).
fn snake(key: &str) -> String {
    let mut snake = String::with_capacity(key.len());
    for character in key.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}
