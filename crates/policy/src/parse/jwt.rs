//! The section `identity.jwt`: issuers of tokens.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::key_url::{KeyUrl, url_fault};
use crate::keys::{CLAIMS, JWT};
use crate::model::{ClaimPath, Claims, Issuer, Keys, ListedRole, RolesFromToken, Separator};
use crate::parse::cached_files::CachedFiles;
use crate::parse::values::{self, is_name, name_refs, names, prefix};
use document::{Fields, Mark, Node, Place, PolicyFile, Problem, Reader, Text, Value, Warning};

const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// A clock skew above this is more than a clock's error, and gets a warning.
const LARGE_SKEW: Duration = Duration::from_secs(600);
const REFRESH: Duration = Duration::from_secs(300);
const SHORTEST_REFRESH: Duration = Duration::from_millis(100);

/// Reads `jwt`.
pub(crate) fn read(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    file: &Path,
    node: &Node,
) -> Vec<Issuer> {
    let Some(items) = reader.list(node, "`jwt`") else { return Vec::new() };
    if items.is_empty() {
        reader.error_help(node.at, "`jwt` is empty", "add an issuer, or leave `jwt` out");
    }
    let mut known: HashMap<Arc<str>, Place> = HashMap::new();
    let mut issuers = Vec::new();
    for item in items {
        let Some((issuer, at)) = issuer(reader, files, file, item) else { continue };
        if let Some(first) = known.get(&issuer.issuer) {
            let problem = Problem::error(at, format!("the issuer `{}` is defined twice", issuer.issuer))
                .help("leave one of them out: a token's `iss` chooses its entry")
                .related(first.clone(), "the first is here");
            reader.push(problem);
            continue;
        }
        known.insert(issuer.issuer.clone(), at);
        issuers.push(issuer);
    }
    issuers
}

/// Reads one issuer; returns it with the place of its name.
fn issuer(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    file: &Path,
    node: &Node,
) -> Option<(Issuer, Place)> {
    let fields = reader.filled_fields(node, "an entry of `jwt`", JWT)?;
    let name = required(reader, &fields, "issuer", "the `iss` of its tokens");
    let name = name.and_then(|node| reader.shared(node, "`issuer`"));
    let name = name.filter(|(text, _)| is_name(reader, text.at, text.text, "an issuer"));
    if let Some((text, _)) = name.as_ref().filter(|(text, _)| text.text.contains('*')) {
        let help = "write an entry for each issuer: `*` in a name is literal";
        warn_of_pattern(reader, text.at, text.text, "issuer", help);
    }
    let audiences = audiences(reader, &fields);
    let keys = required(reader, &fields, "keys", "`{ file: … }`, `{ url: … }` or `{ discovery: true }`");
    let keys = keys.and_then(|node| keys_of(reader, files, file, node, name.as_ref()));
    let claims = claims(reader, &fields);
    let clock_skew = clock_skew(reader, &fields);
    let required_type = fields.value("required_type").and_then(|node| {
        let (text, kind) = reader.shared(node, "`required_type`")?;
        is_name(reader, text.at, text.text, "`required_type`").then(|| kind.clone())
    });
    let max_age = positive(reader, &fields, "max_age");
    let roles_from_token = roles_from_token(reader, &fields, &claims);
    let user_prefix = prefix(reader, &fields, "user_prefix");
    let group_prefix = prefix(reader, &fields, "group_prefix");
    let (text, name) = name?;
    let issuer = Issuer {
        issuer: name.clone(),
        audiences: audiences?,
        keys: keys?,
        claims,
        clock_skew,
        required_type,
        max_age,
        roles_from_token,
        user_prefix,
        group_prefix,
        at: reader.place(node.at),
    };
    Some((issuer, reader.place(text.at)))
}

/// Whether `claims` names roles, or may have done so: what has no value is reported.
fn names_roles(fields: &Fields<'_>) -> bool {
    match fields.field("claims").map(|(_, claims)| &claims.value) {
        Some(Value::Map(entries)) => entries.iter().any(|(key, _)| &*key.text == "roles"),
        Some(Value::Scalar(scalar)) => scalar.is_nothing(),
        Some(Value::List(_)) | None => false,
    }
}

