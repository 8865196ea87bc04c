//! The subcommands of `rolegate import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::examples::{IMPORT_ENVOY_EXAMPLES, IMPORT_ISTIO_EXAMPLES};

/// The arguments of `import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    #[command(subcommand)]
    pub(crate) from: ImportFrom,
}

/// What `import` reads.
#[derive(Subcommand, Debug)]
pub(crate) enum ImportFrom {
    /// Imports Envoy's RBAC filter, with the filters `jwt_authn` and `basic_auth` beside it.
    #[command(after_help = IMPORT_ENVOY_EXAMPLES)]
    EnvoyRbac(ImportEnvoyArgs),
    /// Imports Istio's `AuthorizationPolicy` and `RequestAuthentication` for one workload.
    #[command(after_help = IMPORT_ISTIO_EXAMPLES)]
    Istio(ImportIstioArgs),
}

/// The arguments of `import envoy-rbac`.
#[derive(Args, Debug)]
pub(crate) struct ImportEnvoyArgs {
    /// The configuration, in YAML or JSON: a bootstrap, a listener, or the `typed_config` of the
    /// filter; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The listener to import, by its name, if several have an RBAC filter.
    #[arg(long, value_name = "NAME")]
    pub(crate) listener: Option<String>,
    #[command(flatten)]
    pub(crate) import: ImportOptions,
}

/// The arguments of `import istio`.
#[derive(Args, Debug)]
pub(crate) struct ImportIstioArgs {
    /// The resources, in YAML or JSON; `-` reads standard input. Resources of other kinds are
    /// ignored.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The namespace of the workload, if the resources are in several.
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// The root namespace of the mesh (`rootNamespace` of its `MeshConfig`): resources in it apply
    /// to the workloads of all namespaces.
    #[arg(long, value_name = "NAME", default_value = import::ROOT_NAMESPACE)]
    pub(crate) root_namespace: String,
    /// A label of the workload, if the resources select several; repeat the flag for more than one.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) import: ImportOptions,
}

/// The options of every import.
#[derive(Args, Debug)]
pub(crate) struct ImportOptions {
    /// Print the policy even if it is stricter than the original because something cannot be
    /// expressed. Standard error and the top of the policy name each such thing.
    #[arg(long)]
    pub(crate) partial: bool,
    /// Also import conditions that rolegate compares less strictly, and name each: hosts (any port
    /// and any case match), path templates (any characters within a segment match, such as `=`),
    /// paths that are not in canonical form, and with Envoy, tokens on paths where `jwt_authn`
    /// requires none.
    #[arg(long)]
    pub(crate) allow_wider: bool,
    /// An audience to accept from issuers for which the original names none; repeat the flag for
    /// more than one.
    #[arg(long = "audience", value_name = "NAME")]
    pub(crate) audiences: Vec<String>,
    /// Write the policy to this file, which must not exist, and key sets to files beside it.
    /// Without this flag the policy goes to standard output, and key sets go to standard error: put
    /// them into files yourself.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

fn label(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) =
        text.split_once('=').ok_or("not a label: write one such as `app=reports`")?;
    Ok((key.to_owned(), value.to_owned()))
}
