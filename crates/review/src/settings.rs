//! The differences of two policies besides roles and grants: users, issuers, headers and bodies of
//! responses. Passwords and keys are never shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use policy::model::{
    ANYONE, AUTHENTICATED, AUTHORIZATION, ActionName, ApiKeys, AuthZen, Basic, Bulk,
    CertificateSource, Certificates, DocumentSecurity, IdentityHeader, Introspection, Inventory,
    Issuer, Keys, MetadataValue, NamePattern, NameTemplate, Piece, RequiredClaim, ResourceType,
    RolesFromToken, Search, Separator, SubjectType, Template,
};
use policy::{KeyUrl, Policy};
use serde::Serialize;

/// The setting that tells whether a user and the application that calls for it are both needed.
const COMBINE: &str = "identity.combine";
/// The setting of an issuer that tells where a token names an actor.
const ACT: &str = "act";

/// The beginning of the setting of a cookie with a token.
const TOKEN_COOKIE: &str = "identity.token_from: cookie ";

/// A setting that is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// The setting, as the policy calls it: `identity.basic.users.alice`.
    pub setting: String,
    /// Its value in the old policy; `None` if it has no value, or the value is not shown.
    pub old: Option<String>,
    /// Its value in the new policy.
    pub new: Option<String>,
    /// The change, in a word.
    pub change: &'static str,
    /// Why it is unsafe: it may give more callers access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<&'static str>,
}

/// The settings that are different.
pub(crate) fn changes(old: &Policy, new: &Policy) -> Vec<SettingChange> {
    let with_role_names = tells_role_names(old) && tells_role_names(new);
    let [old_settings, new_settings] = [old, new].map(|policy| settings(policy, with_role_names));
    let paths: BTreeSet<&Vec<String>> = old_settings.keys().chain(new_settings.keys()).collect();
    let mut changes = Vec::new();
    for path in paths {
        let change = SettingChange {
            setting: path.join("."),
            old: None,
            new: None,
            change: "changed",
            warning: None,
        };
        match (old_settings.get(path), new_settings.get(path)) {
            (Some(old), Some(new)) if old == new => {}
            // Values that look the same differ in something that is not shown.
            (Some(old), Some(new)) if old.shown == new.shown => changes.push(change),
            (Some(old), Some(new)) => {
                let (old, new) = (old.shown.clone(), new.shown.clone());
                let key = path.last().map_or("", String::as_str);
                let warning = match (key, new.as_deref()) {
                    (COMBINE, Some("first")) => {
                        Some("a user's credentials are enough now, without a certificate")
                    }
                    (ACT, None) => Some("a token counts now as if it had no `act`"),
                    _ => None,
                };
                changes.push(SettingChange { old, new, warning, ..change });
            }
            (Some(_), None) if !has_reported_parent(path, &old_settings, &new_settings) => {
                changes.push(SettingChange { change: "removed", ..change });
            }
            (None, Some(_)) if !has_reported_parent(path, &new_settings, &old_settings) => {
                let is_proxy = path.iter().any(|part| part.starts_with("trusted_proxies: "));
                let is_audience = path.iter().any(|part| part.starts_with("audiences: "));
                let is_cookie = path.iter().any(|part| part.starts_with(TOKEN_COOKIE));
                let warning = is_audience
                    .then_some("tokens that were issued for this audience are accepted now")
                    .or_else(|| {
                        is_proxy
                            .then_some("clients at these addresses can name any certificate now")
                    })
                    .or_else(|| {
                        is_cookie
                            .then_some("browsers send cookies with requests of other sites, too")
                    });
                changes.push(SettingChange { change: "added", warning, ..change });
            }
            _ => {}
        }
    }
    changes.sort_by(|change, next| change.setting.cmp(&next.setting));
    warn_of_open_headers(&mut changes, old, new);
    changes
}

/// The settings of a policy by path. A setting is a part of a larger setting if its path begins
/// with the path of the larger setting.
type Settings<'p> = BTreeMap<Vec<String>, Value<'p>>;

/// The value of a setting.
struct Value<'p> {
    shown: Option<String>,
    compared: Compared<'p>,
}

