//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::address::Address;
use crate::plan::Rate;
use crate::thresholds::Threshold;
use crate::units;

#[derive(Parser)]
#[command(
    name = "rolegate-load",
    version,
    about = ABOUT,
    disable_help_subcommand = true,
    after_help = EXAMPLES
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const ABOUT: &str =
    "Generates load on HTTP and ext_authz servers, and measures throughput, latency and errors";

const EXAMPLES: &str = "\
Examples:
  rolegate-load app 127.0.0.1:8080                       runs a server to try it on
  rolegate-load http http://127.0.0.1:8080/people --rate 1000 --duration 30s
  rolegate-load http http://127.0.0.1:8080/people --rate max --connections 32
  rolegate-load check unix:/run/rolegate.sock --basic alice:wonderland --rate 5000
  rolegate-load http http://app:8080 --workload mix.toml --fail-if 'errors>0' --fail-if 'p99>5ms'
  rolegate-load http http://127.0.0.1:8080/people --find-max --p99 5ms

Options of fortio: -c, -t (--duration), -n, -H and -s are the same. -qps is --rate, -qps 0 is
--rate max, -json is --json (`fortio report` shows the file), -user is --basic, -payload is --body,
-h2 is --http2, and -grpc is `check`. With a rate the load is an open loop: a slow server does not
slow it down while connections are free, and latencies count from when a request was due.

Options of INFINI's loadgen: -c is the same, and -d with a unit (`-d 30s`). -r is --rate, -l is -n,
-compress is --gzip, -timeout is --timeout, with a unit, which also limits each attempt to connect
(-dial-timeout). Variables (`sequence`, `range`, `uuid`, `now`, `file`, `list`),
`body_repeat_times` (here `repeat`), weights and expected statuses are in the workload file: see
`rolegate-load http --help`.

Exit codes:
  0    the run is complete
  2    the arguments or the workload are invalid
  4    a --fail-if condition is true
  5    another failure: the server does not answer, a port is in use, a file cannot be written
  130  the run was interrupted; the results up to then were printed";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Generates load on an HTTP server.
    #[command(after_help = WORKLOAD)]
    Http(Box<HttpArgs>),
    /// Generates load on an ext_authz server: Check calls like those of Envoy.
    #[command(after_help = CHECK_EXAMPLES, mut_arg("host", |arg| arg.help(CHECK_HOST)))]
    Check(Box<CheckArgs>),
    /// Runs the sample application: GET and POST /people, HTTP/1.1 and HTTP/2.
    App(ServerArgs),
}

