//! The differences of two policies besides roles and grants: who is known and how, and the headers and bodies of
//! responses. Passwords and keys are never shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use policy::Policy;
use policy::model::{
    ANYONE, AUTHENTICATED, AllowResponse, Basic, BasicUser, Bulk, ClaimPath, ContentType, DenyResponse,
    DocumentSecurity, IdentityFormat, IdentityHeader, Inventory, Issuer, Keys, Piece, RolesFromToken, Search,
    Template,
};
use serde::Serialize;

/// A setting that is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// What is different, as the policy calls it: `identity.basic.users.alice`.
    pub setting: String,
    /// Its value in the old policy; `None` if it has none or the value is not shown.
    pub old: Option<String>,
    /// Its value in the new policy.
    pub new: Option<String>,
    /// What has happened, in a word.
    pub change: &'static str,
    /// What it opens, if more callers may have access, or what else is unsafe about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<&'static str>,
}

/// Collects what is different.
#[derive(Default)]
struct Found {
    all: Vec<SettingChange>,
}

impl Found {
    fn push(&mut self, setting: String, change: &'static str) {
        self.all.push(SettingChange { setting, old: None, new: None, change, warning: None });
    }

    fn value<T: PartialEq>(&mut self, setting: &str, old: &T, new: &T, shown: impl Fn(&T) -> Option<String>) {
        if old != new {
            let (old, new) = (shown(old), shown(new));
            let setting = setting.to_owned();
            self.all.push(SettingChange { setting, old, new, change: "changed", warning: None });
        }
    }

    /// What was added to a list and removed from it; its order means nothing.
    fn list(&mut self, setting: &str, old: &[Arc<str>], new: &[Arc<str>]) {
        let [old, new]: [BTreeSet<&Arc<str>>; 2] = [old, new].map(|names| names.iter().collect());
        for (names, others, change) in [(&new, &old, "added"), (&old, &new, "removed")] {
            for name in names.difference(others) {
                self.push(format!("{setting}: {name}"), change);
            }
        }
    }

    /// What was added to a mapping and removed from it, and what is in both.
    fn map<'a, T>(
        &mut self,
        setting: &str,
        old: BTreeMap<&'a str, &'a T>,
        mut new: BTreeMap<&'a str, &'a T>,
    ) -> Vec<(&'a str, &'a T, &'a T)> {
        let mut both = Vec::new();
        for (name, old) in old {
            match new.remove(name) {
                Some(new) => both.push((name, old, new)),
                None => self.push(format!("{setting}.{name}"), "removed"),
            }
        }
        for name in new.keys() {
            self.push(format!("{setting}.{name}"), "added");
        }
        both
    }
}

/// The settings that are different.
pub(crate) fn changes(old: &Policy, new: &Policy) -> Vec<SettingChange> {
    let mut found = Found::default();
    match (&old.identity.basic, &new.identity.basic) {
        (None, None) => {}
        (None, Some(_)) => found.push("identity.basic".to_owned(), "added"),
        (Some(_), None) => found.push("identity.basic".to_owned(), "removed"),
        (Some(old), Some(new)) => basic(&mut found, old, new),
    }
    for (name, old, new) in found.map("identity.jwt", issuers(old), issuers(new)) {
        issuer(&mut found, &format!("identity.jwt.{name}"), old, new);
    }
    search(&mut found, old, new);
    allow_response(&mut found, &old.allow_response, &new.allow_response);
    role_names(&mut found, old, new);
    deny_response(&mut found, &old.deny_response, &new.deny_response);
    identity_header(&mut found, old.identity_header.as_ref(), new.identity_header.as_ref());
    warn_of_open_headers(&mut found, old, new);
    found.all
}

fn issuers(policy: &Policy) -> BTreeMap<&str, &Issuer> {
    policy.identity.jwt.iter().map(|issuer| (&*issuer.issuer, issuer)).collect()
}

fn users(basic: &Basic) -> BTreeMap<&str, &BasicUser> {
    basic.users.iter().map(|user| (&*user.name, user)).collect()
}

fn headers(response: &AllowResponse) -> BTreeMap<&str, &Template> {
    response.set_headers.iter().map(|header| (&*header.name, &header.value)).collect()
}

