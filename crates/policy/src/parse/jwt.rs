//! The section `identity.jwt`: issuers of tokens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::key_url::{KeyUrl, url_fault};
use crate::model::{
    ClaimPath, ClaimValue, Claims, Issuer, Keys, ListedRole, RequiredClaim, RolesFromToken,
    Separator,
};
use crate::parse::cached_files::CachedFiles;
use crate::parse::values::{self, is_name, name_refs, names, prefix};
use crate::parse::{introspection, url_files};
use document::{Fields, Mark, Node, Place, PolicyFile, Problem, Reader, Text, Value, Warning};

/// The default of `clock_skew`.
const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// A longer clock skew gets a warning: clocks do not differ so much.
const LARGE_SKEW: Duration = Duration::from_secs(600);
/// The default of `refresh`.
const REFRESH: Duration = Duration::from_secs(300);
/// The minimum interval between two fetches, so that they do not burden the server.
pub(crate) const MIN_REFRESH: &str = "100ms";

pub(crate) fn read(reader: &mut Reader, files: &mut CachedFiles<'_>, node: &Node) -> Vec<Issuer> {
    let items = reader.list(node, "`jwt`").unwrap_or_default();
    if matches!(&node.value, Value::List(items) if items.is_empty()) {
        reader.error_help(node.at, "`jwt` is empty", "add an issuer, or leave `jwt` out");
    }
    let mut places: HashMap<Arc<str>, Place> = HashMap::new();
    let mut issuers = Vec::new();
    for item in items {
        let Some((issuer, at)) = read_issuer(reader, files, item) else { continue };
        if let Some(first) = places.get(&issuer.issuer) {
            let name = format!("the issuer `{}`", issuer.issuer);
            let help = "leave one of them out: a token's `iss` chooses its entry";
            reader.push(Problem::defined_twice(at, &name, help, first.clone()));
            continue;
        }
        places.insert(issuer.issuer.clone(), at);
        issuers.push(issuer);
    }
    report_second_introspection(reader, &issuers);
    issuers
}

/// Reports a second issuer with `introspection`: nothing in an opaque token says whose it is.
fn report_second_introspection(reader: &mut Reader, issuers: &[Issuer]) {
    let mut places = issuers.iter().filter_map(|issuer| match &issuer.keys {
        Keys::Introspection(introspection) => Some(&introspection.at),
        Keys::File { .. } | Keys::Url { .. } => None,
    });
    if let (Some(first), Some(second)) = (places.next(), places.next()) {
        let message =
            "two issuers have `introspection`, and an opaque token does not say whose it is";
        let help = "leave one of them out";
        let problem = Problem::error(second.clone(), message).help(help);
        reader.push(problem.related(first.clone(), "the first is here"));
    }
}

/// Reads an issuer, and the place of its name.
fn read_issuer(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    node: &Node,
) -> Option<(Issuer, Place)> {
    let field_names = [
        "issuer",
        "audiences",
        "keys",
        "introspection",
        "claims",
        "act",
        "require",
        "clock_skew",
        "required_type",
        "max_age",
        "roles_from_token",
        "user_prefix",
        "group_prefix",
    ];
    let fields = reader.filled_fields(node, "an entry of `jwt`", &field_names)?;
    reader.required(&fields, "issuer", "add `issuer`: the `iss` of its tokens");
    let name = reader.field_text(&fields, "issuer");
    let name = name.filter(|name| is_name(reader, name.at, name.text, "an issuer"));
    if let Some(name) = &name {
        let help = "write an entry for each issuer: `*` in a name is literal";
        warn_of_pattern(reader, name, "issuer", help);
    }
    let audiences = read_audiences(reader, &fields);
    let keys = read_key_source(reader, files, &fields, name.as_ref());
    let claims = read_claims(reader, &fields);
    let act = read_act(reader, &fields);
    let require = read_required_claims(reader, &fields);
    let clock_skew = read_clock_skew(reader, &fields);
    let required_type = reader.field_text(&fields, "required_type");
    let required_type =
        required_type.filter(|text| is_name(reader, text.at, text.text, "`required_type`"));
    let max_age = values::duration(reader, &fields, "max_age", "1ms");
    let roles_from_token = read_roles_from_token(reader, &fields, &claims);
    let user_prefix = prefix(reader, &fields, "user_prefix");
    let group_prefix = prefix(reader, &fields, "group_prefix");
    let name = name?;
    let issuer = Issuer {
        issuer: name.shared.clone(),
        audiences: audiences?,
        keys: keys?,
        claims,
        act,
        require,
        clock_skew,
        required_type: required_type.map(|text| text.shared.clone()),
        max_age,
        roles_from_token,
        user_prefix,
        group_prefix,
        at: reader.place(node.at),
    };
    Some((issuer, reader.place(name.at)))
}

