//! A JSON Web Key (RFC 7517, 4; RFC 7518, 6; RFC 8037, 2): validated when it is loaded, ready to
//! verify with.

use aws_lc_rs::signature::{ParsedPublicKey, RsaPublicKeyComponents, VerificationAlgorithm};
use aws_lc_rs::{constant_time, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::Fault;
use super::algorithm::{Algorithm, KeyKind};

/// Minimum length of an RSA modulus, in bits (RFC 7518, 3.3).
const MIN_RSA: usize = 2048;
/// Maximum length of an RSA modulus, in bits: the cost of a verification grows with its square.
const MAX_RSA: usize = 8192;
/// The smallest RSA exponent (FIPS 186-5, A.1.1 requires more than 2^16).
const MIN_EXPONENT: u64 = 65_537;
/// The largest RSA exponent that the library accepts. Larger exponents cost more.
const MAX_EXPONENT: u64 = (1 << 33) - 1;

/// The points of edwards25519 whose order divides eight. Each is here as the encoding of its y
/// coordinate in a key, in hexadecimal, with the sign bit of x cleared. A key of zeros is such a
/// point. The first five entries are 0, 1, -1 and the two values of order eight. The last two
/// entries are the second encodings of 0 and 1, with the prime added.
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

const UNSUPPORTED_ALGORITHM: Fault = Fault::unsuitable("its `alg` is not supported");
const UNSUPPORTED_KIND: Fault = Fault::unsuitable("its `kty` is not supported");
const UNSUPPORTED_CURVE: Fault = Fault::unsuitable("its `crv` is not supported");
const NO_CURVE: Fault = Fault::rejected("a key without `crv`");
const WRONG_LENGTH: Fault = Fault::rejected("a coordinate that is not as long as its curve says");

/// A key that can verify tokens, pinned to one algorithm.
pub(crate) struct Key {
    kid: Option<Box<str>>,
    algorithm: Algorithm,
    material: Material,
}

enum Material {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

type Jwk = Map<String, Value>;

impl Key {
    pub(super) fn parse(jwk: &Jwk) -> Result<Self, Fault> {
        let kid = text(jwk, "kid")?.map(Box::from);
        let kind = text(jwk, "kty")?.ok_or(Fault::rejected("a key without `kty`"))?;
        reject_private_part(jwk, kind)?;
        check_purpose(jwk)?;
        let algorithm = pin_algorithm(jwk, kind)?;
        let material = parse_material(jwk, kind, algorithm)?;
        Ok(Self { kid, algorithm, material })
    }

    pub(crate) fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(super) fn is_secret(&self) -> bool {
        matches!(self.material, Material::Secret(_))
    }

    /// Whether this key made this signature of this message.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Public(key) => key.verify_sig(message, signature).is_ok(),
            Material::Secret(key) => {
                let tag = hmac::sign(key, message);
                constant_time::verify_slices_are_equal(tag.as_ref(), signature).is_ok()
            }
        }
    }
}

/// Rejects a private key: a program that reads a key set must not be able to sign.
fn reject_private_part(jwk: &Jwk, kind: &str) -> Result<(), Fault> {
    let private = ["d", "p", "q", "dp", "dq", "qi", "oth"];
    if kind != "oct" && private.iter().any(|name| jwk.contains_key(*name)) {
        return Err(Fault::rejected(
            "a private key, which must not be here: publish the public part, and replace the key",
        ));
    }
    Ok(())
}

/// Checks that `use` and `key_ops` allow verifying, where they are present (RFC 7517, 4.2 and 4.3).
fn check_purpose(jwk: &Jwk) -> Result<(), Fault> {
    if text(jwk, "use")?.is_some_and(|purpose| purpose != "sig") {
        return Err(Fault::unsuitable("its `use` is not `sig`"));
    }
    match jwk.get("key_ops") {
        None => Ok(()),
        Some(Value::Array(operations))
            if operations.iter().any(|operation| operation == "verify") =>
        {
            Ok(())
        }
        Some(Value::Array(_)) => Err(Fault::unsuitable("its `key_ops` do not have `verify`")),
        Some(_) => Err(Fault::rejected("its `key_ops` are not a list")),
    }
}

/// The algorithm of a key: see the table at the top of [`super`].
fn pin_algorithm(jwk: &Jwk, kind: &str) -> Result<Algorithm, Fault> {
    if let Some(name) = text(jwk, "alg")? {
        return Algorithm::from_name(name).ok_or(UNSUPPORTED_ALGORITHM);
    }
    let name = match kind {
        "RSA" => "RS256",
        "EC" => curve(jwk)?.0,
        "OKP" => "EdDSA",
        "oct" => return Err(Fault::rejected("a shared secret without `alg`")),
        _ => return Err(UNSUPPORTED_KIND),
    };
    Algorithm::from_name(name).ok_or(UNSUPPORTED_ALGORITHM)
}

fn parse_material(jwk: &Jwk, kind: &str, algorithm: Algorithm) -> Result<Material, Fault> {
    match (kind, algorithm.key) {
        ("oct", KeyKind::Secret(hash)) => secret(jwk, hash),
        ("RSA", KeyKind::Rsa(parameters)) => {
            RsaPublicKeyComponents { n: modulus(jwk)?, e: exponent(jwk)? }
                .to_parsed_public_key(parameters)
                .map(Material::Public)
                .map_err(|_| Fault::rejected("not an RSA key"))
        }
        ("EC", KeyKind::Curve(verification)) => {
            let (name, size) = curve(jwk)?;
            if name != algorithm.name() {
                return Err(Fault::rejected("its `alg` does not fit its `crv`"));
            }
            parse_point(verification, &point(jwk, size)?)
        }
        ("OKP", KeyKind::Edwards(verification)) => parse_point(verification, &edwards_point(jwk)?),
        ("oct" | "RSA" | "EC" | "OKP", _) => {
            Err(Fault::rejected("its `alg` does not fit its `kty`"))
        }
        _ => Err(UNSUPPORTED_KIND),
    }
}

