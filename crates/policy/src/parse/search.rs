//! The section `search`: a search cluster whose own role files decide about requests to its hosts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::key_url::KeyUrl;
use crate::keys::SEARCH;
use crate::model::{Bulk, DocumentSecurity, Evaluation, Inventory, Search};
use crate::parse::cached_files::{CachedFiles, beside, is_file_name, unreadable};
use crate::parse::{host, jwt, response, values};
use crate::pattern::Scope;
use document::{Fields, Key, Node, Place, PolicyFile, Reader, Text, Value, Warning, closest};

/// The files of a cluster's security configuration that are read. `roles.yml` must exist.
const FILES: &[&str] = &[
    "roles.yml",
    "roles_mapping.yml",
    "internal_users.yml",
    "action_groups.yml",
    "tenants.yml",
    "config.yml",
];

/// Reads `search`.
pub(crate) fn read(
    reader: &mut Reader,
    cached: &mut CachedFiles<'_>,
    file: &Path,
    (key, node): (&Key, &Node),
) -> Option<Search> {
    let fields = reader.filled_fields(node, "`search`", SEARCH)?;
    let folder = folder(reader, cached, file, &fields);
    let hosts = hosts(reader, &fields);
    let evaluation = evaluation(reader, &fields);
    let do_not_fail_on_forbidden = fields
        .value("do_not_fail_on_forbidden")
        .and_then(|node| reader.boolean(node, "`do_not_fail_on_forbidden`"));
    if evaluation == Some(Evaluation::V4)
        && do_not_fail_on_forbidden == Some(true)
        && let Some((key, _)) = fields.field("do_not_fail_on_forbidden")
    {
        let message = "`do_not_fail_on_forbidden` has no effect with `evaluation: v4`";
        reader.warning_help(key.at, Warning::UnsupportedSetting, message, "leave it out");
    }
    let system_indices = system_indices(reader, &fields);
    let document_security = document_security(reader, &fields);
    let dfm_empty_overrides_all = fields
        .value("dfm_empty_overrides_all")
        .and_then(|node| reader.boolean(node, "`dfm_empty_overrides_all`"))
        .unwrap_or_default();
    let cluster_checks_scrolls = fields
        .value("cluster_checks_scrolls")
        .and_then(|node| reader.boolean(node, "`cluster_checks_scrolls`"))
        .unwrap_or_default();
    let bulk = bulk(reader, &fields);
    let inventory = fields.value("inventory").and_then(|node| inventory(reader, cached, file, node));
    let (folder, files) = folder?;
    let at = reader.place(key.at);
    Some(Search {
        folder,
        files,
        hosts,
        evaluation,
        do_not_fail_on_forbidden,
        system_indices,
        document_security,
        dfm_empty_overrides_all,
        cluster_checks_scrolls,
        bulk,
        inventory,
        at,
    })
}

/// The folder, and those of the cluster's files that are in it.
fn folder(
    reader: &mut Reader,
    cached: &mut CachedFiles<'_>,
    file: &Path,
    fields: &Fields<'_>,
) -> Option<(PathBuf, Vec<PolicyFile>)> {
    let Some(node) = fields.value("folder") else {
        if fields.lacks("folder") {
            let help = "name the folder that has the cluster's `roles.yml`, relative to this file";
            reader.error_help(fields.at, "`search` has no `folder`", help);
        }
        return None;
    };
    let name = reader.text(node, "`folder`").filter(|name| is_file_name(reader, name))?;
    let path = beside(file, name.text);
    let names = match cached.list(&path) {
        Ok(names) => names,
        Err(error) => {
            unreadable(reader, name.at, &path, &error);
            return None;
        }
    };
    warn_of_similar(reader, &name, &names);
    let mut files = Vec::new();
    for known in FILES.iter().filter(|known| names.iter().any(|name| name == *known)) {
        let path = path.join(known);
        match cached.read(&path) {
            Ok(bytes) => files.push(PolicyFile { path, bytes }),
            Err(error) => {
                unreadable(reader, name.at, &path, &error);
                return None;
            }
        }
    }
    Some((path, files))
}

