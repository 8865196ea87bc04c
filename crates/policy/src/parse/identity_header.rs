//! The section `identity_header`: a signed header that tells the application who the caller is.

use std::time::Duration;

use crate::model::{ClaimPath, IdentityFormat, IdentityHeader, IdentityKey};
use crate::parse::cached_files::CachedFiles;
use crate::parse::response::header_name;
use crate::parse::values::{self, is_name};
use document::{Fields, Key, Node, PolicyFile, Reader, Text};

/// Claims that rolegate writes itself: registered claims (RFC 7519, 4.1), and its own.
const RESERVED_CLAIMS: &[&str] =
    &["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "roles", "groups", "rev"];

const NAME: &str = "x-identity";
const LIFETIME: Duration = Duration::from_secs(60);
const MAX_LIFETIME: Duration = Duration::from_secs(300);

pub(crate) fn read(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    (_, node): (&Key, &Node),
) -> Option<IdentityHeader> {
    let field_names =
        ["name", "format", "algorithm", "keys", "issuer", "audience", "lifetime", "claims"];
    let fields = reader.filled_fields(node, "`identity_header`", &field_names)?;
    let name = match fields.value("name") {
        Some(node) => reader.text(node, "`name`").and_then(|text| header_name(reader, &text)),
        None => Some(NAME.to_owned()),
    };
    let format = read_format(reader, &fields);
    let keys = read_keys(reader, files, &fields);
    let issuer = read_name(reader, &fields, "issuer");
    let help = "add `audience`: the name of the application, which accepts the header only with \
                its own name in it";
    reader.required(&fields, "audience", help);
    let audience = read_name(reader, &fields, "audience");
    let lifetime = read_lifetime(reader, &fields);
    let claims = read_claims(reader, &fields);
    Some(IdentityHeader {
        name: name?.into(),
        format: format?,
        keys: keys?,
        issuer: issuer.map_or_else(|| "rolegate".into(), |text| text.shared.clone()),
        audience: audience?.shared.clone(),
        lifetime,
        claims,
        at: reader.place(node.at),
    })
}

fn read_name<'n>(reader: &mut Reader, fields: &Fields<'n>, key: &str) -> Option<Text<'n>> {
    let text = reader.field_text(fields, key)?;
    is_name(reader, text.at, text.text, &format!("`{key}`")).then_some(text)
}

fn read_format(reader: &mut Reader, fields: &Fields<'_>) -> Option<IdentityFormat> {
    // HMAC-SHA256 is the only algorithm of the compact form, so `algorithm` is optional.
    let algorithm = reader.field_choice(fields, "algorithm", &[("hmac-sha256", ())]);
    let algorithm_is_valid = algorithm.is_some() || fields.value("algorithm").is_none();
    reader.required(fields, "format", "add `format: jwt`, or `format: compact`")?;
    let formats = [("jwt", IdentityFormat::Jwt), ("compact", IdentityFormat::Compact)];
    let format = reader.field_choice(fields, "format", &formats)?;
    // A key that only the other format has, and that format.
    let (key, other_format) = match format {
        IdentityFormat::Jwt => ("algorithm", "compact"),
        IdentityFormat::Compact => ("issuer", "jwt"),
    };
    if let Some((name, _)) = fields.field(key).filter(|(_, node)| !node.is_nothing()) {
        reader.error_help(
            name.at,
            format!("`{key}` is for `format: {other_format}`"),
            "leave it out",
        );
    }
    algorithm_is_valid.then_some(format)
}

/// The files with the keys, the first of which signs.
fn read_keys(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    fields: &Fields<'_>,
) -> Option<Vec<IdentityKey>> {
    let help = "add `keys`: a list of files; the first has the key that signs";
    let node = reader.required(fields, "keys", help)?;
    let errors = reader.errors();
    let names = reader.texts(node, "`keys`", "the name of a file");
    reader.warn_of_duplicates(&names);
    let mut keys = Vec::new();
    for name in &names {
        if let Some(PolicyFile { path, bytes }) = files.read_named(reader, name) {
            let path = path.to_string_lossy().into();
            keys.push(IdentityKey { path, bytes, at: reader.place(name.at) });
        }
    }
    if names.is_empty() && reader.errors() == errors {
        reader.error_help(node.at, "`keys` is empty", "name a file with a key");
    }
    (reader.errors() == errors).then_some(keys)
}

fn read_lifetime(reader: &mut Reader, fields: &Fields<'_>) -> Duration {
    let lifetime = values::duration(reader, fields, "lifetime", "30s").unwrap_or(LIFETIME);
    if lifetime > MAX_LIFETIME
        && let Some(node) = fields.value("lifetime")
    {
        reader.error_help(node.at, "`lifetime` is too long", "write `5m` or less");
    }
    lifetime
}

/// The claims of the caller's token that are copied to the header: the name of each in the header,
/// and its path in the token.
fn read_claims(reader: &mut Reader, fields: &Fields<'_>) -> Vec<(Box<str>, ClaimPath)> {
    let entries = fields.value("claims").and_then(|node| reader.entries(node, "`claims`"));
    let mut claims = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        if RESERVED_CLAIMS.contains(&&*key.text) {
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
