//! What is known of a caller without a verification here: the names in invalid credentials, for
//! logs; the subjects of claims, for people and test cases; and callers whose credentials another
//! policy has verified.

use policy::model::SourceId;
use serde_json::Value;

use crate::credentials::{Authorization, BasicCredentials, Credentials};
use crate::jwt;
use crate::{Certificate, CredentialsError, HeapSize, Subject, UnixTime, is_name};

use super::Authenticator;

/// The names in invalid credentials. They are not verified: a client can write any name. They are
/// for the operator and never for the client, and have no part of a password or of a signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempted {
    /// The user name, with the prefix of its source. No control characters.
    pub user: Option<String>,
    /// The issuer of a token, even if the policy does not configure it. No control characters.
    pub issuer: Option<String>,
    /// The cause of the error in the credentials, such as "`aud` is `account`, expected `shop`". No
    /// control characters.
    pub detail: Option<String>,
}

impl<T: HeapSize> Authenticator<T> {
    /// The names in credentials that are invalid because of this error. Empty if the policy does
    /// not configure their method: then the user name may be a secret, such as an API key.
    #[must_use]
    pub fn attempted(
        &self,
        credentials: Credentials<'_>,
        error: CredentialsError,
        now: UnixTime,
    ) -> Attempted {
        if error == CredentialsError::IncompleteCredentials {
            let missing = match credentials {
                Credentials::Certificate(_) => "no token, API key or password",
                Credentials::Authorization(_)
                | Credentials::Token(_)
                | Credentials::ApiKey(_)
                | Credentials::Both(..) => "no certificate that the policy names",
            };
            return Attempted { detail: Some(missing.to_owned()), ..Attempted::default() };
        }
        let authorization = match (credentials, &self.api_keys) {
            (Credentials::Authorization(value), _) => value,
            (Credentials::Token(token), _) if !self.issuers.is_empty() => {
                return self.attempted_token(token, error, now);
            }
            (Credentials::ApiKey(key), Some(keys)) => {
                let (user, detail) = keys.attempted(key, error);
                return Attempted { user, detail: Some(detail), ..Attempted::default() };
            }
            (Credentials::Token(_), _) | (Credentials::ApiKey(_), None) => {
                return Attempted::default();
            }
            (Credentials::Both(credentials, certificate), _) => {
                let Attempted { user, issuer, detail } =
                    self.attempted(credentials.into(), error, now);
                let of_certificate = self.attempted_certificate(certificate, error);
                return Attempted { user, issuer, detail: of_certificate.or(detail) };
            }
            (Credentials::Certificate(certificate), _) => {
                let detail = self.attempted_certificate(certificate, error);
                return Attempted { detail, ..Attempted::default() };
            }
        };
        match (Authorization::parse(authorization), &self.basic) {
            (Authorization::Basic(encoded), Some(basic)) => match BasicCredentials::decode(encoded)
            {
                Ok(credentials) => {
                    let user = basic.accounts.user_name(credentials.user()).to_string();
                    Attempted { user: Some(user), ..Attempted::default() }
                }
                Err(error) => Attempted { detail: Some(error.to_string()), ..Attempted::default() },
            },
            (Authorization::Bearer(token), _) if self.reads_bearer => {
                self.attempted_token(token, error, now)
            }
            (
                Authorization::Basic(_) | Authorization::Bearer(_) | Authorization::Unsupported,
                _,
            ) => Attempted::default(),
        }
    }

    fn attempted_certificate(
        &self,
        certificate: Certificate<'_>,
        error: CredentialsError,
    ) -> Option<String> {
        let certificates =
            self.certificates.as_ref().filter(|_| error == CredentialsError::SeveralUsers)?;
        let users = certificates.users(&certificate.names().ok()?);
        Some(format!("its names are the users `{}`", users.join("` and `")))
    }

    /// The first fault of claims that are known to be malformed, for people who test a policy. They
    /// are not the claims of a verified token. `None` if `iss` is not a configured issuer.
    #[must_use]
    pub fn malformed_claim(&self, claims: &Value) -> Option<String> {
        let mut claims = claims.as_object()?.clone();
        // The claims of a test case need no times.
        claims.entry("exp").or_insert_with(|| 0.into());
        let issuer = jwt::find_issuer(&self.issuers, claims.get("iss")).ok()?;
        Some(jwt::describe_malformed_claim(&claims, &issuer.settings))
    }

    fn attempted_token(&self, text: &[u8], error: CredentialsError, now: UnixTime) -> Attempted {
        let token = jwt::UnverifiedToken::decode(text);
        let detail = jwt::describe(&token, &self.issuers, error, now);
        let Ok(claims) = token.payload else { return Attempted { detail, ..Attempted::default() } };
        let issuer = jwt::find_issuer(&self.issuers, claims.get("iss")).ok();
        let user = issuer.and_then(|issuer| jwt::user(&claims, &issuer.settings));
        let issuer = claims.get("iss").and_then(Value::as_str).filter(|issuer| is_name(issuer));
        Attempted {
            user: user.map(|user| user.to_string()),
            issuer: issuer.map(str::to_owned),
            detail,
        }
    }

