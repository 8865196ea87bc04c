//! The section `search`: a search cluster whose own role files decide about requests to its hosts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::key_url::KeyUrl;
use crate::model::{Bulk, DocumentSecurity, Evaluation, Inventory, Search};
use crate::parse::cached_files::{CachedFiles, is_file_name, relative_to};
use crate::parse::{host, jwt, response, url_files, values};
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

/// The interval between two requests for the inventory.
const REFRESH: Duration = Duration::from_secs(30);
/// How long the last inventory is used while the cluster does not answer.
const MAX_AGE: Duration = Duration::from_secs(300);

pub(crate) fn read(
    reader: &mut Reader,
    cached: &mut CachedFiles<'_>,
    (key, node): (&Key, &Node),
) -> Option<Search> {
    let field_names = [
        "folder",
        "hosts",
        "evaluation",
        "do_not_fail_on_forbidden",
        "system_indices",
        "document_security",
        "dfm_empty_overrides_all",
        "cluster_checks_scrolls",
        "bulk",
        "inventory",
    ];
    let fields = reader.filled_fields(node, "`search`", &field_names)?;
    let folder = read_folder(reader, cached, &fields);
    let hosts = read_hosts(reader, &fields);
    let evaluations = [("legacy", Evaluation::Legacy), ("v4", Evaluation::V4)];
    let evaluation = reader.field_choice(&fields, "evaluation", &evaluations);
    let do_not_fail_on_forbidden = reader.field_boolean(&fields, "do_not_fail_on_forbidden");
    if evaluation == Some(Evaluation::V4)
        && do_not_fail_on_forbidden == Some(true)
        && let Some((key, _)) = fields.field("do_not_fail_on_forbidden")
    {
        let message = "`do_not_fail_on_forbidden` has no effect with `evaluation: v4`";
        reader.warning_help(key.at, Warning::UnsupportedSetting, message, "leave it out");
    }
    let system_indices = read_system_indices(reader, &fields);
    let document_security = read_document_security(reader, &fields);
    let dfm_empty_overrides_all = reader.field_boolean(&fields, "dfm_empty_overrides_all");
    let cluster_checks_scrolls = reader.field_boolean(&fields, "cluster_checks_scrolls");
    let bulks = [("whole", Bulk::Whole), ("per-item", Bulk::PerItem)];
    let bulk = reader.field_choice(&fields, "bulk", &bulks);
    let inventory = fields.value("inventory").and_then(|node| read_inventory(reader, cached, node));
    let (folder, files) = folder?;
    Some(Search {
        folder,
        files,
        hosts,
        evaluation,
        do_not_fail_on_forbidden,
        system_indices,
        document_security,
        dfm_empty_overrides_all: dfm_empty_overrides_all.unwrap_or_default(),
        cluster_checks_scrolls: cluster_checks_scrolls.unwrap_or_default(),
        bulk: bulk.unwrap_or_default(),
        inventory,
        at: reader.place(key.at),
    })
}

/// The folder, and the cluster's files in it.
fn read_folder(
    reader: &mut Reader,
    cached: &mut CachedFiles<'_>,
    fields: &Fields<'_>,
) -> Option<(PathBuf, Vec<PolicyFile>)> {
    let help = "name the folder that has the cluster's `roles.yml`, relative to this file";
    reader.required(fields, "folder", help)?;
    let name = reader.field_text(fields, "folder").filter(|name| is_file_name(reader, name))?;
    let folder = relative_to(reader.file(), name.text);
    let names = cached.list(reader, name.at, &folder)?;
    report_similar(reader, &name, &names);
    let mut files = Vec::new();
    for file in FILES.iter().filter(|file| names.iter().any(|name| name == *file)) {
        files.push(cached.read_path(reader, name.at, folder.join(file))?);
    }
    Some((folder, files))
}

/// Reports a file with a name such as `role_mapping.yml`, or with the ending `.yaml`: it would be
/// ignored, together with its restrictions.
fn report_similar(reader: &mut Reader, folder: &Text<'_>, names: &[String]) {
    for name in names.iter().filter(|name| !FILES.contains(&name.as_str())) {
        let Some(stem) = name.strip_suffix(".yml").or_else(|| name.strip_suffix(".yaml")) else {
            continue;
        };
        if let Some(close) = closest(&format!("{stem}.yml"), FILES.iter().copied())
            && !names.iter().any(|name| name == close)
        {
            let message = format!("the folder has `{name}`, which is not read");
            reader.error_help(folder.at, message, format!("did you mean `{close}`?"));
        }
    }
}

