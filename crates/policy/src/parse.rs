//! Parses the files of a policy, also those that it includes.
//!
//! `unresolved` is the policy as written, in which roles are still names. `resolve` converts it to a
//! [`Policy`]. Each of the other modules parses a section or a kind of value.

pub mod api_keys;
mod authzen;
mod basic;
mod cached_files;
mod certificates;
mod conditions;
mod entities;
mod grpc;
mod host;
pub mod htpasswd;
mod identity_header;
mod introspection;
mod jwt;
mod metadata;
pub(crate) mod method;
mod path;
mod percent;
mod resolve;
mod response;
mod roles;
mod rule;
mod search;
mod template;
mod token_places;
pub(crate) mod unresolved;
mod url_files;
mod user_ids;
pub(crate) mod values;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::hints::HINTS;
use crate::model::{Identity, Policy};
use document::{
    Fields, Files, Key, Node, Place, PolicyFile, Problem, Reader, Scalar, Severity, Text, Value,
    normalized,
};

use self::cached_files::{CachedFiles, is_file_name, relative_to};
use self::unresolved::{UnresolvedGrant, UnresolvedPolicy};

/// The keys of a policy: its sections.
const POLICY: &[&str] = &[
    "version",
    "include",
    "identity",
    "conditions",
    "roles",
    "grants",
    "allow_response",
    "deny_response",
    "identity_header",
    "search",
    "authzen",
];

/// Sections that must have a value, because their entries may restrict something. The parsers of
/// `version`, `search` and `authzen` report an empty value themselves.
const NEVER_EMPTY: &[&str] =
    &["identity", "conditions", "allow_response", "deny_response", "identity_header", "include"];

/// The maximum length of a chain of includes.
const MAX_DEPTH: usize = 16;

/// A valid policy, with everything that was read to load it.
#[derive(Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: Policy,
    /// Warnings, which do not prevent its use.
    pub warnings: Vec<Problem>,
    /// Every file that was read, in order of reading: the policy, and all files that it names, such
    /// as included files, password files and key files.
    pub files: Vec<PolicyFile>,
}

/// A policy and its problems. The policy is complete if no problem is an error.
#[derive(Debug)]
pub struct Parsed {
    /// The policy, without the parts that could not be read.
    pub policy: Policy,
    /// All problems so far.
    pub problems: Vec<Problem>,
    /// The grants as written, with their places.
    pub grants: Vec<UnresolvedGrant>,
    /// The main file.
    pub file: PathBuf,
    /// Every file that was read, in order of reading.
    pub files: Vec<PolicyFile>,
}

/// Loads the policy in `file`, with all files that it names. [`lint::load`](../lint/fn.load.html)
/// also warns of policies that are probably not intended.
///
/// # Errors
/// If any problem is an error: all problems in all files, including warnings, sorted by place.
pub fn load(files: &dyn Files, file: &Path) -> Result<Loaded, Vec<Problem>> {
    parse(files, file).into_loaded()
}

/// Parses the policy in `file`, with all files that it names, and resolves names.
#[must_use]
pub fn parse(files: &dyn Files, file: &Path) -> Parsed {
    let mut parser = PolicyParser {
        files: CachedFiles::new(files),
        policy: UnresolvedPolicy::default(),
        problems: Vec::new(),
        include_chain: Vec::new(),
        seen: HashSet::new(),
    };
    match parser.files.read(file) {
        Ok(bytes) => parser.read_file(file, &bytes),
        Err(error) => {
            parser.mark_incomplete();
            let message = format!("cannot read the policy: {error}");
            parser.problems.push(Problem::error(Place::start_of(file), message));
        }
    }
    let PolicyParser { files, mut policy, mut problems, .. } = parser;
    let grants = std::mem::take(&mut policy.grants);
    let policy = resolve::resolve(policy, &grants, &mut problems);
    Parsed { policy, problems, grants, file: file.to_owned(), files: files.into_read() }
}

impl Parsed {
    /// Whether the policy has an error.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The policy, if it is valid.
    ///
    /// # Errors
    /// All problems, if any is an error, sorted by place.
    pub fn into_loaded(mut self) -> Result<Loaded, Vec<Problem>> {
        self.problems.sort_by(|a, b| a.at.cmp(&b.at));
        if self.is_broken() {
            return Err(self.problems);
        }
        Ok(Loaded { policy: self.policy, warnings: self.problems, files: self.files })
    }
}

/// Parses the files of a policy, one after the other.
struct PolicyParser<'f> {
    files: CachedFiles<'f>,
    policy: UnresolvedPolicy,
    problems: Vec<Problem>,
    /// The main file, a file that it includes, and so on to the current file.
    include_chain: Vec<PathBuf>,
    /// The paths of the main file and of all files that were included so far.
    seen: HashSet<PathBuf>,
}

