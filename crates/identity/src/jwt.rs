//! JSON Web Tokens (RFC 7519, 7515, 8725): from the text of a token to a verified subject.
//!
//! The order of the checks is fixed: the shape, the header, the issuer that `iss` in the payload
//! names, the key from that issuer's key set, the signature, and only then the claims. Nothing of
//! an unverified payload is used except `iss`; logs may say whom it names.

mod claims;
mod detail;
mod issuer;
mod token;

pub(crate) use claims::{check_given, subject, user};
pub use claims::{claim, named_roles};
pub use detail::malformed_names;
pub(crate) use detail::{detail, malformed_claim};
pub(crate) use issuer::{Issuer, VerifiedToken, find_issuer, verify};
pub(crate) use token::{MAX_BYTES, Unverified, parse_signed};