/// Reports names such as `role_mapping.yml`, or with the ending `.yaml`: the file would be ignored, and with it what it restricts.
fn warn_of_similar(reader: &mut Reader, folder: &Text<'_>, names: &[String]) {
    let others = names.iter().filter(|name| !FILES.contains(&name.as_str()));
    for name in others.filter(|name| name.ends_with(".yml") || name.ends_with(".yaml")) {
        let yml = name.strip_suffix(".yaml").map_or_else(|| name.clone(), |stem| format!("{stem}.yml"));
        if let Some(close) = closest(&yml, FILES.iter().copied())
            && !names.iter().any(|name| name == close)
        {
            let message = format!("the folder has `{name}`, which is not read");
            reader.error_help(folder.at, message, format!("did you mean `{close}`?"));
        }
    }
}

fn hosts(reader: &mut Reader, fields: &Fields<'_>) -> Vec<Scope> {
    let Some(field) = fields.field("hosts").filter(|(_, node)| !node.is_nothing()) else { return Vec::new() };
    let help = "leave it out to decide about every host";
    let texts = reader.filled(field, help).unwrap_or_default();
    reader.warn_of_duplicates(&texts);
    texts.iter().filter_map(|(text, _)| host::read(reader, text, text.text)).collect()
}

fn evaluation(reader: &mut Reader, fields: &Fields<'_>) -> Option<Evaluation> {
    let text = fields.value("evaluation").and_then(|node| reader.text(node, "`evaluation`"))?;
    match text.text {
        "legacy" => Some(Evaluation::Legacy),
        "v4" => Some(Evaluation::V4),
        other => {
            let message = format!("`{other}` is not an evaluation");
            reader.error_help(text.at, message, "write `legacy` or `v4`");
            None
        }
    }
}

fn bulk(reader: &mut Reader, fields: &Fields<'_>) -> Bulk {
    let Some(text) = fields.value("bulk").and_then(|node| reader.text(node, "`bulk`")) else {
        return Bulk::Whole;
    };
    match text.text {
        "whole" => Bulk::Whole,
        "per-item" => Bulk::PerItem,
        other => {
            reader.error_help(text.at, format!("`{other}` is no `bulk`"), "write `whole` or `per-item`");
            Bulk::Whole
        }
    }
}

fn system_indices(reader: &mut Reader, fields: &Fields<'_>) -> Vec<(Arc<str>, Place)> {
    let Some(node) = fields.value("system_indices") else { return Vec::new() };
    let texts = reader.texts(node, "`system_indices`", "each of `system_indices`");
    reader.warn_of_duplicates(&texts);
    texts.iter().map(|(text, shared)| (Arc::clone(shared), reader.place(text.at))).collect()
}

fn document_security(reader: &mut Reader, fields: &Fields<'_>) -> DocumentSecurity {
    let Some((key, node)) = fields.field("document_security").filter(|(_, node)| !node.is_nothing()) else {
        return DocumentSecurity::Deny;
    };
    if let Value::Scalar(scalar) = &node.value {
        if &*scalar.text != "deny" {
            let message = format!("`{}` is no `document_security`", scalar.text);
            reader.error_help(node.at, message, "write `deny` or `{ header: NAME }`");
        }
        return DocumentSecurity::Deny;
    }
    // Only the inventory tells which indices an alias or a pattern stands for, and so which roles restrict them.
    if fields.lacks("inventory") {
        let help = "name it: without it, it is not known what an alias stands for";
        reader.error_help(key.at, "`document_security` needs an `inventory`", help);
    }
    let Some(fields) = reader.filled_fields(node, "`document_security`", &["header"]) else {
        return DocumentSecurity::Deny;
    };
    let Some(node) = fields.value("header") else {
        if fields.lacks("header") {
            reader.error_help(node.at, "`document_security` has no `header`", "write `{ header: NAME }`");
        }
        return DocumentSecurity::Deny;
    };
    let name = reader.text(node, "`header`");
    match name.and_then(|name| response::header_name(reader, &name)) {
        Some(name) => DocumentSecurity::Header { name: name.into(), at: reader.place(node.at) },
        None => DocumentSecurity::Deny,
    }
}

