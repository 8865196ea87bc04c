//! Reads `internal_users.yml` and `config.yml`.

use std::collections::BTreeMap;
use std::sync::Arc;

use document::{Fields, Key, Node, Problem, Reader, Secret, Warning};

use super::read::{flag, names, read_entries, secret_fields, texts};
use super::role_files::warn_of_unknown_role;
use super::{Dashboards, EvaluationType, InternalUser, Loader, Role, SecurityConfig};
use crate::settings::EvaluationSettings;

const USER: &[&str] =
    &["hash", "backend_roles", "attributes", "opendistro_security_roles", "enabled", "service"];

/// Settings that are read.
const READ: &[&str] = &[
    "do_not_fail_on_forbidden",
    "do_not_fail_on_forbidden_empty",
    "privileges_evaluation_type",
    "privileges_evaluation_ignore_unauthorized_indices",
    "hosts_resolver_mode",
    "filtered_alias_mode",
    "disable_rest_auth",
    "http",
    "kibana",
];

/// Settings about authentication, which the policy configures, and without effect in OpenSearch.
const UNUSED: &[&str] = &[
    "authc",
    "authz",
    "auth_failure_listeners",
    "on_behalf_of",
    "api_tokens",
    "license",
    "multi_rolespan_enabled",
    "respect_request_indices_options",
    "disable_intertransport_auth",
    "transport_userrname_attribute",
];