/// The part of a value that is compared.
#[derive(PartialEq, Eq)]
enum Compared<'p> {
    /// The text that is shown.
    Shown,
    /// Contents that are not shown.
    Bytes(Vec<&'p [u8]>),
    /// A URL, which may have a secret, and how often it is fetched.
    Url(&'p KeyUrl, Duration),
}

/// Whether a setting is a part of a larger setting that the other policy lacks. Then only the
/// larger setting is reported.
fn has_reported_parent(
    path: &[String],
    settings: &Settings<'_>,
    other_settings: &Settings<'_>,
) -> bool {
    let mut outer = (1..path.len()).filter_map(|length| path.get(..length));
    outer.any(|outer| settings.contains_key(outer) && !other_settings.contains_key(outer))
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.compared == other.compared
            && (self.compared != Compared::Shown || self.shown == other.shown)
    }
}

/// The settings of a policy; `with_role_names`: with the names of its roles.
fn settings(policy: &Policy, with_role_names: bool) -> Settings<'_> {
    let mut settings = SettingsBuilder(BTreeMap::new());
    settings.add_policy(policy, with_role_names);
    settings.0
}

struct SettingsBuilder<'p>(Settings<'p>);

impl<'p> SettingsBuilder<'p> {
    fn add_policy(&mut self, policy: &'p Policy, with_role_names: bool) {
        if let Some(basic) = &policy.identity.basic {
            self.add_basic(basic);
        }
        if let Some(keys) = &policy.identity.api_keys {
            self.add_api_keys(keys);
        }
        if let Some(certificates) = &policy.identity.certificates {
            self.add_certificates(certificates);
        }
        for issuer in &policy.identity.jwt {
            self.add_issuer(issuer);
        }
        let identity = &policy.identity;
        for name in identity.token_headers().filter(|name| *name != AUTHORIZATION) {
            self.show(&[&format!("identity.token_from: header {name}")], None);
        }
        for (name, _) in identity.token_cookies() {
            self.show(&[&format!("{TOKEN_COOKIE}{name}")], None);
        }
        if !identity.reads_bearer() {
            self.show(&["identity.token_from: not header authorization"], None);
        }
        let combine = if identity.combine_both.is_some() { "both" } else { "first" };
        self.show(&[COMBINE], Some(combine.to_owned()));
        if let Some(search) = &policy.search {
            self.add_search(search);
        }
        if let Some(authzen) = &policy.authzen {
            self.add_authzen(authzen);
        }
        let response = &policy.allow_response;
        for header in &response.set_headers {
            let path = format!("allow_response.set_headers.{}", header.name);
            self.show(&[&path], Some(template(&header.value)));
        }
        self.list(&[], "allow_response.remove_headers", &response.remove_headers);
        self.list(&[], "allow_response.remove_cookies", &response.remove_cookies);
        for entry in &response.metadata {
            let values = entry.values.iter().map(|(role, value)| match role {
                Some(role) => format!("{}: {}", role.name, metadata(value)),
                None => metadata(value),
            });
            let path = format!("allow_response.metadata.{}", entry.key);
            self.show(&[&path], Some(values.collect::<Vec<_>>().join(", else ")));
        }
        if with_role_names {
            let names = policy.roles.iter().map(|role| Arc::clone(&role.name));
            let names: Vec<_> =
                names.filter(|name| ![ANYONE, AUTHENTICATED].contains(&&**name)).collect();
            self.list(&[], "role names for texts with `{roles}`", &names);
        }
        let response = &policy.deny_response;
        self.hide(&["deny_response.body"], response.body.iter().map(|body| body.as_bytes()));
        let content_type = format!("{:?}", response.content_type).to_lowercase();
        self.show(&["deny_response.content_type"], Some(content_type));
        self.show(&["deny_response.explain"], Some(response.explain.to_string()));
        if let Some(header) = &policy.identity_header {
            self.add_identity_header(header);
        }
    }

    fn add(&mut self, path: &[&str], shown: Option<String>, compared: Compared<'p>) {
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        self.0.insert(path, Value { shown, compared });
    }

    /// Adds a setting whose value is shown.
    fn show(&mut self, path: &[&str], value: Option<String>) {
        self.add(path, value, Compared::Shown);
    }

    /// Adds a setting whose values are compared, but not shown.
    fn hide(&mut self, path: &[&str], values: impl IntoIterator<Item = &'p [u8]>) {
        self.add(path, None, Compared::Bytes(values.into_iter().collect()));
    }

    /// Adds the items of a list, whose order does not matter.
    fn list(&mut self, path: &[&str], name: &str, items: &[Arc<str>]) {
        for item in items {
            self.show(&[path, &[&*format!("{name}: {item}")]].concat(), None);
        }
    }

