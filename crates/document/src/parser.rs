//! Parses YAML into a tree.
//!
//! It supports what a policy needs: mappings with text keys, lists, scalars. Tags are errors, and
//! so are anchors and aliases, except in the configurations of other programs
//! ([`Reader::parse_foreign`]). Depth, number of values and size are limited, so memory use is
//! proportional to the length of any input.

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
/// The first bytes of a gzip file (RFC 1952, 2.3.1): YAML never begins like this.
const GZIP: &[u8] = &[0x1F, 0x8B];
/// The maximum length of a text, in bytes.
const MAX_BYTES: usize = 128 * 1024 * 1024;

impl Reader {
    /// Parses a text with exactly one document. An empty document is [nothing](Node::is_nothing).
    /// `None` if a problem prevents a tree; every problem is reported.
    pub fn parse(&mut self, bytes: &[u8]) -> Option<Node> {
        let documents = self.documents(bytes, false)?;
        Some(documents.into_iter().next().unwrap_or(Node::nothing(Mark::START)))
    }

    /// Like [`Reader::parse`], but an empty document is an error, with this help.
    pub fn parse_nonempty(&mut self, bytes: &[u8], help: &str) -> Option<Node> {
        let root = self.parse(bytes)?;
        if root.is_nothing() {
            return self.reject(Mark::START, "the file is empty", help);
        }
        Some(root)
    }

    /// Parses the configuration of another program, with any number of documents. An alias stands
    /// for a copy of the anchored value; copies count towards the limits.
    pub fn parse_foreign(&mut self, bytes: &[u8]) -> Option<Vec<Node>> {
        self.documents(bytes, true)
    }

    /// Anchors and several documents are errors unless the file is `foreign`.
    fn documents(&mut self, bytes: &[u8], foreign: bool) -> Option<Vec<Node>> {
        let text = self.decode(bytes)?;
        let mut roots = Vec::new();
        let mut tree = TreeParser {
            text,
            events: Parser::new_from_str(text),
            values: 0,
            anchored: foreign.then(HashMap::new),
            reader: self,
        };
        loop {
            match tree.next_event()? {
                (Event::StreamEnd, _) => return Some(roots),
                (Event::DocumentStart(_), span) if !foreign && !roots.is_empty() => {
                    let message = "a second document starts here";
                    let help = "keep one document per file";
                    return tree.reader.reject(start_of(&span), message, help);
                }
                (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
                (event, span) => roots.push(tree.node(event, &span, 0)?),
            }
        }
    }

    /// The text of a file, without its byte order mark.
    fn decode<'t>(&mut self, bytes: &'t [u8]) -> Option<&'t str> {
        if bytes.len() > MAX_BYTES {
            let message = format!("the file has {} bytes, more than {MAX_BYTES}", bytes.len());
            self.error(Mark::START, message);
            return None;
        }
        if bytes.starts_with(GZIP) {
            let help = "unpack it (`tar xzf FILE`) and name the folder; of a policy bundle, \
                        `rolegate bundle inspect` shows what is in it";
            return self.reject(Mark::START, "the file is compressed (gzip)", help);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(text.strip_prefix('\u{feff}').unwrap_or(text)),
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let at = end_of(&String::from_utf8_lossy(valid));
                self.error(at, "the file is not UTF-8 from here on");
                None
            }
        }
    }
}

/// The place after this text, if the file begins with the text.
fn end_of(text: &str) -> Mark {
    let last = text.rsplit('\n').next().unwrap_or_default();
    mark(text.matches('\n').count() + 1, last.trim_start_matches('\u{feff}').chars().count())
}

fn start_of(span: &Span) -> Mark {
    mark(span.start.line(), span.start.col())
}

/// The place with a line counted from 1 and a column counted from 0.
fn mark(line: usize, column: usize) -> Mark {
    let [line, column] = [line.max(1), column.saturating_add(1)]
        .map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Mark { line, column }
}

