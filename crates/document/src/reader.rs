//! Reads a tree by expected types, and collects all problems with their places.

use std::path::Path;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use crate::hints::Hints;
use crate::problem::{Place, Problem, Severity};
use crate::similar::{Suggestions, closest};
use crate::tree::{Key, Mark, Node, Scalar, Value};
use crate::warning::Warning;

/// The maximum length of a displayed message, in characters.
const MAX_LENGTH: usize = 400;

/// The maximum number of problems that are kept for a file.
const MAX_PROBLEMS: usize = 10_000;

/// Reads the values of a document, and collects its problems.
#[derive(Debug)]
pub struct Reader {
    file: Arc<Path>,
    problems: Vec<Problem>,
    errors: usize,
    /// The number of problems beyond [`MAX_PROBLEMS`].
    omitted: usize,
    suggestions: Suggestions,
    hints: Hints,
    /// See [`Reader::hiding_keys`].
    hides_keys: bool,
}

/// The entries of a mapping with checked keys.
#[derive(Clone, Debug)]
pub struct Fields<'n> {
    /// The start of the mapping.
    pub at: Mark,
    entries: &'n [(Key, Node)],
    /// The name of the mapping in messages.
    name: String,
    /// The keys that unknown keys probably mean.
    meant: Vec<String>,
}

/// A text that can locate its parts in the file.
#[derive(Clone, Copy, Debug)]
pub struct Text<'n> {
    /// The text.
    pub text: &'n str,
    /// The start of the value, including its quote.
    pub at: Mark,
    /// The same text as an `Arc`, which can be cloned without a copy.
    pub shared: &'n Arc<str>,
    /// See [`Scalar::plain`].
    plain: bool,
    /// Whether the file has exactly these characters, on one line and without escapes.
    verbatim: bool,
}

impl Reader {
    /// A reader for the file with this name, in a format without hints.
    #[must_use]
    pub fn new(file: Arc<Path>) -> Self {
        Self::with_hints(file, Hints::NONE)
    }

    /// A reader for the file with this name, in a format with these hints.
    #[must_use]
    pub fn with_hints(file: Arc<Path>, hints: Hints) -> Self {
        let suggestions = Suggestions::with_file_limit();
        Self {
            file,
            problems: Vec::new(),
            errors: 0,
            omitted: 0,
            suggestions,
            hints,
            hides_keys: false,
        }
    }

    /// The same, where any key of a mapping may be a misplaced secret: no message shows a key.
    #[must_use]
    pub fn hiding_keys(self) -> Self {
        Self { hides_keys: true, ..self }
    }

    /// A key of a mapping, as messages show it.
    pub(crate) fn shown_key(&self, key: &str) -> String {
        // A key that is really `user:password` must not appear in a log.
        if self.hides_keys || key.contains(':') { "a key".to_owned() } else { format!("`{key}`") }
    }

    /// The problems. If any error was reported, the list has an error, even if problems beyond
    /// [`MAX_PROBLEMS`] were omitted.
    #[must_use]
    pub fn finish(mut self) -> Vec<Problem> {
        if let Some(last) = self.problems.last().filter(|_| self.omitted > 0) {
            let severity =
                if self.errors > 0 { Severity::Error } else { Severity::Warning(Warning::More) };
            let message = format!("there are {} more problems in this file", self.omitted);
            self.problems.push(Problem { severity, ..Problem::error(last.at.clone(), message) });
        }
        self.problems
    }

    /// The name of the file.
    #[must_use]
    pub fn file(&self) -> &Arc<Path> {
        &self.file
    }

    /// The number of errors so far.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// A place in this file.
    #[must_use]
    pub fn place(&self, at: Mark) -> Place {
        Place { file: self.file.clone(), line: at.line, column: at.column }
    }

