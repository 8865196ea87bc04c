//! Whether the configuration of a route turns rolegate's library off. The library reads JSON, which Envoy has as a text, as bytes or
//! as a `Struct`.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use document::View;
use serde_json::Value;

use crate::filter::type_of;

/// Like protocol buffers: with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether this `filter_config` of a route turns the library off. What cannot be read counts as off; the fields of a `Struct` are
/// for the caller to look at.
pub(crate) fn is_off(filter_config: &View<'_>) -> bool {
    let text = filter_config.text_of("value");
    match type_of(filter_config) {
        Some("google.protobuf.StringValue") => text.is_none_or(|json| is_off_in(json.as_bytes())),
        Some("google.protobuf.BytesValue") => text.and_then(bytes).is_none_or(|json| is_off_in(&json)),
        Some("google.protobuf.Struct") => text.is_some(),
        Some(_) => true,
        None => filter_config.text().is_some(),
    }
}

fn is_off_in(json: &[u8]) -> bool {
    match serde_json::from_slice(json) {
        Ok(Value::Object(settings)) => {
            settings.get("disabled").is_some_and(|disabled| *disabled != Value::Bool(false))
        }
        _ => true,
    }
}

/// Protocol buffers write bytes in JSON as base64, and read both of its alphabets.
fn bytes(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.replace('-', "+").replace('_', "/")).ok()
}