    fn add_basic(&mut self, basic: &'p Basic) {
        const PATH: &str = "identity.basic";
        self.show(&[PATH], None);
        self.show(&[PATH, "realm"], text(&basic.realm));
        self.show(&[PATH, "verify"], Some(basic.verify.to_string()));
        self.show(&[PATH, "user_prefix"], text(&basic.user_prefix));
        self.show(&[PATH, "group_prefix"], text(&basic.group_prefix));
        for user in &basic.users {
            let name = format!("users.{}", user.name);
            self.show(&[PATH, &name], None);
            let password = user.password.iter().map(|password| password.0.as_bytes());
            self.hide(&[PATH, &name, "password"], password);
            self.list(&[PATH, &name], "groups", &user.groups);
        }
    }

    fn add_api_keys(&mut self, keys: &'p ApiKeys) {
        const PATH: &str = "identity.api_keys";
        self.show(&[PATH], None);
        self.show(&[PATH, "header"], text(&keys.header));
        self.show(&[PATH, "user_prefix"], text(&keys.user_prefix));
        self.show(&[PATH, "group_prefix"], text(&keys.group_prefix));
        for key in &keys.keys {
            let id = format!("keys.{}", key.id);
            self.show(&[PATH, &id], None);
            self.hide(&[PATH, &id, "sha256"], [&key.hash.0[..]]);
            self.show(&[PATH, &id, "user"], text(&key.user));
            self.list(&[PATH, &id], "groups", &key.groups);
            let expires = key.expires.and_then(|end| jiff::SignedDuration::try_from(end).ok());
            let expires = expires.and_then(|end| jiff::Timestamp::from_duration(end).ok());
            self.show(&[PATH, &id, "expires"], expires.map(|end| end.to_string()));
        }
    }

    fn add_certificates(&mut self, certificates: &'p Certificates) {
        const PATH: &str = "identity.certificates";
        self.show(&[PATH], None);
        let (from, proxies) = match &certificates.from {
            CertificateSource::Peer => ("peer", &[][..]),
            CertificateSource::Xfcc { trusted_proxies } => ("xfcc", &**trusted_proxies),
        };
        self.show(&[PATH, "from"], Some(from.to_owned()));
        let proxies =
            proxies.iter().map(|proxies| format!("{}/{}", proxies.address, proxies.prefix));
        self.list(&[PATH], "trusted_proxies", &proxies.map(Arc::from).collect::<Vec<_>>());
        self.show(&[PATH, "user_prefix"], text(&certificates.user_prefix));
        self.show(&[PATH, "group_prefix"], text(&certificates.group_prefix));
        for entry in &certificates.users {
            let user = shown_name(&entry.name, &entry.user);
            self.show(&[PATH, &format!("users.{}", entry.name.text)], Some(user));
        }
        for entry in &certificates.groups {
            let name = format!("groups.{}", entry.name.text);
            let groups = entry.groups.iter().map(|group| shown_name(&entry.name, group).into());
            self.list(&[PATH], &name, &groups.collect::<Vec<_>>());
        }
    }

    fn add_issuer(&mut self, issuer: &'p Issuer) {
        let path = &*format!("identity.jwt.{}", issuer.issuer);
        let claims = &issuer.claims;
        self.show(&[path], None);
        self.show(&[path, "user_prefix"], text(&issuer.user_prefix));
        self.show(&[path, "group_prefix"], text(&issuer.group_prefix));
        self.show(&[path, "claims.user"], Some(claims.user.to_string()));
        self.show(&[path, "claims.roles"], claims.roles.as_ref().map(ToString::to_string));
        self.show(&[path, "claims.groups"], claims.groups.as_ref().map(ToString::to_string));
        let separator = match claims.separator {
            Separator::Spaces => "space",
            Separator::Commas => "comma",
        };
        self.show(&[path, ACT], issuer.act.as_ref().map(ToString::to_string));
        self.show(&[path, "claims.separator"], Some(separator.to_owned()));
        self.show(&[path, "clock_skew"], Some(format!("{:?}", issuer.clock_skew)));
        self.show(&[path, "max_age"], issuer.max_age.map(|age| format!("{age:?}")));
        let required_type = issuer.required_type.as_ref().map(|name| name.to_ascii_lowercase());
        self.show(&[path, "required_type"], required_type);
        let roles = match &issuer.roles_from_token {
            RolesFromToken::All => "true".to_owned(),
            RolesFromToken::Only(listed) if listed.is_empty() => "false".to_owned(),
            RolesFromToken::Only(listed) => {
                listed.iter().map(|role| &*role.name).collect::<Vec<_>>().join(", ")
            }
        };
        self.show(&[path, "roles_from_token"], Some(roles));
        self.list(&[path], "audiences", &issuer.audiences);
        for RequiredClaim { path: claim, values } in &issuer.require {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            self.show(&[path, "require", &claim.to_string()], Some(values.join(", ")));
        }
        let (shown, compared) = match &issuer.keys {
            Keys::File { path, bytes, .. } => {
                (format!("the file {path}"), Compared::Bytes(vec![&**bytes]))
            }
            Keys::Url { url, refresh, .. } => {
                (format!("{url}, every {refresh:?}"), Compared::Url(url, *refresh))
            }
            Keys::Introspection(Introspection { url, max_cache, .. }) => {
                let text = format!("introspection at {url}, cached for {max_cache:?}");
                (text, Compared::Url(url, *max_cache))
            }
        };
        self.add(&[path, "keys"], Some(shown), compared);
    }

