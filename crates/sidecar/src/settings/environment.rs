//! Variables in the environment that look like settings and are none: a typing error in one would silently leave its
//! default.

use clap::Command;

const PREFIX: &str = "ROLEGATE_";

/// Variables of the programs beside `rolegate`.
const OTHERS: &str = "ROLEGATE_LOAD_";

/// Whether this variable begins like a setting, and no setting of `serve` has it.
pub(super) fn is_unknown(name: &str, command: &Command) -> bool {
    name.starts_with(PREFIX)
        && !name.starts_with(OTHERS)
        && !is_of_a_service(name)
        && !known(command).any(|known| known == name)
}

/// What is wrong with an unknown variable. Its value is not shown.
pub(super) fn problem(name: &str, command: &Command) -> String {
    let names: Vec<&str> = known(command).collect();
    let help = match policy::closest(name, names) {
        Some(close) => format!("did you mean `{close}`?"),
        None => "`rolegate serve --help` lists the settings; unset it".to_owned(),
    };
    format!("unknown variable `{name}` in the environment\n    help: {help}")
}

fn known(command: &Command) -> impl Iterator<Item = &str> {
    let serve = command.find_subcommand("serve");
    serve.into_iter().flat_map(Command::get_arguments).filter_map(|arg| arg.get_env()?.to_str())
}

/// Whether Kubernetes sets such a variable, for a service whose name begins with `rolegate`: `ROLEGATE_PORT`,
/// `ROLEGATE_SERVICE_HOST`, `ROLEGATE_ADMIN_PORT_9192_TCP_ADDR`.
fn is_of_a_service(name: &str) -> bool {
    let of_port = |rest: &str| {
        rest.is_empty()
            || rest.strip_prefix('_').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.split_once("_PORT").is_some_and(|(_, rest)| of_port(rest))
}

#[cfg(test)]
mod tests {
    use super::is_of_a_service;

    #[test]
    fn what_kubernetes_sets_for_a_service_is_no_setting() {
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
