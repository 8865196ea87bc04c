//! Why a proof does not verify.

/// Why a proof does not verify. A closed list; none tells what the proof was, nor whether a user exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CredentialsError {
    /// A scheme that the policy does not configure.
    #[error("unsupported scheme")]
    UnsupportedScheme,
    /// Basic credentials that are not the canonical base64 of `user:password` in UTF-8 without control characters
    /// (RFC 7617, 2), or too long.
    #[error("malformed credentials")]
    MalformedCredentials,
    /// A wrong password, one that is longer than what is hashed, or an unknown user: they are not told apart.
    #[error("bad password")]
    BadPassword,
    /// Not three canonical base64url parts (RFC 7515, 7.1), too long, or a part that is not strict JSON.
    #[error("malformed token")]
    MalformedToken,
    /// An `alg` that no key can have, `none` among them (RFC 8725, 3.1 and 3.2).
    #[error("unsupported algorithm")]
    UnsupportedAlgorithm,
    /// A header parameter that brings a key (`jwk`, `jku`, `x5u`, `x5c`), must be understood (`crit`), or changes how
    /// the token is read (`b64`, `zip`, `enc`).
    #[error("unsafe token header")]
    UnsafeHeader,
    /// Not the `typ` that the issuer's tokens must have (RFC 8725, 3.11).
    #[error("wrong token type")]
    WrongType,
    /// An `iss` that is missing or that the policy does not configure (RFC 8725, 3.8).
    #[error("unknown issuer")]
    UnknownIssuer,
    /// The issuer's keys have not been fetched yet.
    #[error("keys unavailable")]
    KeysUnavailable,
    /// No key of that `kid`, or no `kid` and not exactly one key of that algorithm.
    #[error("unknown key")]
    UnknownKey,
    /// An `alg` that is not the key's (RFC 8725, 3.1).
    #[error("wrong algorithm")]
    WrongAlgorithm,
    /// A signature that the key did not make.
    #[error("bad signature")]
    BadSignature,
    /// A claim that is missing or not of its type.
    #[error("malformed claims")]
    MalformedClaims,
    /// No `aud` that the policy names (RFC 7519, 4.1.3).
    #[error("wrong audience")]
    WrongAudience,
    /// At or after `exp` (RFC 7519, 4.1.4).
    #[error("expired")]
    Expired,
    /// Before `nbf` (RFC 7519, 4.1.5) or `iat`.
    #[error("not yet valid")]
    NotYetValid,
    /// Issued longer ago than `max_age`.
    #[error("too old")]
    TooOld,
}

impl CredentialsError {
    /// All of them.
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

    /// Its name in metrics, logs and answers.
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
