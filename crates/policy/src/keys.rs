//! The keys of the mappings in a policy.

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