/// Builds a tree from the events of the YAML parser. `None` stops it: the problem was reported.
struct TreeParser<'r, 't> {
    text: &'t str,
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
    /// The number of values so far.
    values: usize,
    /// The values with anchors, by anchor; `None` if anchors are errors.
    anchored: Option<HashMap<usize, Node>>,
    reader: &'r mut Reader,
}

impl<'t> TreeParser<'_, 't> {
    fn next_event(&mut self) -> Option<(Event<'t>, Span)> {
        match self.events.next_event() {
            Some(Ok((Event::Nothing, _))) => self.next_event(),
            Some(Ok(event)) => Some(event),
            Some(Err(error)) => {
                let problem = syntax_problem(self.text, &error, self.reader);
                self.reader.push(problem);
                None
            }
            None => {
                self.reader.error(end_of(self.text), "not valid YAML: it is not complete");
                None
            }
        }
    }

    /// The value that starts with this event, inside `depth` collections.
    fn node(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Option<Node> {
        let at = start_of(span);
        let (value, anchor) = match event {
            Event::Alias(anchor) => return self.alias(at, anchor, depth),
            Event::Scalar(text, style, anchor, tag) => {
                self.reject_properties(at, anchor, tag.is_some());
                (Value::Scalar(scalar(&text, style, span)), anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.reject_properties(at, anchor, tag.is_some());
                (Value::List(self.items(at, depth)?), anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.reject_properties(at, anchor, tag.is_some());
                (Value::Map(self.entries(at, depth)?), anchor)
            }
            _ => {
                self.reader.error(at, "not valid YAML: a value is expected here");
                return None;
            }
        };
        self.count(at, 1)?;
        let node = Node { at, value };
        if anchor != 0
            && let Some(anchored) = &mut self.anchored
        {
            anchored.insert(anchor, node.clone());
            self.count(at, size(&node).0)?;
        }
        Some(node)
    }

    fn items(&mut self, at: Mark, depth: usize) -> Option<Vec<Node>> {
        self.check_depth(at, depth + 1)?;
        let mut items = Vec::new();
        loop {
            match self.next_event()? {
                (Event::SequenceEnd, _) => return Some(items),
                (event, span) => items.push(self.node(event, &span, depth + 1)?),
            }
        }
    }

    fn entries(&mut self, at: Mark, depth: usize) -> Option<Vec<(Key, Node)>> {
        self.check_depth(at, depth + 1)?;
        let mut entries = Vec::new();
        loop {
            let key = match self.next_event()? {
                (Event::MappingEnd, _) => return Some(reject_duplicate_keys(entries, self.reader)),
                (event, span) => self.node(event, &span, depth + 1)?,
            };
            let (event, span) = self.next_event()?;
            let node = self.node(event, &span, depth + 1)?;
            if let Some(key) = as_key(key, self.reader) {
                let at = if node.is_nothing() { key.at } else { node.at };
                entries.push((key, Node { at, ..node }));
            }
        }
    }

    /// A copy of the value that an alias stands for.
    fn alias(&mut self, at: Mark, anchor: usize, depth: usize) -> Option<Node> {
        let Some(anchored) = &self.anchored else {
            let help = "write it out; quote a text that starts with `*`";
            self.reader.error_help(at, "aliases are not supported", help);
            self.count(at, 1)?;
            return Some(Node::nothing(at));
        };
        // A value is stored when it is complete, so an alias inside the value does not find it.
        let Some(node) = anchored.get(&anchor).cloned() else {
            self.reader.error(at, "this alias stands for a value that contains it");
            return None;
        };
        let (values, nested) = size(&node);
        self.check_depth(at, depth + nested)?;
        self.count(at, values)?;
        Some(node)
    }

    fn check_depth(&mut self, at: Mark, depth: usize) -> Option<()> {
        if depth <= MAX_DEPTH {
            return Some(());
        }
        self.reader.error(at, format!("values are nested more than {MAX_DEPTH} deep"));
        None
    }

    fn count(&mut self, at: Mark, values: usize) -> Option<()> {
        self.values += values;
        if self.values <= MAX_VALUES {
            return Some(());
        }
        self.reader.error(at, format!("there are more than {MAX_VALUES} values"));
        None
    }

    fn reject_properties(&mut self, at: Mark, anchor: usize, has_tag: bool) {
        if anchor != 0 && self.anchored.is_none() {
            let help = "write it out; quote a text that starts with `&`";
            self.reader.error_help(at, "anchors are not supported", help);
        }
        if has_tag {
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

/// The number of values in a node, including the node, and the depth of its nested collections.
fn size(node: &Node) -> (usize, usize) {
    let children: Vec<&Node> = match &node.value {
        Value::Scalar(_) => return (1, 0),
        Value::List(items) => items.iter().collect(),
        Value::Map(entries) => entries.iter().map(|(_, value)| value).collect(),
    };
    children
        .into_iter()
        .map(size)
        .fold((1, 1), |(values, depth), (more, below)| (values + more, depth.max(below + 1)))
}

/// A node as a key, which must be text.
fn as_key(node: Node, reader: &mut Reader) -> Option<Key> {
    match node.value {
        Value::Scalar(scalar) => Some(Key { at: node.at, text: scalar.text }),
        Value::List(_) | Value::Map(_) => {
            reader.reject(node.at, "a key must be text", "quote a text that starts with `{` or `[`")
        }
    }
}

/// Reports each duplicate key, and keeps only the first entry with the key.
fn reject_duplicate_keys(mut entries: Vec<(Key, Node)>, reader: &mut Reader) -> Vec<(Key, Node)> {
    let mut places: HashMap<Arc<str>, Mark> = HashMap::with_capacity(entries.len());
    entries.retain(|(key, _)| {
        let Some(first) = places.get(&key.text) else {
            places.insert(key.text.clone(), key.at);
            return true;
        };
        let name = reader.shown_key(&key.text);
        let help = "leave one of them out, or put them together";
        let (at, first) = (reader.place(key.at), reader.place(*first));
        reader.push(Problem::defined_twice(at, &name, help, first));
        false
    });
    entries
}

/// The error of the YAML parser. Its cause may be on one of the two lines above, or be a tab on the
/// next line. So the help depends on these lines, too.
fn syntax_problem(text: &str, error: &ScanError, reader: &Reader) -> Problem {
    let marker = error.marker();
    let mut lines = text.lines().skip(marker.line().saturating_sub(3)).take(4);
    let help = if lines.clone().any(is_indented_by_tab) {
        "indent with spaces"
    } else if lines.clone().any(is_without_space) {
        "write a space after the `:`"
    } else if lines.any(|line| line.trim_start().starts_with("- *")) {
        "quote a text that begins with `*`"
    } else {
        "check the indentation here and above, close every quote, `[` and `{`, and quote a text \
         that begins with a sign or has `{`, `[` or `: ` in it"
    };
    let message = format!("not valid YAML: {}", error.info());
    Problem::error(reader.place(mark(marker.line(), marker.col())), message).help(help)
}

fn is_indented_by_tab(line: &str) -> bool {
    line.chars().take_while(|letter| letter.is_whitespace()).any(|letter| letter == '\t')
}

/// Whether a line begins like `reader:{` or `- allow:[`, which YAML does not read as a key and its
/// value.
fn is_without_space(line: &str) -> bool {
    let line = line.trim_start();
    let (key, value) = line.strip_prefix("- ").unwrap_or(line).split_once(':').unwrap_or_default();
    value.starts_with(['{', '['])
        && !key.is_empty()
        && key.chars().all(|letter| letter.is_alphanumeric() || "_-.\"'".contains(letter))
}
