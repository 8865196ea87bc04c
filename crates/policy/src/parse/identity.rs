//! The section `identity`: how callers authenticate.

use std::path::Path;

use crate::levels::IDENTITY;
use crate::model::Identity;
use crate::parse::cached_files::CachedFiles;
use crate::parse::{basic, jwt};
use document::{Node, Reader};

/// Reads `identity`.
pub(crate) fn read(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    file: &Path,
    node: &Node,
) -> Option<Identity> {
    let fields = reader.fields(node, "`identity`", IDENTITY)?;
    // An empty `basic` is reported as one without users.
    reader.report_empty(&fields, &["jwt"]);
    let basic = fields.field("basic").and_then(|field| basic::read(reader, files, file, field));
    let jwt = fields.value("jwt").map(|node| jwt::read(reader, files, file, node));
    Some(Identity { basic, jwt: jwt.unwrap_or_default() })
}
