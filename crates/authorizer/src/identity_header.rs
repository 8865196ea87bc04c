//! The identity header: who the caller is, signed, so that the application can verify it.
//!
//! Signing takes some fifteen microseconds (Ed25519, `make bench BENCH=identity_header`). So a
//! header is made at the first allowed request of a caller, kept with the caller's cached
//! credentials, and made anew after half of its lifetime. It is never made for a denied request,
//! nor for a caller who was not authenticated by credentials.

mod keys;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use document::Problem;
use identity::{Subject, UnixTime};
use identity_header::Claims;
use policy::model::{IdentityFormat, IdentityHeader};
use serde_json::{Value, json};

use crate::answer;
use keys::SigningKey;

/// Makes the identity headers of a policy.
#[derive(Debug)]
pub(crate) struct IdentitySigner {
    settings: IdentityHeader,
    key: Key,
}

#[derive(Debug)]
enum Key {
    /// The first part of each token, the key, and the JWK Set (RFC 7517) of all public keys.
    Jwt {
        header: String,
        key: SigningKey,
        public: Box<str>,
    },
    Compact(identity_header::Key),
}

/// The header of one caller, kept with its cached credentials.
#[derive(Debug)]
pub(crate) struct SignedIdentity {
    made: ArcSwapOption<Made>,
    /// The further claims of the caller's token, which is not kept: the index of each among those
    /// of the policy, and its value, as JSON for a JWT, as text for the compact form.
    claims: Box<[(usize, Box<str>)]>,
    /// The bytes that it will have, or more.
    size: usize,
}

#[derive(Debug)]
struct Made {
    value: Box<str>,
    /// When it is made anew.
    renewed: UnixTime,
}

/// The identity is too large for its format, or the key cannot sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotSigned;

impl IdentitySigner {
    /// Reads the keys of a policy. Signs once, so that a key that cannot sign is found now, and the
    /// first signature of the library (tens of milliseconds) delays no request.
    pub(crate) fn compile(settings: &IdentityHeader) -> Result<Self, Vec<Problem>> {
        let key = match settings.format {
            IdentityFormat::Jwt => keys::signing(&settings.keys)
                .map(|(header, key, public)| Key::Jwt { header, key, public: public.into() }),
            IdentityFormat::Compact => keys::secret(&settings.keys).map(Key::Compact),
        }?;
        let signer = Self { settings: settings.clone(), key };
        match signer.sign(&[], ("", &[], ""), &[], (UnixTime::ZERO, UnixTime::ZERO)) {
            Ok(_) => Ok(signer),
            Err(NotSigned) => {
                let message = "the identity header cannot be signed: the key does not work, or the settings are too long";
                Err(vec![Problem::error(settings.at.clone(), message)])
            }
        }
    }

    /// The public keys as a JWK Set, if there are any.
    pub(crate) fn public_keys(&self) -> Option<&str> {
        match &self.key {
            Key::Jwt { public, .. } => Some(public),
            Key::Compact(_) => None,
        }
    }

    /// The place for the header of a caller with these roles.
    pub(crate) fn place(&self, subject: &Subject, roles: &[&str]) -> SignedIdentity {
        let text = |value: &Value| match self.key {
            Key::Jwt { .. } => value.to_string(),
            Key::Compact(_) => answer::claim_text(value).unwrap_or_default(),
        };
        let claims = self.settings.claims.iter().enumerate().filter_map(|(at, (_, path))| {
            let value = identity::claim(subject, path)?;
            (is_exact(value) && !value.is_null()).then(|| (at, text(value).into_boxed_str()))
        });
        let claims: Box<[(usize, Box<str>)]> =
            claims.filter(|(_, text)| !text.is_empty()).collect();
        let names =
            subject.groups.iter().map(|name| name.len()).chain(roles.iter().map(|role| role.len()));
        let parts = names.chain(claims.iter().map(|(_, text)| text.len() + 40));
        let settings = self.settings.issuer.len() + self.settings.audience.len();
        let plain = 300 + settings + subject.user.len() + parts.map(|len| len + 4).sum::<usize>();
        SignedIdentity { made: ArcSwapOption::empty(), claims, size: plain * 4 / 3 }
    }

