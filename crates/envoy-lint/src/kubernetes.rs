//! Kubernetes objects, and Envoy configurations under `data` of a `ConfigMap`.

use document::{Problem, View};

/// The objects in these documents, including the items of a `List`.
pub(crate) fn objects<'n>(documents: &[View<'n>]) -> Vec<View<'n>> {
    let objects = |document: &View<'n>| match document.text_of("kind") {
        Some("List") => document.list("items"),
        Some(_) => vec![document.clone()],
        None => Vec::new(),
    };
    documents.iter().flat_map(objects).collect()
}

/// The kind, name and namespace with which other objects refer to this object.
pub(crate) fn reference<'n>(object: &View<'n>) -> (&'n str, &'n str, &'n str) {
    let text = |path: &str| object.text_of(path).unwrap_or_default();
    (text("kind"), text("metadata/name"), namespace(object))
}

pub(crate) fn namespace<'n>(object: &View<'n>) -> &'n str {
    object.text_of("metadata/namespace").unwrap_or("default")
}

/// A file for Envoy or Istio contains one of these texts. Other files of a `ConfigMap` are ignored,
/// because they need not be YAML.
const ENVOY: [&str; 5] = [
    "type.googleapis.com/envoy.",
    "http_filters",
    "virtual_hosts",
    "load_assignment",
    "extensionProviders",
];

/// The configurations in this document. Empty lines in front of each text keep the line numbers of
/// the file.
///
/// # Errors
/// If a configuration is not written as a literal block (`|`): its line numbers would differ.
pub(crate) fn configurations(view: &View<'_>, text: &str) -> Result<Vec<String>, Problem> {
    let mut configurations = Vec::new();
    if view.text_of("kind") != Some("ConfigMap") {
        // The document may be a `List`.
        for item in view.list("items") {
            configurations.extend(self::configurations(&item, text)?);
        }
        return Ok(configurations);
    }
    for (name, value) in view.entries_as_written_at("data") {
        let content = value.text().unwrap_or_default();
        if !ENVOY.iter().any(|part| content.contains(part)) {
            continue;
        }
        let Some(block) = block(&value, text) else {
            let message = format!("`{name}` is not written as a block: it cannot be linted");
            let help = "write its text below `|`, as the file itself, or lint that file";
            return Err(Problem::error(value.place(), message).help(help));
        };
        configurations.push(block);
    }
    Ok(configurations)
}

/// The lines of a literal block (`|`), after an empty line for each line of the file above it.
fn block(value: &View<'_>, text: &str) -> Option<String> {
    let at = value.place();
    let number = usize::try_from(at.line).ok()?;
    let mut lines = text.lines().skip(number.saturating_sub(1));
    let head = lines.next()?.split(" #").next()?.trim_end().trim_end_matches(['-', '+']);
    if !head.ends_with('|') {
        return None;
    }
    let column = usize::try_from(at.column).ok()?;
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let inside = lines.take_while(|line| line.trim().is_empty() || indentation(line) >= column);
    Some("\n".repeat(number) + &inside.collect::<Vec<_>>().join("\n"))
}
