//! The signature algorithms (RFC 7518, 3; RFC 8037, 3.1), and the kind of key that each needs.

use std::fmt;

use aws_lc_rs::hmac::{self, HMAC_SHA256, HMAC_SHA384, HMAC_SHA512};
use aws_lc_rs::signature::{
    self, EcdsaVerificationAlgorithm, RsaParameters, VerificationAlgorithm,
};

/// A signature algorithm of a JWS.
#[derive(Clone, Copy)]
pub(crate) struct Algorithm {
    name: &'static str,
    pub(crate) key: KeyKind,
}

/// The kind of key that an algorithm needs, with the parameters to verify with.
#[derive(Clone, Copy)]
pub(crate) enum KeyKind {
    /// A shared secret.
    Secret(hmac::Algorithm),
    /// An RSA key.
    Rsa(&'static RsaParameters),
    /// A key on this curve.
    Curve(&'static EcdsaVerificationAlgorithm),
    /// An Ed25519 key.
    Edwards(&'static dyn VerificationAlgorithm),
}

/// The registered names (RFC 7518, 3.1) without `none`; they are case-sensitive (RFC 7515, 4.1.1).
/// Some libraries accept `ES521`, after the curve P-521, as an alias of `ES512`. It is not accepted
/// here: a check elsewhere, such as a list of allowed algorithms, may not know the alias.
static ALGORITHMS: [Algorithm; 13] = [
    Algorithm { name: "HS256", key: KeyKind::Secret(HMAC_SHA256) },
    Algorithm { name: "HS384", key: KeyKind::Secret(HMAC_SHA384) },
    Algorithm { name: "HS512", key: KeyKind::Secret(HMAC_SHA512) },
    Algorithm { name: "RS256", key: KeyKind::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256) },
    Algorithm { name: "RS384", key: KeyKind::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384) },
    Algorithm { name: "RS512", key: KeyKind::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512) },
    Algorithm { name: "PS256", key: KeyKind::Rsa(&signature::RSA_PSS_2048_8192_SHA256) },
    Algorithm { name: "PS384", key: KeyKind::Rsa(&signature::RSA_PSS_2048_8192_SHA384) },
    Algorithm { name: "PS512", key: KeyKind::Rsa(&signature::RSA_PSS_2048_8192_SHA512) },
    Algorithm { name: "ES256", key: KeyKind::Curve(&signature::ECDSA_P256_SHA256_FIXED) },
    Algorithm { name: "ES384", key: KeyKind::Curve(&signature::ECDSA_P384_SHA384_FIXED) },
    Algorithm { name: "ES512", key: KeyKind::Curve(&signature::ECDSA_P521_SHA512_FIXED) },
    Algorithm { name: "EdDSA", key: KeyKind::Edwards(&signature::ED25519) },
];

impl Algorithm {
    /// The algorithm of this name. RFC 9864 gives EdDSA with Ed25519 a name of its own.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        ALGORITHMS.iter().find(|algorithm| algorithm.name == name).copied()
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Algorithm {}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