    /// The subject that a valid token with these claims would have, for test cases and tools.
    /// Nothing is verified.
    ///
    /// # Errors
    /// If `iss` is not a configured issuer, the claims that name the user, the groups or the roles
    /// are malformed, or a required claim is present and has another value.
    pub fn subject_from_claims(&self, claims: &Value) -> Result<Subject, CredentialsError> {
        let members = claims.as_object().ok_or(CredentialsError::MalformedClaims)?;
        let issuer = jwt::find_issuer(&self.issuers, members.get("iss"))?;
        jwt::check_partly_required(members, &issuer.settings.require)?;
        jwt::subject(members.clone(), &issuer.settings, issuer.source)
    }

    /// Checks `aud`, `exp`, `nbf` and `iat` of these claims, for test cases and tools. None of them
    /// is required.
    ///
    /// # Errors
    /// If no token with these claims is valid now.
    pub fn check_claims(&self, claims: &Value, now: UnixTime) -> Result<(), CredentialsError> {
        let members = claims.as_object().ok_or(CredentialsError::MalformedClaims)?;
        let issuer = jwt::find_issuer(&self.issuers, members.get("iss"))?;
        jwt::check_partial_claims(members.clone(), &issuer.settings, now)
    }

    /// The subject of the Basic user with this name, prefix included. Nothing is verified.
    #[must_use]
    pub fn basic_user(&self, user: &str) -> Option<&Subject> {
        self.basic.as_ref()?.accounts.find_prefixed(user).map(|account| &account.subject)
    }

    /// The subject of a caller who has an API key and this user name, prefix included. Nothing is
    /// verified.
    #[must_use]
    pub fn user_with_key(&self, user: &str) -> Option<&Subject> {
        self.api_keys.as_ref()?.find_user(user)
    }

    /// The subject of the Basic user with this name, without prefix, whose password was verified
    /// elsewhere.
    ///
    /// # Errors
    /// If no password of a user with this name is valid here.
    pub fn basic_user_verified_elsewhere(&self, name: &str) -> Result<Subject, CredentialsError> {
        let basic = self.basic.as_ref().ok_or(CredentialsError::UnsupportedScheme)?;
        if !basic.verify {
            return Ok(basic.accounts.unverified_subject(name));
        }
        let account = basic.accounts.find(name).filter(|account| account.stored.is_some());
        account.map(|account| account.subject.clone()).ok_or(CredentialsError::BadPassword)
    }

    /// The subject of a certificate with these names that was verified elsewhere; `None` if the
    /// policy names none of them.
    ///
    /// # Errors
    /// If the names are two users.
    pub fn certificate_verified_elsewhere(
        &self,
        names: &[String],
    ) -> Result<Option<Subject>, CredentialsError> {
        let Some(certificates) = &self.certificates else { return Ok(None) };
        certificates.subject(Certificate::Named(names))
    }

    /// The subject with the actor of this certificate, if the policy requires a certificate besides
    /// other credentials and the subject has no actor; otherwise the subject unchanged. For a
    /// subject that is assumed, not authenticated.
    ///
    /// # Errors
    /// If an actor is required, and the certificate is missing, invalid or not named by the policy;
    /// or if the subject itself is that of a certificate.
    pub fn with_required_actor(
        &self,
        subject: Subject,
        certificate: Option<Certificate<'_>>,
    ) -> Result<Subject, CredentialsError> {
        if !self.requires_both || subject.actor.is_some() {
            return Ok(subject);
        }
        let certificate = certificate.filter(|_| subject.source != Some(SourceId::CERTIFICATES));
        let actor = certificate.map(|certificate| self.actor(certificate)).transpose()?.flatten();
        let actor = actor.ok_or(CredentialsError::IncompleteCredentials)?;
        Ok(subject.with_actor(&actor))
    }

    /// The id and the hash of this valid API key, which are no credentials, for
    /// [`Authenticator::api_key_verified_elsewhere`].
    #[must_use]
    pub fn api_key_proof(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.api_keys.as_ref()?.proof(key)
    }

    /// The subject of an API key that was verified elsewhere, by its
    /// [proof](Authenticator::api_key_proof).
    ///
    /// # Errors
    /// If the key is not valid here.
    pub fn api_key_verified_elsewhere(
        &self,
        proof: &[u8],
        now: UnixTime,
    ) -> Result<Subject, CredentialsError> {
        let keys = self.api_keys.as_ref().ok_or(CredentialsError::UnsupportedScheme)?;
        keys.subject_of_proof(proof, now)
    }

    /// The subject of a token whose signature was verified elsewhere, by its [`signed_part`].
    /// Everything but the signature and the key is checked.
    ///
    /// # Errors
    /// If a token with this header and these claims is not valid here, whatever its signature.
    pub fn token_verified_elsewhere(
        &self,
        signed_part: &[u8],
        now: UnixTime,
    ) -> Result<Subject, CredentialsError> {
        if self.issuers.is_empty() {
            return Err(CredentialsError::UnsupportedScheme);
        }
        let (header, payload) = jwt::parse_signed(signed_part)?;
        let issuer = jwt::find_issuer(&self.issuers, payload.get("iss"))?;
        issuer.accept_verified((header, payload), now)
    }
}

/// Header and payload of a JWT. Without the signature, they are not credentials.
#[must_use]
pub fn signed_part(token: &[u8]) -> Option<&[u8]> {
    if jwt::dots(token) != 2 {
        return None;
    }
    token.get(..token.iter().rposition(|byte| *byte == b'.')?)
}
