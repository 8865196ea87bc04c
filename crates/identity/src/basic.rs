//! HTTP Basic (RFC 7617): user and password against the policy's hashes.

mod account;
mod check;
mod credentials;

pub(crate) use account::{Account, Accounts, Settled};
pub use check::{PasswordCheck, PasswordChecked};
pub(crate) use credentials::Credentials;