/// `true`, `false` or a list of roles.
fn roles_from_token(reader: &mut Reader, fields: &Fields<'_>, claims: &Claims) -> RolesFromToken {
    const KEY: &str = "roles_from_token";
    let Some(node) = fields.value(KEY) else { return RolesFromToken::All };
    let Value::List(items) = &node.value else {
        return match reader.boolean_or(
            node,
            &format!("`{KEY}`"),
            "`true` or `false`, without quotes, or a list of roles",
        ) {
            Some(true) | None => RolesFromToken::All,
            Some(false) => RolesFromToken::Only(Vec::new()),
        };
    };
    if items.is_empty() {
        reader.error_help(node.at, format!("`{KEY}` is empty"), "write `false`, or list a role");
    } else if claims.roles.is_none() && !names_roles(fields) {
        let help = "add `roles` to `claims`: the claim that names the roles of the caller";
        reader.error_help(node.at, format!("`{KEY}` is without effect: no claim is read for roles"), help);
    }
    let listed = name_refs(reader, fields, KEY, "the name of a role");
    let listed = listed.into_iter().map(|role| ListedRole { name: role.name, at: reader.place(role.at) });
    let mut listed: Vec<ListedRole> = listed.collect();
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    RolesFromToken::Only(listed)
}

fn required<'n>(reader: &mut Reader, fields: &Fields<'n>, key: &str, what: &str) -> Option<&'n Node> {
    // A key without a value was reported.
    if fields.lacks(key) {
        reader.error_help(
            fields.at,
            format!("an entry of `jwt` has no `{key}`"),
            format!("add `{key}`: {what}"),
        );
    }
    fields.value(key)
}

fn audiences(reader: &mut Reader, fields: &Fields<'_>) -> Option<Vec<Arc<str>>> {
    let node = required(reader, fields, "audiences", "a list of what a token's `aud` may name")?;
    let errors = reader.errors();
    let audiences = names(reader, node, "`audiences`", "an audience");
    if audiences.is_empty() && reader.errors() == errors {
        reader.error_help(
            node.at,
            "`audiences` is empty",
            "name at least one: a token's `aud` must be among them",
        );
    }
    if let Value::List(items) = &node.value {
        for item in items {
            if let Value::Scalar(scalar) = &item.value
                && scalar.text.contains('*')
            {
                let help = "name each audience: `*` in a name is literal";
                warn_of_pattern(reader, item.at, &scalar.text, "audience", help);
            }
        }
    }
    (!audiences.is_empty()).then_some(audiences)
}

/// Warns of a `*` in a name that is compared byte for byte with what a token says.
fn warn_of_pattern(reader: &mut Reader, at: Mark, name: &str, what: &str, help: &str) {
    let message = format!("`{name}` is matched literally: no token with another {what} is accepted");
    reader.warning_help(at, Warning::LikePattern, message, help);
}