fn read_hosts(reader: &mut Reader, fields: &Fields<'_>) -> Vec<Scope> {
    let Some(field) = fields.field("hosts").filter(|(_, node)| !node.is_nothing()) else {
        return Vec::new();
    };
    let texts =
        reader.nonempty_texts(field, "leave it out to decide about every host").unwrap_or_default();
    reader.warn_of_duplicates(&texts);
    texts.iter().filter_map(|text| host::read(reader, text, text.text)).collect()
}

fn read_system_indices(reader: &mut Reader, fields: &Fields<'_>) -> Vec<(Arc<str>, Place)> {
    let Some(node) = fields.value("system_indices") else { return Vec::new() };
    let texts = reader.texts(node, "`system_indices`", "each of `system_indices`");
    reader.warn_of_duplicates(&texts);
    texts.iter().map(|text| (text.shared.clone(), reader.place(text.at))).collect()
}

fn read_document_security(reader: &mut Reader, fields: &Fields<'_>) -> DocumentSecurity {
    let Some((key, node)) = fields.field("document_security") else {
        return DocumentSecurity::Deny;
    };
    if let Value::Scalar(scalar) = &node.value {
        if !scalar.is_nothing() && &*scalar.text != "deny" {
            let message = format!("`{}` is not a value of `document_security`", scalar.text);
            reader.error_help(node.at, message, "write `deny` or `{ header: NAME }`");
        }
        return DocumentSecurity::Deny;
    }
    // Only the inventory tells which indices an alias or a pattern stands for. Without it, nothing
    // tells which roles restrict a request.
    if fields.lacks("inventory") {
        let help = "add an `inventory`: it tells which indices an alias stands for";
        reader.error_help(key.at, "`document_security` needs an `inventory`", help);
    }
    read_header(reader, node).unwrap_or_default()
}

fn read_header(reader: &mut Reader, node: &Node) -> Option<DocumentSecurity> {
    let fields = reader.filled_fields(node, "`document_security`", &["header"])?;
    reader.required(&fields, "header", "write `{ header: NAME }`")?;
    let text = reader.field_text(&fields, "header")?;
    let name = response::header_name(reader, &text)?;
    Some(DocumentSecurity::Header { name: name.into(), at: reader.place(text.at) })
}

fn read_inventory(
    reader: &mut Reader,
    cached: &mut CachedFiles<'_>,
    node: &Node,
) -> Option<Inventory> {
    let field_names = ["file", "url", "refresh", "max_age", "credentials_file", "ca_file"];
    let fields = reader.filled_fields(node, "`inventory`", &field_names)?;
    match (fields.value("file"), fields.value("url")) {
        (Some(node), None) => {
            jwt::reject_for_file(reader, &fields);
            let name = reader.text(node, "`file`")?;
            let source = cached.read_named(reader, &name)?;
            Some(Inventory::File { source, at: reader.place(name.at) })
        }
        (None, Some(_)) => read_inventory_url(reader, cached, &fields),
        (Some(_), Some(url)) => {
            reader.reject(url.at, "`inventory` has both `file` and `url`", "leave one out")
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

fn read_inventory_url(
    reader: &mut Reader,
    cached: &mut CachedFiles<'_>,
    fields: &Fields<'_>,
) -> Option<Inventory> {
    let refresh = values::duration(reader, fields, "refresh", jwt::MIN_REFRESH).unwrap_or(REFRESH);
    let max_age = values::duration(reader, fields, "max_age", "1ms").unwrap_or(MAX_AGE);
    let help = "write the user and password of the account that lists the indices";
    let credentials = url_files::read_credentials(reader, cached, fields, help);
    let trusted_ca = url_files::read_trusted_ca(reader, cached, fields);
    let text = reader.field_text(fields, "url")?;
    if !values::is_url(reader, &text) {
        return None;
    }
    if text.text.contains('?') {
        let help = "write the cluster's own URL, such as `https://host:9200`";
        return reader.reject(text.at, "the URL has a query", help);
    }
    let url = KeyUrl::for_inventory(text.text, credentials?.as_deref()).trusting(trusted_ca?);
    Some(Inventory::Url { url, refresh, max_age, at: reader.place(text.at) })
}