/// Reads `keys`, or `introspection` in their place.
fn read_key_source(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    fields: &Fields<'_>,
    issuer: Option<&Text<'_>>,
) -> Option<Keys> {
    let Some((key, node)) = fields.field("introspection") else {
        let help = "add `keys`: `{ file: … }`, `{ url: … }` or `{ discovery: true }`; or \
                    `introspection` for tokens that are no JWTs";
        let keys = reader.required(fields, "keys", help)?;
        return read_keys(reader, files, keys, issuer);
    };
    if let Some((keys, _)) = fields.field("keys") {
        let help = "leave one out: JWTs are verified with `keys`, other tokens by `introspection`";
        reader.error_help(keys.at, "an issuer has both `keys` and `introspection`", help);
    }
    if let Some((required_type, _)) = fields.field("required_type") {
        let help = "leave it out, or require a claim under `require`";
        let message = "`required_type` has no effect: an opaque token has no header";
        reader.error_help(required_type.at, message, help);
    }
    introspection::read(reader, files, (key, node)).map(Keys::Introspection)
}

/// Whether the absence of a claim for roles was reported already: `claims` has an invalid `roles`,
/// or is empty. Called only if no such claim was read.
fn may_name_roles(fields: &Fields<'_>) -> bool {
    match fields.field("claims").map(|(_, claims)| &claims.value) {
        Some(Value::Map(entries)) => entries.iter().any(|(key, _)| &*key.text == "roles"),
        Some(Value::Scalar(scalar)) => scalar.is_nothing(),
        Some(Value::List(_)) | None => false,
    }
}

fn read_roles_from_token(
    reader: &mut Reader,
    fields: &Fields<'_>,
    claims: &Claims,
) -> RolesFromToken {
    const KEY: &str = "roles_from_token";
    let Some(node) = fields.value(KEY) else { return RolesFromToken::All };
    let Value::List(items) = &node.value else {
        let expected = "`true` or `false`, without quotes, or a list of roles";
        return match reader.boolean_or(node, &format!("`{KEY}`"), expected) {
            Some(true) | None => RolesFromToken::All,
            Some(false) => RolesFromToken::Only(Vec::new()),
        };
    };
    if items.is_empty() {
        reader.error_help(node.at, format!("`{KEY}` is empty"), "write `false`, or list a role");
    } else if claims.roles.is_none() && !may_name_roles(fields) {
        let message = format!("`{KEY}` has no effect: no claim is read for roles");
        let help = "add `roles` to `claims`: the claim that names the roles of the caller";
        reader.error_help(node.at, message, help);
    }
    let roles = name_refs(reader, fields, KEY, "the name of a role").into_iter();
    let mut listed: Vec<ListedRole> =
        roles.map(|role| ListedRole { name: role.name, at: reader.place(role.at) }).collect();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    RolesFromToken::Only(listed)
}

fn read_audiences(reader: &mut Reader, fields: &Fields<'_>) -> Option<Vec<Arc<str>>> {
    let help = "add `audiences`: a list of what a token's `aud` may name";
    let node = reader.required(fields, "audiences", help)?;
    let errors = reader.errors();
    let audiences = names(reader, fields, "audiences", "an audience");
    if audiences.is_empty() && reader.errors() == errors {
        let help = "name at least one: a token's `aud` must be among them";
        reader.error_help(node.at, "`audiences` is empty", help);
    }
    for audience in &audiences {
        let help = "name each audience: `*` in a name is literal";
        warn_of_pattern(reader, audience, "audience", help);
    }
    (!audiences.is_empty()).then(|| audiences.iter().map(|text| text.shared.clone()).collect())
}

