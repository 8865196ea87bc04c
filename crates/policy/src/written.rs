//! How names and patterns are written in a policy, for programs that write one.

use std::fmt::Write;

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
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// A literal segment, or a piece of one: characters that mean something in a rule are encoded.
#[must_use]
pub fn literal(text: &str) -> String {
    let encoded = |character: char| match character {
        '*' | '{' | '}' | '[' | ']' | '(' | ')' | '+' | '<' | '>' | ':' | '^' | '$' | '|' | '"' => {
            format!("%{:02X}", u32::from(character))
        }
        other => other.to_string(),
    };
    text.chars().map(encoded).collect()
}

/// A path of a rule.
#[must_use]
pub fn pattern(pattern: &Pattern) -> String {
    if !pattern.absolute {
        return pattern.to_string();
    }
    let segment = |segment: &Segment| match segment {
        Segment::Literal(text) => literal(text),
        Segment::Glob(glob) => {
            glob.0.iter().map(|piece| literal(piece)).collect::<Vec<_>>().join("*")
        }
        Segment::One(_) | Segment::User | Segment::UserId(_) => segment.to_string(),
    };
    let rest = pattern.rest.then(|| "**".to_owned());
    let segments = pattern.segments.iter().map(segment).chain(rest);
    segments.map(|segment| format!("/{segment}")).collect()
}
