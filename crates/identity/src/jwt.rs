//! JSON Web Tokens (RFC 7519, 7515, 8725): from the text of one to a verified subject.
//!
//! The order is fixed: the shape, the header, the issuer by the `iss` that the payload claims, the key by that issuer's
//! key set, the signature, and only then the claims. Nothing of an unverified payload is used but that `iss`.

mod claims;
mod header;
mod issuer;
mod token;

pub(crate) use claims::subject;
pub(crate) use issuer::Issuer;
pub(crate) use token::{MAX_BYTES, Token};
