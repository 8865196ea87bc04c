//! Regular expressions in the syntax of RE2, compiled to run in linear time.

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};
use regex_automata::dfa::{StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;

use crate::steps::BYTES;

/// The largest compiled size of a regular expression.
const MAX_SIZE: usize = 256 * 1024;

/// The largest automaton that is known to stay in the memory of a matcher, so that each byte takes
/// it a look-up. `regex` has twice this memory: there a state takes more.
const MAX_AUTOMATON: usize = 512 * 1024;

/// The states of a pattern without such an automaton that an evaluation tries in a step.
const STATES: usize = 16;

/// A compiled regular expression.
#[derive(Clone)]
pub struct Pattern {
    text: Box<str>,
    regex: Regex,
    /// How many states a match may have to try for each byte of the text; `None` for a single
    /// state.
    states: Option<usize>,
}

impl Pattern {
    /// Compiles a text.
    ///
    /// # Errors
    /// Why it is invalid, or which part of it means something else in RE2.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let translated = translate(text)?;
        let built = RegexBuilder::new(&translated)
            .size_limit(MAX_SIZE)
            .dfa_size_limit(2 * MAX_AUTOMATON)
            .build();
        match built {
            Ok(regex) => Ok(Self { text: text.into(), regex, states: states(&translated) }),
            Err(regex::Error::CompiledTooBig(_)) => Err("it is too large".to_owned()),
            Err(error) => {
                let shown = error.to_string();
                Err(shown.lines().last().unwrap_or("it is invalid").replace("error: ", ""))
            }
        }
    }

    /// Whether it matches a part of the text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }

    /// The steps that a match with a text of this length takes.
    pub(crate) fn steps(&self, length: usize) -> usize {
        match self.states {
            None => length / BYTES,
            Some(states) => length.saturating_mul(states) / STATES,
        }
    }

    /// The regular expression as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// The number of states of the nondeterministic automaton, if the deterministic automaton is large.
/// For `a[ab]{30}c`, the deterministic automaton has 2³¹ states: a client's text makes a matcher
/// build a new state for each byte.
fn states(translated: &str) -> Option<usize> {
    let nfa = thompson::Compiler::new()
        .configure(thompson::Config::new().nfa_size_limit(Some(MAX_SIZE)))
        .syntax(syntax::Config::new().utf8(false))
        .build(translated);
    let Ok(nfa) = nfa else { return Some(MAX_SIZE) };
    let config = dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .dfa_size_limit(Some(MAX_AUTOMATON))
        .determinize_size_limit(Some(MAX_AUTOMATON));
    let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa);
    dfa.is_err().then(|| nfa.states().len())
}

/// From RE2 to the syntax of `regex`, in which `\d`, `\s`, `\w` and `\b` also match characters
/// outside of ASCII, and in which brackets inside of brackets have a meaning.
fn translate(text: &str) -> Result<String, String> {
    let mut translated = String::new();
    let mut letters = text.chars().peekable();
    let mut in_brackets = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let escaped = letters.next().ok_or("it ends in a backslash")?;
                match escaped {
                    'd' => translated.push_str("[0-9]"),
                    'D' => translated.push_str("[^0-9]"),
                    's' => translated.push_str(r"[\t\n\f\r ]"),
                    'S' => translated.push_str(r"[^\t\n\f\r ]"),
                    'w' => translated.push_str("[0-9A-Za-z_]"),
                    'W' => translated.push_str("[^0-9A-Za-z_]"),
                    'b' if !in_brackets => translated.push_str(r"(?-u:\b)"),
                    'B' if !in_brackets => translated.push_str(r"(?-u:\B)"),
                    'Q' | 'E' | 'C' | 'G' | 'K' | 'Z' | 'R' | 'X' | '<' | '>' => {
                        return Err(format!("`\\{escaped}` is not supported"));
                    }
                    _ => translated.extend(['\\', escaped]),
                }
            }
            '[' if in_brackets && letters.peek() == Some(&':') => {
                // `[:alpha:]`: its `]` does not end the outer brackets.
                let class: String = letters.clone().take_while(|letter| *letter != ']').collect();
                letters.by_ref().take(class.chars().count() + 1).for_each(drop);
                translated.extend(["[", &class, "]"]);
            }
            '[' if in_brackets => return Err("`[` inside of brackets: write `\\[`".to_owned()),
            '[' => {
                in_brackets = true;
                translated.push('[');
                if letters.peek() == Some(&'^') {
                    translated.extend(letters.next());
                }
                // A bracket in the first place is a character.
                if letters.peek() == Some(&']') {
                    letters.next();
                    translated.push_str(r"\]");
                }
            }
            ']' => {
                in_brackets = false;
                translated.push(']');
            }
            '&' | '~' | '-' if in_brackets && letters.peek() == Some(&letter) => {
                return Err(format!("`{letter}{letter}` inside of brackets: write it once"));
            }
            _ => translated.push(letter),
        }
    }
    Ok(translated)
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_pattern_means_what_it_means_in_re2() {
        for (pattern, text, matches) in [
            ("b", "abc", true),
            ("^b", "abc", false),
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w$", "é", false),
            (r"^[\w-]+$", "a-b", true),
            (r"\bb", "éb", true),
            ("(?i)^ABC$", "abc", true),
            ("^.$", "é", true),
            ("^[[:alpha:]_]+$", "a_b", true),
            ("^[]a]+$", "]a", true),
            (r"^[^\s]+$", "a b", false),
            ("^[a-z:][0-9]$", ":7", true),
            ("a{2}", "caab", true),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches(text), matches, "{pattern} {text}");
        }
        for pattern in ["(", "[a&&b]", "[a[b]]", r"\Qa\E", r"\", "(?=a)", r"(a)\1", "[z-a]"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        assert!(Pattern::new("((((a{100}){100}){100}){100})").is_err());
    }
}
