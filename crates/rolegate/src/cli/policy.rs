//! The policy that a command is about: the last argument, or `--policy`.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

/// The policy if none is given.
const DEFAULT: &str = "policy.yaml";

/// The policy.
#[derive(Args, Debug)]
pub struct PolicyArgs {
    /// The policy: a file, a folder that contains a `policy.yaml`, or a bundle. By default `./policy.yaml`.
    #[arg(id = "POLICY", value_name = "POLICY")]
    argument: Option<PathBuf>,
    /// The policy, in place of the argument POLICY.
    #[arg(id = "policy", long = "policy", env = "ROLEGATE_POLICY", value_name = "POLICY")]
    flag: Option<PathBuf>,
}

impl PolicyArgs {
    /// Where the policy is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.given().unwrap_or(Path::new(DEFAULT))
    }

    /// The same, without a default.
    #[must_use]
    pub fn given(&self) -> Option<&Path> {
        self.argument.as_deref().or(self.flag.as_deref())
    }
}

/// Checks that the command line has the policy once: a variable of the environment may have another one.
///
/// # Errors
/// When it is both an argument and a flag.
pub(crate) fn check_given_once(matches: &ArgMatches) -> Result<(), clap::Error> {
    if let Some((_, command)) = matches.subcommand() {
        return check_given_once(command);
    }
    // With `--decision` the policy is the only argument.
    let is_argument = is_on_command_line(matches, "POLICY")
        || is_on_command_line(matches, "decision") && is_on_command_line(matches, "method");
    if is_argument && is_on_command_line(matches, "policy") {
        let message = "the policy is given twice: leave out `--policy`, or the argument\n";
        return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
    }
    Ok(())
}

fn is_on_command_line(matches: &ArgMatches, id: &str) -> bool {
    let has_argument = matches.try_contains_id(id).is_ok();
    has_argument && matches.value_source(id) == Some(ValueSource::CommandLine)
}
