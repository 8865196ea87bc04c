//! What `SECURITY.md` says about Basic credentials, tokens and keys, as cases with their sources.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failed set-up is a failed test"
)]

mod actors;
mod allocations;
mod api_keys;
mod attempted;
mod basic;
mod carry_over;
mod certificates;
mod details;
mod fuzzed;
mod jwks;
mod jwt_claims;
mod jwt_header;
mod jwt_keys;
mod memory;
mod methods;
mod settings;
mod signer;
