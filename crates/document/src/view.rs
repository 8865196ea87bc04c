//! A value of a document with its place and its path. It is for the files of other programs, where
//! some keys are not known.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::problem::{Place, Problem};
use crate::tree::{Mark, Node, Value};

/// Mappings of Envoy and of Kubernetes whose keys are names, so that `readAll` and `read_all` are
/// different keys.
const WITH_NAMES: &str = "annotations context_extensions data fields labels match_labels policies \
                          properties providers requirement_map string_data \
                          typed_extension_protocol_options typed_filter_metadata \
                          typed_per_filter_config";

/// Fields of Envoy that take any value: no key in the value is a field.
const FREE_FORM: [&str; 4] = ["filter_metadata", "json_format", "node", "static_layer"];

/// A value of a document.
#[derive(Clone, Debug)]
pub struct View<'n> {
    node: &'n Node,
    at: Mark,
    file: &'n Arc<Path>,
    /// The path of the field in the document, such as `rules.policies.staff.principals[0]`.
    pub path: String,
}

impl<'n> View<'n> {
    /// The root of a document.
    #[must_use]
    pub fn root(node: &'n Node, file: &'n Arc<Path>) -> Self {
        Self { node, at: node.at, file, path: String::new() }
    }

    /// The value at a path of keys, such as `metadata/name`, unless it is nothing. `path` is in
    /// snake case; the file may have the fields in snake case or in camel case, as Envoy reads
    /// both.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Self> {
        path.split('/').try_fold(self.clone(), |view, key| {
            view.entries().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
        })
    }

    /// The entries of a mapping with their keys in snake case. Other values have no entries.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, Self)> {
        self.entries_as_written().into_iter().map(|(key, view)| (snake(&key), view)).collect()
    }

    /// The entries of a mapping with their keys as they are written.
    #[must_use]
    pub fn entries_as_written(&self) -> Vec<(String, Self)> {
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

    /// The entries of the mapping at a path, with their keys as they are written.
    #[must_use]
    pub fn entries_as_written_at(&self, path: &str) -> Vec<(String, Self)> {
        self.get(path).map(|view| view.entries_as_written()).unwrap_or_default()
    }

    /// Visits the values below this value, each with its key. An item has the key of its list.
    /// `visit` returns whether the values below the visited value are visited, too.
    pub fn walk(&self, visit: &mut dyn FnMut(&str, &Self) -> bool) {
        self.walk_under("", visit);
    }

    fn walk_under(&self, key: &str, visit: &mut dyn FnMut(&str, &Self) -> bool) {
        let items = self.items().into_iter().map(|item| (key.to_owned(), item));
        for (key, value) in self.entries().into_iter().chain(items) {
            if visit(&key, &value) {
                value.walk_under(&key, visit);
            }
        }
    }

    /// Whether a condition holds for this value or a value below it.
    #[must_use]
    pub fn any(&self, condition: &dyn Fn(&Self) -> bool) -> bool {
        let mut holds = condition(self);
        self.walk(&mut |_, value| {
            holds |= condition(value);
            !holds
        });
        holds
    }

    /// The items of a list. Other values have no items.
    #[must_use]
    pub fn items(&self) -> Vec<Self> {
        let Value::List(items) = &self.node.value else { return Vec::new() };
        let items = items.iter().enumerate();
        items
            .map(|(index, node)| Self {
                node,
                at: node.at,
                file: self.file,
                path: format!("{}[{index}]", self.path),
            })
            .collect()
    }

    /// The items of a list; any other value is the only item, because Envoy's parser of protocol
    /// buffers reads `key: value` as `key: [value]` if it expects a list.
    #[must_use]
    pub fn one_or_more(&self) -> Vec<Self> {
        if self.is_list() { self.items() } else { vec![self.clone()] }
    }

    /// The items of a list at a path, or the only item: see [`View::one_or_more`].
    #[must_use]
    pub fn list(&self, path: &str) -> Vec<Self> {
        self.get(path).map(|view| view.one_or_more()).unwrap_or_default()
    }

    /// Whether this is a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(&self.node.value, Value::List(_))
    }

    /// Whether this is a mapping; it may be empty.
    #[must_use]
    pub fn is_mapping(&self) -> bool {
        matches!(&self.node.value, Value::Map(_))
    }

    /// Whether a key of this mapping has no value, which [`View::entries`] leaves out.
    #[must_use]
    pub fn lacks_a_value(&self) -> bool {
        let Value::Map(entries) = &self.node.value else { return false };
        entries.iter().any(|(_, node)| node.is_nothing())
    }

    /// A text, a number or a boolean, as it is written.
    #[must_use]
    pub fn text(&self) -> Option<&'n str> {
        match &self.node.value {
            Value::Scalar(scalar) => Some(&*scalar.text).filter(|_| !scalar.is_nothing()),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The text at a path.
    #[must_use]
    pub fn text_of(&self, path: &str) -> Option<&'n str> {
        self.get(path)?.text()
    }

    /// The texts of a list at a path, or the only text; `None` if an item is not a text.
    #[must_use]
    pub fn texts_of(&self, path: &str) -> Option<Vec<&'n str>> {
        self.list(path).iter().map(Self::text).collect()
    }

    /// Whether the value at a path is true, as Envoy reads it: see [`View::boolean`].
    #[must_use]
    pub fn is_true(&self, path: &str) -> bool {
        self.get(path).and_then(|value| value.boolean()) == Some(true)
    }

    /// This value as Envoy reads a boolean: YAML 1.1 has `yes`, `on` and `y` in addition to `true`,
    /// and protocol buffers also accept texts such as `"t"` or `"1"`. Envoy does not start with any
    /// other value (`None`). Policies have only `true` and `false`.
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        match &*self.text()?.to_ascii_lowercase() {
            "true" | "yes" | "on" | "y" | "t" | "1" => Some(true),
            "false" | "no" | "off" | "n" | "f" | "0" => Some(false),
            _ => None,
        }
    }

    /// Checks that no field in or below this value is written twice, in snake case and in camel
    /// case. [`View::get`] would find only one of the two, while Envoy joins lists.
    ///
    /// # Errors
    /// If a field has both spellings.
    pub fn check_spellings(&self) -> Result<(), Problem> {
        self.check_spellings_under("")
    }

    fn check_spellings_under(&self, key: &str) -> Result<(), Problem> {
        let type_name = self.text_of("@type").unwrap_or_default();
        if FREE_FORM.contains(&key) || type_name.ends_with("google.protobuf.Struct") {
            return Ok(());
        }
        let has_names = WITH_NAMES.split(' ').any(|name| name == key);
        let mut keys = BTreeSet::new();
        for (key, value) in self.entries() {
            // Where keys are names, an entry called `node` is not Envoy's field `node`, and must
            // not be skipped as free-form.
            value.check_spellings_under(if has_names { "" } else { &key })?;
            if !has_names && !keys.insert(key) {
                let message = format!("`{}`: this field is here in two spellings", value.path);
                return Err(Problem::error(value.place(), message).help("write it once"));
            }
        }
        self.items().iter().try_for_each(Self::check_spellings)
    }

    /// The place of the value in the file; for an entry of a mapping, the place of its key.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { file: self.file.clone(), line: self.at.line, column: self.at.column }
    }

    /// The values of a mapping, except under these keys, which are separated by spaces.
    #[must_use]
    pub fn values_except(&self, keys: &str) -> Vec<Self> {
        let mut entries = self.entries();
        entries.retain(|(name, _)| !keys.split(' ').any(|key| key == name));
        entries.into_iter().map(|(_, view)| view).collect()
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