    /// The word that was probably meant by a misspelled word; `None` also if the file has too many
    /// misspelled words.
    pub fn closest<'w>(
        &mut self,
        word: &str,
        words: impl IntoIterator<Item = &'w str>,
    ) -> Option<&'w str> {
        self.suggestions.closest(word, words)
    }

    /// Adds a problem. A long message or help is cut.
    pub fn push(&mut self, mut problem: Problem) {
        shorten(&mut problem.message);
        problem.help.as_mut().map(shorten);
        self.errors += usize::from(problem.severity == Severity::Error);
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.omitted += 1;
        }
    }

    /// Adds an error.
    pub fn error(&mut self, at: Mark, message: impl Into<String>) {
        self.push(Problem::error(self.place(at), message));
    }

    /// Adds an error and how to fix it.
    pub fn error_help(&mut self, at: Mark, message: impl Into<String>, help: impl Into<String>) {
        self.push(Problem::error(self.place(at), message).help(help));
    }

    /// Adds an error and how to fix it, for a caller that returns `None`.
    pub fn reject<T>(
        &mut self,
        at: Mark,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.error_help(at, message, help);
        None
    }

    /// Adds a warning and how to fix it.
    pub fn warning_help(
        &mut self,
        at: Mark,
        kind: Warning,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(Problem::warning(self.place(at), kind, message).help(help));
    }

    /// The entries of a mapping that may have only these keys. A key without a value is the same as
    /// a missing key.
    pub fn fields<'n>(&mut self, node: &'n Node, name: &str, keys: &[&str]) -> Option<Fields<'n>> {
        let mut fields = self.entries(node, name)?;
        let hides_keys = self.hides_keys;
        self.check_keys(&mut fields, keys, |key| {
            if hides_keys { "unknown key".to_owned() } else { format!("unknown key `{key}`") }
        });
        Some(fields)
    }

    /// Like [`Reader::fields`] for mappings in which a key may be a misplaced secret: messages do
    /// not show the unknown key.
    pub fn secret_fields<'n>(
        &mut self,
        node: &'n Node,
        name: &str,
        keys: &[&str],
    ) -> Option<Fields<'n>> {
        let mut fields = self.entries(node, name)?;
        self.check_keys(&mut fields, keys, |_| "unknown key".to_owned());
        Some(fields)
    }

    /// Like [`Reader::fields`], but a key without a value is an error: an entry that was commented
    /// out must not mean the default, which may allow more.
    pub fn filled_fields<'n>(
        &mut self,
        node: &'n Node,
        name: &str,
        keys: &[&str],
    ) -> Option<Fields<'n>> {
        let fields = self.fields(node, name, keys)?;
        self.report_empty(&fields, keys);
        Some(fields)
    }

    /// Reports each of these keys that has no value.
    pub fn report_empty(&mut self, fields: &Fields<'_>, keys: &[&str]) {
        for (key, node) in fields.iter() {
            if node.is_nothing() && keys.contains(&&*key.text) {
                let message = format!("`{}` has no value", key.text);
                self.error_help(key.at, message, "write one, or leave the key out");
            }
        }
    }

    /// Reports each unknown key.
    fn check_keys(
        &mut self,
        fields: &mut Fields<'_>,
        keys: &[&str],
        message: impl Fn(&str) -> String,
    ) {
        for (key, _) in fields.entries.iter().filter(|(key, _)| !keys.contains(&&*key.text)) {
            let foreign = self.hints.foreign_key(&fields.name, &key.text);
            // Problems beyond `MAX_PROBLEMS` are not shown: a search for a similar key would be
            // wasted.
            let may_search = foreign.is_none() && self.problems.len() < MAX_PROBLEMS;
            let close = may_search.then(|| closest(&key.text, keys.iter().copied())).flatten();
            let (meant, help) = match (foreign, close) {
                (Some((meant, help)), _) => (meant, help),
                (None, Some(close)) => (Some(close), format!("did you mean `{close}`?")),
                (None, None) => (None, format!("{} has {}", fields.name, enumerate(keys, "and"))),
            };
            self.error_help(key.at, message(&key.text), help);
            fields.meant.extend(meant.map(str::to_owned));
        }
    }

    /// The entries of a mapping with arbitrary keys.
    pub fn entries<'n>(&mut self, node: &'n Node, name: &str) -> Option<Fields<'n>> {
        let Value::Map(entries) = &node.value else {
            return self.unexpected(node, name, "a mapping", None);
        };
        Some(Fields { at: node.at, entries, name: name.to_owned(), meant: Vec::new() })
    }

    /// The value of a required key. If it is missing, `help` says how to add it.
    pub fn required<'n>(&mut self, fields: &Fields<'n>, key: &str, help: &str) -> Option<&'n Node> {
        // A misspelled key was reported already. A key without a value is not reported here:
        // `filled_fields` has reported it, and a caller that used `fields` reports it itself.
        if fields.lacks(key) {
            self.error_help(fields.at, format!("{} has no `{key}`", fields.name), help);
        }
        fields.value(key)
    }

    /// The text under a key, if it has a value.
    pub fn field_text<'n>(&mut self, fields: &Fields<'n>, key: &str) -> Option<Text<'n>> {
        fields.value(key).and_then(|node| self.text(node, &format!("`{key}`")))
    }

    /// The boolean under a key, if it has a value.
    pub fn field_boolean(&mut self, fields: &Fields<'_>, key: &str) -> Option<bool> {
        fields.value(key).and_then(|node| self.boolean(node, &format!("`{key}`")))
    }

    /// The value that `choices` has for the word under a key.
    pub fn field_choice<T: Copy>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.field_text(fields, key)?;
        let choice = choices.iter().find(|(word, _)| *word == text.text);
        if choice.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let message = format!("`{}` is not a value of `{key}`", text.text);
            self.error_help(text.at, message, format!("write {}", enumerate(&words, "or")));
        }
        choice.map(|(_, value)| *value)
    }

    /// The items of a list.
    pub fn list<'n>(&mut self, node: &'n Node, name: &str) -> Option<&'n [Node]> {
        match &node.value {
            Value::List(items) => Some(items),
            Value::Scalar(_) => {
                let help = "write a list: put it in `[` and `]`";
                self.unexpected(node, name, "a list", Some(help))
            }
            Value::Map(_) => self.unexpected(node, name, "a list", None),
        }
    }

    /// A text, or an unquoted number as text. An empty value is an error.
    pub fn text<'n>(&mut self, node: &'n Node, name: &str) -> Option<Text<'n>> {
        match &node.value {
            Value::Scalar(scalar) if !scalar.is_nothing() => Some(Text::new(node.at, scalar)),
            Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
                self.unexpected(node, name, "text", None)
            }
        }
    }

    /// The texts of a list.
    pub fn texts<'n>(&mut self, node: &'n Node, name: &str, item: &str) -> Vec<Text<'n>> {
        let items = self.list(node, name).unwrap_or_default();
        items.iter().filter_map(|node| self.text(node, item)).collect()
    }

    /// The texts of a list under a key, which must not be empty.
    pub fn nonempty_texts<'n>(
        &mut self,
        (key, node): (&'n Key, &'n Node),
        help: &str,
    ) -> Option<Vec<Text<'n>>> {
        let name = format!("`{}`", key.text);
        let texts = self.texts(node, &name, &format!("each of {name}"));
        if matches!(&node.value, Value::List(items) if items.is_empty()) {
            self.error_help(node.at, format!("{name} is empty"), help);
        }
        (!texts.is_empty()).then_some(texts)
    }

    /// Warns of duplicates in a list.
    pub fn warn_of_duplicates(&mut self, texts: &[Text<'_>]) {
        let mut places: HashMap<&str, Mark> = HashMap::with_capacity(texts.len());
        for text in texts {
            if let Some(first) = places.insert(text.text, text.at) {
                let message = format!("`{}` is listed twice", text.text);
                let problem = Problem::warning(self.place(text.at), Warning::Duplicate, message)
                    .help("leave one out")
                    .related(self.place(first), "the other is here");
                self.push(problem);
            }
        }
    }

    /// An unquoted `true` or `false` (YAML 1.2.2, 10.3.2).
    pub fn boolean(&mut self, node: &Node, name: &str) -> Option<bool> {
        self.boolean_or(node, name, "`true` or `false`, without quotes")
    }

    /// `true` or `false`, for a key that also takes other values. `expected` lists all of them for
    /// the message.
    pub fn boolean_or(&mut self, node: &Node, name: &str, expected: &str) -> Option<bool> {
        let boolean = match &node.value {
            Value::Scalar(scalar) => scalar.boolean(),
            Value::List(_) | Value::Map(_) => None,
        };
        boolean.or_else(|| self.unexpected(node, name, expected, None))
    }

    /// Reports a value of the wrong type. The message contains the type, never the value.
    fn unexpected<T>(
        &mut self,
        node: &Node,
        name: &str,
        expected: &str,
        help: Option<&str>,
    ) -> Option<T> {
        let actual = match &node.value {
            Value::Scalar(scalar) if scalar.is_nothing() => "nothing",
            Value::Scalar(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        };
        let message = format!("{name} must be {expected}, not {actual}");
        match self.hints.wrong_type(name, expected).or(help) {
            Some(help) if actual != "nothing" => self.error_help(node.at, message, help),
            Some(_) | None => self.error(node.at, message),
        }
        None
    }
}

impl<'n> Fields<'n> {
    /// The value of this key, if present and not empty.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&'n Node> {
        self.field(key).map(|(_, node)| node).filter(|node| !node.is_nothing())
    }

    /// The key and its value, which may be empty.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<(&'n Key, &'n Node)> {
        self.iter().find(|(name, _)| &*name.text == key)
    }

    /// Whether this key is missing. A key that is probably there, misspelled, does not count as
    /// missing: it was reported already.
    #[must_use]
    pub fn lacks(&self, key: &str) -> bool {
        self.field(key).is_none() && !self.has_misspelled(key)
    }

    /// Whether an unknown key is probably a misspelling of this key, or a name for it in another
    /// system.
    #[must_use]
    pub fn has_misspelled(&self, key: &str) -> bool {
        self.meant.iter().any(|meant| meant == key)
    }

    /// All keys and values, in text order.
    pub fn iter(&self) -> impl Iterator<Item = (&'n Key, &'n Node)> + use<'n> {
        self.entries.iter().map(|(key, node)| (key, node))
    }
}

