//! Reads the files of a policy, including the ones that it includes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::load::draft::{self, Draft, Missing};
use crate::load::identity::{names_a_file, unreadable};
use crate::load::sources::{Sources, beside, identity};
use crate::load::{identity as identities, response};
use crate::problem::{Place, Problem};
use crate::report::{Fields, Report, Text, closest};
use crate::yaml::{self, Mark, Node, Scalar, Value};

const KEYS: &[&str] =
    &["version", "include", "identity", "roles", "grants", "allow_response", "deny_response"];

/// The maximum number of unknown keys for which a likely intended key is searched.
const SLIPS: usize = 100;

/// The maximum nesting depth of includes.
const DEPTH: usize = 16;

/// Reads a policy's files one after another.
pub(crate) struct Gather<'f> {
    pub(crate) sources: Sources<'f>,
    pub(crate) draft: Draft,
    pub(crate) problems: Vec<Problem>,
    /// The chain of includes from the first file to the current one.
    open: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
}

impl<'f> Gather<'f> {
    pub(crate) fn new(sources: Sources<'f>) -> Self {
        let (draft, problems) = (Draft::default(), Vec::new());
        Self { sources, draft, problems, open: Vec::new(), seen: HashSet::new() }
    }

    /// Reads the policy's main file and all files that it includes.
    pub(crate) fn policy(&mut self, file: &Path) {
        match self.sources.read(file) {
            Ok(bytes) => self.file(file, &bytes),
            Err(error) => {
                self.nothing_of_it();
                self.problems
                    .push(Problem::error(Place::start_of(file), format!("cannot read the policy: {error}")));
            }
        }
    }

    fn file(&mut self, file: &Path, bytes: &[u8]) {
        self.seen.insert(identity(file));
        self.open.push(identity(file));
        let mut report = Report::new(file.into());
        let tree = yaml::parse(bytes, &mut report);
        let fields = tree.as_ref().and_then(|root| report.fields(root, "a policy", KEYS));
        match fields {
            Some(fields) => self.sections(&mut report, file, &fields),
            None => self.nothing_of_it(),
        }
        drop(tree);
        self.problems.append(&mut report.finish());
        self.open.pop();
    }

    /// Records that a file could not be read: anything may be missing.
    fn nothing_of_it(&mut self) {
        self.draft.missing = Missing { roles: true, grants: true, rules: true, identity: true };
    }

    fn sections(&mut self, report: &mut Report, file: &Path, fields: &Fields<'_>) {
        version(report, fields, self.open.len() == 1);
        self.slips(fields);
        if let Some(node) = fields.value("identity") {
            let errors = report.errors();
            let read = identities::read(report, &mut self.sources, file, node);
            self.draft.missing.identity |= report.errors() > errors;
            once(report, "identity", fields, &mut self.draft.identity, read);
        }
        if let Some(node) = fields.value("roles") {
            self.draft.missing.roles |= !matches!(node.value, Value::Map(_));
            draft::roles(report, node, &mut self.draft);
        }
        if let Some(node) = fields.value("grants") {
            self.draft.missing.grants |= !matches!(node.value, Value::Map(_));
            draft::grants(report, node, &mut self.draft);
        }
        if let Some(node) = fields.value("allow_response") {
            let read = response::allow(report, node);
            once(report, "allow_response", fields, &mut self.draft.allow_response, read);
        }
        if let Some(node) = fields.value("deny_response") {
            let read = response::deny(report, node);
            once(report, "deny_response", fields, &mut self.draft.deny_response, read);
        }
        if let Some(node) = fields.value("include") {
            self.includes(report, file, node);
        }
    }

    /// Marks sections as missing if their name seems to be misspelled.
    fn slips(&mut self, fields: &Fields<'_>) {
        for (key, _) in fields.iter().filter(|(key, _)| !KEYS.contains(&&*key.text)).take(SLIPS) {
            match closest(&key.text, KEYS.iter().copied()) {
                Some("include") => self.nothing_of_it(),
                Some("roles") => self.draft.missing.roles = true,
                Some("grants") => self.draft.missing.grants = true,
                Some("identity") => self.draft.missing.identity = true,
                _ => {}
            }
        }
    }

