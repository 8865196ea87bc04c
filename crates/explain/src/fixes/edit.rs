//! Adds a grant or a rule to the text of a policy: the changed text has the same comments and the
//! same order.

use std::path::{Path, PathBuf};

use document::{Key, Mark, Node, Reader, Value, normalized};
use policy::model::{Role, RoleId};
use policy::written::quoted;
use policy::{Loaded, Policy};

/// A text that is put into a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Edit {
    /// The file, by the name with which it was read.
    pub(super) file: PathBuf,
    original: String,
    offset: usize,
    text: String,
}

/// The files of a policy, as texts.
pub(super) struct PolicyText<'l> {
    policy: &'l Policy,
    loaded: &'l Loaded,
}

/// A file of a policy.
struct File<'l> {
    path: &'l Path,
    text: &'l str,
    root: Node,
}

impl<'l> PolicyText<'l> {
    pub(super) const fn new(loaded: &'l Loaded) -> Self {
        Self { policy: &loaded.policy, loaded }
    }

    /// Adds a name to the `users` or `groups` (`key`) that have a role; `None` if its place is not
    /// found.
    pub(super) fn grant(&self, role: RoleId, key: &str, name: &str) -> Option<Edit> {
        let role_name = &*self.policy.roles.at(role).name;
        let names = format!("[{}]", scalar(name));
        let grants = self.policy.grants.iter().filter(|grant| grant.role == role);
        // A grant without a condition is preferred: a condition could be false for this request.
        if let Some(grant) = grants.min_by_key(|grant| grant.when.is_some()) {
            let file = self.file(&grant.at.file)?;
            let (_, section) = entry(&file.root, "grants")?;
            let (role_key, grant) = entry(section, role_name)?;
            return match entry(grant, key) {
                Some((key, list)) => file.insert((key, list), &scalar(name), ["[", "]"]),
                None => file.insert((role_key, grant), &format!("{key}: {names}"), ["{ ", " }"]),
            };
        }
        let line = format!("{}: {{ {key}: {names} }}", scalar(role_name));
        let grants_file = self.policy.grants.first().map(|grant| &*grant.at.file);
        let file = self.file(grants_file.unwrap_or(&self.loaded.files.first()?.path))?;
        match entry(&file.root, "grants") {
            Some(section) => file.insert(section, &line, ["{ ", " }"]),
            None => file.append(&format!("grants:\n  {line}\n")),
        }
    }

    /// Adds a rule to those that a role allows.
    pub(super) fn rule(&self, role: &Role, rule: &str) -> Option<Edit> {
        let file = self.file(&role.at.file)?;
        let (_, section) = entry(&file.root, "roles")?;
        let (role_key, role) = entry(section, &role.name)?;
        match entry(role, "allow") {
            Some(allow) => file.insert(allow, rule, ["[", "]"]),
            None => file.insert((role_key, role), &format!("allow: [{rule}]"), ["{ ", " }"]),
        }
    }

    fn file(&self, path: &Path) -> Option<File<'l>> {
        let path = normalized(path);
        let file = self.loaded.files.iter().find(|file| normalized(&file.path) == path)?;
        let text = str::from_utf8(&file.bytes).ok()?;
        let root = Reader::new(file.path.as_path().into()).parse(&file.bytes)?;
        Some(File { path: &file.path, text, root })
    }
}

