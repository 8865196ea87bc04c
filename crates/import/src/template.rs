//! Templates of paths of Envoy (`envoy.extensions.path.match.uri_template.v3`), such as `/v1/{name=shelves/*}/books`.
//!
//! A variable may match several segments, so that the braces are read before the text is split at its slashes.

/// What a template matches between two slashes, or from one to the end of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// This text; it is empty after a slash at the end.
    Literal(String),
    /// `*`: one segment that is not empty, with this end.
    Segment(String),
    /// `**`: any number of segments, with this end.
    Rest(String),
}

/// The parts of a template, with those of its variables; `None` if it is none. Envoy does not start with such a text.
pub(crate) fn parts(template: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut text = template.strip_prefix('/')?;
    loop {
        // A slash at the end.
        if text.is_empty() {
            parts.push(Part::Literal(String::new()));
            return Some(parts);
        }
        if let Some(inside) = text.strip_prefix('{') {
            let (inside, after) = inside.split_once('}')?;
            parts.extend(variable(inside)?);
            text = after;
        } else {
            let (part, after) = one(text)?;
            parts.push(part);
            text = after;
        }
        let Some(after) = text.strip_prefix('/') else { break };
        text = after;
    }
    if !text.is_empty() {
        parts.last_mut()?.end_with(text)?;
    }
    Some(parts)
}

/// The parts of a variable, without its braces.
fn variable(inside: &str) -> Option<Vec<Part>> {
    let (name, mut pattern) = inside.split_once('=').unwrap_or((inside, "*"));
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let mut parts = Vec::new();
    loop {
        let (part, after) = one(pattern)?;
        parts.push(part);
        if after.is_empty() {
            return Some(parts);
        }
        pattern = after.strip_prefix('/')?;
    }
}

/// An operator or a literal, and the text after it.
fn one(text: &str) -> Option<(Part, &str)> {
    if let Some(after) = text.strip_prefix("**") {
        return Some((Part::Rest(String::new()), after));
    }
    if let Some(after) = text.strip_prefix('*') {
        return Some((Part::Segment(String::new()), after));
    }
    let literal = text.split('/').next().filter(|literal| is_literal(literal))?;
    Some((Part::Literal(literal.to_owned()), text.strip_prefix(literal)?))
}

impl Part {
    /// Adds the text after the last part.
    fn end_with(&mut self, text: &str) -> Option<()> {
        let (Self::Literal(end) | Self::Segment(end) | Self::Rest(end)) = self;
        end.push_str(Some(text).filter(|text| is_literal(text))?);
        Some(())
    }
}

/// Whether Envoy takes this for literal text: what RFC 3986 calls `pchar`, besides `*` and `=`.
fn is_literal(text: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()+,;:@".contains(&byte);
    !text.is_empty() && text.bytes().all(is_known)
}
