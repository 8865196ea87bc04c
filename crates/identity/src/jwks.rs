//! JSON Web Key Sets (RFC 7517): the keys that verify tokens.
//!
//! Every key is pinned to exactly one algorithm when it is loaded (RFC 8725, 3.1), so a token
//! cannot choose:
//!
//! | key | algorithm |
//! |---|---|
//! | any with `alg` | its `alg`, if it fits the key |
//! | RSA without `alg` | RS256, which JWA recommends and OpenID Connect has as its default |
//! | EC without `alg` | that of its curve: ES256, ES384, ES512 (RFC 7518, 3.4) |
//! | OKP Ed25519 without `alg` | EdDSA (RFC 8037, 3.1) |
//! | oct without `alg` | none: the key is rejected |

mod algorithm;
mod key;

use document::excerpt;
use policy::KeyUrl;
use serde_json::{Map, Value};

use crate::json;

pub(crate) use algorithm::Algorithm;
pub(crate) use key::Key;

/// The longest key set, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Maximum number of keys in a set: each look-up of a `kid` compares all of them.
const MAX_KEYS: usize = 256;

/// Maximum number of keys that an error names.
const MAX_SHOWN: usize = 8;

/// The usable keys of an issuer; at least one.
#[derive(Debug)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// A key that cannot be used, and why. It does not make the other keys of the set unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFault {
    /// The key, by its position in the set from 1 and its `kid`.
    pub key: String,
    /// Why the key cannot be used.
    pub message: &'static str,
    /// Whether the key is weak, damaged or must not be in the set. Otherwise it is sound, but is
    /// not supported or has another purpose. Many issuers publish such keys too.
    pub is_rejected: bool,
}

/// Why a key set cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// Longer than [`MAX_BYTES`].
    #[error("longer than 1 MiB")]
    TooLong,
    /// Not strict JSON. The field is the end of the error's text, such as `: it is empty`.
    #[error("not JSON{0}")]
    NotJson(String),
    /// An OpenID Connect discovery document, which names the URL of the key set.
    #[error("a discovery document, not a key set")]
    Discovery {
        /// Its `jwks_uri`, without its secrets.
        jwks_uri: String,
    },
    /// Not an object whose `keys` are a list of objects (RFC 7517, 5), or too many keys.
    #[error("not an object with a list `keys` of at most 256 keys")]
    NotAKeySet,
    /// Shared secrets (`oct`) in a set that also has public keys. Lists the secrets, by their
    /// positions and `kid`s.
    #[error("shared secrets among public keys: {}", .0.join(", "))]
    Mixed(Vec<String>),
    /// No key can be used. Lists the reasons.
    #[error("no key that can verify tokens")]
    NoUsableKey(Vec<KeyFault>),
}

/// Why no key of this set can be used, on one line; `None` if a key can be used.
#[must_use]
pub fn why_unusable(bytes: &[u8]) -> Option<String> {
    let error = parse(bytes).err()?;
    let detail = match &error {
        KeySetError::NoUsableKey(faults) => {
            let faults = faults.iter().take(MAX_SHOWN);
            let faults = faults.map(|fault| format!("{}: {}", fault.key, fault.message));
            faults.collect::<Vec<_>>().join("; ")
        }
        KeySetError::TooLong
        | KeySetError::NotJson(_)
        | KeySetError::Discovery { .. }
        | KeySetError::NotAKeySet
        | KeySetError::Mixed(_) => error.help().unwrap_or_default(),
    };
    Some(if detail.is_empty() { error.to_string() } else { format!("{error}: {detail}") })
}

impl KeySetError {
    /// How to mend the key set, or the policy.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Mixed(_) => Some(
                "replace the shared secrets: anyone who can read the set of public keys knows them"
                    .to_owned(),
            ),
            Self::Discovery { jwks_uri } => {
                Some(format!("write `discovery: true`, or the URL of its `jwks_uri`: `{jwks_uri}`"))
            }
            Self::TooLong | Self::NotJson(_) | Self::NotAKeySet | Self::NoUsableKey(_) => None,
        }
    }
}

/// Parses a key set: the usable keys, and the faults of the others. Sound keys for encryption are
/// left out without a fault: issuers such as Keycloak publish such a key.
///
/// # Errors
/// If this is not a key set, it has shared secrets among public keys, or none of its keys can be
/// used.
pub fn parse(bytes: &[u8]) -> Result<(KeySet, Vec<KeyFault>), KeySetError> {
    let set = parse_objects(bytes)?;
    let secrets = secrets_among_public_keys(&set);
    if !secrets.is_empty() {
        return Err(KeySetError::Mixed(secrets));
    }
    let (mut keys, mut faults) = (Vec::new(), Vec::new());
    for (position, jwk) in (1..).zip(&set) {
        let fault = match Key::parse(jwk) {
            // A `kid` that several keys have identifies none of them (RFC 7517, 4.5).
            Ok(key) if key.kid().is_some() && count_keys(&set, key.kid()) > 1 => {
                Fault::rejected("another key has the same `kid`")
            }
            Ok(key) => {
                keys.push(key);
                continue;
            }
            Err(fault) => fault,
        };
        let Fault { message, is_rejected } = fault;
        faults.push((jwk, KeyFault { key: label(position, jwk), message, is_rejected }));
    }
    if keys.is_empty() {
        return Err(KeySetError::NoUsableKey(faults.into_iter().map(|(_, fault)| fault).collect()));
    }
    faults.retain(|(jwk, fault)| fault.is_rejected || !is_for_encryption(jwk));
    Ok((KeySet { keys }, faults.into_iter().map(|(_, fault)| fault).collect()))
}