    fn add_authzen(&mut self, authzen: &'p AuthZen) {
        const PATH: &str = "authzen";
        self.show(&[PATH], None);
        for SubjectType { name, issuer, groups, roles, at: _ } in &authzen.subjects {
            let name = &*format!("subjects.{name}");
            self.show(&[PATH, name], None);
            self.show(&[PATH, name, "issuer"], issuer.as_deref().map(str::to_owned));
            self.show(&[PATH, name, "groups"], groups.as_ref().map(ToString::to_string));
            self.show(&[PATH, name, "roles"], roles.as_ref().map(ToString::to_string));
        }
        for ActionName { name, method } in &authzen.actions {
            self.show(&[PATH, &format!("actions.{name}")], Some(method.to_string()));
        }
        for ResourceType { name, host, path, at: _ } in &authzen.resources {
            let host = host.as_deref().unwrap_or_default();
            self.show(&[PATH, &format!("resources.{name}")], Some(format!("{host}{path}")));
        }
        self.show(&[PATH, "trust_context"], Some(authzen.trust_context.to_string()));
        for (section, entities) in [
            ("entities.subjects", &authzen.entities.subjects),
            ("entities.resources", &authzen.entities.resources),
        ] {
            for (kind, ids) in &entities.0 {
                for (id, properties) in ids {
                    let path = format!("{section}.{kind}.{id}");
                    let properties = serde_json::Value::Object(properties.clone());
                    self.show(&[PATH, &path], Some(properties.to_string()));
                }
            }
        }
    }

    /// Adds a search cluster. Its role files are compared as bytes.
    fn add_search(&mut self, search: &'p Search) {
        const PATH: &str = "search";
        self.show(&[PATH], None);
        let hosts: BTreeSet<String> = search.hosts.iter().map(ToString::to_string).collect();
        self.show(&[PATH, "hosts"], Some(hosts.into_iter().collect::<Vec<_>>().join(", ")));
        for file in &search.files {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            self.hide(&[PATH, &format!("folder: {name}")], [&*file.bytes]);
        }
        let evaluation =
            search.evaluation.map(|evaluation| format!("{evaluation:?}").to_lowercase());
        self.show(&[PATH, "evaluation"], evaluation);
        let do_not_fail = search.do_not_fail_on_forbidden.map(|value| value.to_string());
        self.show(&[PATH, "do_not_fail_on_forbidden"], do_not_fail);
        let document_security = match &search.document_security {
            DocumentSecurity::Deny => "deny".to_owned(),
            DocumentSecurity::Header { name, at: _ } => format!("header {name}"),
        };
        self.show(&[PATH, "document_security"], Some(document_security));
        let overrides = search.dfm_empty_overrides_all.to_string();
        self.show(&[PATH, "dfm_empty_overrides_all"], Some(overrides));
        let scrolls = search.cluster_checks_scrolls.to_string();
        self.show(&[PATH, "cluster_checks_scrolls"], Some(scrolls));
        let bulk = match search.bulk {
            Bulk::Whole => "whole",
            Bulk::PerItem => "per-item",
        };
        self.show(&[PATH, "bulk"], Some(bulk.to_owned()));
        // The source is not shown: a URL with its credentials, or the contents of a file.
        let (inventory, max_age) = match &search.inventory {
            None => (Compared::Shown, None),
            Some(Inventory::File { source, at: _ }) => {
                (Compared::Bytes(vec![&*source.bytes]), None)
            }
            Some(Inventory::Url { url, refresh, max_age, at: _ }) => {
                (Compared::Url(url, *refresh), Some(format!("{max_age:?}")))
            }
        };
        self.add(&[PATH, "inventory"], None, inventory);
        self.show(&[PATH, "inventory.max_age"], max_age);
        let indices: Vec<Arc<str>> =
            search.system_indices.iter().map(|(pattern, _)| Arc::clone(pattern)).collect();
        self.list(&[PATH], "system_indices", &indices);
    }

