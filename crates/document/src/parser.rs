//! Parses YAML into a tree.
//!
//! It supports what a policy needs: mappings with text keys, lists, scalars. Tags are errors, and so are anchors and
//! aliases, except in the configurations of other programs ([`Reader::parse_foreign`]).
//! Depth, number of values and size are limited, so memory use is proportional to the length of any input.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use crate::problem::Problem;
use crate::reader::Reader;
use crate::tree::{Key, Mark, Node, Scalar, Value};

/// The maximum nesting depth.
const MAX_DEPTH: usize = 64;
/// The maximum number of values.
const MAX_VALUES: usize = 8_000_000;
/// The first bytes of what gzip has compressed (RFC 1952, 2.3.1): YAML never begins like this.
const GZIP: &[u8] = &[0x1F, 0x8B];
/// The maximum length of a text, in bytes.
const MAX_BYTES: usize = 128 * 1024 * 1024;

impl Reader {
    /// Parses a text with exactly one document. An empty document is [nothing](Node::is_nothing). Every problem is
    /// reported; `None` if there is no tree.
    pub fn parse(&mut self, bytes: &[u8]) -> Option<Node> {
        let documents = self.read(bytes, true, false)?;
        let nothing = || Node { at: Mark::START, value: Value::Scalar(Scalar::nothing()) };
        Some(documents.into_iter().next().unwrap_or_else(nothing))
    }

    /// Parses a text with any number of documents, as Kubernetes has them. Every problem is reported; `None` if one of
    /// the documents is no tree.
    pub fn parse_all(&mut self, bytes: &[u8]) -> Option<Vec<Node>> {
        self.read(bytes, false, false)
    }

    /// Like [`Reader::parse_all`], for a configuration of another program: an alias stands for a copy of the anchored
    /// value. Copies count towards the limits.
    pub fn parse_foreign(&mut self, bytes: &[u8]) -> Option<Vec<Node>> {
        self.read(bytes, false, true)
    }

    fn read(&mut self, bytes: &[u8], single: bool, aliases: bool) -> Option<Vec<Node>> {
        if bytes.len() > MAX_BYTES {
            let message = format!("the file has {} bytes, more than {MAX_BYTES}", bytes.len());
            self.error(Mark::START, message);
            return None;
        }
        if bytes.starts_with(GZIP) {
            let help = "unpack it (`tar xzf FILE`) and name the folder; of a policy bundle, `rolegate bundle inspect` shows what is in it";
            self.error_help(Mark::START, "the file is compressed (gzip)", help);
            return None;
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                self.error(end_of(&String::from_utf8_lossy(valid)), "the file is not UTF-8 from here on");
                return None;
            }
        };
        let mut tree = Tree {
            open: Vec::new(),
            roots: Vec::new(),
            values: 0,
            documents: 0,
            single,
            anchored: aliases.then(HashMap::new),
            reader: self,
        };
        for event in Events(Parser::new_from_str(text)) {
            match event {
                Ok((event, span)) => tree.event(event, span)?,
                Err(error) => {
                    let problem = syntax_problem(text, &error, tree.reader);
                    tree.reader.push(problem);
                    return None;
                }
            }
        }
        Some(tree.roots)
    }

    /// Like [`Reader::parse`], but an empty document is an error, with this help.
    pub fn parse_nonempty(&mut self, bytes: &[u8], help: &str) -> Option<Node> {
        let root = self.parse(bytes)?;
        if root.is_nothing() {
            self.error_help(Mark::START, "the file is empty", help);
            return None;
        }
        Some(root)
    }
}

/// The place after this text, which starts the file.
fn end_of(text: &str) -> Mark {
    let last = text.rsplit('\n').next().unwrap_or_default();
    mark(text.matches('\n').count() + 1, last.trim_start_matches('\u{feff}').chars().count())
}

