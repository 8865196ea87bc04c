//! Dynamic metadata of an allowed request, for Envoy's later filters and its access log.

use std::borrow::Cow;
use std::sync::Arc;

use policy::model::{self, MetadataEntry};

use crate::answer::{self, Rendered, TemplateValues};

/// A value of dynamic metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataValue<'a> {
    /// Not empty, and without control characters.
    Text(Cow<'a, str>),
    /// At most 2^53, so that a `double` holds it exactly.
    Number(i64),
    /// A boolean.
    Boolean(bool),
    /// Values with keys of their own. None of them is another `Fields`.
    Fields(Vec<(&'a str, MetadataValue<'a>)>),
}

/// The metadata of a caller: the keys that have a value for it.
#[derive(Debug)]
pub(crate) struct CallerMetadata(Box<[(Arc<str>, CallerValue)]>);

/// A rendered value. Only the name of the rule is not filled in yet: it depends on the request.
#[derive(Debug)]
enum CallerValue {
    Text(Rendered),
    Number(i64),
    Boolean(bool),
    Fields(CallerMetadata),
}

/// Computes the metadata of a caller. A policy may give a key several values, each for a role or
/// for everyone. The first value that is for the caller counts.
///
/// A key is left out if a placeholder in its text is empty. Otherwise two callers without a tenant
/// would look like callers of one tenant. A key is also left out if a header could not carry its
/// text, because such a text could forge a line of an access log.
pub(crate) fn render(entries: &[MetadataEntry], template: TemplateValues<'_>) -> CallerMetadata {
    let rendered = entries.iter().filter_map(|entry| {
        let (_, value) = entry.values.iter().find(|(role, _)| {
            role.as_ref().is_none_or(|role| template.roles.contains(&&*role.name))
        })?;
        Some((Arc::clone(&entry.key), render_value(value, template)?))
    });
    CallerMetadata(rendered.collect())
}

fn render_value(value: &model::MetadataValue, template: TemplateValues<'_>) -> Option<CallerValue> {
    Some(match value {
        model::MetadataValue::Text(text) => {
            CallerValue::Text(answer::render_filled(&text.0, template)?)
        }
        model::MetadataValue::Number(number) => CallerValue::Number(*number),
        model::MetadataValue::Boolean(value) => CallerValue::Boolean(*value),
        model::MetadataValue::Fields(fields) => {
            let rendered = fields
                .iter()
                .filter_map(|(key, value)| Some((Arc::clone(key), render_value(value, template)?)));
            let fields = CallerMetadata(rendered.collect());
            CallerValue::Fields((!fields.0.is_empty()).then_some(fields)?)
        }
    })
}

impl CallerMetadata {
    /// The keys and values for a request that this rule allowed.
    pub(crate) fn values<'a>(
        &'a self,
        rule: &'a str,
    ) -> impl Iterator<Item = (&'a str, MetadataValue<'a>)> {
        self.0.iter().filter_map(move |(key, value)| Some((&**key, value.value(rule)?)))
    }

    /// The length of all keys and values, if this rule allowed the request.
    pub(crate) fn size(&self, rule: &str) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.size(rule)).sum()
    }

    /// The bytes that it has allocated on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        let values: usize = self.0.iter().map(|(_, value)| value.heap_size()).sum();
        identity::allocated(size_of_val(&*self.0)) + values
    }
}

impl CallerValue {
    fn value<'a>(&'a self, rule: &'a str) -> Option<MetadataValue<'a>> {
        Some(match self {
            Self::Text(text) => MetadataValue::Text(text.text(rule)?),
            Self::Number(number) => MetadataValue::Number(*number),
            Self::Boolean(value) => MetadataValue::Boolean(*value),
            Self::Fields(fields) => MetadataValue::Fields(fields.values(rule).collect()),
        })
    }

    fn size(&self, rule: &str) -> usize {
        match self {
            Self::Text(text) => text.length(rule),
            Self::Number(_) | Self::Boolean(_) => size_of::<f64>(),
            Self::Fields(fields) => fields.size(rule),
        }
    }

    fn heap_size(&self) -> usize {
        match self {
            Self::Text(text) => text.heap_size(),
            Self::Number(_) | Self::Boolean(_) => 0,
            Self::Fields(fields) => fields.heap_size(),
        }
    }
}
