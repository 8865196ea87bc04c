//! The arguments of `rolegate decide`.

use clap::Args;

use super::{PolicyArgs, PublicKeys};

/// The arguments of `decide`.
#[derive(Args, Debug)]
pub struct DecideArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) public_keys: PublicKeys,
}
