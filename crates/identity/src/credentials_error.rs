//! Why credentials are invalid.

/// Defines the errors: each with its name in metrics, logs and answers, and its text for people.
macro_rules! credentials_errors {
    ($($(#[$doc:meta])+ $error:ident: $name:literal, $text:literal;)+) => {
        /// Why credentials are invalid. No error shows any part of the credentials, or whether a
        /// user exists.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        pub enum CredentialsError {
            $($(#[$doc])+ #[error($text)] $error,)+
        }

        impl CredentialsError {
            /// All errors.
            pub const ALL: [Self; 25] = [$(Self::$error),+];

            /// The name in metrics, logs and answers.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$error => $name,)+
                }
            }
        }
    };
}

credentials_errors! {
    /// The policy does not configure this scheme.
    UnsupportedScheme: "unsupported_scheme", "unsupported scheme";
    /// The Basic credentials are too long, or not the canonical base64 of `user:password` in UTF-8
    /// without control characters (RFC 7617, 2).
    MalformedCredentials: "malformed_credentials", "malformed credentials";
    /// The password is wrong or longer than any that is hashed, or the user is unknown.
    BadPassword: "bad_password", "bad password";
    /// The API key is wrong, malformed or longer than any, or no key has its id.
    BadApiKey: "bad_api_key", "bad API key";
    /// The client certificate is too long, cannot be read, or has too many names.
    MalformedCertificate: "malformed_certificate", "malformed certificate";
    /// The policy requires a certificate that it names and other credentials, and the request has
    /// only one of them.
    IncompleteCredentials: "incomplete_credentials",
        "a certificate and other credentials are required together, and one of them is missing";
    /// The actor that the claim `act` of the token names is not one of its issuer, or has no name.
    MalformedActor: "malformed_actor", "malformed actor";
    /// The names of the client certificate are two users.
    SeveralUsers: "several_users", "a certificate of several users";
    /// The token is too long, is not three parts in canonical base64url (RFC 7515, 7.1), or has a
    /// part that is not strict JSON.
    MalformedToken: "malformed_token", "malformed token";
    /// The issuer says that the token is not active (RFC 7662, 2.2).
    Inactive: "inactive", "inactive token";
    /// Nobody has asked the issuer about the token: only a running rolegate does.
    NotIntrospected: "not_introspected", "the issuer was not asked about the token";
    /// No key can have this `alg`, such as `none` (RFC 8725, 3.1 and 3.2).
    UnsupportedAlgorithm: "unsupported_algorithm", "unsupported algorithm";
    /// A header parameter of the token brings a key (`jwk`, `jku`, `x5u`, `x5c`), must be
    /// understood (`crit`), or changes how the token is read (`b64`, `zip`, `enc`).
    UnsafeHeader: "unsafe_header", "unsafe token header";
    /// The `typ` is not `required_type` of the issuer (RFC 8725, 3.11).
    WrongType: "wrong_type", "wrong token type";
    /// The `iss` is missing, or the policy does not configure it (RFC 8725, 3.8).
    UnknownIssuer: "unknown_issuer", "unknown issuer";
    /// The issuer's keys have not been fetched yet.
    KeysUnavailable: "keys_unavailable", "keys unavailable";
    /// No key has the token's `kid`; or the token has no `kid`, and not exactly one key has its
    /// algorithm.
    UnknownKey: "unknown_key", "unknown key";
    /// The `alg` is not that of the key (RFC 8725, 3.1).
    WrongAlgorithm: "wrong_algorithm", "wrong algorithm";
    /// The signature was not made with the key.
    BadSignature: "bad_signature", "bad signature";
    /// A claim is missing or has the wrong type, or the token says that its roles or groups are
    /// elsewhere.
    MalformedClaims: "malformed_claims", "malformed claims";
    /// The `aud` has none of the audiences that the policy names (RFC 7519, 4.1.3).
    WrongAudience: "wrong_audience", "wrong audience";
    /// A claim that `require` of the issuer names is missing, or has another value.
    WrongClaim: "wrong_claim", "wrong claim";
    /// The time is `exp` or later (RFC 7519, 4.1.4), or `expires` of the API key.
    Expired: "expired", "expired";
    /// The time is before `nbf` (RFC 7519, 4.1.5) or `iat`.
    NotYetValid: "not_yet_valid", "not yet valid";
    /// The token was issued longer ago than `max_age`.
    TooOld: "too_old", "too old";
}