/// From a line counted from 1 and a column counted from 0.
fn mark(line: usize, column: usize) -> Mark {
    let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Mark { line: narrow(line.max(1)), column: narrow(column.saturating_add(1)) }
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

/// A value with an anchor.
struct Anchored {
    node: Node,
    values: usize,
    depth: usize,
}

/// A tree under construction.
struct Tree<'r> {
    /// The open collections, each with its anchor, or 0.
    open: Vec<(Open, usize)>,
    roots: Vec<Node>,
    values: usize,
    documents: usize,
    /// Whether a second document is an error.
    single: bool,
    /// The values with anchors, by anchor; `None` if anchors are errors.
    anchored: Option<HashMap<usize, Anchored>>,
    reader: &'r mut Reader,
}

impl Tree<'_> {
    /// Handles one event; `None` stops parsing.
    fn event(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        let at = mark(span.start.line(), span.start.col());
        match event {
            Event::DocumentStart(_) => self.document(at)?,
            Event::Alias(anchor) => self.alias(at, anchor)?,
            Event::Scalar(text, style, anchor, tag) => {
                self.reject_properties(at, anchor != 0, tag.is_some());
                self.add(at, Value::Scalar(scalar(&text, style, &span)), anchor)?;
            }
            Event::SequenceStart(anchor, tag) => {
                self.reject_properties(at, anchor != 0, tag.is_some());
                self.open(at, Open::List(at, Vec::new()), anchor)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.reject_properties(at, anchor != 0, tag.is_some());
                self.open(at, Open::Map(at, Vec::new(), Awaited::Key), anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close()?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Some(())
    }

    fn document(&mut self, at: Mark) -> Option<()> {
        self.documents += 1;
        if self.single && self.documents > 1 {
            self.reader.error_help(at, "a second document starts here", "keep one document per file");
            return None;
        }
        Some(())
    }

    fn open(&mut self, at: Mark, collection: Open, anchor: usize) -> Option<()> {
        if self.open.len() >= MAX_DEPTH {
            self.reader.error(at, format!("values are nested more than {MAX_DEPTH} deep"));
            return None;
        }
        self.open.push((collection, anchor));
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        match self.open.pop()? {
            (Open::List(at, items), anchor) => self.add(at, Value::List(items), anchor),
            (Open::Map(at, entries, _), anchor) => {
                let entries = without_repetition(entries, self.reader);
                self.add(at, Value::Map(entries), anchor)
            }
        }
    }

    /// Adds a finished value to the innermost open collection.
    fn add(&mut self, at: Mark, value: Value, anchor: usize) -> Option<()> {
        self.count(at, 1)?;
        let node = Node { at, value };
        if let Some(anchored) = self.anchored.as_mut().filter(|_| anchor != 0) {
            let (values, depth) = size(&node);
            anchored.insert(anchor, Anchored { node: node.clone(), values, depth });
            self.count(at, values)?;
        }
        self.place(node);
        Some(())
    }

    /// Adds the value that an alias stands for.
    fn alias(&mut self, at: Mark, anchor: usize) -> Option<()> {
        let Some(anchored) = &self.anchored else {
            self.reject_alias(at);
            return self.add(at, Value::Scalar(Scalar::nothing()), 0);
        };
        // Without one, the alias is inside of the value that it stands for.
        let Some(Anchored { node, values, depth }) = anchored.get(&anchor) else {
            self.reader.error(at, "this alias stands for a value that contains it");
            return None;
        };
        if self.open.len() + depth > MAX_DEPTH {
            self.reader.error(at, format!("values are nested more than {MAX_DEPTH} deep"));
            return None;
        }
        let values = *values;
        let node = node.clone();
        self.count(at, values)?;
        self.place(node);
        Some(())
    }

    fn count(&mut self, at: Mark, values: usize) -> Option<()> {
        self.values += values;
        if self.values > MAX_VALUES {
            self.reader.error(at, format!("there are more than {MAX_VALUES} values"));
            return None;
        }
        Some(())
    }

    fn place(&mut self, node: Node) {
        match self.open.last_mut().map(|(open, _)| open) {
            None => self.roots.push(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, entries, awaited)) => match std::mem::replace(awaited, Awaited::Key) {
                Awaited::Key => *awaited = Awaited::Value(key(node, self.reader)),
                Awaited::Value(Some(key)) => {
                    let at = if node.is_nothing() { key.at } else { node.at };
                    entries.push((key, Node { at, ..node }));
                }
                Awaited::Value(None) => {}
            },
        }
    }

    fn reject_alias(&mut self, at: Mark) {
        let help = "write it out; quote a text that starts with `*`";
        self.reader.error_help(at, "aliases are not supported", help);
    }

    fn reject_properties(&mut self, at: Mark, anchor: bool, tag: bool) {
        if anchor && self.anchored.is_none() {
            let help = "write it out; quote a text that starts with `&`";
            self.reader.error_help(at, "anchors are not supported", help);
        }
        if tag {
            let help = "leave it out; quote a text that starts with `!`";
            self.reader.error_help(at, "tags are not supported", help);
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

/// The number of values of a node, itself included, and how deep its collections are nested.
fn size(node: &Node) -> (usize, usize) {
    let of_children = |(values, depth): (usize, usize), child: &Node| {
        let (more, below) = size(child);
        (values + more, depth.max(below + 1))
    };
    match &node.value {
        Value::Scalar(_) => (1, 0),
        Value::List(items) => items.iter().fold((1, 1), of_children),
        Value::Map(entries) => entries.iter().map(|(_, value)| value).fold((1, 1), of_children),
    }
}

/// A node as a key, which must be text.
fn key(node: Node, reader: &mut Reader) -> Option<Key> {
    match node.value {
        Value::Scalar(scalar) => Some(Key { at: node.at, text: scalar.text }),
        Value::List(_) | Value::Map(_) => {
            let help = "quote a text that starts with `{` or `[`";
            reader.error_help(node.at, "a key must be text", help);
            None
        }
    }
}

/// Reports each duplicate key and keeps its first entry.
fn without_repetition(mut entries: Vec<(Key, Node)>, reader: &mut Reader) -> Vec<(Key, Node)> {
    let mut seen: HashMap<Arc<str>, Mark> = HashMap::with_capacity(entries.len());
    entries.retain(|(key, _)| match seen.get(&key.text) {
        None => {
            seen.insert(key.text.clone(), key.at);
            true
        }
        Some(first) => {
            // A key that is really `user:password` must not appear in a log.
            let name = if key.text.contains(':') { "a key".to_owned() } else { format!("`{}`", key.text) };
            let problem = Problem::error(reader.place(key.at), format!("{name} is defined twice"))
                .help("leave one of them out, or put them together")
                .related(reader.place(*first), "the first is here");
            reader.push(problem);
            false
        }
    });
    entries
}

/// The parser's error. Its cause may be on a line above, or a tab on the next one.
fn syntax_problem(text: &str, error: &ScanError, reader: &Reader) -> Problem {
    let marker = error.marker();
    let near = || text.lines().skip(marker.line().saturating_sub(3)).take(4);
    let help = if near().any(is_indented_by_tab) {
        "indent with spaces"
    } else if near().any(is_without_space) {
        "write a space after the `:`"
    } else if near().any(|line| line.trim_start().starts_with("- *")) {
        "quote a text that begins with `*`"
    } else {
        "check the indentation here and above, close every quote, `[` and `{`, and quote a text that begins \
         with a sign or has `{`, `[` or `: ` in it"
    };
    let message = format!("not valid YAML: {}", error.info());
    Problem::error(reader.place(mark(marker.line(), marker.col())), message).help(help)
}

fn is_indented_by_tab(line: &str) -> bool {
    line.chars().take_while(|letter| letter.is_whitespace()).any(|letter| letter == '\t')
}

/// Whether a line begins like `reader:{` or `- allow:[`, which YAML does not read as a key and its value.
fn is_without_space(line: &str) -> bool {
    let line = line.trim_start();
    let (key, value) = line.strip_prefix("- ").unwrap_or(line).split_once(':').unwrap_or_default();
    let is_name = |letter: char| letter.is_alphanumeric() || "_-.\"'".contains(letter);
    value.starts_with(['{', '[']) && !key.is_empty() && key.chars().all(is_name)
}
