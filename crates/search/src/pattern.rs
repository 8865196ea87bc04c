//! Patterns of role files (OpenSearch's `WildcardMatcher`).
//!
//! A pattern is a text with wildcards, `*` (any text) and `?` (one character), or a regular
//! expression between slashes. It matches whole names, and case matters. A blank pattern matches
//! nothing.

mod glob;
mod regex;

use std::fmt;
use std::sync::Arc;

pub(crate) use glob::{Symbol, matches_expression, symbols};
use regex::Regex;
pub use regex::RegexError;

/// A pattern that matches names.
#[derive(Clone)]
pub struct Pattern {
    text: Arc<str>,
    matcher: Matcher,
}

/// How a pattern matches.
#[derive(Clone)]
pub(crate) enum Matcher {
    /// No name.
    Nothing,
    /// Every name.
    Anything,
    /// The pattern's text.
    Exact(Arc<str>),
    /// Names that start with this text.
    Prefix(Arc<str>),
    /// By wildcards.
    Glob(Arc<[Symbol]>),
    /// By a regular expression.
    Regex(Arc<Regex>),
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If it is a regular expression that is invalid or not supported.
    pub fn parse(text: &Arc<str>) -> Result<Self, RegexError> {
        if **text == *"/" {
            return Err(RegexError::new(0, "a regular expression ends with `/`"));
        }
        let matcher = match text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
            Some(regex) => Matcher::Regex(Arc::new(Regex::parse(regex)?)),
            None if text.chars().all(char::is_whitespace) => Matcher::Nothing,
            None => return Ok(Self::from_wildcards(text)),
        };
        Ok(Self { text: text.clone(), matcher })
    }

    pub(crate) fn from_wildcards(text: &str) -> Self {
        Self::from_symbols(text.into(), symbols(text))
    }

    /// A pattern of wildcards and literal text, displayed as `text`.
    pub(crate) fn from_symbols(text: Arc<str>, symbols: Vec<Symbol>) -> Self {
        let (literal, ends_with_any) = match symbols.split_last() {
            Some((Symbol::AnyText, start)) => (start, true),
            Some((Symbol::Byte(_) | Symbol::AnyCharacter, _)) | None => (&*symbols, false),
        };
        let bytes: Option<Vec<u8>> = literal.iter().map(|symbol| symbol.byte()).collect();
        let matcher = match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
            None => Matcher::Glob(symbols.into()),
            Some(literal) if !ends_with_any => Matcher::Exact(literal.into()),
            Some(literal) if literal.is_empty() => Matcher::Anything,
            Some(literal) => Matcher::Prefix(literal.into()),
        };
        Self { text, matcher }
    }

    /// Whether it matches this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Nothing => false,
            Matcher::Anything => true,
            Matcher::Exact(text) => **text == *name,
            Matcher::Prefix(prefix) => name.starts_with(&**prefix),
            Matcher::Glob(symbols) => glob::matches(symbols, name),
            Matcher::Regex(regex) => regex.matches(name),
        }
    }

    /// Whether it matches every name that an expression matches. The only wildcard of an expression
    /// is `*`. If this is not certain, as for regular expressions, the answer is `false`.
    #[must_use]
    pub fn covers(&self, expression: &str) -> bool {
        let Some((literal, _)) = expression.split_once('*') else {
            return self.matches(expression);
        };
        match &self.matcher {
            Matcher::Nothing | Matcher::Exact(_) | Matcher::Regex(_) => false,
            Matcher::Anything => true,
            // A `*` in the prefix is literal. In the expression it is a wildcard.
            Matcher::Prefix(prefix) => literal.starts_with(&**prefix),
            Matcher::Glob(symbols) => glob::covers(symbols, expression),
        }
    }

    /// Whether it may match some name that an expression matches. The only wildcard of an
    /// expression is `*`. For most patterns only the start is compared, so the answer may be `true`
    /// although there is no such name.
    #[must_use]
    pub fn may_overlap(&self, expression: &str) -> bool {
        let Some((literal, _)) = expression.split_once('*') else {
            return self.matches(expression);
        };
        match &self.matcher {
            Matcher::Nothing => false,
            Matcher::Exact(text) => matches_expression(expression, text),
            // A name can match both only if one literal start is the start of the other.
            Matcher::Anything | Matcher::Regex(_) | Matcher::Prefix(_) | Matcher::Glob(_) => {
                self.literal_prefix().zip(literal.bytes()).all(|(left, right)| left == right)
            }
        }
    }

    /// The bytes that every matched name starts with.
    pub(crate) fn literal_prefix(&self) -> impl Iterator<Item = u8> {
        let (text, symbols): (&str, &[Symbol]) = match &self.matcher {
            Matcher::Nothing | Matcher::Anything | Matcher::Regex(_) => ("", &[]),
            Matcher::Exact(text) | Matcher::Prefix(text) => (text, &[]),
            Matcher::Glob(symbols) => ("", symbols),
        };
        text.bytes().chain(symbols.iter().map_while(|symbol| symbol.byte()))
    }

    /// Whether it is the pattern `*`.
    #[must_use]
    pub const fn is_anything(&self) -> bool {
        matches!(self.matcher, Matcher::Anything)
    }

    pub(crate) const fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// The text of the pattern.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

/// Whether a name has characters that the plugin's patterns match differently. In the plugin, `.`
/// in a regular expression matches only some control characters, and a character above `U+FFFF`
/// counts as two for `?`. Every permission that hides something also hides it for such a name.
pub(crate) fn has_astral_or_control(name: &str) -> bool {
    name.chars().any(|character| character.is_control() || character > '\u{FFFF}')
}

#[cfg(test)]
mod tests;
