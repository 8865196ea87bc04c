//! Why credentials are invalid.

/// Why credentials are invalid. The list is closed. No entry says what the credentials were, or whether a user exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CredentialsError {
    /// The policy does not configure this scheme.
    #[error("unsupported scheme")]
    UnsupportedScheme,
    /// The Basic credentials are too long, or not the canonical base64 of `user:password` in UTF-8 without control
    /// characters (RFC 7617, 2).
    #[error("malformed credentials")]
    MalformedCredentials,
    /// The password is wrong or longer than any that is hashed, or the user is unknown: the error is the same for each.
    #[error("bad password")]
    BadPassword,
    /// The token is too long, is not three parts in canonical base64url (RFC 7515, 7.1), or has a part that is not
    /// strict JSON.
    #[error("malformed token")]
    MalformedToken,
    /// No key can have this `alg`; `none` is one of these (RFC 8725, 3.1 and 3.2).
    #[error("unsupported algorithm")]
    UnsupportedAlgorithm,
    /// A header parameter of the token brings a key (`jwk`, `jku`, `x5u`, `x5c`), must be understood (`crit`), or
    /// changes how the token is read (`b64`, `zip`, `enc`).
    #[error("unsafe token header")]
    UnsafeHeader,
    /// The `typ` is not the one that the issuer's tokens must have (RFC 8725, 3.11).
    #[error("wrong token type")]
    WrongType,
    /// The `iss` is missing, or the policy does not configure it (RFC 8725, 3.8).
    #[error("unknown issuer")]
    UnknownIssuer,
    /// The issuer's keys have not been fetched yet.
    #[error("keys unavailable")]
    KeysUnavailable,
    /// No key has the token's `kid`; or the token has no `kid`, and not exactly one key has its algorithm.
    #[error("unknown key")]
    UnknownKey,
    /// The `alg` is not that of the key (RFC 8725, 3.1).
    #[error("wrong algorithm")]
    WrongAlgorithm,
    /// The signature was not made with the key.
    #[error("bad signature")]
    BadSignature,
    /// A claim is missing or has the wrong type, or the token says that its roles or groups are elsewhere.
    #[error("malformed claims")]
    MalformedClaims,
    /// The `aud` has none of the audiences that the policy names (RFC 7519, 4.1.3).
    #[error("wrong audience")]
    WrongAudience,
    /// The time is `exp` or later (RFC 7519, 4.1.4).
    #[error("expired")]
    Expired,
    /// The time is before `nbf` (RFC 7519, 4.1.5) or `iat`.
    #[error("not yet valid")]
    NotYetValid,
    /// The token was issued longer ago than `max_age`.
    #[error("too old")]
    TooOld,
}

impl CredentialsError {
    /// All errors.
    pub const ALL: [Self; 17] = [
        Self::UnsupportedScheme,
        Self::MalformedCredentials,
        Self::BadPassword,
        Self::MalformedToken,
        Self::UnsupportedAlgorithm,
        Self::UnsafeHeader,
        Self::WrongType,
        Self::UnknownIssuer,
        Self::KeysUnavailable,
        Self::UnknownKey,
        Self::WrongAlgorithm,
        Self::BadSignature,
        Self::MalformedClaims,
        Self::WrongAudience,
        Self::Expired,
        Self::NotYetValid,
        Self::TooOld,
    ];

    /// The name in metrics, logs and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnsupportedScheme => "unsupported_scheme",
            Self::MalformedCredentials => "malformed_credentials",
            Self::BadPassword => "bad_password",
            Self::MalformedToken => "malformed_token",
            Self::UnsupportedAlgorithm => "unsupported_algorithm",
            Self::UnsafeHeader => "unsafe_header",
            Self::WrongType => "wrong_type",
            Self::UnknownIssuer => "unknown_issuer",
            Self::KeysUnavailable => "keys_unavailable",
            Self::UnknownKey => "unknown_key",
            Self::WrongAlgorithm => "wrong_algorithm",
            Self::BadSignature => "bad_signature",
            Self::MalformedClaims => "malformed_claims",
            Self::WrongAudience => "wrong_audience",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::TooOld => "too_old",
        }
    }
}