    fn add_identity_header(&mut self, header: &'p IdentityHeader) {
        const PATH: &str = "identity_header";
        self.show(&[PATH], None);
        self.show(&[PATH, "name"], text(&header.name));
        let format = format!("{:?}", header.format).to_lowercase();
        self.show(&[PATH, "format"], Some(format));
        self.show(&[PATH, "issuer"], text(&header.issuer));
        self.show(&[PATH, "audience"], text(&header.audience));
        self.show(&[PATH, "lifetime"], Some(format!("{}s", header.lifetime.as_secs())));
        self.hide(&[PATH, "keys"], header.keys.iter().map(|key| &*key.bytes));
        let claims = header.claims.iter().map(|(name, path)| format!("{name}: {path}"));
        self.show(&[PATH, "claims"], Some(claims.collect::<Vec<_>>().join(", ")));
    }
}

/// Whether a header or metadata has the names of roles, so that a renamed role matters.
fn tells_role_names(policy: &Policy) -> bool {
    policy.allow_response.templates().any(|(.., template)| template.0.contains(&Piece::Roles))
}

/// Warns of each header that only the old policy overwrote or removed on every request.
fn warn_of_open_headers(changes: &mut [SettingChange], old: &Policy, new: &Policy) {
    for name in closed_headers(old).difference(&closed_headers(new)) {
        let mut settings = vec![
            format!("allow_response.set_headers.{name}"),
            format!("allow_response.remove_headers: {name}"),
        ];
        if old.identity_header.as_ref().is_some_and(|header| header.name == *name) {
            settings.extend(["identity_header".to_owned(), "identity_header.name".to_owned()]);
        }
        for change in changes.iter_mut().filter(|change| settings.contains(&change.setting)) {
            change.warning = Some("clients can send this header to the application now");
        }
    }
}

/// The headers that a client cannot send to the application.
fn closed_headers(policy: &Policy) -> BTreeSet<Arc<str>> {
    let set = policy.allow_response.set_headers.iter().map(|header| &header.name);
    let identity = policy.identity_header.iter().map(|header| &header.name);
    set.chain(&policy.allow_response.remove_headers).chain(identity).cloned().collect()
}

/// The name of a user or group, with the placeholders of its pattern.
fn shown_name(name: &NamePattern, template: &NameTemplate) -> String {
    let placeholders: Vec<String> =
        name.placeholders().map(|placeholder| format!("{{{placeholder}}}")).collect();
    template.render(&placeholders.iter().map(String::as_str).collect::<Vec<_>>())
}

fn text(value: &Arc<str>) -> Option<String> {
    (!value.is_empty()).then(|| value.to_string())
}

/// A value of metadata. A text is in quotes, so that it differs from a number.
fn metadata(value: &MetadataValue) -> String {
    match value {
        MetadataValue::Text(text) => format!("\"{}\"", template(text)),
        MetadataValue::Number(number) => number.to_string(),
        MetadataValue::Boolean(value) => value.to_string(),
        MetadataValue::Fields(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key}: {}", metadata(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn template(template: &Template) -> String {
    let pieces = template.0.iter().map(|piece| match piece {
        Piece::Text(text) => text.replace('{', "{{").replace('}', "}}"),
        Piece::User => "{user}".to_owned(),
        Piece::Roles => "{roles}".to_owned(),
        Piece::Groups => "{groups}".to_owned(),
        Piece::Actor => "{actor}".to_owned(),
        Piece::Rule => "{rule}".to_owned(),
        Piece::Revision => "{revision}".to_owned(),
        Piece::Claim(path) => format!("{{claims.{path}}}"),
    });
    pieces.collect()
}
