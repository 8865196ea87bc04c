//! The signature algorithms (RFC 7518, 3; RFC 8037, 3.1), and the kind of key that each needs.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    EcdsaVerificationAlgorithm, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, VerificationAlgorithm,
};

/// A signature algorithm of a JWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
    EdDsa,
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

impl Algorithm {
    /// The algorithm of this name. Names are case-sensitive (RFC 7515, 4.1.1); `none` is not among them.
    ///
    /// Only registered names count (RFC 7518, 3.1). Some libraries accept `ES521`, after the curve P-521, as an alias
    /// of `ES512`. A check elsewhere, such as a list of allowed algorithms, may not know an alias.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "HS256" => Self::Hs256,
            "HS384" => Self::Hs384,
            "HS512" => Self::Hs512,
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "ES512" => Self::Es512,
            // RFC 9864 gives EdDSA with this curve a name of its own.
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }

    /// Its name, for messages.
    pub(crate) fn name(self) -> String {
        if self == Self::EdDsa { "EdDSA".to_owned() } else { format!("{self:?}").to_uppercase() }
    }

    pub(crate) fn key_kind(self) -> KeyKind {
        match self {
            Self::Hs256 => KeyKind::Secret(hmac::HMAC_SHA256),
            Self::Hs384 => KeyKind::Secret(hmac::HMAC_SHA384),
            Self::Hs512 => KeyKind::Secret(hmac::HMAC_SHA512),
            Self::Rs256 => KeyKind::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => KeyKind::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => KeyKind::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => KeyKind::Rsa(&RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => KeyKind::Rsa(&RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => KeyKind::Rsa(&RSA_PSS_2048_8192_SHA512),
            Self::Es256 => KeyKind::Curve(&ECDSA_P256_SHA256_FIXED),
            Self::Es384 => KeyKind::Curve(&ECDSA_P384_SHA384_FIXED),
            Self::Es512 => KeyKind::Curve(&ECDSA_P521_SHA512_FIXED),
            Self::EdDsa => KeyKind::Edwards(&ED25519),
        }
    }
}
