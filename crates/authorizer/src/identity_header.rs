//! The identity header: who the caller is, signed, so that the application can verify it.
//!
//! Signing takes some fifteen microseconds (Ed25519, `make bench BENCH=identity_header`). So a
//! header is signed at the first allowed request of a caller, cached with its credentials, and
//! signed again after half of its lifetime. It is never signed for a denied request, nor for a
//! caller who was not authenticated by credentials.

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
    Jwt {
        /// The first part of each token.
        header: String,
        key: SigningKey,
        /// The JWK Set (RFC 7517) of all public keys.
        public: Box<str>,
    },
    /// The secret of the compact form.
    Compact(identity_header::Key),
}

/// The header of a caller, cached with its credentials.
#[derive(Debug)]
pub(crate) struct SignedIdentity {
    signed: ArcSwapOption<SignedValue>,
    /// The claims of the caller's token that the policy names. Each has its index in the settings
    /// and its value: JSON for a JWT, text for the compact form. The token is not kept.
    claims: Box<[(usize, Box<str>)]>,
    /// The estimated length of the header. The real length is not greater, unless JSON must escape
    /// many characters of the names.
    size: usize,
}

#[derive(Debug)]
struct SignedValue {
    value: Box<str>,
    /// When it is signed again.
    renewal: UnixTime,
}

/// The identity is too large for its format, the key cannot sign, or the clock cannot be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotSigned;

impl IdentitySigner {
    /// Reads the keys of a policy. Signs once, to detect a key that cannot sign, and because the
    /// first signature of the library takes tens of milliseconds.
    pub(crate) fn compile(settings: &IdentityHeader) -> Result<Self, Vec<Problem>> {
        let key = match settings.format {
            IdentityFormat::Jwt => keys::signing(&settings.keys)
                .map(|(header, key, public)| Key::Jwt { header, key, public: public.into() }),
            IdentityFormat::Compact => keys::secret(&settings.keys).map(Key::Compact),
        }?;
        let signer = Self { settings: settings.clone(), key };
        match signer.sign(&[], ("", None, &[], ""), &[], (UnixTime::ZERO, UnixTime::ZERO)) {
            Ok(_) => Ok(signer),
            Err(NotSigned) => {
                let message = "the identity header cannot be signed: the key does not work, or \
                               the settings are too long";
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

    /// The header of a caller with these roles, not yet signed.
    pub(crate) fn prepare(&self, subject: &Subject, roles: &[&str]) -> SignedIdentity {
        let claims = self.settings.claims.iter().enumerate();
        let claims = claims.filter_map(|(at, (_, path))| {
            Some((at, self.claim_text(identity::claim(subject, path)?)?.into()))
        });
        let claims: Box<[(usize, Box<str>)]> = claims.collect();
        // The rest estimates the length of the header. The constants are room for quotes, commas
        // and the names of members; base64 adds a third.
        let names =
            subject.groups.iter().map(|name| name.len()).chain(roles.iter().map(|role| role.len()));
        let parts = names.chain(claims.iter().map(|(_, text)| text.len() + 40));
        let settings = self.settings.issuer.len() + self.settings.audience.len();
        let actor = subject.actor.as_ref().map_or(0, |actor| actor.user.len() + 20);
        let plain =
            300 + settings + subject.user.len() + actor + parts.map(|len| len + 4).sum::<usize>();
        SignedIdentity { signed: ArcSwapOption::empty(), claims, size: plain * 4 / 3 }
    }

    /// The text of a claim for the format; `None` if it is not sent.
    fn claim_text(&self, claim: &Value) -> Option<String> {
        if claim.is_null() || !is_exact(claim) {
            return None;
        }
        match self.key {
            Key::Jwt { .. } => Some(claim.to_string()),
            Key::Compact(_) => answer::claim_text(claim).filter(|text| !text.is_empty()),
        }
    }

    /// Writes the header of a caller to `value`. Signs it first if it has not been signed or is
    /// due to be signed again.
    pub(crate) fn write(
        &self,
        identity: &SignedIdentity,
        (subject, revision): (&Subject, &str),
        roles: impl FnOnce() -> Vec<String>,
        now: UnixTime,
        value: &mut String,
    ) -> Result<(), NotSigned> {
        value.clear();
        // If the clock cannot be read, `now` is the end of time, and there is no later time at
        // which a header could expire.
        let renewal = now.checked_add(self.settings.lifetime / 2).ok_or(NotSigned)?;
        let expires = now.checked_add(self.settings.lifetime).ok_or(NotSigned)?;
        if let Some(signed) = &*identity.signed.load()
            && now < signed.renewal
            // If the clock was set back, the old header would be valid for longer than intended.
            && signed.renewal <= renewal
        {
            value.push_str(&signed.value);
            return Ok(());
        }
        let groups: Vec<&str> = subject.groups.iter().map(|group| &**group).collect();
        let roles = roles();
        let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
        let actor = subject.actor.as_ref().map(|actor| &*actor.user);
        let subject = (&*subject.user, actor, groups.as_slice(), revision);
        value.push_str(&self.sign(&identity.claims, subject, &roles, (now, expires))?);
        let signed = SignedValue { value: value.as_str().into(), renewal };
        identity.signed.store(Some(Arc::new(signed)));
        Ok(())
    }

    fn sign(
        &self,
        claims: &[(usize, Box<str>)],
        (user, actor, groups, revision): (&str, Option<&str>, &[&str], &str),
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
                    "iss": &*self.settings.issuer, "aud": &*self.settings.audience,
                    "iat": issued, "exp": expires,
                    "sub": user, "rev": revision, "roles": roles, "groups": groups,
                });
                let mut payload = payload.as_object().cloned().unwrap_or_default();
                for (name, text) in claims {
                    let value: Value = serde_json::from_str(text).map_err(|_| NotSigned)?;
                    payload.insert(name.to_owned(), value);
                }
                // RFC 8693, 4.1. If the policy also sends a claim as `act`, the actor replaces it.
                if let Some(actor) = actor {
                    payload.insert("act".to_owned(), json!({ "sub": actor }));
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
                let claims = Claims { audience, revision, user, roles, groups, claims, expires };
                let mut header = String::new();
                identity_header::encode(&claims, key, &mut Vec::new(), &mut header)
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
        list + claims
            + identity::allocated(self.size)
            + identity::allocated(size_of::<SignedValue>() + 16)
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