fn parse_point(
    algorithm: &'static dyn VerificationAlgorithm,
    point: &[u8],
) -> Result<Material, Fault> {
    ParsedPublicKey::new(algorithm, point)
        .map(Material::Public)
        .map_err(|_| Fault::rejected("not a point on its curve"))
}

/// A shared secret, which must be at least as long as the output of its hash function (RFC 7518,
/// 3.2).
fn secret(jwk: &Jwk, hash: hmac::Algorithm) -> Result<Material, Fault> {
    let secret = Zeroizing::new(bytes(jwk, "k")?);
    if secret.len() < hash.digest_algorithm().output_len() {
        return Err(Fault::rejected("a shared secret that is shorter than its hash"));
    }
    Ok(Material::Secret(Box::new(hmac::Key::new(hash, &secret))))
}

fn modulus(jwk: &Jwk) -> Result<Vec<u8>, Fault> {
    let modulus = number(jwk, "n")?;
    let unused_bits = modulus.first().map_or(0, |byte| byte.leading_zeros());
    let bits = (modulus.len() * 8).saturating_sub(unused_bits as usize);
    if bits < MIN_RSA {
        return Err(Fault::rejected("an RSA key of fewer than 2048 bits"));
    }
    if bits > MAX_RSA {
        return Err(Fault::rejected("an RSA key of more than 8192 bits"));
    }
    if modulus.last().is_some_and(|last| last % 2 == 0) {
        return Err(Fault::rejected("an RSA key whose modulus is even"));
    }
    Ok(modulus)
}

fn exponent(jwk: &Jwk) -> Result<Vec<u8>, Fault> {
    let exponent = number(jwk, "e")?;
    let value = exponent
        .iter()
        .try_fold(0_u64, |value, byte| value.checked_mul(256)?.checked_add(u64::from(*byte)));
    match value {
        Some(value) if value % 2 == 0 => Err(Fault::rejected("an RSA key whose exponent is even")),
        Some(..MIN_EXPONENT) => Err(Fault::rejected("an RSA key whose exponent is below 65537")),
        Some(MIN_EXPONENT..=MAX_EXPONENT) => Ok(exponent),
        _ => Err(Fault::rejected("an RSA key whose exponent is above 2^33")),
    }
}

/// A number in big-endian bytes (RFC 7518, 2). Leading zeros, which some programs write, are
/// removed.
fn number(jwk: &Jwk, name: &'static str) -> Result<Vec<u8>, Fault> {
    Ok(bytes(jwk, name)?.into_iter().skip_while(|byte| *byte == 0).collect())
}

/// The algorithm of a curve and the size of its coordinates in bytes (RFC 7518, 3.4 and 6.2.1).
fn curve(jwk: &Jwk) -> Result<(&'static str, usize), Fault> {
    match text(jwk, "crv")?.ok_or(NO_CURVE)? {
        "P-256" => Ok(("ES256", 32)),
        "P-384" => Ok(("ES384", 48)),
        "P-521" => Ok(("ES512", 66)),
        _ => Err(UNSUPPORTED_CURVE),
    }
}

/// A point in the uncompressed form of SEC 1.
fn point(jwk: &Jwk, size: usize) -> Result<Vec<u8>, Fault> {
    let (x, y) = (bytes(jwk, "x")?, bytes(jwk, "y")?);
    if x.len() != size || y.len() != size {
        return Err(WRONG_LENGTH);
    }
    Ok([vec![4], x, y].concat())
}

fn edwards_point(jwk: &Jwk) -> Result<Vec<u8>, Fault> {
    if text(jwk, "crv")?.ok_or(NO_CURVE)? != "Ed25519" {
        return Err(UNSUPPORTED_CURVE);
    }
    let point = bytes(jwk, "x")?;
    // The library would parse a longer value as DER. The next check would not see the point in it.
    if point.len() != 32 {
        return Err(WRONG_LENGTH);
    }
    if is_of_small_order(&point) {
        return Err(Fault::rejected("a point of small order: anybody can sign for it"));
    }
    Ok(point)
}

/// Whether eight times this point is the neutral element. Verification (RFC 8032, 5.1.7) does not
/// check that.
fn is_of_small_order(point: &[u8]) -> bool {
    let mut y = point.to_vec();
    y.last_mut().into_iter().for_each(|sign_byte| *sign_byte &= 0x7F);
    let y: String = y.iter().map(|byte| format!("{byte:02x}")).collect();
    SMALL_ORDER.contains(&y.as_str())
}

/// A member that is a string, if it is present.
fn text<'a>(jwk: &'a Jwk, name: &'static str) -> Result<Option<&'a str>, Fault> {
    match jwk.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::rejected("a member of the wrong type")),
    }
}

/// A member in canonical base64url, decoded.
fn bytes(jwk: &Jwk, name: &'static str) -> Result<Vec<u8>, Fault> {
    let text = text(jwk, name)?.ok_or(Fault::rejected("a key without all its members"))?;
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| Fault::rejected("a member that is not canonical base64url"))
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("kid", &self.kid)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}