impl PolicyParser<'_> {
    fn read_file(&mut self, file: &Path, bytes: &[u8]) {
        self.seen.insert(normalized(file));
        self.include_chain.push(normalized(file));
        let mut reader = Reader::with_hints(file.into(), HINTS);
        let help = match self.include_chain.len() {
            1 => "begin with `version: 1`",
            _ => "write `roles:` or another section of a policy, or do not include it",
        };
        let tree = reader.parse_nonempty(bytes, help);
        if reader.errors() > 0 {
            // The tree lacks, for example, the second of two keys with the same name.
            self.mark_incomplete();
        }
        let fields = tree.as_ref().and_then(|root| reader.fields(root, "a policy", POLICY));
        match fields {
            Some(fields) => self.read_sections(&mut reader, &fields),
            None => self.mark_incomplete(),
        }
        drop(tree);
        self.problems.append(&mut reader.finish());
        self.include_chain.pop();
    }

    /// Records that a file or a part of it could not be read, so that roles and sources may be missing.
    fn mark_incomplete(&mut self) {
        self.policy.roles_incomplete = true;
        self.policy.identity_incomplete = true;
    }

    fn read_sections(&mut self, reader: &mut Reader, fields: &Fields<'_>) {
        read_version(reader, fields, self.include_chain.len() == 1);
        // A section that is indented below another section by mistake is not read, so roles and
        // sources may be missing. The keys of `conditions`, `roles` and `grants` say nothing about
        // this: they are names, and a name may be equal to that of a section.
        let mut sections_with_fixed_keys = fields
            .iter()
            .filter(|(key, _)| !["conditions", "roles", "grants"].contains(&&*key.text));
        if fields.has_misspelled("include")
            || sections_with_fixed_keys.any(|(_, node)| has_section(node))
        {
            self.mark_incomplete();
        }
        let policy = &mut self.policy;
        policy.roles_incomplete |= fields.has_misspelled("roles");
        policy.identity_incomplete |= fields.has_misspelled("identity");
        reader.report_empty(fields, NEVER_EMPTY);
        let errors = reader.errors();
        let mut sections = Sections { reader, files: &mut self.files, fields };
        sections.read("identity", &mut policy.identity, read_identity);
        policy.identity_incomplete |= sections.reader.errors() > errors;
        sections.read("allow_response", &mut policy.allow_response, response::read_allow);
        sections.read("deny_response", &mut policy.deny_response, response::read_deny);
        sections.read("conditions", &mut policy.conditions, read_conditions);
        sections.read("identity_header", &mut policy.identity_header, identity_header::read);
        sections.read("search", &mut policy.search, search::read);
        sections.read("authzen", &mut policy.authzen, authzen::read);
        if let Some(node) = fields.value("roles") {
            policy.roles_incomplete |= !matches!(node.value, Value::Map(_));
            roles::read(reader, node, policy);
        }
        if let Some(node) = fields.value("grants") {
            roles::read_grants(reader, node, policy);
        }
        if let Some((_, node)) = fields.field("include") {
            let errors = reader.errors();
            if !node.is_nothing() {
                self.read_includes(reader, node);
            }
            // A file that could not be read may define any role or source.
            if node.is_nothing() || reader.errors() > errors {
                self.mark_incomplete();
            }
        }
    }

    fn read_includes(&mut self, reader: &mut Reader, node: &Node) {
        let mut names = reader.texts(node, "`include`", "a file's name");
        names.retain(|name| is_file_name(reader, name));
        reader.warn_of_duplicates(&names);
        for name in names {
            for path in self.matching_files(reader, &name) {
                self.include(reader, &name, &path);
            }
        }
    }

    /// The files that a name in `include` means. The name may contain `*`; such a name never means
    /// the file that includes.
    fn matching_files(&self, reader: &mut Reader, text: &Text<'_>) -> Vec<PathBuf> {
        let (folder, name) = match text.text.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some((folder, name)) => (folder, name),
            None => ("", text.text),
        };
        if folder.contains('*') {
            let message = "`*` is allowed only in the name of a file";
            reader.error_help(text.at, message, "name each folder");
            return Vec::new();
        }
        if !name.contains('*') {
            return vec![relative_to(reader.file(), text.text)];
        }
        let folder = relative_to(reader.file(), folder);
        let Some(names) = self.files.list(reader, text.at, &folder) else { return Vec::new() };
        let current = self.include_chain.last();
        let matching: Vec<&String> = names.iter().filter(|file| matches(name, file)).collect();
        // `Files::list` replaces bytes that are not UTF-8, so the file cannot be read by its name.
        // It is not skipped, because it could contain a `deny` rule.
        if let Some(file) = matching.iter().find(|file| file.contains(char::REPLACEMENT_CHARACTER))
        {
            let path = folder.join(file);
            let message = format!("the name of the file `{}` is not UTF-8", path.display());
            reader.error_help(text.at, message, "rename the file");
        }
        let paths: Vec<PathBuf> = matching
            .iter()
            .map(|file| folder.join(file))
            .filter(|path| Some(&normalized(path)) != current)
            .collect();
        if paths.is_empty() {
            let help = "names are relative to the folder of the file that includes";
            reader.error_help(text.at, format!("no file matches `{}`", text.text), help);
        }
        paths
    }

    fn include(&mut self, reader: &mut Reader, text: &Text<'_>, path: &Path) {
        let key = normalized(path);
        if let Some(start) = self.include_chain.iter().position(|file| *file == key) {
            let chain = self.include_chain.iter().skip(start).chain([&key]);
            let chain: Vec<String> = chain.map(|file| format!("`{}`", file.display())).collect();
            let message = format!("files include each other: {}", chain.join(" -> "));
            reader.error_help(text.at, message, "leave one of the includes out");
            return;
        }
        if self.seen.contains(&key) {
            return;
        }
        if self.include_chain.len() >= MAX_DEPTH {
            reader.error(text.at, format!("files include each other more than {MAX_DEPTH} deep"));
            return;
        }
        if let Some(file) = self.files.read_path(reader, text.at, path.to_owned()) {
            self.read_file(path, &file.bytes);
        }
    }
}

