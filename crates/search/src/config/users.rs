//! Reads `internal_users.yml` and `config.yml`.

use std::collections::BTreeMap;
use std::sync::Arc;

use document::{Fields, Key, Node, Problem, Reader, Secret, Warning};

use super::read::{NOTES, USER, check_notes, flag, names, read_entries, texts};
use super::role_files::warn_of_unknown_role;
use super::{Dashboards, EvaluationType, InternalUser, Loader, Role, SecurityConfig};
use crate::settings::EvaluationSettings;

const USER_KEYS: &[&str] =
    &["hash", "backend_roles", "attributes", "opendistro_security_roles", "enabled", "service"];

/// The keys of `dynamic`.
const SETTINGS: &[&str] = &[
    "do_not_fail_on_forbidden",
    "do_not_fail_on_forbidden_empty",
    "privileges_evaluation_type",
    "privileges_evaluation_ignore_unauthorized_indices",
    "hosts_resolver_mode",
    "filtered_alias_mode",
    "disable_rest_auth",
    "http",
    "kibana",
    // About authentication, which the policy configures.
    "authc",
    "authz",
    "auth_failure_listeners",
    "on_behalf_of",
    "api_tokens",
    // Without effect in OpenSearch.
    "license",
    "multi_rolespan_enabled",
    "respect_request_indices_options",
    "disable_intertransport_auth",
    "transport_userrname_attribute",
];

/// Reads the files. Returns warnings that are reported only if there are no errors.
pub(super) fn load(
    loader: &mut Loader<'_>,
    config: &mut SecurityConfig,
    has_all_roles: bool,
) -> Vec<Problem> {
    let roles = has_all_roles.then_some(&config.roles);
    let users = &mut config.users;
    let mut warnings = Vec::new();
    read_entries(loader, "internal_users.yml", "internalusers", |reader, entries| {
        for (key, node) in entries {
            let Some((user, is_disabled)) = user(reader, key, node, roles) else { continue };
            if user.hash.is_none() && !is_disabled {
                let message = format!("the user `{}` has no `hash`, and so no access", user.name);
                let problem = Problem::warning(user.at.clone(), Warning::NoPassword, message);
                warnings.push(problem.help("add one, or write `enabled: false`"));
            }
            users.push(user);
        }
    });
    warnings.extend(warning_of_hashes(users));
    let settings = &mut config.settings;
    read_entries(loader, "config.yml", "config", |reader, entries| {
        for (key, node) in entries {
            if &*key.text != "config" {
                let message = format!("unknown key `{}`", key.text);
                reader.error_help(key.at, message, "the file has `_meta` and `config`");
            } else if let Some(fields) = reader.fields(node, "`config`", &["dynamic"])
                && let Some(node) = fields.value("dynamic")
            {
                dynamic(reader, node, settings);
            }
        }
    });
    warnings
}

/// A user, and whether it is disabled.
fn user(
    reader: &mut Reader,
    key: &Key,
    node: &Node,
    known_roles: Option<&BTreeMap<Arc<str>, Role>>,
) -> Option<(InternalUser, bool)> {
    // A key may be a misplaced secret, so an unknown key is not shown.
    let fields = reader.secret_fields(node, USER, &[USER_KEYS, &NOTES].concat())?;
    check_notes(reader, &fields);
    let hash = reader.field_text(&fields, "hash").filter(|text| !text.text.is_empty());
    let mut attributes = BTreeMap::new();
    let entries = fields.value("attributes").and_then(|node| reader.entries(node, "`attributes`"));
    for (name, node) in entries.iter().flat_map(Fields::iter) {
        if let Some(text) = reader.text(node, "an attribute") {
            attributes.insert(name.text.clone(), text.shared.clone());
        }
    }
    let is_service =
        flag(reader, &fields, "service") || has_attribute(&attributes, "service", "true");
    let is_disabled = reader.field_boolean(&fields, "enabled") == Some(false)
        || has_attribute(&attributes, "enabled", "false");
    let roles = texts(reader, &fields, "opendistro_security_roles");
    if let Some(known_roles) = known_roles {
        for role in &roles {
            warn_of_unknown_role(reader, *role, known_roles, "leave it out");
        }
    }
    let user = InternalUser {
        name: key.text.clone(),
        hash: hash.filter(|_| !is_disabled).map(|text| Secret(text.shared.clone())),
        backend_roles: names(reader, &fields, "backend_roles"),
        attributes,
        roles: roles.into_iter().map(|role| role.shared.clone()).collect(),
        is_service,
        at: reader.place(key.at),
    };
    Some((user, is_disabled))
}

fn has_attribute(attributes: &BTreeMap<Arc<str>, Arc<str>>, name: &str, value: &str) -> bool {
    attributes.get(name).is_some_and(|text| text.eq_ignore_ascii_case(value))
}

/// How many users a message names.
const MAX_USERS: usize = 10;