/// Warns of a `*` in a name that is compared byte for byte with a claim of the token.
fn warn_of_pattern(reader: &mut Reader, name: &Text<'_>, kind: &str, help: &str) {
    let Text { text, .. } = name;
    if text.contains('*') {
        let message =
            format!("`{text}` is matched literally: no token with another {kind} is accepted");
        reader.warning_help(name.at, Warning::LikePattern, message, help);
    }
}

fn read_keys(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    node: &Node,
    issuer: Option<&Text<'_>>,
) -> Option<Keys> {
    let errors = reader.errors();
    let field_names = ["file", "url", "discovery", "refresh", "ca_file"];
    let fields = reader.filled_fields(node, "`keys`", &field_names)?;
    let discovery = match fields.value("discovery") {
        Some(node) => reader.boolean(node, "`discovery`")?.then_some(node),
        None => None,
    };
    let sources =
        [("file", fields.value("file")), ("url", fields.value("url")), ("discovery", discovery)];
    let sources: Vec<(&str, &Node)> =
        sources.into_iter().filter_map(|(key, node)| Some((key, node?))).collect();
    let (key, source) = match &*sources {
        [source] => *source,
        [(key, _), (second, node), ..] => {
            let message = format!("`keys` has both `{key}` and `{second}`");
            return reader.reject(node.at, message, "leave one out");
        }
        // A misspelled key was reported already.
        [] if reader.errors() > errors => return None,
        [] => {
            if let Some(node) = fields.value("discovery") {
                let help = "write `true` to find the keys by the `issuer`, or name a `file` or a \
                            `url` instead";
                return reader.reject(node.at, "`discovery: false` names no keys", help);
            }
            let message = "`keys` has none of `file`, `url` and `discovery`";
            let help = "write `{ file: jwks.json }`, `{ url: \"https://…\" }` or \
                        `{ discovery: true }`";
            return reader.reject(node.at, message, help);
        }
    };
    let at = reader.place(source.at);
    if key == "file" {
        reject_for_file(reader, &fields);
        let name = reader.text(source, "`file`")?;
        let PolicyFile { path, bytes } = files.read_named(reader, &name)?;
        return Some(Keys::File { path: path.to_string_lossy().into(), bytes, at });
    }
    let refresh = values::duration(reader, &fields, "refresh", MIN_REFRESH).unwrap_or(REFRESH);
    let trusted_ca = url_files::read_trusted_ca(reader, files, &fields);
    let url: KeyUrl = if key == "url" {
        let text = reader.text(source, "`url`")?;
        values::is_url(reader, &text).then(|| text.shared.clone().into())?
    } else {
        let issuer = issuer?;
        is_discoverable(reader, source.at, issuer.text)
            .then(|| KeyUrl::for_discovery(issuer.shared))?
    };
    let is_http = url.with_secrets().starts_with("http:");
    if let Some((key, _)) = fields.field("ca_file").filter(|_| is_http) {
        reader.error_help(key.at, "`ca_file` is for `https`", "leave it out, or write `https`");
    }
    Some(Keys::Url { url: url.trusting(trusted_ca?), refresh, at })
}

/// Reports all settings beside `file`: they are about fetching a URL, and have no effect on a file.
pub(crate) fn reject_for_file(reader: &mut Reader, fields: &Fields<'_>) {
    for (key, _) in fields.iter().filter(|(key, node)| &*key.text != "file" && !node.is_nothing()) {
        let help = "leave it out: a file is not fetched, and is read again when it changes";
        reader.error_help(key.at, format!("`{}` is for a `url`", key.text), help);
    }
}

/// Whether an issuer's discovery document can be found (OpenID Connect Discovery 1.0, 2): its name
/// is a URL without a query.
fn is_discoverable(reader: &mut Reader, discovery: Mark, issuer: &str) -> bool {
    let has_query = issuer.contains('?').then_some("the URL has a query");
    let fault = url_fault(issuer).map(|(fault, _)| fault).or(has_query);
    if let Some(fault) = fault {
        let message = format!(
            "`discovery` needs an `issuer` that is an `https` URL, or `http` on a loopback \
             address: {fault}"
        );
        reader.error_help(discovery, message, "write `url` and the URL of the key set");
    }
    fault.is_none()
}

