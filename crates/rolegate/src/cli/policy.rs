//! The policy that a command is about: the last argument, or `--policy`.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use super::Format;

/// The id of the positional argument with the policy.
pub(crate) const POLICY_ARGUMENT: &str = "POLICY";
/// The id of the flag with the policy.
pub(super) const POLICY_FLAG: &str = "policy";

/// The policy if none is given.
pub(super) const DEFAULT: &str = "policy.yaml";

/// Where the policy is.
#[derive(Args, Debug)]
pub(crate) struct PolicyArgs {
    /// The policy: a file, a folder that contains a `policy.yaml`, or a bundle. By default
    /// `./policy.yaml`.
    #[arg(id = POLICY_ARGUMENT, value_name = "POLICY")]
    argument: Option<PathBuf>,
    /// The policy, in place of the argument POLICY.
    #[arg(id = POLICY_FLAG, long = "policy", env = "ROLEGATE_POLICY", value_name = "POLICY")]
    flag: Option<PathBuf>,
}

/// The keys for a policy that is a bundle.
#[derive(Args, Debug)]
pub(crate) struct PublicKeys {
    /// A public key, in PEM. Repeat the flag for more than one. One of the given keys must have
    /// signed the bundle. Without this flag only the hashes of the bundle's files are verified.
    /// With a policy file that is not a bundle the flag is an error, and with a folder it has no
    /// effect.
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: Vec<PathBuf>,
}

/// The policy that a command asks, and the format of the answer.
#[derive(Args, Debug)]
pub(crate) struct PolicyOptions {
    #[command(flatten)]
    pub(crate) path: PolicyArgs,
    #[command(flatten)]
    pub(crate) public_keys: PublicKeys,
    /// Output format.
    #[arg(long, visible_alias = "format", value_enum, default_value_t)]
    pub(crate) output: Format,
}

impl PolicyArgs {
    /// The path that is given, or the default.
    pub(crate) fn get(&self) -> &Path {
        self.given().unwrap_or(Path::new(DEFAULT))
    }

    /// The path that is given.
    pub(crate) fn given(&self) -> Option<&Path> {
        self.argument.as_deref().or(self.flag.as_deref())
    }
}

/// Checks that the command line has the policy once, not as an argument and as a flag. A variable
/// of the environment may have another one.
pub(crate) fn check_given_once(matches: &ArgMatches) -> Result<(), clap::Error> {
    if let Some((_, command)) = matches.subcommand() {
        return check_given_once(command);
    }
    // With `--decision` the policy is in the place of the method.
    let is_argument = is_on_command_line(matches, POLICY_ARGUMENT)
        || is_on_command_line(matches, "decision") && is_on_command_line(matches, "method");
    if is_argument && is_on_command_line(matches, POLICY_FLAG) {
        let message = "the policy is given twice: leave out `--policy`, or the argument\n";
        return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
    }
    Ok(())
}

fn is_on_command_line(matches: &ArgMatches, id: &str) -> bool {
    let has_argument = matches.try_contains_id(id).is_ok();
    has_argument && matches.value_source(id) == Some(ValueSource::CommandLine)
}