const WORKLOAD: &str = "\
A workload file (TOML):
  [variables]
  id   = { sequence = { from = 1, step = 1 } }     # 1, 2, 3, …
  age  = { range = { min = 18, max = 99 } }        # a random number
  key  = \"uuid\"
  at   = { now = \"rfc3339\" }                       # or \"unix\", \"unix-ms\"
  name = { file = \"names.txt\" }                    # a random line of a file in the same folder
  word = { list = [\"red\", \"green\"] }             # a random one of these

  [[requests]]
  weight  = 9                                      # nine of ten requests, as the other weight is 1
  path    = \"/people/${id}?name=${name}\"
  basic   = \"alice:wonderland\"
  expect  = [200, 404]                             # default: any status below 400

  [[requests]]
  method  = \"POST\"
  path    = \"/_bulk\"
  headers = { content-type = \"application/x-ndjson\" }
  body    = '''
{\"id\":\"${key}\",\"age\":${age}}
'''
  host    = \"logs.example.com\"                     # default: that of the URL
  bearer  = \"a.jwt.here\"                           # or basic
  repeat  = 1000                                   # repeats the body, with new values each time
  gzip    = true

A variable has the same value throughout a request, and a new one in each repetition of the body.";

/// The help of `--host` with `check`.
const CHECK_HOST: &str = "The host of the requests [default: ADDR, with a Unix socket `localhost`]";

const CHECK_EXAMPLES: &str = "\
Examples:
  rolegate-load check 127.0.0.1:9191 --basic alice:wonderland --rate max --connections 2
  rolegate-load check unix:/run/rolegate.sock --method POST --basic alice:wonderland --expect 403
  rolegate-load check 127.0.0.1:9191 --bearer-file token --find-max --p99 2ms

The calls are those of Envoy with `encode_raw_headers: true`. An allowed call counts as status
200, a denied call as the status that the client would get. A gRPC status other than OK is an
error.";

#[derive(Args)]
pub(crate) struct HttpArgs {
    /// The URL (`http:` only), such as `http://127.0.0.1:8080/people`; with `--workload` the paths
    /// in the file count.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Use HTTP/2 with prior knowledge, without TLS.
    #[arg(long)]
    pub(crate) http2: bool,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The server, such as `127.0.0.1:9191` or `unix:/run/rolegate.sock`.
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,
    /// Path and query of the HTTP request to authorize; with `--workload` those in the file count.
    #[arg(long, default_value = "/people")]
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Requests per second, however slow the server is (open loop), as long as connections are
    /// free: use more (`-c`) if the report counts requests that waited for a connection. With `max`
    /// each connection or stream sends its next request after an answer (closed loop).
    #[arg(long, short, value_name = "N|max", default_value = "100", value_parser = units::rate)]
    pub(crate) rate: Rate,
    /// A rate that changes linearly during the run, such as `100..5000`.
    #[arg(long, value_name = "A..B", value_parser = units::ramp)]
    #[arg(conflicts_with_all = ["rate", "find_max"])]
    pub(crate) ramp: Option<Rate>,
    /// Find the highest rate with a p99 of at most `--p99` at which every request gets an expected
    /// answer (`--expect`), in up to nine runs of `--duration` each.
    #[arg(long, requires = "p99", conflicts_with = "rate")]
    pub(crate) find_max: bool,
    /// The latency limit of `--find-max`.
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "find_max")]
    pub(crate) p99: Option<Duration>,
    /// Connections to keep open.
    #[arg(long, short, default_value_t = 8, value_name = "N")]
    pub(crate) connections: usize,
    /// Concurrent requests per connection, with HTTP/2 and `check` [default: 1 with HTTP/2, 32 with
    /// `check`].
    #[arg(long, short, value_name = "N")]
    pub(crate) streams: Option<usize>,
    /// How long to measure [default: 10s, without limit if `--requests` is given].
    #[arg(long, short, short_alias = 't', value_name = "TIME", value_parser = units::duration)]
    pub(crate) duration: Option<Duration>,
    /// How many requests to measure.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// How long to send requests before the measurement.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration)]
    pub(crate) warmup: Duration,
    /// The time from sending after which a missing response counts as an error; also the limit of
    /// each attempt to connect.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    pub(crate) timeout: Duration,
    /// How long to retry connecting to a server that is not up yet.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration)]
    pub(crate) wait: Duration,
    /// Threads of the load generator; use more if they are the limit and cores are idle.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// The seed of the workload's random choices, `uuid` among them: with the same seed and number
    /// of threads they are the same again. Times (`now`) differ, and with several threads also
    /// which request gets which number of a `sequence`.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

// Not `Debug`, because it has secrets.
#[derive(Args)]
#[command(next_help_heading = "Request")]
pub(crate) struct RequestArgs {
    /// A workload file: a weighted mix of requests with variables, in the format that
    /// `rolegate-load http --help` shows. `--host` and `--expect` replace those of each request in
    /// it, `--gzip` applies to all, and headers and credentials are added: give credentials only if
    /// no request in the file has any. Methods, paths and bodies are those in the file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "body", "body_file"])]
    pub(crate) workload: Option<PathBuf>,
    /// The method [default: GET, or POST with a body].
    #[arg(long, short = 'X', value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// The host of the requests [default: that of the URL, with its port].
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// A header line; can be repeated.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// User name and password for HTTP Basic. They are never printed.
    #[arg(long, value_name = "USER:PASSWORD", env = "ROLEGATE_LOAD_BASIC", hide_env_values = true)]
    #[arg(conflicts_with_all = ["basic_file", "bearer", "bearer_file"])]
    pub(crate) basic: Option<String>,
    /// A file with `USER:PASSWORD`, so that they do not appear in the list of processes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bearer", "bearer_file"])]
    pub(crate) basic_file: Option<PathBuf>,
    /// A bearer token. It is never printed.
    #[arg(long, value_name = "TOKEN", env = "ROLEGATE_LOAD_BEARER", hide_env_values = true)]
    #[arg(conflicts_with = "bearer_file")]
    pub(crate) bearer: Option<String>,
    /// A file with the token.
    #[arg(long, value_name = "FILE")]
    pub(crate) bearer_file: Option<PathBuf>,
    /// The body.
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// A file with the body.
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    pub(crate) body_file: Option<PathBuf>,
    /// Compress the body with gzip.
    #[arg(long)]
    pub(crate) gzip: bool,
    /// The expected statuses; others are counted as unexpected [default: any below 400].
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',')]
    pub(crate) expect: Vec<u16>,
}

#[derive(Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct OutputArgs {
    /// Write the results as JSON in fortio's format; `-` is standard output, instead of the table.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write the latencies, counted from when each request was due, in HdrHistogram's text format.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Write the results as CSV.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a report as an HTML page.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) html: Option<PathBuf>,
    /// A name for this run in the JSON.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) labels: String,
    /// Exit with code 4 if the results meet this condition: `p99>5ms`, `mean>1ms`, `errors>1%`,
    /// `rate<990`, `unexpected>0`, `status 403>0` (of `check`: the status that the client would
    /// get); with `check`, `denied 403>0` means the same, and `allowed<1` counts the allowed calls.
    /// `errors` are requests without a complete response (of `check` also with a gRPC status other
    /// than OK), `unexpected` are responses with another status than the expected (`--expect`),
    /// such as 404: give both. Can be repeated.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Threshold>,
}

#[derive(Args)]
pub(crate) struct ServerArgs {
    /// The address to listen on; port 0 lets the system choose.
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(crate) address: Address,
    /// Number of threads; 0 means as many as cores.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) threads: usize,
}