fn read_claims(reader: &mut Reader, fields: &Fields<'_>) -> Claims {
    let keys = ["user", "roles", "groups"];
    let claims = fields.value("claims");
    let fields = claims.and_then(|node| reader.filled_fields(node, "`claims`", &keys));
    let [user, roles, groups] = keys.map(|key| {
        let text = reader.field_text(fields.as_ref()?, key)?;
        values::claim_path(reader, &text, text.text)
    });
    let user = user.unwrap_or_else(|| ClaimPath(vec!["sub".into()]));
    Claims { user, roles, groups, separator: Separator::Spaces }
}

/// Reads where the claim `act` has the name of the actor.
fn read_act(reader: &mut Reader, fields: &Fields<'_>) -> Option<ClaimPath> {
    let node = fields.value("act")?;
    let fields = reader.filled_fields(node, "`act`", &["users"])?;
    reader.required(&fields, "users", "write `{ users: /sub }`: the actor's name in `act`");
    let text = reader.field_text(&fields, "users")?;
    values::claim_path(reader, &text, text.text)
}

fn read_required_claims(reader: &mut Reader, fields: &Fields<'_>) -> Vec<RequiredClaim> {
    let Some(node) = fields.value("require") else { return Vec::new() };
    let Some(claims) = reader.entries(node, "`require`") else { return Vec::new() };
    claims
        .iter()
        .filter_map(|(key, node)| {
            let name = Text::from_key(key);
            let path = values::claim_path(reader, &name, name.text)?;
            let values = read_claim_values(reader, node, &key.text);
            (!values.is_empty()).then_some(RequiredClaim { path, values })
        })
        .collect()
}

/// Reads the accepted values of a claim: a single value, or a list.
fn read_claim_values(reader: &mut Reader, node: &Node, claim: &str) -> Vec<ClaimValue> {
    let items = match &node.value {
        Value::List(items) => items,
        Value::Scalar(_) | Value::Map(_) => std::slice::from_ref(node),
    };
    if items.is_empty() {
        let help = "write a value that the claim must have, or leave the claim out";
        reader.error_help(node.at, format!("`{claim}` accepts no value"), help);
    }
    items.iter().filter_map(|item| read_claim_value(reader, item, claim)).collect()
}

/// Reads a value. Unquoted `true` and `false` are booleans, unquoted whole numbers are integers,
/// and other unquoted numbers are errors. Anything else is text.
fn read_claim_value(reader: &mut Reader, node: &Node, claim: &str) -> Option<ClaimValue> {
    if let Value::Scalar(scalar) = &node.value
        && scalar.plain
    {
        match (&*scalar.text, scalar.text.parse()) {
            ("true", _) => return Some(ClaimValue::Boolean(true)),
            ("false", _) => return Some(ClaimValue::Boolean(false)),
            (_, Ok(number)) => return Some(ClaimValue::Integer(number)),
            (text, Err(_)) if text.parse::<f64>().is_ok() => {
                let message =
                    format!("`{claim}` is compared with text, whole numbers and booleans");
                return reader.reject(node.at, message, "quote it if the claim is text");
            }
            (_, Err(_)) => {}
        }
    }
    reader.text(node, &format!("`{claim}`")).map(|text| ClaimValue::Text(text.shared.clone()))
}

fn read_clock_skew(reader: &mut Reader, fields: &Fields<'_>) -> Duration {
    let skew = values::duration(reader, fields, "clock_skew", "0s").unwrap_or(CLOCK_SKEW);
    if skew > LARGE_SKEW
        && let Some(text) = reader.field_text(fields, "clock_skew")
    {
        let message = format!("tokens are accepted `{}` after they expired", text.text);
        reader.warning_help(text.at, Warning::LongClockSkew, message, "write less, such as `60s`");
    }
    skew
}
