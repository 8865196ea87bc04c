//! Regular expressions as Java reads them, compiled into automata.
//!
//! OpenSearch matches them by backtracking (`java.util.regex`), which a long name can make slow.
//! Here they become automata of limited size that read a name once. Syntax that automata cannot
//! handle (back references, inner look-around), or that differs in Java, is an error.

use std::iter::Peekable;
use std::str::CharIndices;

use regex_automata::dfa::Automaton;
use regex_automata::dfa::StartKind;
use regex_automata::dfa::dense::{self, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input};

/// The maximum size of an automaton, and of the memory to build it.
const MAX_SIZE: usize = 1024 * 1024;

/// The problem of a regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegexError {
    /// The offset in the expression, in bytes.
    pub offset: usize,
    /// The problem: lower case, no full stop.
    pub message: String,
}

/// A regular expression: conditions on the start of a name, and on the whole name.
pub(crate) struct Regex {
    /// Look-aheads at the start, with whether they must match.
    starts: Vec<(bool, Machine)>,
    whole: Machine,
}

type Machine = DFA<Vec<u32>>;

impl RegexError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }
}

impl Regex {
    /// Compiles the expression between the slashes.
    pub(crate) fn parse(text: &str) -> Result<Self, RegexError> {
        let mut body = text.trim_start_matches('^');
        let mut starts = Vec::new();
        while let Some((must_match, inner, after)) = split_look_ahead(body) {
            starts.push((must_match, compile(inner, text.len() - body.len() + 3, "")?));
            body = after;
        }
        let offset = text.len() - body.len();
        // A name has no line break, so a `$` at the end is the same as `\z`.
        Ok(Self { starts, whole: compile(body.trim_start_matches('^'), offset, r"\z")? })
    }

    /// Whether it matches the whole name. It matches no name with a control character or a line
    /// separator: in Java, `.` does not match some of these.
    pub(crate) fn matches(&self, name: &str) -> bool {
        !name.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
            && self.starts.iter().all(|(must, machine)| is_match(machine, name) == Some(*must))
            && is_match(&self.whole, name) == Some(true)
    }
}

/// Whether the machine matches at the start of a name; `None` if it gave up.
fn is_match(machine: &Machine, name: &str) -> Option<bool> {
    let input = Input::new(name).anchored(Anchored::Yes);
    machine.try_search_fwd(&input).ok().map(|end| end.is_some())
}

/// Splits a look-ahead off the start: whether it must match, its inner part, and the text after it.
fn split_look_ahead(text: &str) -> Option<(bool, &str, &str)> {
    let (must_match, inner) = match text.strip_prefix("(?!") {
        Some(inner) => (false, inner),
        None => (true, text.strip_prefix("(?=")?),
    };
    let (mut depth, mut in_class, mut escaped) = (1_usize, 0_usize, false);
    for (at, character) in inner.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class += 1,
            ']' => in_class = in_class.saturating_sub(1),
            '(' if in_class == 0 => depth += 1,
            ')' if in_class == 0 => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((must_match, inner.get(..at)?, inner.get(at + 1..)?));
        }
    }
    None
}

fn compile(text: &str, offset: usize, end: &str) -> Result<Machine, RegexError> {
    let chars = text.char_indices().peekable();
    let translated = Translation { text, offset, chars, out: String::new() }.translate()?;
    let pattern = format!("(?:{translated}){end}");
    regex_automata::util::syntax::parse(&pattern)
        .map_err(|_| RegexError::new(offset, "this is not a regular expression"))?;
    let limit = Some(MAX_SIZE);
    let config = dense::Config::new()
        .start_kind(StartKind::Anchored)
        .dfa_size_limit(limit)
        .determinize_size_limit(limit);
    dense::Builder::new()
        .configure(config)
        .thompson(thompson::Config::new().nfa_size_limit(limit))
        .build(&pattern)
        .map_err(|_| RegexError::new(offset, "the regular expression is too complex"))
}

/// The translation of a Java expression. `out` is the part done so far, and `chars` are still to be
/// read.
struct Translation<'t> {
    text: &'t str,
    offset: usize,
    chars: Peekable<CharIndices<'t>>,
    out: String,
}

impl Translation<'_> {
    fn translate(mut self) -> Result<String, RegexError> {
        let mut depth = 0_usize;
        while let Some((at, character)) = self.chars.next() {
            match character {
                '\\' => self.escape(at)?,
                '[' => {
                    depth += 1;
                    self.out.push('[');
                    self.class_start(at)?;
                }
                ']' if depth > 0 => {
                    depth -= 1;
                    self.out.push(']');
                }
                ']' => self.out.push_str(r"\]"),
                '-' | '~' if depth > 0 && self.next_is(character) => {
                    let message = "`--` and `~~` in a character class are not supported";
                    return Err(self.error(at, message));
                }
                '(' if depth == 0 => {
                    self.out.push('(');
                    self.group(at)?;
                }
                '*' | '+' | '?' | '}' if depth == 0 => {
                    self.out.push(character);
                    if self.next_is('+') {
                        return Err(self.error(at, "possessive quantifiers are not supported"));
                    }
                }
                character => self.out.push(character),
            }
        }
        Ok(self.out)
    }

    fn escape(&mut self, at: usize) -> Result<(), RegexError> {
        let Some((_, character)) = self.chars.next() else {
            return Err(self.error(at, "`\\` must be followed by a character"));
        };
        match character {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Z_a-z]"),
            'W' => self.out.push_str("[^0-9A-Z_a-z]"),
            's' => self.out.push_str(r"[ \t\n\x0B\f\r]"),
            'S' => self.out.push_str(r"[^ \t\n\x0B\f\r]"),
            't' | 'n' | 'r' | 'f' => self.out.extend(['\\', character]),
            character if character.is_ascii_alphanumeric() => {
                let message = format!("`\\{character}` is not supported in a regular expression");
                return Err(self.error(at, message));
            }
            // Java takes every other escaped character literally.
            character if character.is_ascii() => self.out.extend(['\\', character]),
            character => self.out.push(character),
        }
        Ok(())
    }

    /// Reads the start of a class, after `[`. A `]` or `:` there, as in `[]a]`, is an error: Java
    /// reads it differently.
    fn class_start(&mut self, at: usize) -> Result<(), RegexError> {
        if self.next_is('^') {
            self.out.push('^');
            self.chars.next();
        }
        if self.next_is(']') || self.next_is(':') {
            let message = "a character class must not start with `]` or `:`: escape it with `\\`";
            return Err(self.error(at, message));
        }
        Ok(())
    }

    fn group(&mut self, at: usize) -> Result<(), RegexError> {
        if !self.next_is('?') {
            return Ok(());
        }
        if !self.text.get(at..).unwrap_or_default().starts_with("(?:") {
            let message = "of the groups that start with `(?` only `(?:…)` is supported, \
                           and look-ahead at the start";
            return Err(self.error(at, message));
        }
        self.out.push_str("?:");
        self.chars.next();
        self.chars.next();
        Ok(())
    }

    fn next_is(&mut self, character: char) -> bool {
        self.chars.peek().is_some_and(|(_, next)| *next == character)
    }

    fn error(&self, at: usize, message: impl Into<String>) -> RegexError {
        RegexError::new(self.offset + at, message)
    }
}
