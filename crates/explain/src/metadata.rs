//! Dynamic metadata in words.

use authorizer::{Allowed, MetadataValue};

/// The metadata that a policy chooses for a request, as texts. The key of a value in `limit` is
/// `limit.KEY`.
pub(crate) fn metadata(allowed: &Allowed<'_>) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for (key, value) in allowed.metadata() {
        match value {
            MetadataValue::Fields(fields) => {
                texts.extend(
                    fields
                        .into_iter()
                        .map(|(field, value)| (format!("{key}.{field}"), text(value))),
                );
            }
            value => texts.push((key.to_owned(), text(value))),
        }
    }
    texts
}

fn text(value: MetadataValue<'_>) -> String {
    match value {
        MetadataValue::Text(text) => text.into_owned(),
        MetadataValue::Number(number) => number.to_string(),
        MetadataValue::Boolean(value) => value.to_string(),
        // Fields have no further fields.
        MetadataValue::Fields(_) => String::new(),
    }
}
