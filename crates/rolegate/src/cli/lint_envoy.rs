//! The arguments of `rolegate lint-envoy`.

use std::path::PathBuf;

use clap::Args;
use envoy_lint::Kind;

use super::Format;
use super::findings::finding_kind;

/// The arguments of `lint-envoy`.
#[derive(Args, Debug)]
pub struct LintEnvoyArgs {
    /// The configuration, in YAML or JSON: a bootstrap, a listener, an HTTP connection manager, a
    /// filter, the output of `/config_dump`, an `EnvoyFilter`, or a `ConfigMap` in YAML with some
    /// of these as blocks (`|`). `-` reads standard input. To check a route configuration, a
    /// virtual host or a route, put it into the file of its listener, as a further document
    /// (`---`).
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Accept findings with this name; repeat the flag for more than one. A YAML file accepts one
    /// finding by a comment: `# accept: NAME because REASON`.
    #[arg(long, value_name = "NAME", value_parser = finding_kind::<Kind>)]
    pub(crate) accept: Vec<Kind>,
    /// Fail on notes too.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Output format.
    #[arg(long, visible_alias = "format", value_enum, default_value_t)]
    pub(crate) output: Format,
}
