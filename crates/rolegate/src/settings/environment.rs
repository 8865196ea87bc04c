//! Environment variables of settings. An unknown variable is an error if it looks like a setting:
//! after a typing error the setting would silently have its default. Errors about an invalid value
//! name the variable.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue};

const PREFIX: &str = "ROLEGATE_";

/// Variables of the programs beside `rolegate`.
const OTHER_PREFIX: &str = "ROLEGATE_LOAD_";

/// The flags that most people need: the others are in the long help only.
const FIRST_FLAGS: &[&str] = &[
    "config",
    "policy",
    "shadow",
    "listen",
    "tls-certificate",
    "tls-key",
    "tls-client-ca",
    "admin",
    "console",
    "metrics",
    "threads",
    "log-level",
    "decision-log",
];

/// Gives each flag of `serve` its variable: see [`Settings`](super::Settings).
pub(crate) fn with_environment(command: Command) -> Command {
    command.mut_subcommand("serve", |serve| {
        serve.mut_args(|arg| match arg.get_long() {
            Some(name) => {
                let name = name.to_owned();
                let variable = format!("{PREFIX}{}", name.replace('-', "_").to_ascii_uppercase());
                arg.env(variable).hide_env(true).hide_short_help(!FIRST_FLAGS.contains(&&*name))
            }
            None => arg,
        })
    })
}

/// Whether this variable begins like those of settings, and no setting of `serve` has it.
pub(super) fn is_unknown(name: &str, command: &Command) -> bool {
    name.starts_with(PREFIX)
        && !name.starts_with(OTHER_PREFIX)
        && !is_of_a_service(name)
        && variables(command).all(|variable| variable != name)
}

/// The error about an unknown variable. Its value is not shown.
pub(super) fn problem(name: &str, command: &Command) -> String {
    let variables: Vec<&str> = variables(command).collect();
    let help = match document::closest(name, variables) {
        Some(close) => format!("did you mean `{close}`?"),
        None => "`rolegate serve --help` lists the settings; unset it".to_owned(),
    };
    format!("unknown variable `{name}` in the environment\n    help: {help}")
}

/// Names the variable instead of the flag in an error about a value that comes from the
/// environment.
pub(crate) fn with_variable(
    mut error: clap::Error,
    command: Command,
    arguments: &[OsString],
) -> clap::Error {
    if let Some(variable) = variable(&error, command, arguments) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    error
}

/// The variable whose value the error is about; `None` if it is about an argument.
fn variable(error: &clap::Error, command: Command, arguments: &[OsString]) -> Option<String> {
    // The argument is printed with the name of its value: `--hash-queue <N>`, `--console [<BOOL>]`.
    let Some(ContextValue::String(usage)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = usage.split(' ').next()?.strip_prefix("--")?;
    let subcommand = command.find_subcommand(arguments.get(1)?)?;
    let argument = subcommand.get_arguments().find(|arg| arg.get_long() == Some(flag))?;
    let variable = argument.get_env()?.to_str()?.to_owned();
    // If the arguments without the environment have the same error, the error is about them.
    let without_environment = command
        .mut_subcommands(|command| command.mut_args(|arg| arg.env(None::<&str>).required(false)));
    let argument_error = without_environment.try_get_matches_from(arguments).err();
    let is_same = argument_error.is_some_and(|argument_error| {
        argument_error.get(ContextKind::InvalidArg) == error.get(ContextKind::InvalidArg)
    });
    (!is_same).then_some(variable)
}

/// The variables of the settings.
fn variables(command: &Command) -> impl Iterator<Item = &str> {
    let serve = command.find_subcommand("serve");
    serve.into_iter().flat_map(Command::get_arguments).filter_map(|arg| arg.get_env()?.to_str())
}

/// Whether Kubernetes sets such a variable, for a service whose name begins with `rolegate`:
/// `ROLEGATE_PORT`, `ROLEGATE_SERVICE_HOST`, `ROLEGATE_ADMIN_PORT_9192_TCP_ADDR`.
fn is_of_a_service(name: &str) -> bool {
    let is_port = name.split_once("_PORT").is_some_and(|(_, suffix)| {
        let number = suffix.strip_prefix('_').unwrap_or_default();
        suffix.is_empty() || number.starts_with(|c: char| c.is_ascii_digit())
    });
    is_port || name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT")
}

#[cfg(test)]
mod tests {
    use super::is_of_a_service;

    #[test]
    fn variables_that_kubernetes_sets_are_not_unknown_settings() {
        for name in [
            "PORT",
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_GRPC",
            "PORT_9191_TCP",
            "PORT_9191_TCP_ADDR",
        ] {
            assert!(is_of_a_service(&format!("ROLEGATE_{name}")), "{name}");
            assert!(is_of_a_service(&format!("ROLEGATE_METRICS_{name}")), "{name}");
        }
        for name in ["ROLEGATE_LISTN", "ROLEGATE_PORTS", "ROLEGATE_SERVICE"] {
            assert!(!is_of_a_service(name), "{name}");
        }
    }
}