    fn includes(&mut self, report: &mut Report, file: &Path, node: &Node) {
        let mut texts = report.texts(node, "`include`", "a file's name");
        let errors = report.errors();
        texts.retain(|(text, _)| names_a_file(report, text));
        if report.errors() > errors {
            self.nothing_of_it();
        }
        report.warn_of_repetition(&texts);
        for (text, _) in texts {
            let errors = report.errors();
            for path in self.matching(report, file, &text) {
                self.include(report, &text, &path);
            }
            if report.errors() > errors {
                self.nothing_of_it();
            }
        }
    }

    /// The files that match a name in `include`.
    fn matching(&self, report: &mut Report, file: &Path, text: &Text<'_>) -> Vec<PathBuf> {
        let (folder, name) = match text.text.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some((folder, name)) => (folder, name),
            None => ("", text.text),
        };
        if folder.contains('*') {
            report.error_help(text.at, "`*` stands only in the name of a file", "name each folder");
            return Vec::new();
        }
        if !name.contains('*') {
            return vec![beside(file, text.text)];
        }
        let folder = beside(file, folder);
        let names = match self.sources.list(&folder) {
            Ok(names) => names,
            Err(error) => {
                unreadable(report, text.at, &folder, &error);
                return Vec::new();
            }
        };
        let current = self.open.last();
        let paths: Vec<PathBuf> = names
            .iter()
            .filter(|it| matches(name, it))
            .map(|it| folder.join(it))
            .filter(|path| Some(&identity(path)) != current)
            .collect();
        if paths.is_empty() {
            let help = "names are relative to the folder of the file that includes";
            report.error_help(text.at, format!("no file matches `{}`", text.text), help);
        }
        paths
    }

    fn include(&mut self, report: &mut Report, text: &Text<'_>, path: &Path) {
        let key = identity(path);
        if let Some(start) = self.open.iter().position(|it| *it == key) {
            let chain = self.open.iter().skip(start).chain([&key]);
            let chain: Vec<String> = chain.map(|it| format!("`{}`", it.display())).collect();
            let message = format!("files include each other: {}", chain.join(" -> "));
            report.error_help(text.at, message, "leave one of the includes out");
            return;
        }
        if self.seen.contains(&key) {
            return;
        }
        if self.open.len() >= DEPTH {
            report.error(text.at, format!("files include each other more than {DEPTH} deep"));
            return;
        }
        match self.sources.read(path) {
            Ok(bytes) => self.file(path, &bytes),
            Err(error) => unreadable(report, text.at, path, &error),
        }
    }
}

/// Keeps a section that only one file may contain.
fn once<T>(
    report: &mut Report,
    key: &str,
    fields: &Fields<'_>,
    kept: &mut Option<(Place, T)>,
    read: Option<T>,
) {
    let Some((name, _)) = fields.field(key) else { return };
    let at = report.place(name.at);
    match (kept, read) {
        (Some((first, _)), _) => {
            let problem = Problem::error(at, format!("`{key}` is defined twice"))
                .help("keep it in one file")
                .related(first.clone(), "the first is here");
            report.push(problem);
        }
        (kept @ None, Some(read)) => *kept = Some((at, read)),
        (None, None) => {}
    }
}

fn version(report: &mut Report, fields: &Fields<'_>, required: bool) {
    let Some((key, node)) = fields.field("version") else {
        if required {
            report.error_help(fields.at, "the policy has no `version`", "start with `version: 1`");
        }
        return;
    };
    let at = if node.is_nothing() { key.at } else { node.at };
    match &node.value {
        Value::Scalar(Scalar { text, plain: true, .. }) if **text == *"1" => {}
        Value::Scalar(Scalar { text, plain: true, .. }) if text.parse::<f64>().is_ok() => {
            report.error_help(at, format!("unknown version `{text}`"), "this program reads `version: 1`");
        }
        Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
            let at: Mark = at;
            report.error_help(at, "the version is not a number", "write `version: 1`");
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
