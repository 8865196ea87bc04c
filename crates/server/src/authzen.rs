//! The AuthZEN Authorization API 1.0 over HTTP/1.1, with the decisions of the crate [`authzen`].
//!
//! * `settings`: where it is served, and to whom;
//! * `tokens`: the bearer tokens of those who may ask;
//! * `server`: a thread of its own with the listener;
//! * `exchange`: a request and its response.
//!
//! A client names the subject, and nobody verifies it. So each request needs a token, or a
//! certificate that TLS has verified, also on loopback: any local program could ask otherwise what
//! a policy allows to whom.

mod exchange;
mod server;
mod settings;
mod tokens;

pub use server::{AuthZen, RunningAuthZen, WithQuestions};
pub use settings::{AuthZenSettings, InvalidUrl, PublicUrl, SettingsError};
pub use tokens::{Tokens, TokensError};
