//! Dynamic metadata in words.

use authorizer::{Allowed, MetadataValue};

/// The metadata that a policy chooses for a request, as texts. The key of a value in `limit` is
/// `limit.KEY`.
pub(crate) fn metadata(allowed: &Allowed<'_>) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for (key, value) in allowed.metadata() {
        add(key.to_owned(), value, &mut texts);
    }
    texts
}

fn add(key: String, value: MetadataValue<'_>, texts: &mut Vec<(String, String)>) {
    match value {
        MetadataValue::Text(text) => texts.push((key, text.into_owned())),
        MetadataValue::Number(number) => texts.push((key, number.to_string())),
        MetadataValue::Boolean(value) => texts.push((key, value.to_string())),
        MetadataValue::Fields(fields) => {
            for (field, value) in fields {
                add(format!("{key}.{field}"), value, texts);
            }
        }
    }
}