/// Warns of users whose hashes the plugin does not verify. By default it verifies bcrypt alone; the
/// setting for another algorithm is not in these files.
fn warning_of_hashes(users: &[InternalUser]) -> Option<Problem> {
    let unverified: Vec<&InternalUser> = users
        .iter()
        .filter(|user| user.hash.as_ref().is_some_and(|hash| has_other_algorithm(&hash.0)))
        .collect();
    let at = unverified.first()?.at.clone();
    let listed = unverified.iter().take(MAX_USERS);
    let mut names: Vec<String> = listed.map(|user| format!("`{}`", user.name)).collect();
    if unverified.len() > MAX_USERS {
        names.push(format!("{} more", unverified.len() - MAX_USERS));
    }
    let last = names.pop()?;
    let and = if names.is_empty() { "" } else { " and " };
    let message = format!(
        "by default the security plugin verifies only bcrypt hashes: {}{and}{last} cannot sign in \
         to the cluster itself",
        names.join(", ")
    );
    let help = "hash them anew with `rolegate hash-password --algorithm bcrypt`, or set \
                `plugins.security.password.hashing.algorithm` in the cluster's `opensearch.yml`, \
                which holds for all users";
    Some(Problem::warning(at, Warning::HashAlgorithm, message).help(help))
}

/// Whether a hash begins with the name of another algorithm than bcrypt.
fn has_other_algorithm(hash: &str) -> bool {
    hash.starts_with("{SHA}") || (hash.starts_with('$') && !hash.starts_with("$2"))
}

fn dynamic(reader: &mut Reader, node: &Node, settings: &mut EvaluationSettings) {
    let Some(fields) = reader.fields(node, "`dynamic`", SETTINGS) else { return };
    settings.do_not_fail_on_forbidden = flag(reader, &fields, "do_not_fail_on_forbidden");
    settings.do_not_fail_on_forbidden_empty =
        flag(reader, &fields, "do_not_fail_on_forbidden_empty");
    let key = "privileges_evaluation_ignore_unauthorized_indices";
    settings.ignore_unauthorized_indices = reader.field_boolean(&fields, key) != Some(false);
    let types = [("legacy", Some(EvaluationType::Legacy)), ("v4", Some(EvaluationType::V4))];
    if let Some(evaluation) = choice(reader, &fields, "privileges_evaluation_type", &types) {
        settings.evaluation = evaluation;
    }
    if settings.do_not_fail_on_forbidden
        && settings.evaluation == EvaluationType::V4
        && let Some((key, _)) = fields.field("do_not_fail_on_forbidden")
    {
        let message =
            "`do_not_fail_on_forbidden` has no effect with `privileges_evaluation_type: v4`";
        reader.warning_help(key.at, Warning::UnsupportedSetting, message, "leave it out");
    }
    if let Some(kibana) = fields.value("kibana").and_then(|node| reader.entries(node, "`kibana`")) {
        let mut dashboards = Dashboards::default();
        for (key, name) in
            [("index", &mut dashboards.index), ("server_username", &mut dashboards.server)]
        {
            if let Some(text) = reader.field_text(&kibana, key).filter(|text| !text.text.is_empty())
            {
                *name = text.shared.clone();
            }
        }
        let has_tenants = reader.field_boolean(&kibana, "multitenancy_enabled") != Some(false);
        settings.dashboards = has_tenants.then_some(dashboards);
    }
    let modes = [("ip-only", Some(())), ("ip-hostname", Some(())), ("ip-hostname-lookup", None)];
    choice(reader, &fields, "hosts_resolver_mode", &modes);
    let modes = [("warn", Some(())), ("nowarn", Some(())), ("disallow", None)];
    choice(reader, &fields, "filtered_alias_mode", &modes);
    if let Some(http) = fields.value("http").and_then(|node| reader.entries(node, "`http`")) {
        warn_of_access_without_credentials(reader, &http, "anonymous_auth_enabled");
    }
    warn_of_access_without_credentials(reader, &fields, "disable_rest_auth");
}

/// Warns of a flag that would permit requests without credentials.
fn warn_of_access_without_credentials(reader: &mut Reader, fields: &Fields<'_>, key: &str) {
    if let Some((key, _)) = fields.field(key).filter(|_| flag(reader, fields, key)) {
        let message = format!("`{}` is not supported", key.text);
        let help = "requests without credentials are denied";
        reader.warning_help(key.at, Warning::UnsupportedSetting, message, help);
    }
}

/// The value of a setting among these values; `None` marks a value that is not supported.
fn choice<T: Copy>(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
    values: &[(&str, Option<T>)],
) -> Option<T> {
    let text = reader.field_text(fields, key)?;
    let lower = text.text.to_lowercase();
    let message = match values.iter().find(|(name, _)| *name == lower) {
        Some((_, Some(value))) => return Some(*value),
        Some((name, None)) => format!("`{name}` is not supported"),
        None => {
            let names: Vec<String> = values.iter().map(|(name, _)| format!("`{name}`")).collect();
            format!("`{key}` must be one of {}", names.join(", "))
        }
    };
    reader.error(text.at, message);
    None
}
