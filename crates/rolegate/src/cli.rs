//! The command line.

mod access_review;
mod bundle;
mod decide;
mod examples;
mod explain;
mod findings;
mod import;
mod lint_envoy;
mod lint_proxy;
mod passwords;
mod policy;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::settings::ServeArgs;
pub(crate) use access_review::AccessFormat;
pub use access_review::AccessReviewArgs;
pub use bundle::BundleArgs;
pub(crate) use bundle::{
    BundleBuild, BundleCommand, BundleInspect, BundleNewKey, BundleSign, BundleVerify,
};
pub use decide::DecideArgs;
use examples::{
    ACCESS_REVIEW_EXAMPLES, BUNDLE_EXAMPLES, CHECK_EXAMPLES, COMPLETIONS_EXAMPLES, DECIDE_EXAMPLES,
    DIFF_EXAMPLES, EXPLAIN_EXAMPLES, EXPLAIN_USAGE, HASH_EXAMPLES, HEALTH_EXAMPLES,
    IMPORT_EXAMPLES, LINT_ENVOY_EXAMPLES, LINT_PROXY_EXAMPLES, NEW_API_KEY_EXAMPLES,
    PASSWD_EXAMPLES, REPLAY_EXAMPLES, SCHEMA_EXAMPLES, SERVE_EXAMPLES, SERVE_SOURCES,
    SUGGEST_EXAMPLES, TEST_EXAMPLES, WHAT_CAN_EXAMPLES, WHO_CAN_EXAMPLES,
};
pub use explain::ExplainArgs;
pub(crate) use explain::{RequestArgs, VariableArgs};
pub use import::ImportArgs;
pub(crate) use import::{ImportFrom, ImportOptions};
pub use lint_envoy::LintEnvoyArgs;
pub use lint_proxy::LintProxyArgs;
pub(crate) use passwords::{Algorithm, HashingArgs};
pub use passwords::{HashArgs, NewApiKeyArgs, PasswdArgs};
use policy::POLICY_FLAG;
pub(crate) use policy::{POLICY_ARGUMENT, PolicyArgs, PolicyOptions, PublicKeys, check_given_once};
use server::AdminAddress;

/// The whole command line.
#[derive(Parser, Debug)]
#[command(
    name = "rolegate",
    version,
    about = "Authorizes HTTP requests for Envoy, with a policy that people can read"
)]
#[command(disable_help_subcommand = true, after_help = "`rolegate COMMAND -h` is short, and `rolegate COMMAND --help` has details and examples. `rolegate --help` lists the exit codes.", after_long_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success
     explain: allowed; for a log of more than one line always
     decide: each line is decided
     who-can: somebody may make the request    what-can: a rule allows something
     health: ready, with `--live` alive        diff, replay: nothing changes
     import: a policy is printed               lint-envoy: nothing is unsafe, broken or slow
     lint-proxy: nothing is unsafe or broken
  1  the answer is no
     explain: not allowed                      what-can: no rule allows anything
     who-can: nobody may make the request      health: not ready
     diff, replay: something changes           import: something cannot be expressed
     bundle: not signed by a given key         lint-envoy, lint-proxy: a finding, with
     `--strict` also a note
  2  the arguments or settings are not valid
     access-review, explain, suggest: the decision log cannot be read
     decide: a line is not valid
     replay: the log cannot be opened, or has no decision
  3  the policy, its cases, a bundle or another program's configuration is not valid
     check --strict: there are warnings
  4  test: a case failed, with `--strict` also: there are warnings
  5  another failure: a port is in use, a file cannot be read or written
     health: no server answers                 diff: the policies are too complex to compare
     who-can: finding somebody takes too many steps
     replay: the log cannot be read to its end";

