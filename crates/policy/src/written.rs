//! Writes names, patterns and API keys as a policy has them, for programs that generate policies.

use std::fmt::Write;

use crate::model::KeyHash;
pub use crate::parse::method::{MAX_METHODS, is_method};
use crate::pattern::{Pattern, Segment};

/// A double-quoted scalar, which can contain any character (YAML 1.2.2, 7.3.1).
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            // Writing to a `String` never fails.
            control if control.is_control() => _ = write!(quoted, "\\u{:04x}", u32::from(control)),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// A literal segment or a piece of a segment. Characters with a meaning in rules are written as
/// percent triplets.
#[must_use]
pub fn literal(text: &str) -> String {
    let mut literal = String::new();
    for character in text.chars() {
        if "?#*{}[]()+<>:^$|\"".contains(character) {
            // Writing to a `String` never fails.
            let _ = write!(literal, "%{:02X}", u32::from(character));
        } else {
            literal.push(character);
        }
    }
    literal
}

/// A path of a rule.
#[must_use]
pub fn pattern(pattern: &Pattern) -> String {
    if !pattern.absolute {
        return pattern.to_string();
    }
    let segments = pattern.segments.iter().map(|segment| match segment {
        Segment::Literal(text) => literal(text),
        Segment::Glob(glob) => {
            glob.0.iter().map(|piece| literal(piece)).collect::<Vec<_>>().join("*")
        }
        Segment::Any(_) | Segment::User | Segment::UserId(_) => segment.to_string(),
    });
    let double_star = pattern.open_ended.then(|| "**".to_owned());
    segments.chain(double_star).map(|segment| format!("/{segment}")).collect()
}

/// The entry of a key in a file of API keys, on one line.
#[must_use]
pub fn api_key(
    id: &str,
    KeyHash(hash): KeyHash,
    (user, groups): (&str, &[String]),
    expires: Option<&str>,
) -> String {
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut entry = format!("{id}: {{ sha256: \"{hash}\", user: {}", quoted(user));
    if !groups.is_empty() {
        let groups: Vec<String> = groups.iter().map(|group| quoted(group)).collect();
        entry += &format!(", groups: [{}]", groups.join(", "));
    }
    if let Some(expires) = expires {
        entry += &format!(", expires: {}", quoted(expires));
    }
    entry + " }"
}
