//! Parses the files of a policy, including the ones that it includes.
//!
//! `unresolved` is the result: the policy as written, in which roles are still names. `resolve` turns it into a
//! [`Policy`](crate::Policy). The other modules parse one section or one kind of value each.

mod basic;
mod cached_files;
mod host;
pub mod htpasswd;
mod identity_header;
mod jwt;
pub(crate) mod method;
mod path;
mod percent;
mod resolve;
mod response;
mod roles;
mod rule;
mod search;
mod template;
pub(crate) mod unresolved;
mod user_ids;
pub(crate) mod values;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::hints::HINTS;
use crate::keys::{IDENTITY, POLICY};
use crate::model::Identity;
use document::{Fields, Files, Node, Place, PolicyFile, Problem, Reader, Scalar, Text, Value, normalized};

use self::cached_files::{CachedFiles, beside, is_file_name, unreadable};
use self::unresolved::UnresolvedPolicy;

pub(crate) use self::resolve::resolve;

/// Sections whose entries restrict something. `version` and `search` are read even if they are empty.
const NEVER_EMPTY: &[&str] = &["identity", "allow_response", "deny_response", "identity_header", "include"];

/// The maximum nesting depth of includes.
const MAX_DEPTH: usize = 16;

/// What the files of a policy contain.
pub(crate) struct Parsed {
    pub(crate) policy: UnresolvedPolicy,
    pub(crate) problems: Vec<Problem>,
    /// Every file that was read, in order of reading.
    pub(crate) files: Vec<PolicyFile>,
}

/// Parses a policy's main file and all files that it includes.
pub(crate) fn parse(files: &dyn Files, file: &Path) -> Parsed {
    let mut parser = PolicyParser {
        files: CachedFiles::new(files),
        policy: UnresolvedPolicy::default(),
        problems: Vec::new(),
        open: Vec::new(),
        seen: HashSet::new(),
    };
    match parser.files.read(file) {
        Ok(bytes) => parser.file(file, &bytes),
        Err(error) => {
            parser.all_missing();
            let message = format!("cannot read the policy: {error}");
            parser.problems.push(Problem::error(Place::start_of(file), message));
        }
    }
    Parsed { policy: parser.policy, problems: parser.problems, files: parser.files.finish() }
}

/// Parses a policy's files one after another.
struct PolicyParser<'f> {
    files: CachedFiles<'f>,
    policy: UnresolvedPolicy,
    problems: Vec<Problem>,
    /// The chain of includes from the first file to the current one.
    open: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
}