    /// Writes the header of a caller to `value`, and makes it before if there is none yet or it is
    /// old.
    pub(crate) fn write(
        &self,
        place: &SignedIdentity,
        (subject, revision): (&Subject, &str),
        roles: impl FnOnce() -> Vec<String>,
        now: UnixTime,
        value: &mut String,
    ) -> Result<(), NotSigned> {
        value.clear();
        // The clock cannot be read: the header would never expire.
        let renewed = now.checked_add(self.settings.lifetime / 2).ok_or(NotSigned)?;
        let expires = now.checked_add(self.settings.lifetime).ok_or(NotSigned)?;
        if let Some(made) = &*place.made.load()
            && now < made.renewed
            // A clock that was set back must not give a header more time.
            && made.renewed <= renewed
        {
            value.push_str(&made.value);
            return Ok(());
        }
        let groups: Vec<&str> = subject.groups.iter().map(|group| &**group).collect();
        let who = (&*subject.user, groups.as_slice(), revision);
        let roles = roles();
        let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
        value.push_str(&self.sign(&place.claims, who, &roles, (now, expires))?);
        let made = Made { value: value.as_str().into(), renewed };
        place.made.store(Some(Arc::new(made)));
        Ok(())
    }

    fn sign(
        &self,
        claims: &[(usize, Box<str>)],
        (user, groups, revision): (&str, &[&str], &str),
        roles: &[&str],
        (issued, expires): (UnixTime, UnixTime),
    ) -> Result<String, NotSigned> {
        let (issued, expires) = (issued.as_secs(), expires.as_secs());
        let claims = claims
            .iter()
            .filter_map(|(at, text)| Some((&*self.settings.claims.get(*at)?.0, &**text)));
        match &self.key {
            Key::Jwt { header, key, .. } => {
                let payload = json!({
                    "iss": &*self.settings.issuer, "sub": user, "aud": &*self.settings.audience, "iat": issued, "exp": expires,
                    "rev": revision, "roles": roles, "groups": groups,
                });
                let mut payload = payload.as_object().cloned().unwrap_or_default();
                for (name, text) in claims {
                    let value: Value = serde_json::from_str(text).map_err(|_| NotSigned)?;
                    payload.insert(name.to_owned(), value);
                }
                let mut token = header.clone();
                URL_SAFE_NO_PAD.encode_string(Value::Object(payload).to_string(), &mut token);
                let signature = key.sign(token.as_bytes()).ok_or(NotSigned)?;
                token.push('.');
                URL_SAFE_NO_PAD.encode_string(signature, &mut token);
                Ok(token)
            }
            Key::Compact(key) => {
                let claims: Vec<(&str, &str)> = claims.collect();
                let (audience, claims) = (&*self.settings.audience, claims.as_slice());
                let said = Claims { audience, revision, user, roles, groups, claims, expires };
                let mut header = String::new();
                identity_header::encode(&said, key, &mut Vec::new(), &mut header)
                    .map_err(|_| NotSigned)?;
                Ok(header)
            }
        }
    }
}

impl SignedIdentity {
    /// The bytes that it has allocated on the heap, or will allocate at the first allowed request.
    pub(crate) fn heap_size(&self) -> usize {
        let claims =
            self.claims.iter().map(|(_, text)| identity::allocated(text.len())).sum::<usize>();
        let list = identity::allocated(size_of_val(&*self.claims));
        list + claims + identity::allocated(self.size) + identity::allocated(size_of::<Made>() + 16)
    }
}

/// Whether no number in a claim was rounded when it was read.
fn is_exact(claim: &Value) -> bool {
    match claim {
        Value::Number(number) => answer::is_exact(number),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}
