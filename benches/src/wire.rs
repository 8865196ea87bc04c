//! Checks per second of the server alone: rolegate with Basic (verified password, cached), the same with its policy as shadow
//! policy too, and with a token (cached), beside the baseline.
//!
//! Each server has one core, and so has the client: 2 connections with 32 streams each, one request after the other on
//! each stream. Rounds are interleaved, so that a slow minute of the machine affects all. Prints a line per run, and notes
//! it: checks per second, and the processor time per check, which neither other load nor a slow client affects much.

#![expect(clippy::expect_used, reason = "an experiment that cannot start has no results")]

mod client;

use std::error::Error;
use std::path::{Path, PathBuf};
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
use crate::{announced, write};

/// The arguments of `wire`.
#[derive(Args)]
pub(crate) struct WireArgs {
    /// Number of rounds; the servers take turns in each.
    #[arg(default_value_t = 5)]
    rounds: u32,
    /// Duration of each measurement, in seconds.
    #[arg(default_value_t = 3)]
    seconds: u32,
    /// The program of the baseline [default: `baseline` in the folder of this program].
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

/// A server that is measured.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    process: u32,
    address: String,
    /// The message in its gRPC frame.
    message: Vec<u8>,
    /// Stops it when it is dropped.
    _keep: Box<dyn std::any::Any>,
}

/// Runs the experiment.
pub(crate) fn run(args: &WireArgs) -> Result<Exit, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let pins = Pins::new();
    let servers = on(pins.server.as_deref(), || servers(args, folder.path()))?;
    println!("round server checks/s cpu_ns_per_check");
    for round in 1..=args.rounds {
        for server in &servers {
            let Measured { rate, cpu } = server.measure(&pins, args.seconds);
            println!("{round} {} {rate:.0} {cpu:.0}", server.name);
            note(&format!("wire/{}/rate", server.name), "checks/s", rate)?;
            note(&format!("wire/{}/cpu", server.name), "ns", cpu)?;
        }
    }
    Ok(Exit::Success)
}

fn servers(args: &WireArgs, folder: &Path) -> Result<Vec<Server>, Failed> {
    let signer = Signer::default();
    let bearer = signer.bearer("ES256", now());
    let with_tokens = people::with_tokens();
    let jwks = signer.key_set();
    let rolegate = |name, policy, files, authorization, options: &[&str]| {
        let (rolegate, _) = started(&folder.join(name), policy, files, Target::Tcp(ANY_PORT), options)?;
        let (address, process) = (rolegate.listen.to_string(), rolegate.id());
        Ok::<_, Failed>(server(name, (process, address), authorization, Box::new(rolegate)))
    };
    let program = crate::baseline(args.baseline.as_ref())?;
    let (process, address) = announced("baseline", &program, &["127.0.0.1:0"], folder)?;
    let shadow = folder.join("rolegate-shadow/policy.yaml").display().to_string();
    Ok(vec![
        rolegate("rolegate-basic", people::BASIC, &[], ALICE, &[])?,
        rolegate("rolegate-shadow", people::BASIC, &[], ALICE, &["--shadow", &shadow])?,
        server("baseline", (process.id(), address), ALICE, Box::new(process)),
        rolegate("rolegate-jwt", &with_tokens, &[("jwks.json", &jwks)], &bearer, &[])?,
    ])
}

/// Starts rolegate with one thread, this policy and the files that it names, and returns it with the file of the policy.
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
    /// Measures it for so many seconds, after one second to warm up.
    pub(crate) fn measure(&self, pins: &Pins, seconds: u32) -> Measured {
        let load = |seconds| on(pins.outside.as_deref(), || load(self, seconds));
        load(1);
        let before = Usage::of(self.process).ran;
        let Run { rate, answered, .. } = load(seconds);
        let ran = units::float(Usage::of(self.process).ran.saturating_sub(before));
        Measured { rate, cpu: ran / units::float(answered) }
    }
}

pub(crate) fn server(
    name: &'static str,
    (process, address): (u32, String),
    authorization: &str,
    keep: Box<dyn std::any::Any>,
) -> Server {
    Server { name, process, address, message: message::wire(authorization), _keep: keep }
}

/// A run of the client. Every answer is the same, and allows the request.
fn load(server: &Server, seconds: u32) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let time = Duration::from_secs(seconds.into());
    let run = runtime.block_on(client::run(&server.address, &server.message, time));
    let run = run.expect("a server that answers");
    let answer = run.message.get(5..).and_then(|message| CheckResponse::decode(message).ok());
    let status = answer.and_then(|answer| answer.status);
    assert_eq!(status.map(|status| status.code), Some(0), "the request is not allowed");
    run
}