impl PolicyParser<'_> {
    fn file(&mut self, file: &Path, bytes: &[u8]) {
        self.seen.insert(normalized(file));
        self.open.push(normalized(file));
        let mut reader = Reader::with_hints(file.into(), HINTS);
        let help = match self.open.len() {
            1 => "begin with `version: 1`",
            _ => "write `roles:` or another section of a policy, or do not include it",
        };
        let tree = reader.parse_nonempty(bytes, help);
        if reader.errors() > 0 {
            // Such as the second one of two keys with the same name.
            self.all_missing();
        }
        let fields = tree.as_ref().and_then(|root| reader.fields(root, "a policy", POLICY));
        match fields {
            Some(fields) => self.sections(&mut reader, file, &fields),
            None => self.all_missing(),
        }
        drop(tree);
        self.problems.append(&mut reader.finish());
        self.open.pop();
    }

    /// Records that a file could not be read: anything may be missing.
    fn all_missing(&mut self) {
        self.policy.lacks_roles = true;
        self.policy.lacks_identity = true;
    }

    fn sections(&mut self, reader: &mut Reader, file: &Path, fields: &Fields<'_>) {
        version(reader, fields, self.open.len() == 1);
        self.mark_misspelled(fields);
        // A section that is indented below another one is missing. The keys of `roles` and `grants` are names.
        let with_keys = fields.iter().filter(|(key, _)| !["roles", "grants"].contains(&&*key.text));
        if with_keys.into_iter().any(|(_, node)| has_section(node)) {
            self.all_missing();
        }
        reader.report_empty(fields, NEVER_EMPTY);
        if let Some(node) = fields.value("identity") {
            let errors = reader.errors();
            let read = identity(reader, &mut self.files, file, node);
            self.policy.lacks_identity |= reader.errors() > errors;
            once(reader, "identity", fields, &mut self.policy.identity, read);
        }
        if let Some(node) = fields.value("roles") {
            self.policy.lacks_roles |= !matches!(node.value, Value::Map(_));
            roles::read(reader, node, &mut self.policy);
        }
        if let Some(node) = fields.value("grants") {
            roles::read_grants(reader, node, &mut self.policy);
        }
        if let Some(node) = fields.value("allow_response") {
            let read = response::allow(reader, node);
            once(reader, "allow_response", fields, &mut self.policy.allow_response, read);
        }
        if let Some(node) = fields.value("deny_response") {
            let read = response::deny(reader, node);
            once(reader, "deny_response", fields, &mut self.policy.deny_response, read);
        }
        if let Some(node) = fields.value("identity_header") {
            let read = identity_header::read(reader, &mut self.files, file, node);
            once(reader, "identity_header", fields, &mut self.policy.identity_header, read);
        }
        if let Some((key, node)) = fields.field("search") {
            let read = search::read(reader, &mut self.files, file, (key, node));
            once(reader, "search", fields, &mut self.policy.search, read);
        }
        match fields.field("include") {
            // What it had is missing.
            Some((_, node)) if node.is_nothing() => self.all_missing(),
            Some((_, node)) => self.includes(reader, file, node),
            None => {}
        }
    }

    /// Marks sections as missing if their name seems to be misspelled.
    fn mark_misspelled(&mut self, fields: &Fields<'_>) {
        if fields.means("include") {
            self.all_missing();
        }
        self.policy.lacks_roles |= fields.means("roles");
        self.policy.lacks_identity |= fields.means("identity");
    }

    fn includes(&mut self, reader: &mut Reader, file: &Path, node: &Node) {
        let mut texts = reader.texts(node, "`include`", "a file's name");
        let errors = reader.errors();
        texts.retain(|(text, _)| is_file_name(reader, text));
        if reader.errors() > errors {
            self.all_missing();
        }
        reader.warn_of_duplicates(&texts);
        for (text, _) in texts {
            let errors = reader.errors();
            for path in self.matching(reader, file, &text) {
                self.include(reader, &text, &path);
            }
            if reader.errors() > errors {
                self.all_missing();
            }
        }
    }

    /// The files that match a name in `include`.
    fn matching(&self, reader: &mut Reader, file: &Path, text: &Text<'_>) -> Vec<PathBuf> {
        let (folder, name) = match text.text.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some((folder, name)) => (folder, name),
            None => ("", text.text),
        };
        if folder.contains('*') {
            reader.error_help(text.at, "`*` is allowed only in the name of a file", "name each folder");
            return Vec::new();
        }
        if !name.contains('*') {
            return vec![beside(file, text.text)];
        }
        let folder = beside(file, folder);
        let names = match self.files.list(&folder) {
            Ok(names) => names,
            Err(error) => {
                unreadable(reader, text.at, &folder, &error);
                return Vec::new();
            }
        };
        let current = self.open.last();
        let (paths, unreadable): (Vec<PathBuf>, Vec<PathBuf>) = names
            .iter()
            .filter(|file| matches(name, file))
            .map(|file| folder.join(file))
            .filter(|path| Some(&normalized(path)) != current)
            .partition(|path| !is_not_utf8(path));
        // They are not left out: a rule that denies may be in one.
        for path in &unreadable {
            let path = path.display();
            let message =
                format!("the name of the file `{path}` is not UTF-8: each `\u{fffd}` stands for other bytes");
            reader.error_help(text.at, message, "rename the file");
        }
        if !unreadable.is_empty() {
            return paths;
        }
        if paths.is_empty() {
            let help = "names are relative to the folder of the file that includes";
            reader.error_help(text.at, format!("no file matches `{}`", text.text), help);
        }
        paths
    }

    fn include(&mut self, reader: &mut Reader, text: &Text<'_>, path: &Path) {
        let key = normalized(path);
        if let Some(start) = self.open.iter().position(|file| *file == key) {
            let chain = self.open.iter().skip(start).chain([&key]);
            let chain: Vec<String> = chain.map(|file| format!("`{}`", file.display())).collect();
            let message = format!("files include each other: {}", chain.join(" -> "));
            reader.error_help(text.at, message, "leave one of the includes out");
            return;
        }
        if self.seen.contains(&key) {
            return;
        }
        if self.open.len() >= MAX_DEPTH {
            reader.error(text.at, format!("files include each other more than {MAX_DEPTH} deep"));
            return;
        }
        match self.files.read(path) {
            Ok(bytes) => self.file(path, &bytes),
            Err(error) => unreadable(reader, text.at, path, &error),
        }
    }
}

