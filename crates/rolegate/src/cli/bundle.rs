//! The subcommands of `rolegate bundle`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, POLICY_ARGUMENT, PolicyArgs, PublicKeys};

/// The arguments of `bundle`.
#[derive(Args, Debug)]
pub struct BundleArgs {
    #[command(subcommand)]
    pub(crate) command: BundleCommand,
}

/// The help of the policy of `build`.
const BUILD_POLICY: &str =
    "The policy: a file, or a folder that contains a `policy.yaml`. By default `./policy.yaml`";

/// The help of `--public-key` with `inspect`.
const INSPECT_KEY: &str = "A public key, in PEM. Repeat the flag for more than one. A bundle that no given key has signed is shown \
     nevertheless, with exit code 1. Without this flag only the hashes of the bundle's files are verified";

/// What to do with a bundle.
#[derive(Subcommand, Debug)]
pub(crate) enum BundleCommand {
    /// Packs a policy, each file that it names, and its `cases.yaml`. The same files and revision
    /// give the same bytes.
    #[command(mut_arg(POLICY_ARGUMENT, |arg| arg.help(BUILD_POLICY)))]
    Build(BundleBuild),
    /// Signs a bundle.
    Sign(BundleSign),
    /// Verifies the signature and the files of a bundle.
    Verify(BundleVerify),
    /// Shows the contents of a bundle, who has signed it, and whether its policy compiles.
    #[command(mut_arg("public_key", |arg| arg.help(INSPECT_KEY)))]
    Inspect(BundleInspect),
    /// Makes a key pair: a file with the private key, and one with the public key (`FILE.pub`).
    NewKey(BundleNewKey),
}

/// The arguments of `bundle build`.
#[derive(Args, Debug)]
pub(crate) struct BundleBuild {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// The bundle.
    #[arg(long, short, value_name = "BUNDLE")]
    pub(crate) out: PathBuf,
    /// The revision of the bundle; by default the time in milliseconds. A server accepts only a
    /// higher revision than that of its bundle, or the same bundle again.
    #[arg(long, value_name = "N")]
    pub(crate) revision: Option<u64>,
    /// Replace a file that is not a bundle, or a bundle that is newer or has the same revision.
    #[arg(long)]
    pub(crate) force: bool,
}

/// The arguments of `bundle sign`.
#[derive(Args, Debug)]
pub(crate) struct BundleSign {
    /// The bundle.
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,
    /// The private key: Ed25519, in PEM (PKCS #8).
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The file for the signed bundle; by default BUNDLE itself is replaced.
    #[arg(long, short, value_name = "BUNDLE")]
    pub(crate) out: Option<PathBuf>,
}

/// The arguments of `bundle verify`.
#[derive(Args, Debug)]
pub(crate) struct BundleVerify {
    /// The bundle.
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,
    /// A public key that may have signed it, in PEM; repeat the flag for more than one.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) public_key: Vec<PathBuf>,
}

/// The arguments of `bundle inspect`.
#[derive(Args, Debug)]
pub(crate) struct BundleInspect {
    /// The bundle.
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,
    #[command(flatten)]
    pub(crate) public_keys: PublicKeys,
    /// Output format.
    #[arg(long, visible_alias = "format", value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// The arguments of `bundle new-key`.
#[derive(Args, Debug)]
pub(crate) struct BundleNewKey {
    /// The file of the private key. Neither FILE nor `FILE.pub` may exist.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