/// The interval between two requests for the inventory.
const REFRESH: Duration = Duration::from_secs(30);
/// How long the last inventory is used while the cluster does not answer.
const MAX_AGE: Duration = Duration::from_secs(300);

fn inventory(
    reader: &mut Reader,
    cached: &mut CachedFiles<'_>,
    file: &Path,
    node: &Node,
) -> Option<Inventory> {
    let known = ["file", "url", "refresh", "max_age", "credentials_file", "ca_file"];
    let fields = reader.filled_fields(node, "`inventory`", &known)?;
    match (fields.value("file"), fields.value("url")) {
        (Some(name), None) => {
            for (key, _) in fields.iter().filter(|(key, node)| &*key.text != "file" && !node.is_nothing()) {
                let message = format!("`{}` is for an inventory at a `url`", key.text);
                reader.error_help(key.at, message, "leave it out: a file is read again when it changes");
            }
            in_file(reader, cached, file, name)
        }
        (None, Some(url)) => at_url(reader, cached, file, &fields, url),
        (Some(_), Some(url)) => {
            reader.error_help(url.at, "`inventory` has both `file` and `url`", "leave one out");
            None
        }
        (None, None) => {
            if fields.lacks("file") && fields.lacks("url") {
                let help = "write `{ url: \"https://…\" }` or `{ file: inventory.json }`";
                reader.error_help(node.at, "`inventory` has neither `file` nor `url`", help);
            }
            None
        }
    }
}

fn in_file(reader: &mut Reader, cached: &mut CachedFiles<'_>, file: &Path, node: &Node) -> Option<Inventory> {
    let name = reader.text(node, "`file`")?;
    let source = cached.read_named(reader, file, &name)?;
    Some(Inventory::File { source, at: reader.place(name.at) })
}

fn at_url(
    reader: &mut Reader,
    cached: &mut CachedFiles<'_>,
    file: &Path,
    fields: &Fields<'_>,
    node: &Node,
) -> Option<Inventory> {
    let refresh = jwt::refresh(reader, fields, REFRESH);
    let max_age = jwt::positive(reader, fields, "max_age").unwrap_or(MAX_AGE);
    let credentials = fields.value("credentials_file").map(|node| credentials(reader, cached, file, node));
    let trusted_ca = fields.value("ca_file").map(|node| jwt::trusted_ca(reader, cached, file, node));
    let text = reader.text(node, "`url`")?;
    if !values::is_url(reader, &text) {
        return None;
    }
    if text.text.contains('?') {
        reader.error_help(
            text.at,
            "the URL has a query",
            "write the cluster's own URL, such as `https://host:9200`",
        );
        return None;
    }
    // What could not be read was reported, and must not be left out.
    let credentials = match credentials {
        Some(credentials) => Some(credentials?),
        None => None,
    };
    let url = KeyUrl::of_inventory(text.text, credentials.as_deref());
    let url = match trusted_ca {
        Some(trusted_ca) => url.trusting(trusted_ca?),
        None => url,
    };
    Some(Inventory::Url { url, refresh, max_age, at: reader.place(text.at) })
}

/// The `user:password` in a file, which is never shown.
fn credentials(
    reader: &mut Reader,
    cached: &mut CachedFiles<'_>,
    file: &Path,
    node: &Node,
) -> Option<String> {
    let name = reader.text(node, "`credentials_file`")?;
    let PolicyFile { path, bytes } = cached.read_named(reader, file, &name)?;
    let text = std::str::from_utf8(&bytes).ok().map(|text| text.trim_end_matches(['\r', '\n']));
    let credentials = text.filter(|text| text.contains(':') && !text.contains(char::is_control));
    if credentials.is_none() {
        let message = format!("`{}` is not one line `user:password`", path.display());
        reader.error_help(
            name.at,
            message,
            "write the user and password of the account that lists the indices",
        );
    }
    credentials.map(str::to_owned)
}