/// Reads the files. Returns warnings that only count if there are no errors.
pub(super) fn load(
    loader: &mut Loader<'_>,
    config: &mut SecurityConfig,
    roles_are_known: bool,
) -> Vec<Problem> {
    let known_roles = roles_are_known.then_some(&config.roles);
    let users = &mut config.users;
    let mut warnings = Vec::new();
    read_entries(loader, "internal_users.yml", "internalusers", |reader, entries| {
        for (key, node) in entries {
            let Some((user, is_disabled)) = user(reader, key, node, known_roles) else { continue };
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
    let fields = secret_fields(reader, node, "a user of the cluster", USER)?;
    let hash = reader.field_text(&fields, "hash").filter(|text| !text.text.is_empty());
    let hash = hash.map(|text| Secret(text.shared.clone()));
    let mut attributes = BTreeMap::new();
    if let Some(entries) =
        fields.value("attributes").and_then(|node| reader.entries(node, "`attributes`"))
    {
        for (name, node) in entries.iter() {
            if let Some(text) = reader.text(node, "an attribute") {
                attributes.insert(name.text.clone(), text.shared.clone());
            }
        }
    }
    let is_service = flag(reader, &fields, "service")
        || attributes.get("service").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let is_disabled = is_false(reader, &fields, "enabled")
        || attributes.get("enabled").is_some_and(|value| value.eq_ignore_ascii_case("false"));
    let roles = texts(reader, &fields, "opendistro_security_roles");
    for (role, known) in roles.iter().filter_map(|(role, _)| Some((*role, known_roles?))) {
        warn_of_unknown_role(reader, role, known, "leave it out");
    }
    let user = InternalUser {
        name: key.text.clone(),
        hash: hash.filter(|_| !is_disabled),
        backend_roles: names(reader, &fields, "backend_roles"),
        attributes,
        roles: roles.into_iter().map(|(_, role)| role.clone()).collect(),
        is_service,
        at: reader.place(key.at),
    };
    Some((user, is_disabled))
}

/// How many users a message names.
const MAX_USERS: usize = 10;

/// Warns of users whose hashes the plugin does not verify. By default it knows bcrypt alone; the
/// setting for another algorithm is not in these files.
fn warning_of_hashes(users: &[InternalUser]) -> Option<Problem> {
    let algorithm = |user: &InternalUser| other_than_bcrypt(&user.hash.as_ref()?.0);
    let others = users.iter().filter_map(|user| Some((user, algorithm(user)?)));
    let at = others.clone().next()?.0.at.clone();
    let shown = others.clone().take(MAX_USERS);
    let mut names: Vec<String> =
        shown.map(|(user, algorithm)| format!("`{}` ({algorithm})", user.name)).collect();
    let more = others.count() - names.len();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    let names = match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        Some(_) | None => names.concat(),
    };
    let message = format!(
        "by default the security plugin verifies only bcrypt hashes: {names} cannot sign in to the cluster itself"
    );
    let help = "hash them anew with `rolegate hash-password --algorithm bcrypt`, or set \
                `plugins.security.password.hashing.algorithm` in the cluster's `opensearch.yml`, which holds for all users";
    Some(Problem::warning(at, Warning::HashAlgorithm, message).help(help))
}

/// The algorithm of a hash, if it is known and not bcrypt.
fn other_than_bcrypt(hash: &str) -> Option<&'static str> {
    if hash.starts_with("{SHA}") {
        return Some("SHA-1");
    }
    let (id, rest) = hash.strip_prefix('$')?.split_once('$')?;
    // The plugin writes PBKDF2 as `$3$NUMBER$SALT$DIGEST`.
    let of_plugin = |rest: &str| {
        rest.split('$').count() == 3
            && rest.bytes().take_while(|byte| *byte != b'$').all(|byte| byte.is_ascii_digit())
    };
    match id {
        "1" | "2" | "3" | "4" | "5" if of_plugin(rest) => Some("PBKDF2"),
        "5" | "6" => Some("SHA-crypt"),
        _ if id.starts_with("pbkdf2-") => Some("PBKDF2"),
        "argon2id" => Some("argon2id"),
        _ => None,
    }
}

fn is_false(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> bool {
    fields.value(key).and_then(|node| reader.boolean(node, &format!("`{key}`"))) == Some(false)
}

fn dynamic(reader: &mut Reader, node: &Node, settings: &mut EvaluationSettings) {
    let known: Vec<&str> = READ.iter().chain(UNUSED).copied().collect();
    let Some(fields) = reader.fields(node, "`dynamic`", &known) else { return };
    settings.do_not_fail_on_forbidden = flag(reader, &fields, "do_not_fail_on_forbidden");
    settings.do_not_fail_on_forbidden_empty =
        flag(reader, &fields, "do_not_fail_on_forbidden_empty");
    settings.ignore_unauthorized_indices =
        !is_false(reader, &fields, "privileges_evaluation_ignore_unauthorized_indices");
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
        let mut text = |key: &str| {
            let value = reader.field_text(&kibana, key);
            value.map(|text| text.shared.clone()).filter(|text| !text.is_empty())
        };
        let default = Dashboards::default();
        let (index, server) = (text("index"), text("server_username"));
        let dashboards = Dashboards {
            index: index.unwrap_or(default.index),
            server: server.unwrap_or(default.server),
        };
        settings.dashboards =
            Some(dashboards).filter(|_| !is_false(reader, &kibana, "multitenancy_enabled"));
    }
    choice(
        reader,
        &fields,
        "hosts_resolver_mode",
        &[("ip-only", Some(())), ("ip-hostname", Some(())), ("ip-hostname-lookup", None)],
    );
    choice(
        reader,
        &fields,
        "filtered_alias_mode",
        &[("warn", Some(())), ("nowarn", Some(())), ("disallow", None)],
    );
    if let Some(http) = fields.value("http").and_then(|node| reader.entries(node, "`http`"))
        && flag(reader, &http, "anonymous_auth_enabled")
    {
        unsupported(
            reader,
            &http,
            "anonymous_auth_enabled",
            "requests without credentials are denied",
        );
    }
    if flag(reader, &fields, "disable_rest_auth") {
        unsupported(
            reader,
            &fields,
            "disable_rest_auth",
            "requests without credentials are denied",
        );
    }
}

/// Warns of a setting that would permit more than is supported.
fn unsupported(reader: &mut Reader, fields: &Fields<'_>, key: &str, instead: &str) {
    if let Some((key, _)) = fields.field(key) {
        let message = format!("`{}` is not supported", key.text);
        reader.warning_help(key.at, Warning::UnsupportedSetting, message, instead);
    }
}

/// One of some values; those with `None` are not supported.
fn choice<T: Copy>(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
    values: &[(&str, Option<T>)],
) -> Option<T> {
    let text = reader.field_text(fields, key)?;
    let lower: Arc<str> = text.text.to_lowercase().into();
    match values.iter().find(|(name, _)| *name == &*lower) {
        Some((_, Some(value))) => Some(*value),
        Some((name, None)) => {
            reader.error(text.at, format!("`{name}` is not supported"));
            None
        }
        None => {
            let names: Vec<String> = values.iter().map(|(name, _)| format!("`{name}`")).collect();
            reader.error(text.at, format!("`{key}` must be one of {}", names.join(", ")));
            None
        }
    }
}
