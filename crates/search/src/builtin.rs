//! The roles and action groups that every OpenSearch has, whatever its files say.

use std::path::Path;
use std::sync::LazyLock;

use document::Reader;

use crate::config::{SecurityConfig, read_builtin};

/// The built-in roles and action groups.
pub(crate) static BUILTIN: LazyLock<SecurityConfig> = LazyLock::new(|| {
    let mut reader = Reader::new(Path::new("builtin.yml").into());
    read_builtin(&mut reader, include_bytes!("builtin.yml"))
});

/// The role of those who use Dashboards.
pub(crate) const KIBANA_USER: &str = "kibana_user";

/// Whether every cluster has this role.
#[must_use]
pub fn is_builtin_role(name: &str) -> bool {
    BUILTIN.roles.contains_key(name)
}

#[cfg(test)]
mod tests;
