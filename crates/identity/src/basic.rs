//! HTTP Basic (RFC 7617): a user and a password, verified against the hashes in the policy.

mod account;
mod accounts;
mod credentials;
mod mixed_hashes;
mod pending;

pub(crate) use account::Account;
pub(crate) use accounts::{Accounts, PasswordMatch};
pub(crate) use credentials::Credentials;
pub(crate) use pending::{PasswordResult, PendingPassword};
