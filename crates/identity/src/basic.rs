//! HTTP Basic (RFC 7617): a user and a password, verified against the hashes in the policy.

mod account;
mod accounts;
mod check;
mod credentials;

pub(crate) use account::Account;
pub(crate) use accounts::{Accounts, PasswordResult};
pub(crate) use check::{PasswordCheck, PasswordChecked};
pub(crate) use credentials::Credentials;
