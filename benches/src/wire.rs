//! Checks per second of the server alone: rolegate with Basic (verified password, cached), the same
//! with its policy as shadow policy too, and with a token (cached), beside the baseline. The
//! baseline gets the message with the token as well: the difference between its two rates is what
//! the larger message costs a server that ignores the token.
//!
//! Each server has one core, and so has the client: 2 connections with 32 streams each, one request
//! after the other on each stream. Prints a line per run, and notes it: checks per second, and the
//! processor time per check, which neither other load nor a slow client affects much.
//!
//! The speed of a virtual machine can change by a factor of two within seconds. So measurements are
//! short, the servers take turns, and what is compared are the rates within a round: many short
//! rounds decide what a few long ones cannot.

#![expect(clippy::expect_used, reason = "an experiment that cannot start has no results")]

mod client;
mod http_client;

use std::any::Any;
use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use benches::message::{self, ALICE};
use benches::note::note;
use benches::people;
use clap::Args;
use client::Run;
use envoy_types::pb::envoy::service::auth::v3::CheckResponse;
use load::Exit;
use load::report::units;
use prost::Message as _;
use testbed::envoy::Target;
use testbed::rolegate::{ANY_PORT, Rolegate};
use testbed::tokens::{Signer, now};
use testbed::{Failed, block_on};

use crate::machine::Usage;
use crate::pin::{Pins, on};
use crate::spread::{Spread, median_within};
use crate::{announced, write};

/// The arguments of `wire`.
#[derive(Args)]
pub(crate) struct WireArgs {
    /// Number of rounds; the servers take turns in each.
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Duration of each measurement.
    #[arg(long, short = 'd', default_value = "300ms", value_name = "TIME", value_parser = load::units::duration)]
    duration: Duration,
    /// The program of the baseline [default: `baseline` in the folder of this program].
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

/// A server that is measured.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    process: u32,
    address: String,
    request: Request,
    /// Stops the process when the last `Server` that uses it is dropped.
    _keep: Rc<dyn Any>,
}

/// The request that is sent again and again.
enum Request {
    /// A Check call: the message in its gRPC frame.
    Check(Vec<u8>),
    /// An HTTP request of a proxy.
    Http(Vec<u8>),
}

/// The rates that are compared within each round: of which server to which, and the name of the
/// ratio.
const RATIOS: [(&str, &str, &str); 5] = [
    ("rolegate-basic", "baseline", "Basic ÷ baseline"),
    ("rolegate-jwt", "rolegate-basic", "JWT ÷ Basic"),
    ("baseline-jwt", "baseline", "baseline with token ÷ without"),
    ("rolegate-shadow", "rolegate-basic", "with shadow policy ÷ without"),
    ("rolegate-http", "axum", "forward-auth ÷ axum"),
];

/// How long a server runs under load before the first round.
const WARM_UP: Duration = Duration::from_secs(1);
/// The same before each measurement: other servers ran meanwhile, and caches and clock of the core
/// are theirs.
const WARM_AGAIN: Duration = Duration::from_millis(100);

/// Runs the experiment.
pub(crate) fn run(args: &WireArgs) -> Result<Exit, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let pins = Pins::new();
    let servers = on(pins.server.as_deref(), || servers(args, folder.path()))?;
    for server in &servers {
        server.warm_up(&pins);
    }
    println!("round server checks/s cpu_ns_per_check");
    let mut ratios = RATIOS.map(|(above, below, name)| (above, below, name, Vec::new()));
    for round in 1..=args.rounds {
        let mut rates = HashMap::new();
        // Every second round in reverse order, so that no server always follows the same one.
        let order: Vec<&Server> =
            if round % 2 == 0 { servers.iter().rev().collect() } else { servers.iter().collect() };
        for server in order {
            let Measured { rate, cpu } = server.measure(&pins, args.duration);
            println!("{round} {} {rate:.0} {cpu:.0}", server.name);
            note(&format!("wire/{}/rate", server.name), "checks/s", rate)?;
            note(&format!("wire/{}/cpu", server.name), "ns", cpu)?;
            rates.insert(server.name, rate);
        }
        for (above, below, name, values) in &mut ratios {
            if let (Some(above), Some(below)) = (rates.get(above), rates.get(below)) {
                note(&format!("wire/{name}"), "ratio", above / below)?;
                values.push(above / below);
            }
        }
    }
    println!("rates within a round, median and its 95 % confidence interval:");
    for (_, _, name, values) in &ratios {
        let median = Spread::of(values.iter().copied()).map_or(f64::NAN, |spread| spread.median);
        let within = median_within(values).map(|(low, high)| format!(" ({low:.3} to {high:.3})"));
        println!("{name} {median:.3}{}", within.unwrap_or_default());
    }
    Ok(Exit::Success)
}

