//! Patterns of role files (OpenSearch's `WildcardMatcher`).
//!
//! A pattern is a text with wildcards, `*` (any text) and `?` (one character), or a regular
//! expression between slashes. It matches whole names, and case matters. A blank one matches
//! nothing.

mod glob;
mod regex;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub(crate) use glob::{Symbol, matches_expression, symbols};
use regex::Regex;
pub use regex::RegexError;

/// A pattern that matches names. Two patterns are equal if they match in the same way.
#[derive(Clone)]
pub struct Pattern {
    text: Arc<str>,
    matcher: Matcher,
}

/// How a pattern matches.
#[derive(Clone, PartialEq, Eq, Hash)]
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
        let inner = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let matcher = match inner {
            Some(regex) => Matcher::Regex(Arc::new(Regex::parse(regex)?)),
            None if &**text == "/" => {
                return Err(RegexError::new(0, "a regular expression ends with `/`"));
            }
            None if text.chars().all(char::is_whitespace) => Matcher::Nothing,
            None => Matcher::from_symbols(symbols(text)),
        };
        Ok(Self { text: text.clone(), matcher })
    }

    /// The pattern that only matches this text.
    pub(crate) fn exact(text: &str) -> Self {
        let text: Arc<str> = text.into();
        Self { text: text.clone(), matcher: Matcher::Exact(text) }
    }

    /// The pattern that matches names with this prefix.
    pub(crate) fn prefix(prefix: &str) -> Self {
        Self { text: format!("{prefix}*").into(), matcher: Matcher::Prefix(prefix.into()) }
    }

    /// A pattern of wildcards and literal text, displayed as `text`.
    pub(crate) fn from_symbols(text: Arc<str>, symbols: Vec<Symbol>) -> Self {
        Self { text, matcher: Matcher::from_symbols(symbols) }
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

    /// Whether it certainly matches every name of an expression, whose only wildcard is `*`.
    #[must_use]
    pub fn covers(&self, expression: &str) -> bool {
        match &self.matcher {
            Matcher::Nothing => false,
            Matcher::Anything => true,
            Matcher::Exact(text) => !expression.contains('*') && **text == *expression,
            Matcher::Prefix(prefix) => {
                // A `*` of the prefix is literal, that of the expression is not.
                let literal = expression.split('*').next().unwrap_or_default();
                literal.starts_with(&**prefix)
            }
            Matcher::Glob(symbols) => glob::covers(symbols, expression),
            Matcher::Regex(regex) => !expression.contains('*') && regex.matches(expression),
        }
    }

    /// Whether it is the pattern `*`.
    #[must_use]
    pub const fn is_anything(&self) -> bool {
        matches!(self.matcher, Matcher::Anything)
    }

    /// Whether it may match a name of an expression, whose only wildcard is `*`.
    #[must_use]
    pub fn may_overlap(&self, expression: &str) -> bool {
        let literal = expression.split('*').next().unwrap_or_default();
        let agree = |(one, other): (u8, u8)| one == other;
        match &self.matcher {
            Matcher::Nothing => false,
            Matcher::Exact(text) => crate::expression::matches(expression, text),
            _ if !expression.contains('*') => self.matches(expression),
            Matcher::Anything | Matcher::Regex(_) => true,
            // A name can match both only if one literal start is the start of the other.
            Matcher::Prefix(prefix) => prefix.bytes().zip(literal.bytes()).all(agree),
            Matcher::Glob(symbols) => {
                symbols.iter().map_while(|symbol| symbol.byte()).zip(literal.bytes()).all(agree)
            }
        }
    }

    /// Whether a name has characters that the plugin's patterns match in another way: control
    /// characters, which `.` of its regular expressions may leave out, and characters that count as
    /// two for its `?`. Whatever a permission hides is hidden of such a name, too.
    pub(crate) fn is_odd(name: &str) -> bool {
        name.chars().any(|character| character.is_control() || character > '\u{FFFF}')
    }

    /// The text that every matched name starts with.
    pub(crate) fn literal_prefix(&self) -> String {
        match &self.matcher {
            Matcher::Nothing | Matcher::Anything | Matcher::Regex(_) => String::new(),
            Matcher::Exact(text) | Matcher::Prefix(text) => text.to_string(),
            Matcher::Glob(symbols) => glob::literal_prefix(symbols),
        }
    }

    /// How it matches.
    pub(crate) const fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// The text of the pattern.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Matcher {
    /// The simplest matcher of these symbols.
    fn from_symbols(symbols: Vec<Symbol>) -> Self {
        let text = |symbols: &[Symbol]| -> Option<Arc<str>> {
            let bytes: Option<Vec<u8>> = symbols.iter().map(|symbol| symbol.byte()).collect();
            String::from_utf8(bytes?).ok().map(Into::into)
        };
        match symbols.split_last() {
            None => Self::Exact("".into()),
            Some((Symbol::Many, [])) => Self::Anything,
            Some((Symbol::Many, prefix)) => match text(prefix) {
                Some(prefix) => Self::Prefix(prefix),
                None => Self::Glob(symbols.into()),
            },
            Some((Symbol::Byte(_) | Symbol::One, _)) => match text(&symbols) {
                Some(text) => Self::Exact(text),
                None => Self::Glob(symbols.into()),
            },
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.matcher == other.matcher
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.matcher.hash(state);
    }
}

#[cfg(test)]
mod tests;
