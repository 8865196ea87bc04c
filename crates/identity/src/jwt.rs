//! JSON Web Tokens (RFC 7519, 7515, 8725): from the text of a token to a verified subject.
//!
//! The order of the checks is fixed: the shape, the header, the issuer that `iss` in the payload
//! names, the key from that issuer's key set, the signature, and only then the claims. Of an
//! unverified payload, only `iss` is used; logs may name its user. `introspection` reads what an
//! issuer says about a token that is no JWT.

mod claims;
mod detail;
mod introspection;
mod issuer;
mod token;

pub(crate) use claims::{check_partial_claims, check_partly_required, subject, user};
pub use claims::{check_required, claim, names, token_roles};
pub use detail::describe_malformed_names;
pub(crate) use detail::{describe, describe_malformed_claim};
pub use introspection::MalformedAnswer;
pub(crate) use introspection::{dots, is_opaque};
pub(crate) use issuer::{Issuer, VerifiedToken, find_issuer, verify};
pub(crate) use token::{MAX_BYTES, UnverifiedToken, parse_signed};
