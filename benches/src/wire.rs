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
struct Server {
    name: &'static str,
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
    let load = |server: &Server, seconds| on(pins.outside.as_deref(), || load(server, seconds));
    println!("round server checks/s cpu_ns_per_check");
    for round in 1..=args.rounds {
        for server in &servers {
            load(server, 1);
            let before = Usage::of(server.process).ran;
            let Run { rate, answered, .. } = load(server, args.seconds);
            let ran = units::float(Usage::of(server.process).ran.saturating_sub(before));
            let cpu = ran / units::float(answered);
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
    let rolegate = |name, policy: &str, authorization: &str, with_shadow: bool| -> Result<Server, Failed> {
        let file = folder.join(name).join("policy.yaml");
        write(&file, policy)?;
        write(&file.with_file_name("jwks.json"), &signer.key_set())?;
        let (program, listen) = (testbed::program()?, Target::Tcp(ANY_PORT));
        let mut more = vec!["--threads", "1", "--drain-delay", "0s", "--log-format", "json"];
        let shadow = file.display().to_string();
        if with_shadow {
            more.extend(["--shadow", &shadow]);
        }
        let rolegate = block_on(Rolegate::start(&program, &file, listen, folder, &more))?;
        let (address, process) = (rolegate.listen.to_string(), rolegate.id());
        Ok(server(name, (process, address), authorization, Box::new(rolegate)))
    };
    let program = crate::baseline(args.baseline.as_ref())?;
    let (process, address) = announced("baseline", &program, &["127.0.0.1:0"], folder)?;
    Ok(vec![
        rolegate("rolegate-basic", people::BASIC, ALICE, false)?,
        rolegate("rolegate-shadow", people::BASIC, ALICE, true)?,
        server("baseline", (process.id(), address), ALICE, Box::new(process)),
        rolegate("rolegate-jwt", &people::with_tokens(), &bearer, false)?,
    ])
}

fn server(
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