/// The help of the policies of `diff` and `suggest`.
const NEW_POLICY: &str = "The new policy: a file, a folder that contains a `policy.yaml`, or a bundle. By default `./policy.yaml`";
const PRESENT_POLICY: &str = "The present policy, to list its rules that decided no request: a file, a folder that contains a \
     `policy.yaml`, or a bundle";

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Answers Envoy's ext_authz requests.
    ///
    /// SIGTERM stops it. SIGHUP reloads the policy and the TLS files, and fetches keys and bundles.
    #[command(after_help = SERVE_SOURCES, after_long_help = SERVE_EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// Asks a running `serve` whether it is ready, for exec probes.
    #[command(after_help = HEALTH_EXAMPLES)]
    Health(HealthArgs),
    /// Checks a policy and reports its problems as FILE:LINE:COLUMN.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Runs the test cases of a policy.
    #[command(after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// Explains why a policy allows or denies a request, or those of a log.
    ///
    /// For the denials of a decision log it says what is missing.
    #[command(after_help = EXPLAIN_EXAMPLES, override_usage = EXPLAIN_USAGE)]
    Explain(Box<ExplainArgs>),
    /// Decides the requests on standard input, one JSON object on each line.
    ///
    /// Each line has one answer, in order, also if it is not valid.
    #[command(after_help = DECIDE_EXAMPLES)]
    Decide(DecideArgs),
    /// Lists who may make a request: users, and what a token must have.
    #[command(after_help = WHO_CAN_EXAMPLES)]
    WhoCan(WhoCanArgs),
    /// Lists what a role or a user may do: the rules, with their places.
    #[command(after_help = WHAT_CAN_EXAMPLES)]
    WhatCan(WhatCanArgs),
    /// Says who may do what under a new policy and not under the old, and vice versa.
    #[command(after_help = DIFF_EXAMPLES, mut_arg(POLICY_ARGUMENT, |arg| arg.value_name("NEW").help(NEW_POLICY)))]
    Diff(DiffArgs),
    /// Decides the requests of a decision log again, and says what would change.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Prints a small policy for the allowed requests of a decision log.
    ///
    /// It is a starting point. Ids in paths become `{id}`, so it allows more than these requests:
    /// read it before you use it.
    #[command(
        after_help = SUGGEST_EXAMPLES,
        mut_arg(POLICY_ARGUMENT, |arg| arg.help(PRESENT_POLICY)),
        // `ROLEGATE_POLICY`, which is set for `serve`, must not count as a present policy.
        mut_arg(POLICY_FLAG, |arg| arg.env(None::<&str>))
    )]
    Suggest(SuggestArgs),
    /// Lists which grants and rules were used, and those that nobody used, by decision logs.
    ///
    /// Each with the callers who could use it, for their owners to confirm.
    #[command(after_help = ACCESS_REVIEW_EXAMPLES)]
    AccessReview(AccessReviewArgs),
    /// Translates rules of Envoy's RBAC filter or of Istio into a policy.
    ///
    /// The policy gives the same answers: the help of each subcommand lists the exceptions. With
    /// `--partial` it is printed even if it has to be stricter.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Reports what makes rolegate unsafe, broken or slow in an Envoy configuration.
    ///
    /// Each finding has FILE:LINE:COLUMN, and what to write instead.
    #[command(after_help = LINT_ENVOY_EXAMPLES)]
    LintEnvoy(LintEnvoyArgs),
    /// Reports what makes rolegate unsafe or broken behind nginx or Caddy.
    ///
    /// Each finding has FILE:LINE:COLUMN, and what to write instead.
    #[command(after_help = LINT_PROXY_EXAMPLES)]
    LintProxy(LintProxyArgs),
    /// Builds, signs, verifies and shows policy bundles.
    ///
    /// A bundle is a policy with its files in one archive, which `serve --policy URL` fetches.
    #[command(after_help = BUNDLE_EXAMPLES)]
    Bundle(BundleArgs),
    /// Hashes a password for a policy: from a prompt or standard input.
    #[command(after_help = HASH_EXAMPLES)]
    HashPassword(HashArgs),
    /// Sets a user's password in a file of `user:hash` lines.
    ///
    /// It prompts for the password, or reads a line of standard input.
    #[command(after_help = PASSWD_EXAMPLES)]
    Passwd(PasswdArgs),
    /// Adds a new API key to a file of keys, and prints it.
    ///
    /// The file has its hash only: nobody can read the key there, or print it again.
    #[command(after_help = NEW_API_KEY_EXAMPLES)]
    NewApiKey(NewApiKeyArgs),
    /// Prints a JSON Schema of your files, for editors, or of the decision log.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema(SchemaArgs),
    /// Prints a completion script for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
}

