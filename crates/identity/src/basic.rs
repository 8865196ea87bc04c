//! HTTP Basic (RFC 7617): a user and a password, verified against the hashes in the policy.

mod account;
mod check;
mod credentials;

pub(crate) use account::{Account, Accounts, Settled};
pub use check::{PasswordCheck, PasswordChecked};
pub(crate) use credentials::Credentials;
