//! YAML as a small tree in which every value has its place.
//!
//! It supports what a policy needs: mappings with text keys, lists, scalars. Anchors, aliases and tags are errors.
//! Depth, number of values and size are limited, so memory use is proportional to the length of any input.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use crate::problem::Problem;
use crate::report::Report;

/// The maximum nesting depth.
const DEPTH: usize = 64;
/// The maximum number of values.
const VALUES: usize = 8_000_000;
/// The maximum length of a text, in bytes.
const BYTES: usize = 128 * 1024 * 1024;

/// A line and a column in the current file, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A value and its start.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: Mark,
    pub(crate) value: Value,
}

/// The contents of a node.
#[derive(Debug)]
pub(crate) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    /// In text order, without duplicate keys.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) at: Mark,
    pub(crate) text: Arc<str>,
}

/// Text, not yet interpreted as a number or another type.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: Arc<str>,
    /// Unquoted and not a block scalar: may be a number, a boolean or null.
    pub(crate) plain: bool,
    /// Every character of `text` appears unescaped in the file, on one line, so that places inside it can be computed.
    pub(crate) verbatim: bool,
}

impl Node {
    /// Whether the value is missing, `null` or `~`.
    pub(crate) fn is_nothing(&self) -> bool {
        match &self.value {
            Value::Scalar(scalar) => scalar.is_nothing(),
            Value::List(_) | Value::Map(_) => false,
        }
    }
}

impl Scalar {
    /// Whether the value is missing, `null` or `~` (YAML 1.2.2, 10.3.2).
    pub(crate) fn is_nothing(&self) -> bool {
        self.plain && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }
}

/// Parses a text with exactly one document. Every problem is reported; `None` if there is no tree.
pub(crate) fn parse(bytes: &[u8], report: &mut Report) -> Option<Node> {
    if bytes.len() > BYTES {
        report.error(Mark::START, format!("the file has {} bytes, more than {BYTES}", bytes.len()));
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            report.error(Mark::after(&String::from_utf8_lossy(valid)), "the file is not UTF-8 from here on");
            return None;
        }
    };
    let mut tree = Tree { open: Vec::new(), root: None, values: 0, documents: 0, report };
    for event in Events(Parser::new_from_str(text)) {
        match event {
            Ok((event, span)) => tree.event(event, span)?,
            Err(error) => {
                let problem = syntax_problem(text, &error, tree.report);
                tree.report.push(problem);
                return None;
            }
        }
    }
    let root = tree.root.take();
    if root.as_ref().is_none_or(Node::is_nothing) {
        report.error(Mark::START, "the file is empty");
        return None;
    }
    root
}

impl Mark {
    /// The first character of a file.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// The place after this text, if the text starts the file.
    fn after(text: &str) -> Self {
        let last = text.rsplit('\n').next().unwrap_or_default();
        Self::new(text.matches('\n').count() + 1, last.trim_start_matches('\u{feff}').chars().count())
    }

    /// From a line counted from 1 and a column counted from 0.
    fn new(line: usize, column: usize) -> Self {
        let fit = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: fit(line.max(1)), column: fit(column.saturating_add(1)) }
    }

    /// The place `characters` to the right.
    pub(crate) fn right(self, characters: usize) -> Self {
        let characters = u32::try_from(characters).unwrap_or(u32::MAX);
        Self { line: self.line, column: self.column.saturating_add(characters) }
    }

    fn start_of(span: &Span) -> Self {
        Self::new(span.start.line(), span.start.col())
    }
}

/// The parser as an iterator that stops after the first error.
struct Events<'t>(Parser<'t, saphyr_parser::StrInput<'t>>);

impl<'t> Iterator for Events<'t> {
    type Item = Result<(Event<'t>, Span), ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_event()
    }
}

/// A collection that has not ended yet.
enum Open {
    List(Mark, Vec<Node>),
    Map(Mark, Vec<(Key, Node)>, Awaited),
}

/// What a mapping expects next.
enum Awaited {
    Key,
    /// The value of this key; `None` if the entry is dropped.
    Value(Option<Key>),
}

/// A tree under construction.
struct Tree<'r> {
    open: Vec<Open>,
    root: Option<Node>,
    values: usize,
    documents: usize,
    report: &'r mut Report,
}

