//! The keys of the mappings in a policy, and where a key belongs that is indented wrongly.

/// The keys of a policy: its sections.
pub(crate) const POLICY: &[&str] = &[
    "version",
    "include",
    "identity",
    "roles",
    "grants",
    "allow_response",
    "deny_response",
    "identity_header",
    "search",
];
/// The keys of `identity`.
pub(crate) const IDENTITY: &[&str] = &["basic", "jwt"];
/// The keys of `basic`.
pub(crate) const BASIC: &[&str] = &["realm", "users", "users_file", "verify", "user_prefix", "group_prefix"];
/// The keys of an issuer.
pub(crate) const JWT: &[&str] = &[
    "issuer",
    "audiences",
    "keys",
    "claims",
    "clock_skew",
    "required_type",
    "max_age",
    "roles_from_token",
    "user_prefix",
    "group_prefix",
];
/// The keys of an issuer's `claims`.
pub(crate) const CLAIMS: &[&str] = &["user", "roles", "groups"];
/// The keys of a user.
pub(crate) const USER: &[&str] = &["password", "groups"];
/// The keys of a role.
pub(crate) const ROLE: &[&str] = &["extends", "allow", "deny", "user_id_from"];
/// The keys of a rule in the long form.
pub(crate) const RULE: &[&str] = &["name", "methods", "hosts", "paths", "user_id_from"];
/// The keys of a grant.
pub(crate) const GRANT: &[&str] = &["users", "groups"];
/// The keys of `allow_response`.
pub(crate) const ALLOW_RESPONSE: &[&str] = &["set_headers", "remove_headers"];
/// The keys of `deny_response`.
pub(crate) const DENY_RESPONSE: &[&str] = &["body", "content_type", "explain"];
/// The keys of `identity_header`.
pub(crate) const IDENTITY_HEADER: &[&str] =
    &["name", "format", "algorithm", "keys", "issuer", "audience", "lifetime", "claims"];
/// The keys of `search`.
pub(crate) const SEARCH: &[&str] = &[
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

/// The mappings whose keys may be indented wrongly: what messages call each, where it is, and its keys. Not a user: its keys
/// are not shown, since one may be a mistyped password.
const LEVELS: &[(&str, &str, &[&str])] = &[
    ("a policy", "at the top level", POLICY),
    ("`identity`", "under `identity`", IDENTITY),
    ("`basic`", "under `basic`", BASIC),
    ("an entry of `jwt`", "in an entry of `jwt`", JWT),
    ("a role", "in a role", ROLE),
    ("a rule", "in a rule", RULE),
    ("a grant", "in a grant", GRANT),
    ("`allow_response`", "under `allow_response`", ALLOW_RESPONSE),
    ("`deny_response`", "under `deny_response`", DENY_RESPONSE),
    ("`identity_header`", "under `identity_header`", IDENTITY_HEADER),
    ("`search`", "under `search`", SEARCH),
];

/// Mappings within one of those: what messages call that one, where the mapping is, and its keys. They are meant first there, and
/// nowhere else: `groups` is also a key of grants, and `roles` a section.
const WITHIN: &[(&str, &str, &[&str])] =
    &[("an entry of `jwt`", "under `claims`", CLAIMS), ("`basic`", "in a user", USER)];

/// Where a key that is unknown in `what` belongs, if only one mapping of a policy has it.
pub(crate) fn help(what: &str, key: &str) -> Option<String> {
    LEVELS.iter().find(|(name, ..)| *name == what)?;
    let within = WITHIN.iter().find(|(outer, _, keys)| *outer == what && keys.contains(&key));
    let mut having = LEVELS.iter().filter(|(.., keys)| keys.contains(&key));
    let place = match (within, having.next(), having.next()) {
        (Some((_, place, _)), ..) | (None, Some((_, place, _)), None) => place,
        (None, _, _) => return None,
    };
    Some(format!("`{key}` belongs {place}: check the indentation"))
}
