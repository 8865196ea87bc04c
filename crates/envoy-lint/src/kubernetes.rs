//! Objects of Kubernetes, and configurations of Envoy in a `ConfigMap`: blocks of text under
//! `data`.

use document::{Problem, View};

/// The objects in these documents, also those of a `List`.
pub(crate) fn objects<'n>(documents: &[View<'n>]) -> Vec<View<'n>> {
    let objects = |document: &View<'n>| match document.text_of("kind") {
        Some("List") => document.list("items"),
        Some(_) => vec![document.clone()],
        None => Vec::new(),
    };
    documents.iter().flat_map(objects).collect()
}

/// An object as others refer to it: by its kind, its name and its namespace.
pub(crate) fn reference<'n>(object: &View<'n>) -> (&'n str, &'n str, &'n str) {
    let kind = object.text_of("kind").unwrap_or_default();
    (kind, object.text_of("metadata/name").unwrap_or_default(), namespace(object))
}

pub(crate) fn namespace<'n>(object: &View<'n>) -> &'n str {
    object.text_of("metadata/namespace").unwrap_or("default")
}

/// One of these is in each file for Envoy or Istio that has something to lint. Other files of a
/// `ConfigMap` may be no YAML.
const ENVOY: [&str; 5] = [
    "type.googleapis.com/envoy.",
    "http_filters",
    "virtual_hosts",
    "load_assignment",
    "extensionProviders",
];

/// Each configuration in this document, as a text in which every line is where it is in the file.
///
/// # Errors
/// Where one is written in another form than a block, whose lines are elsewhere.
pub(crate) fn configurations(view: &View<'_>, text: &str) -> Result<Vec<String>, Problem> {
    if view.text_of("kind") == Some("ConfigMap") {
        let data = view.named_entries_of("data");
        let is_envoy = |text: &str| ENVOY.iter().any(|part| text.contains(part));
        let blocks = data.iter().filter(|(_, value)| value.text().is_some_and(is_envoy));
        let read = |(name, value): &(String, View<'_>)| {
            block(value, text).ok_or_else(|| {
                let message = format!("`{name}` is not written as a block: it cannot be linted");
                let help = "write its text below `|`, as the file itself, or lint that file";
                Problem::error(value.place(), message).help(help)
            })
        };
        return blocks.map(read).collect();
    }
    // A `List` of Kubernetes.
    let items = view.list("items");
    let inside =
        items.iter().map(|item| configurations(item, text)).collect::<Result<Vec<_>, _>>()?;
    Ok(inside.concat())
}

/// The lines of a literal block (`|`), below as many empty lines as the file has above it.
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