/// The arguments of `health`.
#[derive(Args, Debug)]
pub struct HealthArgs {
    /// Address of the server's admin listener. The settings file of the server is not read: repeat
    /// here what `admin` says there.
    #[arg(long, env = "ROLEGATE_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9192")]
    pub(crate) admin: AdminAddress,
    /// Ask only whether the process answers (/healthz): a server that is draining or has no policy
    /// is alive but not ready.
    #[arg(long)]
    pub(crate) live: bool,
}

/// The arguments of `check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Fail on warnings too. A policy accepts a warning by a comment: `# accept: NAME because
    /// REASON`, where NAME is what the warning shows in brackets.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyOptions,
}

/// The arguments of `test`.
#[derive(Args, Debug)]
pub struct TestArgs {
    /// The test cases: a file, or a folder or bundle that contains a `cases.yaml`; by default those
    /// beside the policy.
    #[arg(value_name = "DIR|FILE")]
    pub(crate) cases: Option<PathBuf>,
    /// The policy: a file, a folder or a bundle. By default the one beside the cases, or without
    /// cases the one in the current folder.
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<PathBuf>,
    /// Print failures only.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Fail on warnings too, such as for a misspelt group.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) public_keys: PublicKeys,
    /// Output format.
    #[arg(long, visible_alias = "format", value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// The caller; without any of these, an anonymous one.
#[derive(Args, Debug)]
pub(crate) struct CallerArgs {
    /// The caller's HTTP Basic credentials; `-` reads them from standard input.
    #[arg(long, value_name = "USER:PASSWORD", conflicts_with_all = ["bearer", "api_key", "user", "roles", "groups"])]
    pub(crate) basic: Option<String>,
    /// The caller's JWT, without `Bearer`; `-` reads it from standard input.
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["api_key", "user", "roles", "groups"])]
    pub(crate) bearer: Option<String>,
    /// The caller's API key; `-` reads it from standard input.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["user", "roles", "groups"])]
    pub(crate) api_key: Option<String>,
    /// The caller's user name, with the prefix that the policy sets, if any. No credentials are
    /// checked. A user of Basic or of an API key has the groups that the policy gives it.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The issuer of the user's token, for a user whose name can come from more than one identity
    /// source.
    #[arg(long, value_name = "ISSUER", requires = "user")]
    pub(crate) issuer: Option<String>,
    /// A role that the user's token names, in addition to the roles that the policy grants. Needs
    /// `--user`. Repeat the flag for more than one. A role that the issuer may not give is an
    /// error. So is any role of a user without a token (Basic or API key).
    #[arg(long = "role", value_name = "NAME", requires = "user")]
    pub(crate) roles: Vec<String>,
    /// Another group of the user, with the prefix that the policy sets, if any. Needs `--user`.
    /// Repeat the flag for more than one. It is an error if the policy takes no groups from tokens
    /// of the user's issuer.
    #[arg(long = "group", value_name = "NAME", requires = "user")]
    pub(crate) groups: Vec<String>,
}

/// The body of a request. Only a search cluster's roles depend on it.
#[derive(Args, Debug)]
pub(crate) struct BodyArgs {
    /// The body of a request to a search cluster, or `@FILE`; `-` reads it from standard input.
    /// Without this flag it is empty.
    #[arg(long, value_name = "TEXT|@FILE|-")]
    pub(crate) body: Option<String>,
    /// The type of the body.
    #[arg(long, value_name = "TYPE", default_value = "application/json", requires = "body")]
    pub(crate) content_type: String,
}

/// The arguments of `who-can`.
#[derive(Args, Debug)]
pub struct WhoCanArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) variables: VariableArgs,
    #[command(flatten)]
    pub(crate) body: BodyArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyOptions,
}