/// Whether a section has a key that is the name of another section.
fn has_section(node: &Node) -> bool {
    let Value::Map(entries) = &node.value else { return false };
    entries.iter().any(|(key, _)| POLICY.contains(&&*key.text))
}

fn read_identity(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    (_, node): (&Key, &Node),
) -> Option<Identity> {
    let fields = reader.fields(
        node,
        "`identity`",
        &["basic", "api_keys", "certificates", "jwt", "token_from", "combine"],
    )?;
    // The parsers of the other keys report an empty value themselves.
    reader.report_empty(&fields, &["jwt", "token_from", "combine"]);
    let basic = fields.field("basic").and_then(|field| basic::read(reader, files, field));
    let api_keys = fields.field("api_keys").and_then(|field| api_keys::read(reader, files, field));
    let certificates =
        fields.field("certificates").and_then(|field| certificates::read(reader, field));
    let jwt = fields.value("jwt").map(|node| jwt::read(reader, files, node));
    let token_from = fields.value("token_from");
    let token_from = token_from.map(|node| token_places::read(reader, node, api_keys.as_ref()));
    let (jwt, token_from) = (jwt.unwrap_or_default(), token_from.unwrap_or_default());
    let is_both = reader.field_choice(&fields, "combine", &[("first", false), ("both", true)]);
    let combine = fields.field("combine").filter(|_| is_both == Some(true));
    let combine_both = combine.map(|(key, _)| reader.place(key.at));
    Some(Identity { basic, api_keys, certificates, jwt, token_from, combine_both })
}

fn read_conditions(
    reader: &mut Reader,
    _: &mut CachedFiles<'_>,
    field: (&Key, &Node),
) -> Option<Vec<(std::sync::Arc<str>, unresolved::UnresolvedCondition)>> {
    conditions::read(reader, field)
}

/// The sections of a file, for those sections that may be in one file only. (The entries of `roles`
/// and `grants` may be in several files.)
struct Sections<'r, 'f, 'n> {
    reader: &'r mut Reader,
    files: &'r mut CachedFiles<'f>,
    fields: &'r Fields<'n>,
}

impl<'f, 'n> Sections<'_, 'f, 'n> {
    fn read<T>(
        &mut self,
        key: &str,
        section: &mut Option<(Place, T)>,
        read: fn(&mut Reader, &mut CachedFiles<'f>, (&'n Key, &'n Node)) -> Option<T>,
    ) {
        let Some((name, node)) = self.fields.field(key) else { return };
        // `read_sections` has already reported an empty section that is in `NEVER_EMPTY`.
        if node.is_nothing() && NEVER_EMPTY.contains(&key) {
            return;
        }
        let value = read(self.reader, self.files, (name, node));
        let at = self.reader.place(name.at);
        if let Some((first, _)) = section {
            let help = "keep it in one file";
            let key = format!("`{key}`");
            self.reader.push(Problem::defined_twice(at, &key, help, first.clone()));
        } else {
            *section = value.map(|value| (at, value));
        }
    }
}

fn read_version(reader: &mut Reader, fields: &Fields<'_>, required: bool) {
    if required {
        reader.required(fields, "version", "start with `version: 1`");
    }
    let Some((_, node)) = fields.field("version") else { return };
    match &node.value {
        Value::Scalar(Scalar { text, plain: true, .. }) if **text == *"1" => {}
        Value::Scalar(Scalar { text, plain: true, .. }) if text.parse::<f64>().is_ok() => {
            let message = format!("unknown version `{text}`");
            reader.error_help(node.at, message, "this program reads `version: 1`");
        }
        Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
            reader.error_help(node.at, "the version is not a number", "write `version: 1`");
        }
    }
}

/// Whether a file name matches a pattern in which `*` matches any characters. Hidden files match
/// only patterns that start with a dot.
fn matches(pattern: &str, name: &str) -> bool {
    let pieces = pattern.split('*').map(Box::from).collect();
    (pattern.starts_with('.') || !name.starts_with('.'))
        && crate::pattern::Glob(pieces).matches_plain(name.as_bytes())
}