fn basic(found: &mut Found, old: &Basic, new: &Basic) {
    found.value("identity.basic.realm", &old.realm, &new.realm, text);
    found.value("identity.basic.verify", &old.verify, &new.verify, |verify| Some(verify.to_string()));
    found.value("identity.basic.user_prefix", &old.user_prefix, &new.user_prefix, text);
    found.value("identity.basic.group_prefix", &old.group_prefix, &new.group_prefix, text);
    for (name, old, new) in found.map("identity.basic.users", users(old), users(new)) {
        let setting = format!("identity.basic.users.{name}");
        found.value(&format!("{setting}.password"), &old.password, &new.password, |_| None);
        found.list(&format!("{setting}.groups"), &old.groups, &new.groups);
    }
}

fn issuer(found: &mut Found, setting: &str, old: &Issuer, new: &Issuer) {
    let mut value = |key: &str, old: Option<String>, new: Option<String>| {
        found.value(&format!("{setting}.{key}"), &old, &new, Clone::clone);
    };
    value("user_prefix", text(&old.user_prefix), text(&new.user_prefix));
    value("group_prefix", text(&old.group_prefix), text(&new.group_prefix));
    value("claims.user", Some(claim(&old.claims.user)), Some(claim(&new.claims.user)));
    value("claims.roles", old.claims.roles.as_ref().map(claim), new.claims.roles.as_ref().map(claim));
    value("claims.groups", old.claims.groups.as_ref().map(claim), new.claims.groups.as_ref().map(claim));
    let shown = |value: &dyn Debug| Some(format!("{value:?}"));
    value("clock_skew", shown(&old.clock_skew), shown(&new.clock_skew));
    value("max_age", old.max_age.and_then(|age| shown(&age)), new.max_age.and_then(|age| shown(&age)));
    let of_type = |issuer: &Issuer| issuer.required_type.as_ref().map(|name| name.to_ascii_lowercase());
    value("required_type", of_type(old), of_type(new));
    value("roles_from_token", Some(token_roles(old)), Some(token_roles(new)));
    let before = found.all.len();
    found.list(&format!("{setting}.audiences"), &old.audiences, &new.audiences);
    for change in found.all.iter_mut().skip(before).filter(|change| change.change == "added") {
        change.warning = Some("tokens that were issued for this audience are accepted now");
    }
    keys(found, &format!("{setting}.keys"), &old.keys, &new.keys);
}

fn token_roles(issuer: &Issuer) -> String {
    match &issuer.roles_from_token {
        RolesFromToken::All => "true".to_owned(),
        RolesFromToken::Only(listed) if listed.is_empty() => "false".to_owned(),
        RolesFromToken::Only(listed) => listed.iter().map(|role| &*role.name).collect::<Vec<_>>().join(", "),
    }
}

