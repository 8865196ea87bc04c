//! Dynamic metadata that a policy chooses, encoded for Envoy.

use authorizer::MetadataValue;
use envoy::Metadata;

/// Adds a value of a verdict to metadata.
pub fn add_metadata(metadata: &mut Metadata, key: &str, value: MetadataValue<'_>) {
    match value {
        MetadataValue::Text(text) => metadata.text(key, &text),
        MetadataValue::Number(number) => metadata.number(key, exact(number)),
        MetadataValue::Boolean(value) => metadata.boolean(key, value),
        MetadataValue::Fields(fields) => {
            let mut inner = Metadata::default();
            for (key, value) in fields {
                add_metadata(&mut inner, key, value);
            }
            metadata.fields(key, &inner);
        }
    }
}

/// A number of metadata as Envoy has it. [`MetadataValue::Number`] has none that would be rounded.
#[must_use]
pub fn exact(number: i64) -> f64 {
    number as f64
}
