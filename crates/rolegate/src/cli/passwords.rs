//! The arguments of the commands that hash passwords, and make API keys.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Format;

/// The arguments of `hash-password`.
#[derive(Args, Debug)]
pub struct HashArgs {
    /// The password. Without it, the password is read from standard input, which is safer: other
    /// users of the machine can see arguments, and shells record them.
    pub(crate) password: Option<String>,
    #[command(flatten)]
    pub(crate) hashing: HashingArgs,
    /// Output format.
    #[arg(long, visible_alias = "format", value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// The arguments of `passwd`.
#[derive(Args, Debug)]
pub struct PasswdArgs {
    /// The file, which a policy names as `users_file`. Created if it is missing.
    pub(crate) file: PathBuf,
    /// The user. Added if the file does not have a user with this name.
    pub(crate) user: String,
    #[command(flatten)]
    pub(crate) hashing: HashingArgs,
}

/// The arguments of `new-api-key`.
#[derive(Args, Debug)]
pub struct NewApiKeyArgs {
    /// The name of its user, without the prefix that the policy sets, if any.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
    /// A group of the user, without a prefix. Repeat the flag for more than one.
    #[arg(long = "group", value_name = "NAME")]
    pub(crate) groups: Vec<String>,
    /// The last day, in UTC, on which it is valid, such as `2027-01-31`, or a time, such as
    /// `2027-01-31T18:00:00Z`. By default it does not expire.
    #[arg(long, value_name = "DATE|TIME")]
    pub(crate) expires: Option<String>,
    /// The file, which a policy names as `file` of `api_keys`. Created if it is missing.
    #[arg(long)]
    pub(crate) file: PathBuf,
}

/// How a password is hashed.
#[derive(Args, Debug)]
pub(crate) struct HashingArgs {
    /// Hash algorithm [default: the algorithm of the file, else argon2id].
    #[arg(long, value_enum)]
    pub(crate) algorithm: Option<Algorithm>,
    /// The cost: for bcrypt a number from 4 to 16, for PBKDF2 the number of rounds, for argon2id
    /// such as `m=19456,t=2,p=1` (memory in KiB, passes, lanes).
    #[arg(long)]
    pub(crate) cost: Option<String>,
}

/// A password-hash algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Algorithm {
    /// Argon2id (RFC 9106), recommended.
    Argon2id,
    /// bcrypt, for hashes that other programs read too; a password has at most 72 bytes.
    Bcrypt,
    /// PBKDF2 with HMAC-SHA-256 (RFC 8018), for where regulations require it.
    Pbkdf2Sha256,
}
