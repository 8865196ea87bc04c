//! Opaque tokens: the issuer says whether a token is valid, and names its claims (RFC 7662).

use serde_json::Value;

use super::Issuer;
use super::issuer::VerifiedToken;
use crate::{CredentialsError, UnixTime, json};

/// The answer of an issuer is not an introspection response (RFC 7662, 2.2): strict JSON with a
/// boolean `active`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not JSON with a boolean `active`")]
pub struct MalformedAnswer;

/// Whether a text may be an opaque token: not a JWT, which has two dots, and of the characters of a
/// Bearer token (RFC 6750, 2.1).
pub(crate) fn is_opaque(text: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    !text.is_empty() && dots(text) != 2 && text.iter().all(is_token)
}

/// The number of dots in a token.
pub(crate) fn dots(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'.').count()
}

impl Issuer {
    /// The issuer's answer about a token: its subject, or why it is invalid. `iss`, `aud`,
    /// `exp` and `nbf` must be as in a JWT: some servers answer for the tokens of others, too.
    ///
    /// # Errors
    /// If the answer says nothing.
    pub(crate) fn read_answer(
        &self,
        answer: &[u8],
        now: UnixTime,
    ) -> Result<Result<VerifiedToken, CredentialsError>, MalformedAnswer> {
        let Ok(Value::Object(claims)) = json::parse(answer) else { return Err(MalformedAnswer) };
        match claims.get("active") {
            Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Ok(Err(CredentialsError::Inactive)),
            Some(_) | None => return Err(MalformedAnswer),
        }
        if claims.get("iss").and_then(Value::as_str) != Some(&*self.settings.issuer) {
            return Ok(Err(CredentialsError::UnknownIssuer));
        }
        // A refresh token is active, too, and a token that is bound to a key is not a Bearer token.
        let is_bearer =
            |kind: &Value| kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
        if !claims.get("token_type").is_none_or(is_bearer) {
            return Ok(Err(CredentialsError::WrongType));
        }
        Ok(self.accept(claims, now).map(|token| self.limited(token, now)))
    }

    /// The token with a window that ends when the issuer must be asked again.
    fn limited(&self, mut token: VerifiedToken, now: UnixTime) -> VerifiedToken {
        if let Some(introspection) = self.introspection() {
            let end = now.saturating_add(introspection.max_cache);
            token.window.until = token.window.until.min(end);
        }
        token
    }
}
