//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::address::Address;
use crate::compare::CompareArgs;
use crate::measured::Rate;
use crate::scale::ScaleArgs;
use crate::thresholds::Threshold;
use crate::units;

/// The whole command line.
#[derive(Parser, Debug)]
#[command(
    name = "rolegate-load",
    version,
    about = "Puts load on HTTP servers and on ext_authz servers, and measures what they make of it"
)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  rolegate-load app 127.0.0.1:8080                       a server to try it on
  rolegate-load http http://127.0.0.1:8080/people --rate 1000 --duration 30s
  rolegate-load http http://127.0.0.1:8080/people --rate max --connections 32
  rolegate-load check unix:/run/rolegate.sock --basic alice:wonderland --rate 5000
  rolegate-load http http://127.0.0.1:8080 --workload mix.toml --fail-if 'p99>5ms' --fail-if 'errors>0'
  rolegate-load http http://127.0.0.1:8080/people --find-max --p99 5ms
  rolegate-load compare --quick                          the whole experiment, in less than two minutes

If you come from fortio: -qps is --rate, -qps 0 is --rate max, -c is -c, -t is -t, -n is -n, -json is --json (`fortio
report` shows it), -H is -H, -user is --basic, -payload is --body, -h2 is --http2, -s is -s, -grpc is `check`. Rates are kept by an
open loop here: a slow server does not slow the load, and latencies count from when a request was due.

If you come from INFINI's loadgen: -r is --rate, -d is -d, -c is -c, -l is -n, -compress is --gzip, -timeout is --timeout,
-dial-timeout is --wait; variables (`sequence`, `range`, `uuid`, `now`, `file`, `list`), `body_repeat_times`, weights and
asserted statuses are in the workload file, see `rolegate-load http --help`.

Exit codes:
  0    the run came to its end
  2    the arguments or the workload are wrong
  4    a --fail-if holds
  5    the server cannot be reached or answers nothing, a port is taken, a file cannot be written
  130  it was interrupted; the results so far were printed";

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Puts load on an HTTP server.
    #[command(after_help = WORKLOAD)]
    Http(Box<HttpArgs>),
    /// Puts load on an ext_authz server: Check calls, as Envoy makes them.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Box<CheckArgs>),
    /// Does the whole experiment: application, Envoy, rolegate and others, every rate, one report.
    Compare(Box<CompareArgs>),
    /// Puts the same load on rolegate with 1, 2, 4, … cores.
    Scale(ScaleArgs),
    /// Runs the sample application: GET and POST /people, HTTP/1.1 and HTTP/2.
    App(ServerArgs),
    /// Runs the yardstick: an ext_authz server on tonic that allows everything.
    Baseline(BaselineArgs),
}