impl File<'_> {
    /// Puts an entry before the others of a list or a mapping, in the style of the list or mapping.
    /// If the key has no value, the entry is put between `open` and `close`.
    fn insert(
        &self,
        (key, node): (&Key, &Node),
        entry: &str,
        [open, close]: [&str; 2],
    ) -> Option<Edit> {
        let first_at = match &node.value {
            Value::List(items) => items.first().map(|item| item.at),
            Value::Map(entries) => entries.first().map(|(key, _)| key.at),
            Value::Scalar(_) => {
                let key_at = self.offset(key.at)?;
                let rest = self.text.get(key_at..)?.strip_prefix(&*key.text)?.strip_prefix(':')?;
                let is_blank = rest.lines().next().is_none_or(|line| line.trim().is_empty());
                let offset = self.text.len() - rest.len();
                return is_blank.then(|| self.edit(offset, format!(" {open}{entry}{close}")));
            }
        };
        let offset = self.offset(node.at)?;
        // In flow style, whether it is a mapping; `None` in block style.
        let is_map = match self.text.get(offset..)?.chars().next()? {
            '{' => Some(true),
            '[' => Some(false),
            _ => None,
        };
        if let Some(is_map) = is_map {
            let space = if is_map { " " } else { "" };
            let end = match (first_at, is_map) {
                (None, _) => space,
                (Some(_), true) => ",",
                (Some(_), false) => ", ",
            };
            return Some(self.edit(offset + 1, format!("{space}{entry}{end}")));
        }
        let offset = self.offset(first_at?)?;
        let before = self.text.get(..offset)?;
        // The indentation of the first entry and, in a list, its dash.
        let line_start = before.get(before.rfind('\n').map_or(0, |end| end + 1)..)?;
        let dash = if matches!(node.value, Value::List(_)) { "-" } else { "" };
        (line_start.trim() == dash).then(|| self.edit(offset, format!("{entry}\n{line_start}")))
    }

    /// Adds a section at the end.
    fn append(&self, section: &str) -> Option<Edit> {
        let is_block = !self.text.trim_start().starts_with('{');
        let has_end = self.text.lines().any(|line| line.starts_with("..."));
        let line_end = if self.text.ends_with('\n') { "" } else { "\n" };
        (is_block && !has_end).then(|| self.edit(self.text.len(), format!("{line_end}{section}")))
    }

    fn edit(&self, offset: usize, text: String) -> Edit {
        Edit { file: self.path.to_owned(), original: self.text.to_owned(), offset, text }
    }

    /// The byte offset of a mark (line and column, from 1); `None` if the text has no such place.
    fn offset(&self, at: Mark) -> Option<usize> {
        let line = usize::try_from(at.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(at.column).ok()?.checked_sub(1)?;
        let start: usize = self.text.split_inclusive('\n').take(line).map(str::len).sum();
        let rest = self.text.get(start..)?;
        let (offset, _) = rest.char_indices().nth(column)?;
        Some(start + offset)
    }
}

/// The entry of a mapping with this key.
fn entry<'n>(node: &'n Node, name: &str) -> Option<(&'n Key, &'n Node)> {
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|(key, _)| *key.text == *name).map(|(key, node)| (key, node))
}

/// A name in YAML, without quotes if it needs none.
fn scalar(name: &str) -> String {
    let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let has_meaning = ["true", "false", "null"].iter().any(|word| name.eq_ignore_ascii_case(word));
    if is_word && !has_meaning { name.to_owned() } else { quoted(name) }
}

impl Edit {
    /// The file with the change.
    pub(super) fn applied(&self) -> String {
        let (before, after) = self.original.split_at_checked(self.offset).unwrap_or_default();
        [before, &self.text, after].concat()
    }

    /// The first line that changes, from 1.
    pub(super) fn line(&self) -> usize {
        let before = self.original.get(..self.offset).unwrap_or_default();
        let is_new_line = self.text.starts_with('\n');
        before.matches('\n').count() + 1 + usize::from(is_new_line)
    }

    /// The lines that are replaced, and those in their place.
    pub(super) fn lines(&self) -> (Vec<String>, Vec<String>) {
        let changed = self.applied();
        let (old, new): (Vec<&str>, Vec<&str>) =
            (self.original.lines().collect(), changed.lines().collect());
        let start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let (old, new) =
            (old.get(start..).unwrap_or_default(), new.get(start..).unwrap_or_default());
        let same = old.iter().rev().zip(new.iter().rev());
        let same = same.take_while(|(old, new)| old == new).count();
        let [removed, added] = [old, new].map(|lines| {
            let count = lines.len().saturating_sub(same);
            lines.iter().take(count).map(|line| (*line).to_owned()).collect()
        });
        (removed, added)
    }
}
