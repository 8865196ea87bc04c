//! The section `identity.jwt`: issuers of tokens.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::load::identity::{names, names_a_file, prefix, unreadable};
use crate::load::rule::is_name;
use crate::load::sources::{Sources, beside};
use crate::load::values;
use crate::model::{ClaimPath, Claims, Issuer, Keys};
use crate::problem::{Place, Problem};
use crate::report::{Fields, Report};
use crate::yaml::Node;

const KEYS: &[&str] = &[
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

const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// A clock skew above this is more than a clock's error, and gets a warning.
const MUCH_SKEW: Duration = Duration::from_secs(600);
const REFRESH: Duration = Duration::from_secs(300);

/// Reads `jwt`.
pub(crate) fn read(report: &mut Report, sources: &mut Sources<'_>, file: &Path, node: &Node) -> Vec<Issuer> {
    let Some(items) = report.list(node, "`jwt`") else { return Vec::new() };
    if items.is_empty() {
        report.error_help(node.at, "`jwt` is empty", "add an issuer, or leave `jwt` out");
    }
    let mut known: HashMap<Arc<str>, Place> = HashMap::new();
    let mut issuers = Vec::new();
    for item in items {
        let Some((issuer, at)) = issuer(report, sources, file, item) else { continue };
        if let Some(first) = known.get(&issuer.issuer) {
            let problem = Problem::error(at, format!("the issuer `{}` is defined twice", issuer.issuer))
                .help("leave one of them out: a token's `iss` chooses its entry")
                .related(first.clone(), "the first is here");
            report.push(problem);
            continue;
        }
        known.insert(issuer.issuer.clone(), at);
        issuers.push(issuer);
    }
    issuers
}

/// Reads one issuer; returns it with the place of its name.
fn issuer(
    report: &mut Report,
    sources: &mut Sources<'_>,
    file: &Path,
    node: &Node,
) -> Option<(Issuer, Place)> {
    let fields = report.fields(node, "an entry of `jwt`", KEYS)?;
    let name = required(report, &fields, "issuer", "the `iss` of its tokens");
    let name = name.and_then(|node| report.shared(node, "`issuer`"));
    let name = name.filter(|(text, _)| is_name(report, text.at, text.text, "an issuer"));
    let audiences = audiences(report, &fields);
    let keys = required(report, &fields, "keys", "`{ file: … }` or `{ url: … }`");
    let keys = keys.and_then(|node| keys_of(report, sources, file, node));
    let claims = claims(report, &fields);
    let clock_skew = clock_skew(report, &fields);
    let required_type = fields.value("required_type").and_then(|node| {
        let (text, kind) = report.shared(node, "`required_type`")?;
        is_name(report, text.at, text.text, "`required_type`").then(|| kind.clone())
    });
    let max_age = positive(report, &fields, "max_age");
    let roles_from_token = fields.value("roles_from_token");
    let roles_from_token = roles_from_token.and_then(|node| report.boolean(node, "`roles_from_token`"));
    let user_prefix = prefix(report, &fields, "user_prefix");
    let group_prefix = prefix(report, &fields, "group_prefix");
    let (text, name) = name?;
    let issuer = Issuer {
        issuer: name.clone(),
        audiences: audiences?,
        keys: keys?,
        claims,
        clock_skew,
        required_type,
        max_age,
        roles_from_token: roles_from_token.unwrap_or(true),
        user_prefix,
        group_prefix,
        at: report.place(node.at),
    };
    Some((issuer, report.place(text.at)))
}

fn required<'n>(report: &mut Report, fields: &Fields<'n>, key: &str, what: &str) -> Option<&'n Node> {
    let node = fields.value(key);
    if node.is_none() {
        let at = fields.field(key).map_or(fields.at, |(key, _)| key.at);
        report.error_help(at, format!("an entry of `jwt` has no `{key}`"), format!("add `{key}`: {what}"));
    }
    node
}

