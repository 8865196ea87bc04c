//! Reads a YAML document by expected types, and reports all of its problems with their places.
//!
//! A [`Reader`] parses the text of a file into a tree of [`Node`]s, then converts nodes: to a
//! mapping with known keys, to a list, to a text. Each error becomes a [`Problem`], and reading
//! goes on, so that a single pass finds everything. A message names the type of a wrong value,
//! never the value: it may be a misplaced secret.
//!
//! ```
//! use std::path::Path;
//! use document::Reader;
//!
//! let mut reader = Reader::new(Path::new("policy.yaml").into());
//! let root = reader.parse(b"listen: [a, b]\nthread: 2\n").unwrap();
//! let fields = reader.fields(&root, "the file", &["listen", "threads"]).unwrap();
//! let listen = fields.value("listen").map(|node| reader.texts(node, "`listen`", "an address"));
//! assert_eq!(listen.unwrap().len(), 2);
//! let problems = reader.finish();
//! let message = "policy.yaml:2:1: error: unknown key `thread`\n    help: did you mean `threads`?";
//! assert_eq!(problems[0].to_string(), message);
//! ```
//!
//! The format is the part of YAML that configuration needs: mappings with text keys, lists,
//! scalars. Tags are errors. Anchors and aliases are errors, too, except in the configurations of
//! other programs ([`Reader::parse_foreign`]).

mod accept;
mod excerpt;
mod files;
mod finding;
mod hints;
mod parser;
mod problem;
mod reader;
mod secret;
mod similar;
mod tree;
mod view;
mod warning;

pub use accept::{Accepted, FindingKinds, unaccepted};
pub use excerpt::{excerpt, excerpts};
pub use files::{FileError, Files, MapFiles, PolicyFile, normalized};
pub use finding::{Finding, FindingKind, FindingSeverity, unaccepted_findings};
pub use hints::{Hints, KeyHint};
pub use problem::{Place, Problem, Severity};
pub use reader::{Fields, Reader, Text};
pub use secret::Secret;
pub use similar::{Suggestions, closest};
pub use tree::{Key, Mark, Node, Scalar, Value};
pub use view::View;
pub use warning::Warning;
