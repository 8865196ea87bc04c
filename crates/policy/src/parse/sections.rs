//! Sections of a policy that are indented below another one.

use crate::levels::POLICY;
use document::{Key, Node, Reader, Value};

/// Whether an entry of `section` is a section of the policy itself that is indented too far, which is then reported. An entry
/// with one of the keys that entries of `section` have is what its author named so.
pub(super) fn is_section(
    reader: &mut Reader,
    (section, keys): (&str, &[&str]),
    (key, node): (&Key, &Node),
) -> bool {
    let is_like_one = match &node.value {
        Value::Map(entries) => {
            !entries.is_empty() && entries.iter().all(|(key, _)| !keys.contains(&&*key.text))
        }
        Value::Scalar(_) | Value::List(_) => false,
    };
    let is_section = is_like_one && POLICY.contains(&&*key.text);
    if is_section {
        let message = format!("`{}` is read as an entry of `{section}`", key.text);
        reader.error_help(
            key.at,
            message,
            format!("`{}` belongs at the top level: check the indentation", key.text),
        );
    }
    is_section
}

/// Whether a section has a key that is the name of another one, which is then missing.
pub(super) fn has_section(node: &Node) -> bool {
    match &node.value {
        Value::Map(entries) => entries.iter().any(|(key, _)| POLICY.contains(&&*key.text)),
        Value::Scalar(_) | Value::List(_) => false,
    }
}