fn audiences(report: &mut Report, fields: &Fields<'_>) -> Option<Vec<Arc<str>>> {
    let node = required(report, fields, "audiences", "a list of what a token's `aud` may name")?;
    let errors = report.errors();
    let audiences = names(report, node, "`audiences`", "an audience");
    if audiences.is_empty() && report.errors() == errors {
        report.error_help(
            node.at,
            "`audiences` is empty",
            "name at least one: a token's `aud` must be among them",
        );
    }
    (!audiences.is_empty()).then_some(audiences)
}

fn keys_of(report: &mut Report, sources: &mut Sources<'_>, file: &Path, node: &Node) -> Option<Keys> {
    let fields = report.fields(node, "`keys`", &["file", "url", "refresh"])?;
    match (fields.value("file"), fields.value("url")) {
        (Some(name), None) => {
            if let Some((key, _)) = fields.field("refresh") {
                let help = "leave it out: a file is read again when the policy is";
                report.error_help(key.at, "`refresh` is for keys at a URL", help);
            }
            keys_in_file(report, sources, file, name)
        }
        (None, Some(url)) => {
            let refresh = positive(report, &fields, "refresh").unwrap_or(REFRESH);
            let (text, url) = report.shared(url, "`url`")?;
            let at = report.place(text.at);
            values::is_url(report, &text).then(|| Keys::Url { url: url.clone().into(), refresh, at })
        }
        (Some(_), Some(url)) => {
            report.error_help(url.at, "`keys` has both `file` and `url`", "leave one out");
            None
        }
        (None, None) => {
            let help = "write `{ file: jwks.json }` or `{ url: \"https://…\" }`";
            report.error_help(node.at, "`keys` has neither `file` nor `url`", help);
            None
        }
    }
}

fn keys_in_file(report: &mut Report, sources: &mut Sources<'_>, file: &Path, node: &Node) -> Option<Keys> {
    let name = report.text(node, "`file`").filter(|name| names_a_file(report, name))?;
    let path = beside(file, name.text);
    match sources.read(&path) {
        Ok(bytes) => {
            Some(Keys::File { path: path.to_string_lossy().into(), bytes, at: report.place(name.at) })
        }
        Err(error) => {
            unreadable(report, name.at, &path, &error);
            None
        }
    }
}

fn claims(report: &mut Report, fields: &Fields<'_>) -> Claims {
    let fields = fields.value("claims");
    let fields = fields.and_then(|node| report.fields(node, "`claims`", &["user", "roles", "groups"]));
    let mut path = |key: &str| -> Option<ClaimPath> {
        let node = fields.as_ref()?.value(key)?;
        let text = report.text(node, &format!("`{key}`"))?;
        values::claim_path(report, &text, text.text)
    };
    let user = path("user").unwrap_or_else(|| ClaimPath(vec!["sub".into()]));
    Claims { user, roles: path("roles"), groups: path("groups") }
}

fn clock_skew(report: &mut Report, fields: &Fields<'_>) -> Duration {
    let Some(node) = fields.value("clock_skew") else { return CLOCK_SKEW };
    let Some(text) = report.text(node, "`clock_skew`") else { return CLOCK_SKEW };
    let Some(skew) = values::duration(report, &text, "`clock_skew`") else { return CLOCK_SKEW };
    if skew > MUCH_SKEW {
        let message = format!("tokens are taken `{}` after they expired", text.text);
        report.warning_help(text.at, message, "write less, such as `60s`");
    }
    skew
}

/// A duration above zero.
fn positive(report: &mut Report, fields: &Fields<'_>, key: &str) -> Option<Duration> {
    let what = format!("`{key}`");
    let text = fields.value(key).and_then(|node| report.text(node, &what))?;
    let duration = values::duration(report, &text, &what)?;
    if duration.is_zero() {
        report.error_help(text.at, format!("{what} is zero"), "write more, or leave it out");
    }
    Some(duration)
}