/// The arguments of `what-can`.
#[derive(Args, Debug)]
pub struct WhatCanArgs {
    /// A role of the caller, defined by the policy, or by the search cluster of `--host`. Repeat
    /// the flag for more than one. With `--user` the flag means a role that the user's token names.
    /// Then a role that the policy defines, but the user's issuer may not give, is an error. So is
    /// any role of a user without a token (Basic or API key).
    #[arg(long = "role", value_name = "NAME")]
    pub(crate) roles: Vec<String>,
    /// The caller's user name, with its prefix, if the policy sets one. The user has the roles that
    /// the policy grants. A user of Basic or of an API key has the groups that the policy gives it.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The issuer of the user's token. By default `basic`, if it has this user; otherwise the
    /// identity source (`basic` or a JWT issuer) with the longest `user_prefix` that the name
    /// begins with. If two fit equally, such as two without a prefix, the source is unknown. Then
    /// rules with `{user.id}` (the user name without its prefix) are left out.
    #[arg(long, value_name = "ISSUER", requires = "user")]
    pub(crate) issuer: Option<String>,
    /// A group of the caller, or its backend role on a search cluster. The name includes the prefix
    /// that the policy sets, if any. Repeat the flag for more than one.
    #[arg(long = "group", value_name = "NAME")]
    pub(crate) groups: Vec<String>,
    /// The claims of the user's token, as JSON, for conditions. Its roles and groups are those of
    /// `--role` and `--group`.
    #[arg(long, value_name = "JSON", value_parser = explain::claims, requires = "user")]
    pub(crate) claims: Option<serde_json::Map<String, serde_json::Value>>,
    /// Lists only rules for this host. For a host of a search cluster, lists the caller's
    /// privileges by the cluster's own roles. By default the rules for all hosts are listed, or the
    /// privileges if all hosts are the cluster's.
    #[arg(long)]
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) variables: VariableArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyOptions,
}

/// The arguments of `diff`.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The old policy: a file, a folder that contains a `policy.yaml`, or a bundle.
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,
    #[command(flatten)]
    pub(crate) new: PolicyArgs,
    #[command(flatten)]
    pub(crate) public_keys: PublicKeys,
    /// Output format.
    #[arg(long, visible_alias = "format", value_enum, default_value_t)]
    pub(crate) output: DiffFormat,
}

/// Output format of `diff`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON value, for programs.
    Json,
    /// Markdown, for the comment of a pull request.
    Markdown,
}

/// The arguments of `replay`.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// The decision log, one JSON line for each decision; `-` reads standard input.
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    #[command(flatten)]
    pub(crate) policy: PolicyOptions,
}

/// The arguments of `suggest`.
#[derive(Args, Debug)]
pub struct SuggestArgs {
    /// The decision log, one JSON line for each decision; `-` reads standard input.
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    #[command(flatten)]
    pub(crate) policy: PolicyOptions,
}

/// The arguments of `schema`.
#[derive(Args, Debug)]
pub struct SchemaArgs {
    /// The kind of files.
    #[arg(value_enum, default_value_t, value_name = "KIND")]
    pub(crate) kind: SchemaKind,
}

/// A kind of files with a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaKind {
    /// `policy.yaml`.
    #[default]
    Policy,
    /// A file that a policy includes: it needs no `version`.
    Include,
    /// `cases.yaml`.
    Cases,
    /// The settings file of `serve`.
    Settings,
    /// A line of the decision log.
    Decision,
}

/// The arguments of `completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    #[default]
    Text,
    /// One JSON value, for programs.
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn is_consistent() {
        Cli::command().debug_assert();
    }

    /// One rule: where `--output` chooses a format, `--format` does too.
    #[test]
    fn a_format_has_both_names() {
        fn check(command: &clap::Command) {
            let formats = command.get_arguments().filter(|arg| {
                arg.get_long() == Some("output") && !arg.get_possible_values().is_empty()
            });
            for arg in formats {
                assert_eq!(
                    arg.get_visible_aliases(),
                    Some(vec!["format"]),
                    "{}",
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
