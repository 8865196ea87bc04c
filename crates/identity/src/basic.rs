//! HTTP Basic (RFC 7617): a user and a password, verified against the hashes in the policy.

mod accounts;
mod credentials;

pub(crate) use accounts::{Account, Accounts, PasswordMatch, PasswordResult};
pub(crate) use credentials::Credentials;