const WORKLOAD: &str = "\
A workload file (TOML):
  [variables]
  id   = { sequence = { from = 1, step = 1 } }     1, 2, 3, …
  age  = { range = { min = 18, max = 99 } }        any of them
  key  = \"uuid\"
  at   = { now = \"rfc3339\" }                       or \"unix\", \"unix-ms\"
  name = { file = \"names.txt\" }                    any line of a file beside this one
  word = { list = [\"red\", \"green\"] }

  [[requests]]
  weight  = 9                                      nine of ten
  path    = \"/people/${id}?name=${name}\"
  basic   = \"alice:wonderland\"
  expect  = [200, 404]                             else any status below 400

  [[requests]]
  method  = \"POST\"
  path    = \"/_bulk\"
  headers = { content-type = \"application/x-ndjson\" }
  body    = '{\"id\":\"${key}\",\"age\":${age}}
  '
  repeat  = 1000                                   the body so many times, with new values each
  gzip    = true

A variable has one value in a request, and new ones in each repeated line.";

const CHECK_EXAMPLES: &str = "\
Examples:
  rolegate-load check 127.0.0.1:9191 --path /people --basic alice:wonderland --rate max --connections 2 --streams 32
  rolegate-load check unix:/run/rolegate.sock --method POST --path /people --basic alice:wonderland --expect 403
  rolegate-load check 127.0.0.1:9191 --bearer-file token --find-max --p99 2ms

The calls say what Envoy says with `encode_raw_headers: true`. A call that is allowed counts as status 200, one that is
denied as the status that the client would get. A gRPC status other than 0 is an error.";

/// The arguments of `http`.
#[derive(Args, Debug)]
pub struct HttpArgs {
    /// What to ask for, such as `http://127.0.0.1:8080/people`.
    #[arg(value_name = "URL")]
    pub url: String,
    /// Speak HTTP/2, without TLS and known beforehand.
    #[arg(long)]
    pub http2: bool,
    /// How much of what, and what to print of it.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The arguments of `check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The server, such as `127.0.0.1:9191` or `unix:/run/rolegate.sock`.
    #[arg(value_name = "ADDR")]
    pub address: String,
    /// The path, with its query, of the request that the calls are about.
    #[arg(long, default_value = "/people")]
    pub path: String,
    /// How much of what, and what to print of it.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What `http` and `check` have in common.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// How much.
    #[command(flatten)]
    pub load: LoadArgs,
    /// What.
    #[command(flatten)]
    pub request: RequestArgs,
    /// What to print and to write.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How much load, for how long.
#[derive(Args, Debug)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Requests a second, whatever the server does; `max` sends the next as soon as one is answered.
    #[arg(long, short = 'r', value_name = "N|max", default_value = "100", value_parser = units::rate)]
    pub rate: Rate,
    /// A rate that changes evenly over the whole time, such as `100..5000`.
    #[arg(long, value_name = "A..B", value_parser = units::ramp, conflicts_with_all = ["rate", "find_max"])]
    pub ramp: Option<Rate>,
    /// Look for the highest rate whose p99 keeps under `--p99` without an error: some eight runs of `--duration`.
    #[arg(long, requires = "p99", conflicts_with = "rate")]
    pub find_max: bool,
    /// The limit of `--find-max`.
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "find_max")]
    pub p99: Option<Duration>,
    /// Connections to hold open.
    #[arg(long, short = 'c', default_value_t = 8, value_name = "N")]
    pub connections: usize,
    /// Requests under way on each connection, in HTTP/2 and Check calls (1 and 32, if not said).
    #[arg(long, short = 's', value_name = "N")]
    pub streams: Option<usize>,
    /// How long to measure (10s, unless `--requests` is given).
    #[arg(long, short = 'd', short_alias = 't', value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// How many requests to measure.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// How long to ask before anything is measured.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration)]
    pub warmup: Duration,
    /// How long an answer may take before it counts as an error.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    pub timeout: Duration,
    /// How long to wait for a server that is not there yet.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration)]
    pub wait: Duration,
    /// Threads of the generator: more of them where one is not enough and there are cores to spare.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// What the choices of a workload begin with: the same seed, the same requests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What to ask.
#[derive(Args, Debug)]
#[command(next_help_heading = "Request")]
pub struct RequestArgs {
    /// A workload file: a weighted mix of requests with variables. The other options here are added to each of them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "body", "body_file"])]
    pub workload: Option<PathBuf>,
    /// The method (GET, or POST with a body).
    #[arg(long, short = 'X', value_name = "METHOD")]
    pub method: Option<String>,
    /// The host that requests name.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// A header line; repeat it for more than one.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    pub headers: Vec<Secret>,
    /// The user and the password of HTTP Basic. They are never shown.
    #[arg(long, value_name = "USER:PASSWORD", env = "ROLEGATE_LOAD_BASIC", hide_env_values = true)]
    #[arg(conflicts_with_all = ["basic_file", "bearer", "bearer_file"])]
    pub basic: Option<Secret>,
    /// A file with them, so that they are in no list of processes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bearer", "bearer_file"])]
    pub basic_file: Option<PathBuf>,
    /// A token. It is never shown.
    #[arg(long, value_name = "TOKEN", env = "ROLEGATE_LOAD_BEARER", hide_env_values = true)]
    #[arg(conflicts_with = "bearer_file")]
    pub bearer: Option<Secret>,
    /// A file with the token.
    #[arg(long, value_name = "FILE")]
    pub bearer_file: Option<PathBuf>,
    /// The body.
    #[arg(long, value_name = "TEXT")]
    pub body: Option<String>,
    /// A file with the body.
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    pub body_file: Option<PathBuf>,
    /// Send the body compressed.
    #[arg(long)]
    pub gzip: bool,
    /// The statuses that are expected, if not any below 400.
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',')]
    pub expect: Vec<u16>,
}

/// What to print and to write.
#[derive(Args, Debug)]
#[command(next_help_heading = "Results")]
pub struct OutputArgs {
    /// Write the results as JSON, as fortio does; `-` is standard output, instead of the table.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write the corrected latencies as HdrHistogram's text.
    #[arg(long, value_name = "FILE|-")]
    pub hgrm: Option<PathBuf>,
    /// Write the results as CSV.
    #[arg(long, value_name = "FILE|-")]
    pub csv: Option<PathBuf>,
    /// Write a report to look at in a browser.
    #[arg(long, value_name = "FILE|-")]
    pub html: Option<PathBuf>,
    /// A name for this run, in the JSON.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub labels: String,
    /// End with exit code 4 where this holds: `p99>5ms`, `mean>1ms`, `errors>1%`, `rate<990`, `unexpected>0`, `status 403>0`,
    /// `denied 403>0`; repeat it for more than one.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Threshold>,
}

/// The arguments of `app`.
#[derive(Args, Debug)]
pub struct ServerArgs {
    /// Where to listen; port 0 lets the system choose.
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub address: Address,
    /// Threads; 0 is one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
}

/// The arguments of `baseline`.
#[derive(Args, Debug)]
pub struct BaselineArgs {
    /// Where to listen: an address and a port, or `unix:/path`; port 0 lets the system choose.
    #[arg(value_name = "ADDR")]
    pub address: Address,
    /// Threads; 0 is one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
}

/// Something that is never shown.
#[derive(Clone)]
pub struct Secret(pub(crate) String);

impl std::str::FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}