/// The settings of a search cluster, whose own files decide: they are not compared by what they mean.
fn search(found: &mut Found, old: &Policy, new: &Policy) {
    let (old, new) = match (&old.search, &new.search) {
        (None, None) => return,
        (None, Some(_)) => return found.push("search".to_owned(), "added"),
        (Some(_), None) => return found.push("search".to_owned(), "removed"),
        (Some(old), Some(new)) => (old, new),
    };
    let hosts = |search: &Search| search.hosts.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    found.value("search.hosts", &hosts(old), &hosts(new), |hosts| {
        Some(hosts.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    });
    let files = |search: &Search| -> BTreeMap<String, Arc<[u8]>> {
        let name = |file: &document::PolicyFile| {
            file.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        search.files.iter().map(|file| (name(file), Arc::clone(&file.bytes))).collect()
    };
    let (old_files, new_files) = (files(old), files(new));
    for name in old_files.keys().chain(new_files.keys()).collect::<BTreeSet<_>>() {
        let setting = format!("search.folder: {name}");
        found.value(&setting, &old_files.get(name), &new_files.get(name), |_| None);
    }
    let evaluation =
        |search: &Search| search.evaluation.map(|evaluation| format!("{evaluation:?}").to_lowercase());
    found.value("search.evaluation", &evaluation(old), &evaluation(new), Clone::clone);
    found.value(
        "search.do_not_fail_on_forbidden",
        &old.do_not_fail_on_forbidden,
        &new.do_not_fail_on_forbidden,
        |value| value.map(|value| value.to_string()),
    );
    let document_security = |search: &Search| match &search.document_security {
        DocumentSecurity::Deny => "deny".to_owned(),
        DocumentSecurity::Header { name, at: _ } => format!("header {name}"),
    };
    let (before, after) = (document_security(old), document_security(new));
    found.value("search.document_security", &before, &after, |value| Some(value.clone()));
    found.value(
        "search.dfm_empty_overrides_all",
        &old.dfm_empty_overrides_all,
        &new.dfm_empty_overrides_all,
        |value| Some(value.to_string()),
    );
    found.value(
        "search.cluster_checks_scrolls",
        &old.cluster_checks_scrolls,
        &new.cluster_checks_scrolls,
        |value| Some(value.to_string()),
    );
    let bulk = |search: &Search| match search.bulk {
        Bulk::Whole => "whole",
        Bulk::PerItem => "per-item",
    };
    found.value("search.bulk", &bulk(old), &bulk(new), |value| Some((*value).to_owned()));
    let indices = |search: &Search| -> Vec<Arc<str>> {
        search.system_indices.iter().map(|(pattern, _)| Arc::clone(pattern)).collect()
    };
    // Where it comes from is not shown: a URL with its credentials, or the contents of a file.
    let inventory = |search: &Search| match search.inventory.as_ref()? {
        Inventory::File { source, at: _ } => {
            Some((Some((source.path.clone(), Arc::clone(&source.bytes))), None))
        }
        Inventory::Url { url, refresh, max_age: _, at: _ } => Some((None, Some((url.clone(), *refresh)))),
    };
    found.value("search.inventory", &inventory(old), &inventory(new), |_| None);
    let max_age = |search: &Search| match search.inventory.as_ref()? {
        Inventory::File { .. } => None,
        Inventory::Url { max_age, .. } => Some(*max_age),
    };
    found.value("search.inventory.max_age", &max_age(old), &max_age(new), |age| {
        age.map(|age| format!("{age:?}"))
    });
    found.list("search.system_indices", &indices(old), &indices(new));
}

fn keys(found: &mut Found, setting: &str, old: &Keys, new: &Keys) {
    let shown = |keys: &Keys| match keys {
        Keys::File { path, .. } => format!("the file {path}"),
        Keys::Url { url, refresh, .. } => format!("{url}, every {refresh:?}"),
    };
    let is_same = match (old, new) {
        (Keys::File { bytes: old, .. }, Keys::File { bytes: new, .. }) => old == new,
        (Keys::Url { url: old, refresh: before, .. }, Keys::Url { url: new, refresh: after, .. }) => {
            (old, before) == (new, after)
        }
        (Keys::File { .. }, Keys::Url { .. }) | (Keys::Url { .. }, Keys::File { .. }) => false,
    };
    if !is_same {
        let (old, new) = (Some(shown(old)), Some(shown(new)));
        // The same name, with other contents or another secret in the URL.
        let (old, new) = if old == new { (None, None) } else { (old, new) };
        found.all.push(SettingChange {
            setting: setting.to_owned(),
            old,
            new,
            change: "changed",
            warning: None,
        });
    }
}

fn allow_response(found: &mut Found, old: &AllowResponse, new: &AllowResponse) {
    for (name, old, new) in found.map("allow_response.set_headers", headers(old), headers(new)) {
        let setting = format!("allow_response.set_headers.{name}");
        found.value(&setting, old, new, |value| Some(template(value)));
    }
    found.list("allow_response.remove_headers", &old.remove_headers, &new.remove_headers);
}

/// Warns of each header that the old policy overwrote or removed on every request, and the new one does not.
fn warn_of_open_headers(found: &mut Found, old: &Policy, new: &Policy) {
    let closed = |policy: &Policy| -> BTreeSet<Arc<str>> {
        let set = policy.allow_response.set_headers.iter().map(|header| &header.name);
        let identity = policy.identity_header.iter().map(|header| &header.name);
        set.chain(&policy.allow_response.remove_headers).chain(identity).cloned().collect()
    };
    for name in closed(old).difference(&closed(new)) {
        let of_identity = old.identity_header.as_ref().is_some_and(|header| header.name == *name);
        let names =
            [format!("allow_response.set_headers.{name}"), format!("allow_response.remove_headers: {name}")];
        let is_it = |setting: &str| {
            names.iter().any(|known| known == setting)
                || of_identity && ["identity_header", "identity_header.name"].contains(&setting)
        };
        for change in found.all.iter_mut().filter(|change| is_it(&change.setting)) {
            change.warning = Some("clients can send this header to the application now");
        }
    }
}

/// A header with `{roles}` tells the application the names of roles: other names are a difference there.
fn role_names(found: &mut Found, old: &Policy, new: &Policy) {
    let tells = |policy: &Policy| {
        let mut headers = policy.allow_response.set_headers.iter();
        headers.any(|header| header.value.0.contains(&Piece::Roles))
    };
    if tells(old) && tells(new) {
        let [old, new] = [old, new].map(|policy| -> Vec<Arc<str>> {
            let reserved = |name: &str| [ANYONE, AUTHENTICATED].contains(&name);
            policy.roles.iter().map(|role| Arc::clone(&role.name)).filter(|name| !reserved(name)).collect()
        });
        found.list("role names for headers with `{roles}`", &old, &new);
    }
}

fn deny_response(found: &mut Found, old: &DenyResponse, new: &DenyResponse) {
    found.value("deny_response.body", &old.body, &new.body, |_| None);
    found.value("deny_response.content_type", &old.content_type, &new.content_type, |content| {
        let name = match content {
            ContentType::Json => "json",
            ContentType::Text => "text",
            ContentType::Html => "html",
        };
        Some(name.to_owned())
    });
    found.value("deny_response.explain", &old.explain, &new.explain, |explain| Some(explain.to_string()));
}

fn identity_header(found: &mut Found, old: Option<&IdentityHeader>, new: Option<&IdentityHeader>) {
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => (old, new),
        (None, None) => return,
        (None, Some(_)) => return found.push("identity_header".to_owned(), "added"),
        (Some(_), None) => return found.push("identity_header".to_owned(), "removed"),
    };
    let value = |setting: &str| format!("identity_header.{setting}");
    found.value(&value("name"), &old.name, &new.name, text);
    let format = |header: &IdentityHeader| match header.format {
        IdentityFormat::Jwt => "jwt",
        IdentityFormat::Compact => "compact",
    };
    found.value(&value("format"), &format(old), &format(new), |format| Some((*format).to_owned()));
    found.value(&value("issuer"), &old.issuer, &new.issuer, text);
    found.value(&value("audience"), &old.audience, &new.audience, text);
    found
        .value(&value("lifetime"), &old.lifetime, &new.lifetime, |time| Some(format!("{}s", time.as_secs())));
    let [old_keys, new_keys] =
        [old, new].map(|header| header.keys.iter().map(|key| &*key.bytes).collect::<Vec<_>>());
    found.value(&value("keys"), &old_keys, &new_keys, |_| None);
    let claims = |header: &IdentityHeader| {
        header.claims.iter().map(|(name, path)| format!("{name}: {}", claim(path))).collect::<Vec<_>>()
    };
    found.value(&value("claims"), &claims(old), &claims(new), |claims| Some(claims.join(", ")));
}

fn text(value: &Arc<str>) -> Option<String> {
    (!value.is_empty()).then(|| value.to_string())
}

fn claim(path: &ClaimPath) -> String {
    match &*path.0 {
        [name] => name.to_string(),
        names => {
            names.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
        }
    }
}

fn template(template: &Template) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.replace('{', "{{").replace('}', "}}"),
        Piece::User => "{user}".to_owned(),
        Piece::Roles => "{roles}".to_owned(),
        Piece::Groups => "{groups}".to_owned(),
        Piece::Rule => "{rule}".to_owned(),
        Piece::Revision => "{revision}".to_owned(),
        Piece::Claim(path) => format!("{{claims.{}}}", claim(path)),
    };
    template.0.iter().map(piece).collect()
}