impl Tree<'_> {
    /// Handles one event; `None` stops parsing.
    fn event(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        let at = Mark::start_of(&span);
        match event {
            Event::DocumentStart(_) => self.document(at)?,
            Event::Alias(_) => {
                self.refuse_alias(at);
                self.add(at, Value::Scalar(Scalar { text: "".into(), plain: true, verbatim: false }))?;
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_properties(at, anchor != 0, tag.is_some());
                self.add(at, Value::Scalar(scalar(&text, style, &span)))?;
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_properties(at, anchor != 0, tag.is_some());
                self.open(at, Open::List(at, Vec::new()))?;
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_properties(at, anchor != 0, tag.is_some());
                self.open(at, Open::Map(at, Vec::new(), Awaited::Key))?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close()?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Some(())
    }

    fn document(&mut self, at: Mark) -> Option<()> {
        self.documents += 1;
        if self.documents > 1 {
            self.report.error_help(at, "a second document starts here", "keep one document per file");
            return None;
        }
        Some(())
    }

    fn open(&mut self, at: Mark, collection: Open) -> Option<()> {
        if self.open.len() >= DEPTH {
            self.report.error(at, format!("values are nested more than {DEPTH} deep"));
            return None;
        }
        self.open.push(collection);
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        match self.open.pop()? {
            Open::List(at, items) => self.add(at, Value::List(items)),
            Open::Map(at, entries, _) => {
                let entries = without_repetition(entries, self.report);
                self.add(at, Value::Map(entries))
            }
        }
    }

    /// Adds a finished value to the innermost open collection.
    fn add(&mut self, at: Mark, value: Value) -> Option<()> {
        self.values += 1;
        if self.values > VALUES {
            self.report.error(at, format!("there are more than {VALUES} values"));
            return None;
        }
        let node = Node { at, value };
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, entries, awaited)) => match std::mem::replace(awaited, Awaited::Key) {
                Awaited::Key => *awaited = Awaited::Value(key(node, self.report)),
                Awaited::Value(Some(key)) => {
                    let at = if node.is_nothing() { key.at } else { node.at };
                    entries.push((key, Node { at, ..node }));
                }
                Awaited::Value(None) => {}
            },
        }
        Some(())
    }

    fn refuse_alias(&mut self, at: Mark) {
        let help = "write it out; quote a text that starts with `*`";
        self.report.error_help(at, "aliases are not supported", help);
    }

    fn refuse_properties(&mut self, at: Mark, anchor: bool, tag: bool) {
        if anchor {
            let help = "write it out; quote a text that starts with `&`";
            self.report.error_help(at, "anchors are not supported", help);
        }
        if tag {
            let help = "leave it out; quote a text that starts with `!`";
            self.report.error_help(at, "tags are not supported", help);
        }
    }
}

fn scalar(text: &str, style: ScalarStyle, span: &Span) -> Scalar {
    let plain = style == ScalarStyle::Plain;
    let quotes = match style {
        ScalarStyle::Plain => Some(0),
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Some(2),
        ScalarStyle::Literal | ScalarStyle::Folded => None,
    };
    let length = span.end.index().saturating_sub(span.start.index());
    let verbatim = span.start.line() == span.end.line()
        && quotes.is_some_and(|quotes| text.chars().count() + quotes == length);
    Scalar { text: text.into(), plain, verbatim }
}

/// A node as a key, which must be text.
fn key(node: Node, report: &mut Report) -> Option<Key> {
    match node.value {
        Value::Scalar(scalar) => Some(Key { at: node.at, text: scalar.text }),
        Value::List(_) | Value::Map(_) => {
            let help = "quote a text that starts with `{` or `[`";
            report.error_help(node.at, "a key must be text", help);
            None
        }
    }
}

/// Reports each duplicate key and keeps its first entry.
fn without_repetition(mut entries: Vec<(Key, Node)>, report: &mut Report) -> Vec<(Key, Node)> {
    let mut seen: HashMap<Arc<str>, Mark> = HashMap::with_capacity(entries.len());
    entries.retain(|(key, _)| match seen.get(&key.text) {
        None => {
            seen.insert(key.text.clone(), key.at);
            true
        }
        Some(first) => {
            // A key that is really `user:password` must not appear in a log.
            let name = if key.text.contains(':') { "a key".to_owned() } else { format!("`{}`", key.text) };
            let problem = Problem::error(report.place(key.at), format!("{name} is defined twice"))
                .help("leave one of them out, or put them together")
                .related(report.place(*first), "the first is here");
            report.push(problem);
            false
        }
    });
    entries
}

/// The parser's error, with its usual cause if the line shows it.
fn syntax_problem(text: &str, error: &ScanError, report: &Report) -> Problem {
    let mark = error.marker();
    let at = Mark::new(mark.line(), mark.col());
    let line = text.lines().nth(mark.line().saturating_sub(1)).unwrap_or_default();
    let problem = Problem::error(report.place(at), format!("not valid YAML: {}", error.info()));
    match cause(line, line.chars().nth(mark.col())) {
        Some(help) => problem.help(help),
        None => problem,
    }
}

/// How to fix a line that is not YAML from this character on.
fn cause(line: &str, here: Option<char>) -> Option<&'static str> {
    let indentation = line.len() - line.trim_start().len();
    if line.get(..indentation).is_some_and(|it| it.contains('\t')) {
        Some("indent with spaces")
    } else if here == Some('*') || line.trim_start().starts_with("- *") {
        Some("quote a text that starts with `*`")
    } else if line.trim().is_empty() {
        Some("close every quote, `[` and `{`")
    } else if line.contains(['{', '[']) {
        Some("quote a text that has `{`, `}`, `[`, `]` or `,` in it, and close every quote, `[` and `{`")
    } else {
        None
    }
}
