//! Objects of Kubernetes.

use document::View;

/// The objects in these documents, also those of a `List`.
pub(crate) fn objects<'n>(documents: &[View<'n>]) -> Vec<View<'n>> {
    let of = |document: &View<'n>| match document.text_of("kind") {
        Some("List") => document.list("items"),
        Some(_) => vec![document.clone()],
        None => Vec::new(),
    };
    documents.iter().flat_map(of).collect()
}

pub(crate) fn name<'n>(object: &View<'n>) -> &'n str {
    metadata(object, "name").unwrap_or_default()
}

pub(crate) fn namespace<'n>(object: &View<'n>) -> &'n str {
    metadata(object, "namespace").unwrap_or("default")
}

fn metadata<'n>(object: &View<'n>, key: &str) -> Option<&'n str> {
    object.at(&["metadata", key])?.text()
}