/// Whether the name of a file in a folder has bytes that are not UTF-8, as [`Files::list`] gives it.
fn is_not_utf8(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(char::REPLACEMENT_CHARACTER))
}

/// Whether a section has a key that is the name of another one.
fn has_section(node: &Node) -> bool {
    matches!(&node.value, Value::Map(entries) if entries.iter().any(|(key, _)| POLICY.contains(&&*key.text)))
}

/// Reads `identity`: how callers authenticate.
fn identity(reader: &mut Reader, files: &mut CachedFiles<'_>, file: &Path, node: &Node) -> Option<Identity> {
    let fields = reader.fields(node, "`identity`", IDENTITY)?;
    // An empty `basic` is reported as one without users.
    reader.report_empty(&fields, &["jwt"]);
    let basic = fields.field("basic").and_then(|field| basic::read(reader, files, file, field));
    let jwt = fields.value("jwt").map(|node| jwt::read(reader, files, file, node));
    Some(Identity { basic, jwt: jwt.unwrap_or_default() })
}

/// Keeps a section that only one file may contain.
fn once<T>(
    reader: &mut Reader,
    key: &str,
    fields: &Fields<'_>,
    kept: &mut Option<(Place, T)>,
    read: Option<T>,
) {
    let Some((name, _)) = fields.field(key) else { return };
    let at = reader.place(name.at);
    match (kept, read) {
        (Some((first, _)), _) => {
            let problem = Problem::error(at, format!("`{key}` is defined twice"))
                .help("keep it in one file")
                .related(first.clone(), "the first is here");
            reader.push(problem);
        }
        (kept @ None, Some(read)) => *kept = Some((at, read)),
        (None, None) => {}
    }
}

fn version(reader: &mut Reader, fields: &Fields<'_>, required: bool) {
    let Some((key, node)) = fields.field("version") else {
        if required && fields.lacks("version") {
            reader.error_help(fields.at, "the policy has no `version`", "start with `version: 1`");
        }
        return;
    };
    let at = if node.is_nothing() { key.at } else { node.at };
    match &node.value {
        Value::Scalar(Scalar { text, plain: true, .. }) if **text == *"1" => {}
        Value::Scalar(Scalar { text, plain: true, .. }) if text.parse::<f64>().is_ok() => {
            reader.error_help(at, format!("unknown version `{text}`"), "this program reads `version: 1`");
        }
        Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
            reader.error_help(at, "the version is not a number", "write `version: 1`");
        }
    }
}

/// Whether a file name matches a pattern in which `*` matches any characters. Hidden files match only patterns that
/// start with a dot.
fn matches(pattern: &str, name: &str) -> bool {
    let pieces = pattern.split('*').map(Box::from).collect();
    (pattern.starts_with('.') || !name.starts_with('.'))
        && crate::pattern::Glob(pieces).matches_plain(name.as_bytes())
}