fn servers(args: &WireArgs, folder: &Path) -> Result<Vec<Server>, Failed> {
    let signer = Signer::default();
    let bearer = signer.bearer("ES256", now());
    let with_tokens = people::with_tokens();
    let jwks = signer.key_set();
    let rolegate = |name, policy, files, authorization, options: &[&str]| {
        let (rolegate, _) =
            started(&folder.join(name), policy, files, Target::Tcp(ANY_PORT), options)?;
        let (address, process) = (rolegate.listen.to_string(), rolegate.id());
        Ok::<_, Failed>(server(name, (process, address), authorization, Rc::new(rolegate)))
    };
    let program = crate::baseline(args.baseline.as_ref())?;
    let baseline = |args: &[&str]| {
        let (process, address) = announced("baseline", &program, args, folder)?;
        Ok::<(u32, String, Rc<dyn Any>), Failed>((process.id(), address, Rc::new(process)))
    };
    let (id, address, tonic) = baseline(&["127.0.0.1:0"])?;
    let (axum_id, axum_address, axum) = baseline(&["127.0.0.1:0", "http"])?;
    let shadow = folder.join("rolegate-shadow/policy.yaml").display().to_string();
    // Servers that are compared are measured one after the other; only the one with a shadow policy
    // is not next to Basic.
    Ok(vec![
        server("baseline-jwt", (id, address.clone()), &bearer, Rc::clone(&tonic)),
        server("baseline", (id, address), ALICE, tonic),
        rolegate("rolegate-basic", people::BASIC, &[], ALICE, &[])?,
        rolegate("rolegate-jwt", &with_tokens, &[("jwks.json", &jwks)], &bearer, &[])?,
        rolegate("rolegate-shadow", people::BASIC, &[], ALICE, &["--shadow", &shadow])?,
        http_server("axum", (axum_id, axum_address), axum),
        forward_auth(&folder.join("rolegate-http"))?,
    ])
}

/// A rolegate that answers nginx.
fn forward_auth(folder: &Path) -> Result<Server, Failed> {
    let options =
        ["--http", "127.0.0.1:0", "--http-profile", "nginx", "--http-trusted", "127.0.0.1"];
    let (mut rolegate, _) = started(folder, people::BASIC, &[], Target::Tcp(ANY_PORT), &options)?;
    let address = block_on(rolegate.forward_auth())?.to_string();
    Ok(http_server("rolegate-http", (rolegate.id(), address), Rc::new(rolegate)))
}

/// Starts rolegate with one thread, this policy and the files that it names, and returns it with
/// the file of the policy.
pub(crate) fn started(
    folder: &Path,
    policy: &str,
    files: &[(&str, &str)],
    listen: Target,
    options: &[&str],
) -> Result<(Rolegate, PathBuf), Failed> {
    let file = folder.join("policy.yaml");
    write(&file, policy)?;
    for (name, text) in files {
        write(&folder.join(name), text)?;
    }
    let mut all = vec!["--threads", "1", "--drain-delay", "0s", "--log-format", "json"];
    all.extend(options);
    Ok((block_on(Rolegate::start(&testbed::program()?, &file, listen, folder, &all))?, file))
}

/// What a measurement gave.
pub(crate) struct Measured {
    /// Checks per second.
    pub(crate) rate: f64,
    /// Processor time per check, in nanoseconds.
    pub(crate) cpu: f64,
}

impl Server {
    /// Puts it under load before it is measured for the first time.
    pub(crate) fn warm_up(&self, pins: &Pins) {
        on(pins.outside.as_deref(), || load(self, WARM_UP));
    }

    /// Measures it for so long.
    pub(crate) fn measure(&self, pins: &Pins, duration: Duration) -> Measured {
        let load = |time| on(pins.outside.as_deref(), || load(self, time));
        load(WARM_AGAIN);
        let before = Usage::of(self.process).ran;
        let Run { rate, answered, .. } = load(duration);
        let ran = units::float(Usage::of(self.process).ran.saturating_sub(before));
        Measured { rate, cpu: ran / units::float(answered) }
    }
}

pub(crate) fn server(
    name: &'static str,
    (process, address): (u32, String),
    authorization: &str,
    keep: Rc<dyn Any>,
) -> Server {
    let request = Request::Check(message::wire(authorization));
    Server { name, process, address, request, _keep: keep }
}

fn http_server(name: &'static str, (process, address): (u32, String), keep: Rc<dyn Any>) -> Server {
    let request = Request::Http(message::nginx(ALICE));
    Server { name, process, address, request, _keep: keep }
}

/// A run of the client. Every answer is the same, and allows the request.
fn load(server: &Server, time: Duration) -> Run {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match &server.request {
        Request::Check(message) => {
            let run = runtime.block_on(client::run(&server.address, message, time));
            let run = run.expect("a server that answers");
            let answer = run.message.get(5..);
            let answer = answer.and_then(|message| CheckResponse::decode(message).ok());
            let status = answer.and_then(|answer| answer.status);
            assert_eq!(status.map(|status| status.code), Some(0), "the request is not allowed");
            run
        }
        Request::Http(request) => runtime
            .block_on(http_client::run(&server.address, request, time))
            .expect("a server that allows"),
    }
}
