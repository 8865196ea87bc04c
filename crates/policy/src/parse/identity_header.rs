//! The section `identity_header`: a signed header that tells the application who the caller is.

use std::path::Path;
use std::time::Duration;

use crate::keys::IDENTITY_HEADER;
use crate::model::{ClaimPath, IdentityFormat, IdentityHeader, IdentityKey};
use crate::parse::cached_files::CachedFiles;
use crate::parse::response::header_name;
use crate::parse::values::{self, is_name};
use document::{Fields, Node, PolicyFile, Reader};

/// Claims that rolegate itself writes (RFC 7519, 4.1, and ours).
const OURS: &[&str] = &["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "roles", "groups", "rev"];

const NAME: &str = "x-identity";
const LIFETIME: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(300);

/// Reads `identity_header`.
pub(crate) fn read(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    file: &Path,
    node: &Node,
) -> Option<IdentityHeader> {
    let fields = reader.filled_fields(node, "`identity_header`", IDENTITY_HEADER)?;
    let name = match fields.value("name") {
        Some(node) => reader.text(node, "`name`").and_then(|text| header_name(reader, &text)),
        None => Some(NAME.to_owned()),
    };
    let format = format(reader, &fields);
    let keys = keys(reader, files, file, &fields);
    let mut text = |key: &str| {
        let (text, shared) = fields.value(key).and_then(|node| reader.shared(node, &format!("`{key}`")))?;
        is_name(reader, text.at, text.text, &format!("`{key}`")).then(|| shared.clone())
    };
    let (issuer, audience) = (text("issuer"), text("audience"));
    if fields.lacks("audience") {
        let help = "add `audience`: the name of the application, which accepts the header only with its own name in it";
        reader.error_help(fields.at, "`identity_header` has no `audience`", help);
    }
    if matches!(format, Some(IdentityFormat::Compact))
        && let Some((key, _)) = fields.field("issuer").filter(|(_, node)| !node.is_nothing())
    {
        reader.error_help(key.at, "`issuer` is for `format: jwt`", "leave it out");
    }
    let lifetime = lifetime(reader, &fields);
    let claims = claims(reader, &fields);
    Some(IdentityHeader {
        name: name?.into(),
        format: format?,
        keys: keys?,
        issuer: issuer.unwrap_or_else(|| "rolegate".into()),
        audience: audience?,
        lifetime,
        claims,
        at: reader.place(node.at),
    })
}

fn format(reader: &mut Reader, fields: &Fields<'_>) -> Option<IdentityFormat> {
    let Some(node) = fields.value("format") else {
        if fields.lacks("format") {
            let help = "add `format: jwt`, or `format: compact`";
            reader.error_help(fields.at, "`identity_header` has no `format`", help);
        }
        return None;
    };
    let has_known_algorithm = check_algorithm(reader, fields);
    let text = reader.text(node, "`format`")?;
    match text.text {
        "jwt" => {
            if let Some((key, _)) = fields.field("algorithm").filter(|(_, node)| !node.is_nothing()) {
                let help = "leave it out: a private key has one algorithm";
                reader.error_help(key.at, "`algorithm` is for `format: compact`", help);
            }
            Some(IdentityFormat::Jwt)
        }
        "compact" => has_known_algorithm.then_some(IdentityFormat::Compact),
        other => {
            let message = format!("`{other}` is not a format of an identity header");
            reader.error_help(text.at, message, "write `jwt` or `compact`");
            None
        }
    }
}

/// Whether the code of the compact form is made as it can be made: with HMAC-SHA256, which need not be named.
fn check_algorithm(reader: &mut Reader, fields: &Fields<'_>) -> bool {
    let Some(node) = fields.value("algorithm") else { return true };
    let Some(text) = reader.text(node, "`algorithm`") else { return false };
    let help = match text.text {
        "hmac-sha256" => return true,
        "aes-256-gcm-siv" => "write `hmac-sha256`, and make a new secret: each is for one algorithm only",
        _ => "write `hmac-sha256`",
    };
    let message = format!("`{}` is not an algorithm of an identity header", text.text);
    reader.error_help(text.at, message, help);
    false
}

/// The files with the keys, the first of which signs.
fn keys(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    file: &Path,
    fields: &Fields<'_>,
) -> Option<Vec<IdentityKey>> {
    let Some(node) = fields.value("keys") else {
        if fields.lacks("keys") {
            let help = "add `keys`: a list of files; the first has the key that signs";
            reader.error_help(fields.at, "`identity_header` has no `keys`", help);
        }
        return None;
    };
    let errors = reader.errors();
    let names = reader.texts(node, "`keys`", "the name of a file");
    reader.warn_of_duplicates(&names);
    let mut keys = Vec::new();
    for (name, _) in &names {
        if let Some(PolicyFile { path, bytes }) = files.read_named(reader, file, name) {
            let path = path.to_string_lossy().into();
            keys.push(IdentityKey { path, bytes, at: reader.place(name.at) });
        }
    }
    if names.is_empty() && reader.errors() == errors {
        reader.error_help(node.at, "`keys` is empty", "name a file with a key");
    }
    (reader.errors() == errors && !keys.is_empty()).then_some(keys)
}

fn lifetime(reader: &mut Reader, fields: &Fields<'_>) -> Duration {
    let text = fields.value("lifetime").and_then(|node| reader.text(node, "`lifetime`"));
    let Some(text) = text else { return LIFETIME };
    let Some(lifetime) = values::duration(reader, &text, "`lifetime`") else { return LIFETIME };
    if !(SHORTEST..=LONGEST).contains(&lifetime) {
        let message = format!("a `lifetime` of `{}` is too short or too long", text.text);
        reader.error_help(text.at, message, "write `30s` to `5m`");
    }
    lifetime
}

/// Claims of the caller's token that are passed on: names in the header, and their places in the token.
fn claims(reader: &mut Reader, fields: &Fields<'_>) -> Vec<(Box<str>, ClaimPath)> {
    let Some(node) = fields.value("claims") else { return Vec::new() };
    let Some(entries) = reader.entries(node, "`claims`") else { return Vec::new() };
    let mut claims = Vec::new();
    for (key, node) in entries.iter() {
        if OURS.contains(&&*key.text) {
            let message = format!("`{}` is a claim that rolegate writes itself", key.text);
            reader.error_help(key.at, message, "take another name");
            continue;
        }
        let Some(text) = reader.text(node, "the place of a claim") else { continue };
        if let Some(path) = values::claim_path(reader, &text, text.text) {
            claims.push((Box::from(&*key.text), path));
        }
    }
    claims
}