impl<'n> Text<'n> {
    fn new(at: Mark, Scalar { text, plain, verbatim }: &'n Scalar) -> Self {
        Self { text, at, shared: text, plain: *plain, verbatim: *verbatim }
    }

    /// The text of a key, whose parts cannot be located.
    #[must_use]
    pub fn from_key(key: &'n Key) -> Self {
        Self { text: &key.text, at: key.at, shared: &key.text, plain: false, verbatim: false }
    }

    /// The columns from the place of this text to its first character; `None` if the place of its
    /// parts is not known.
    #[must_use]
    pub fn columns_before(&self) -> Option<u32> {
        self.verbatim.then_some(u32::from(!self.plain))
    }

    /// The place in the file of a part of this text; the start of the text if the place of the part
    /// is not known.
    #[must_use]
    pub fn locate(&self, part: &str) -> Mark {
        let offset = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        match self.text.get(..offset) {
            Some(before) if self.verbatim => {
                self.at.right(before.chars().count() + usize::from(!self.plain))
            }
            _ => self.at,
        }
    }
}

/// `a`, `b` and `c`.
fn enumerate(words: &[&str], conjunction: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match &*quoted {
        [] => "nothing".to_owned(),
        [word] => word.clone(),
        [words @ .., last] => format!("{} {conjunction} {last}", words.join(", ")),
    }
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_LENGTH) {
        text.truncate(end);
        text.push('…');
    }
}