/// The shared secrets of a set that also has public keys.
///
/// A set with public keys is meant to be public, and a public secret lets anyone sign. So the whole
/// set is rejected and the last good set is kept; if only the secret were ignored, nobody would
/// notice the leak. A policy that verifies with both kinds has two issuers, each with its own file.
fn secrets_among_public_keys(set: &[Map<String, Value>]) -> Vec<String> {
    if !set.iter().any(|jwk| matches!(key_type(jwk), Some("RSA" | "EC" | "OKP"))) {
        return Vec::new();
    }
    let secrets = (1..).zip(set).filter(|(_, jwk)| key_type(jwk) == Some("oct"));
    secrets.map(|(position, jwk)| label(position, jwk)).take(MAX_SHOWN).collect()
}

fn key_type(jwk: &Map<String, Value>) -> Option<&str> {
    jwk.get("kty").and_then(Value::as_str)
}

/// Whether a key says that it is for encryption (RFC 7517, 4.2).
fn is_for_encryption(jwk: &Map<String, Value>) -> bool {
    jwk.get("use").and_then(Value::as_str) == Some("enc")
}

/// The objects in `keys` (RFC 7517, 5).
fn parse_objects(bytes: &[u8]) -> Result<Vec<Map<String, Value>>, KeySetError> {
    if bytes.len() > MAX_BYTES {
        return Err(KeySetError::TooLong);
    }
    let value = json::parse(bytes)
        .map_err(|error| KeySetError::NotJson(describe_non_json(bytes, &error)))?;
    let Value::Object(mut members) = value else { return Err(KeySetError::NotAKeySet) };
    let Some(Value::Array(keys)) = members.remove("keys") else {
        return Err(match members.get("jwks_uri") {
            Some(Value::String(uri)) => KeySetError::Discovery {
                jwks_uri: excerpt(&KeyUrl::from(uri.as_str()).to_string()),
            },
            _ => KeySetError::NotAKeySet,
        });
    };
    if keys.len() > MAX_KEYS {
        return Err(KeySetError::NotAKeySet);
    }
    let mut objects = Vec::new();
    for key in keys {
        let Value::Object(members) = key else { return Err(KeySetError::NotAKeySet) };
        objects.push(members);
    }
    Ok(objects)
}

/// Why a text is not JSON, as the end of a message. The message shows the beginning of the text
/// only if that is a tag of HTML or XML: some servers answer so if the URL has no key set. Other
/// text may be a secret.
pub(crate) fn describe_non_json(bytes: &[u8], error: &serde_json::Error) -> String {
    let beginning = bytes.get(..256).unwrap_or(bytes);
    let text = String::from_utf8_lossy(beginning);
    let text = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let tag = text.split_inclusive('>').next().unwrap_or_default();
    if text.is_empty() && beginning.len() == bytes.len() {
        ": it is empty".to_owned()
    } else if text.starts_with("-----BEGIN ") {
        ": it is PEM; convert its public key to a JWK".to_owned()
    } else if tag.starts_with('<') && tag.ends_with('>') {
        format!(" (begins with `{}`)", excerpt(tag))
    } else {
        format!(": {error}")
    }
}

/// The number of keys with this `kid`.
fn count_keys(set: &[Map<String, Value>], kid: Option<&str>) -> usize {
    set.iter().filter(|jwk| jwk.get("kid").and_then(Value::as_str) == kid).count()
}

impl KeySet {
    /// The key that a token with this header must have been signed with.
    ///
    /// If there is a `kid`, the key with that `kid`. If not, the only key of this algorithm: to try
    /// several keys would let a token choose its key.
    pub(crate) fn select(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        if kid.is_some() {
            return self.keys.iter().find(|key| key.kid() == kid);
        }
        let mut keys = self.keys.iter().filter(|key| key.algorithm() == algorithm);
        let key = keys.next();
        if keys.next().is_some() { None } else { key }
    }

    /// The `kid`s, in order; empty for a key without `kid`.
    pub fn kids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.kid().unwrap_or_default())
    }

    /// Whether a key is a shared secret, which must not be published at a URL.
    pub(crate) fn has_secret(&self) -> bool {
        self.keys.iter().any(Key::is_secret)
    }
}

/// A [`KeyFault`] without the name of the key.
#[derive(Clone, Copy, Debug)]
struct Fault {
    message: &'static str,
    is_rejected: bool,
}

impl Fault {
    /// The key is weak, damaged, or must not be in the set.
    const fn rejected(message: &'static str) -> Self {
        Self { message, is_rejected: true }
    }

    /// The key is sound, but is not supported or has another purpose.
    const fn unsuitable(message: &'static str) -> Self {
        Self { message, is_rejected: false }
    }
}

/// How an error names a key: by its position and its `kid`, never by its content.
fn label(position: usize, jwk: &Map<String, Value>) -> String {
    match jwk.get("kid") {
        Some(Value::String(kid)) => format!("key {position} (`{}`)", excerpt(kid)),
        _ => format!("key {position}"),
    }
}