fn keys_of(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    file: &Path,
    node: &Node,
    issuer: Option<&(Text<'_>, &Arc<str>)>,
) -> Option<Keys> {
    let errors = reader.errors();
    let fields = reader.filled_fields(node, "`keys`", &["file", "url", "discovery", "refresh", "ca_file"])?;
    let discovery = match fields.value("discovery") {
        Some(node) => reader.boolean(node, "`discovery`")?.then_some(node),
        None => None,
    };
    let places = [("file", fields.value("file")), ("url", fields.value("url")), ("discovery", discovery)];
    let mut places = places.into_iter().filter_map(|(key, node)| Some((key, node?)));
    let Some((key, place)) = places.next() else {
        // A key that is misspelled was reported.
        if reader.errors() > errors {
            return None;
        }
        if let Some(node) = fields.value("discovery") {
            let help = "write `true` to find the keys by the `issuer`, or name a `file` or a `url` instead";
            reader.error_help(node.at, "`discovery: false` names no keys", help);
            return None;
        }
        let help = "write `{ file: jwks.json }`, `{ url: \"https://…\" }` or `{ discovery: true }`";
        reader.error_help(node.at, "`keys` has none of `file`, `url` and `discovery`", help);
        return None;
    };
    if let Some((other, node)) = places.next() {
        reader.error_help(node.at, format!("`keys` has both `{key}` and `{other}`"), "leave one out");
        return None;
    }
    if key == "file" {
        for (key, why) in [
            ("refresh", "leave it out: a file is read again when the policy is"),
            ("ca_file", "leave it out: nothing is fetched"),
        ] {
            if let Some((key, _)) = fields.field(key).filter(|(_, node)| !node.is_nothing()) {
                reader.error_help(key.at, format!("`{}` is for keys at a URL", key.text), why);
            }
        }
        return keys_in_file(reader, files, file, place);
    }
    let refresh = refresh(reader, &fields, REFRESH);
    let trusted_ca = fields.value("ca_file").map(|node| trusted_ca(reader, files, file, node));
    let at = reader.place(place.at);
    let url: KeyUrl = if key == "url" {
        let (text, url) = reader.shared(place, "`url`")?;
        values::is_url(reader, &text).then(|| url.clone().into())?
    } else {
        let (text, issuer) = issuer?;
        is_discoverable(reader, place, text).then(|| KeyUrl::of_discovery(issuer))?
    };
    match trusted_ca {
        None => Some(Keys::Url { url, refresh, at }),
        Some(trusted_ca) => {
            if let Some((key, _)) =
                fields.field("ca_file").filter(|_| url.with_secrets().starts_with("http:"))
            {
                reader.error_help(key.at, "`ca_file` is for `https`", "leave it out, or write `https`");
            }
            Some(Keys::Url { url: url.trusting(trusted_ca?), refresh, at })
        }
    }
}

/// Whether an issuer's discovery document can be found (OpenID Connect Discovery 1.0, 2): its name is a URL without a
/// query.
fn is_discoverable(reader: &mut Reader, discovery: &Node, issuer: &Text<'_>) -> bool {
    let fault = match url_fault(issuer.text) {
        Some((fault, _)) => Some(fault),
        None if issuer.text.contains('?') => Some("the URL has a query"),
        None => None,
    };
    if let Some(fault) = fault {
        let message = format!(
            "`discovery` needs an `issuer` that is an `https` URL, or `http` on a loopback address: {fault}"
        );
        reader.error_help(discovery.at, message, "write `url` and the URL of the key set");
    }
    fault.is_none()
}

/// The contents of a file of certificates. The program that uses them checks each.
pub(crate) fn trusted_ca(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    file: &Path,
    node: &Node,
) -> Option<Arc<[u8]>> {
    let name = reader.text(node, "`ca_file`")?;
    let PolicyFile { path, bytes } = files.read_named(reader, file, &name)?;
    let text = String::from_utf8_lossy(&bytes);
    if text.contains(" PRIVATE KEY-----") {
        let message = format!("`{}` has a private key, which must not be here", path.display());
        reader.error_help(name.at, message, "name a file with nothing but certificates, and replace the key");
        return None;
    }
    if !text.contains("-----BEGIN CERTIFICATE-----") {
        let message = format!("`{}` has no certificate in PEM", path.display());
        reader.error_help(name.at, message, "a certificate in PEM begins with `-----BEGIN CERTIFICATE-----`");
        return None;
    }
    Some(bytes)
}

fn keys_in_file(reader: &mut Reader, files: &mut CachedFiles<'_>, file: &Path, node: &Node) -> Option<Keys> {
    let name = reader.text(node, "`file`")?;
    let PolicyFile { path, bytes } = files.read_named(reader, file, &name)?;
    Some(Keys::File { path: path.to_string_lossy().into(), bytes, at: reader.place(name.at) })
}

fn claims(reader: &mut Reader, fields: &Fields<'_>) -> Claims {
    let fields = fields.value("claims");
    let fields = fields.and_then(|node| reader.filled_fields(node, "`claims`", CLAIMS));
    let mut path = |key: &str| -> Option<ClaimPath> {
        let node = fields.as_ref()?.value(key)?;
        let text = reader.text(node, &format!("`{key}`"))?;
        values::claim_path(reader, &text, text.text)
    };
    let user = path("user").unwrap_or_else(|| ClaimPath(vec!["sub".into()]));
    Claims { user, roles: path("roles"), groups: path("groups"), separator: Separator::Spaces }
}

fn clock_skew(reader: &mut Reader, fields: &Fields<'_>) -> Duration {
    let Some(node) = fields.value("clock_skew") else { return CLOCK_SKEW };
    let Some(text) = reader.text(node, "`clock_skew`") else { return CLOCK_SKEW };
    let Some(skew) = values::duration(reader, &text, "`clock_skew`") else { return CLOCK_SKEW };
    if skew > LARGE_SKEW {
        let message = format!("tokens are accepted `{}` after they expired", text.text);
        reader.warning_help(text.at, Warning::LongClockSkew, message, "write less, such as `60s`");
    }
    skew
}

/// How often something is fetched. A short interval is a slip, such as `5ms` for `5m`, and a burden for the server that is asked.
pub(crate) fn refresh(reader: &mut Reader, fields: &Fields<'_>, default: Duration) -> Duration {
    let Some(refresh) = positive(reader, fields, "refresh") else { return default };
    if refresh < SHORTEST_REFRESH && !refresh.is_zero() {
        let at = fields.value("refresh").map_or(fields.at, |node| node.at);
        reader.error_help(at, "`refresh` is too short", "write `100ms` or more, such as `5m`");
    }
    refresh
}

/// A duration above zero.
pub(crate) fn positive(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<Duration> {
    let what = format!("`{key}`");
    let text = fields.value(key).and_then(|node| reader.text(node, &what))?;
    let duration = values::duration(reader, &text, &what)?;
    if duration.is_zero() {
        reader.error_help(text.at, format!("{what} is zero"), "write more, or leave it out");
    }
    Some(duration)
}
