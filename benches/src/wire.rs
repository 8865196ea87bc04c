//! Checks per second of the server alone: rolegate with Basic (verified password, cached) and with a token (cached), beside
//! the baseline.
//!
//! Each server has one core, and so has the client: 2 connections with 32 streams each, one request after the other on
//! each stream. Rounds are interleaved, so that a slow minute of the machine affects all. Prints a line per run, and notes
//! it: checks per second, and the processor time per check, which neither other load nor a slow client affects much.
//!
//! The client is h2load of nghttp2 where it is installed, else this program.

#![expect(clippy::expect_used, reason = "an experiment that cannot start has no results")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use benches::message::{self, ALICE};
use benches::note::note;
use benches::people;
use clap::Args;
use load::check_message::CHECK_PATH;
use load::report::units;
use load::{Exit, Plan, Rate, Request, Workload};
use testbed::envoy::Target;
use testbed::rolegate::{ANY_PORT, Rolegate};
use testbed::tokens::{Signer, now};
use testbed::{Failed, block_on};

use crate::machine::Usage;
use crate::pin::{Pin, Pins, on};
use crate::{announced, write};

/// The arguments of `wire`.
#[derive(Args)]
pub(crate) struct WireArgs {
    /// Rounds; the servers take turns in each.
    #[arg(default_value_t = 5)]
    rounds: u32,
    /// Seconds of each measurement.
    #[arg(default_value_t = 3)]
    seconds: u32,
    /// The program of the baseline (the one beside this program).
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

/// A server that is measured.
struct Server {
    name: &'static str,
    process: u32,
    address: String,
    /// The value of the `Authorization`.
    authorization: String,
    /// A file with the message in its gRPC frame.
    message: PathBuf,
    /// Stops it when it is dropped.
    _keep: Box<dyn std::any::Any>,
}

/// The result of a round.
struct Round {
    checks: f64,
    seconds: f64,
}

/// Runs the experiment.
pub(crate) fn run(args: &WireArgs) -> Result<Exit, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let pins = Pins::new(Pin::Cores);
    let servers = on(pins.server.as_deref(), || servers(args, folder.path()))?;
    let h2load = Command::new("h2load").arg("--version").stdout(Stdio::null()).status();
    let h2load = h2load.is_ok_and(|it| it.success());
    let ask = |server: &Server, seconds| {
        on(pins.outside.as_deref(), || {
            if h2load { by_h2load(server, seconds) } else { by_load(server, seconds) }
        })
    };
    println!(
        "round server checks/s cpu_ns_per_check (client: {})",
        if h2load { "h2load" } else { "measure" }
    );
    for round in 1..=args.rounds {
        for server in &servers {
            ask(server, 1);
            let before = Usage::of(server.process).ran;
            let Round { checks, seconds } = ask(server, args.seconds);
            let ran = units::float(Usage::of(server.process).ran.saturating_sub(before));
            let (rate, cpu) = (checks / seconds, ran / checks);
            println!("{round} {} {rate:.0} {cpu:.0}", server.name);
            note(&format!("wire/{}/rate", server.name), "checks/s", rate)?;
            note(&format!("wire/{}/cpu", server.name), "ns", cpu)?;
        }
    }
    Ok(Exit::Fine)
}

fn servers(args: &WireArgs, folder: &Path) -> Result<Vec<Server>, Failed> {
    let signer = Signer::default();
    let bearer = signer.bearer("ES256", now());
    let rolegate = |name, policy: &str, authorization: &str| -> Result<Server, Failed> {
        let file = folder.join(name).join("policy.yaml");
        write(&file, policy)?;
        write(&file.with_file_name("jwks.json"), &signer.key_set())?;
        let (program, listen) = (testbed::program()?, Target::Tcp(ANY_PORT));
        let more = ["--threads", "1", "--drain-delay", "0s", "--log-format", "json"];
        let rolegate = block_on(Rolegate::start(&program, &file, listen, folder, &more))?;
        let (address, process) = (rolegate.listen.to_string(), rolegate.id());
        Server::new(folder, name, (process, address), authorization, Box::new(rolegate))
    };
    let program = crate::baseline(args.baseline.as_ref())?;
    let (process, address) = announced("baseline", &program, &["127.0.0.1:0"], folder)?;
    Ok(vec![
        rolegate("rolegate-basic", people::BASIC, ALICE)?,
        Server::new(folder, "baseline", (process.id(), address), ALICE, Box::new(process))?,
        rolegate("rolegate-jwt", &people::with_tokens(), &bearer)?,
    ])
}

impl Server {
    fn new(
        folder: &Path,
        name: &'static str,
        (process, address): (u32, String),
        authorization: &str,
        keep: Box<dyn std::any::Any>,
    ) -> Result<Self, Failed> {
        let message = folder.join(format!("{name}.message"));
        let written = std::fs::write(&message, message::wire(authorization));
        written.map_err(|error| Failed::io("message", &error))?;
        Ok(Self { name, process, address, authorization: authorization.to_owned(), message, _keep: keep })
    }
}

/// Every answer must be one of gRPC, and there must be some.
fn by_h2load(server: &Server, seconds: u32) -> Round {
    let mut command = Command::new("h2load");
    command.args(["-c", "2", "-m", "32", "-t", "1", "-D", &seconds.to_string(), "-d"]).arg(&server.message);
    command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
    command.arg(format!("http://{}{CHECK_PATH}", server.address));
    let output = command.stderr(Stdio::inherit()).output().expect("h2load");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "h2load failed: {printed}");
    let between = |start: &str, end: &str| -> &str {
        let rest = printed.split(start).nth(1).and_then(|it| it.split(end).next());
        rest.expect("a figure of h2load")
    };
    let figure = |text: &str| -> f64 { text.trim().parse().expect("a figure of h2load") };
    // `finished in 4.00s, 123456.75 req/s, …`
    let rate = between("finished in ", " req/s").rsplit(' ').next().map(figure).expect("a rate");
    let checks = figure(between("status codes: ", " 2xx"));
    // An error has no message, and so no data.
    let data = between("headers (space savings", " data").rsplit('(').next().unwrap_or_default();
    let data = figure(data.trim_end_matches(')'));
    assert!(printed.contains(" 0 failed, 0 errored") && data >= checks * 5.0, "{printed}");
    Round { checks, seconds: checks / rate }
}

fn by_load(server: &Server, seconds: u32) -> Round {
    let mut plan = Plan::check(&server.address).expect("an address");
    let request = Request { expect: vec![200], ..Request::get("/people") };
    plan.workload = Workload::of(request.header("authorization", &server.authorization));
    (plan.rate, plan.connections, plan.streams) = (Rate::Max, 2, 32);
    plan.duration = Some(Duration::from_secs(seconds.into()));
    let measured = load::run(&plan).expect("a server that answers");
    assert_eq!(measured.errors() + measured.unexpected, 0, "{measured:?}");
    let checks = units::float(measured.corrected.len());
    Round { checks, seconds: checks / measured.own.achieved }
}
