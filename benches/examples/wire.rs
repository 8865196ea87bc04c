//! Checks per second of the server alone: rolegate with Basic (verified password, cached) and with a token (cached), beside
//! an always-allow server on tonic (`rolegate-load baseline`) and beside the lane that lost, on hyper.
//!
//! Each server has one core, and so has the client: 2 connections with 32 streams each, one request after the other on
//! each stream. Rounds are interleaved, so that a slow minute of the machine hits all. Prints a line a run, and notes it:
//! checks per second, and the processor time of a check, which neither other load nor a slow client sways much.
//!
//! `wire [ROUNDS [SECONDS]]`, with `rolegate`, `rolegate-load` and the other examples of this package built beside it.
//! The client is h2load of nghttp2 where it is installed; else `rolegate-load`.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark that cannot start has nothing to say"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use benches::message::{self, ALICE};
use benches::note::note;
use benches::people;
use benches::signer::Signer;
use serde_json::Value;
use testbed::Process;

/// Where servers listen: the system chooses the port, and they print it.
const ANYWHERE: &str = "127.0.0.1:0";
const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";

/// A server that is measured, and what it is asked.
struct Server {
    name: &'static str,
    process: Process,
    address: String,
    /// The value of the `Authorization`.
    authorization: String,
    /// The message in its gRPC frame.
    message: PathBuf,
}

/// What a round found out.
struct Round {
    checks: f64,
    seconds: f64,
}

/// Who asks.
enum Client {
    H2load,
    RolegateLoad(PathBuf),
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse().expect("a number"));
    let (rounds, seconds) = (numbers.next().unwrap_or(5_u32), numbers.next().unwrap_or(3));
    let folder = tempfile::tempdir().expect("a folder");
    let built = built();
    let servers = servers(&built, folder.path());
    let client = client(&built);
    println!("round server checks/s cpu_ns_per_check (client: {})", client.name());
    for round in 1..=rounds {
        for server in &servers {
            client.ask(server, 1);
            let before = ran(&server.process);
            let Round { checks, seconds } = client.ask(server, seconds);
            let (rate, cpu) = (checks / seconds, (ran(&server.process) - before) / checks);
            println!("{round} {} {rate:.0} {cpu:.0}", server.name);
            note(&format!("wire/{}/rate", server.name), "checks/s", rate).expect("a note");
            note(&format!("wire/{}/cpu", server.name), "ns", cpu).expect("a note");
        }
    }
}

/// Where cargo puts its programs.
fn built() -> PathBuf {
    let this = std::env::current_exe().expect("this program");
    this.ancestors().nth(2).expect("a folder of examples in one of programs").to_path_buf()
}

fn servers(built: &Path, folder: &Path) -> Vec<Server> {
    let signer = Signer::new().expect("keys");
    let now = Command::new("date").arg("+%s").output().expect("a clock").stdout;
    let now = String::from_utf8_lossy(&now).trim().parse().expect("a time");
    let bearer = signer.bearer("ES256", now).expect("a token");
    let people = policy(folder, "people", people::BASIC, &signer);
    let tokens = policy(folder, "tokens", &people::with_tokens(), &signer);
    let rolegate = |policy: &Path| {
        let mut command = pinned(&built.join("rolegate"));
        command.args(["serve", "--listen", ANYWHERE, "--admin", "off", "--threads", "1", "--policy"]);
        command.arg(policy);
        command
    };
    let mut tonic = pinned(&built.join("rolegate-load"));
    tonic.args(["baseline", ANYWHERE, "--threads", "1"]);
    let mut hyper = pinned(&built.join("examples/check_on_hyper"));
    hyper.arg(ANYWHERE).arg(people.join("policy.yaml"));
    [
        ("rolegate-basic", rolegate(&people), ALICE),
        ("tonic", tonic, ALICE),
        ("rolegate-jwt", rolegate(&tokens), &*bearer),
        ("hyper", hyper, ALICE),
    ]
    .into_iter()
    .map(|(name, command, authorization)| start(folder, name, command, authorization))
    .collect()
}

/// A folder with a policy and the keys of the signer.
fn policy(folder: &Path, name: &str, text: &str, signer: &Signer) -> PathBuf {
    let folder = folder.join(name);
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("policy.yaml"), text).expect("a policy");
    fs::write(folder.join("jwks.json"), signer.jwks().expect("keys").to_string()).expect("keys");
    folder
}

/// On the first core; the second is the client's.
fn pinned(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program);
    command
}

fn start(folder: &Path, name: &'static str, command: Command, authorization: &str) -> Server {
    let message = folder.join(format!("{name}.message"));
    fs::write(&message, message::wire(authorization)).expect("a message");
    let process = Process::start(name, command, folder.join(format!("{name}.log"))).expect("a server");
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if let Some(address) = announced(&process.printed()) {
            return Server { name, process, address, authorization: authorization.to_owned(), message };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{}", process.failed("it does not listen after 20 s"))
}

/// The address in `listening on ADDRESS`, or in a line of rolegate's log.
fn announced(printed: &str) -> Option<String> {
    printed.lines().find_map(|line| {
        if let Some(address) = line.strip_prefix("listening on ") {
            return Some(address.to_owned());
        }
        let line: Value = serde_json::from_str(line).ok()?;
        let listening = line.get("message").and_then(Value::as_str) == Some("listening");
        line.get("address").filter(|_| listening).and_then(Value::as_str).map(str::to_owned)
    })
}

fn client(built: &Path) -> Client {
    let h2load = Command::new("h2load").arg("--version").stdout(Stdio::null()).status();
    let ours = built.join("rolegate-load");
    match h2load {
        Ok(status) if status.success() => Client::H2load,
        _ => Client::RolegateLoad(ours),
    }
}

impl Client {
    fn name(&self) -> &'static str {
        match self {
            Self::H2load => "h2load",
            Self::RolegateLoad(_) => "rolegate-load",
        }
    }

    /// Asks for so many seconds. Every answer must be gRPC's, and there must be some.
    fn ask(&self, server: &Server, seconds: u32) -> Round {
        let mut command = Command::new("taskset");
        command.args(["-c", "1"]);
        match self {
            Self::H2load => self.h2load(command, server, seconds),
            Self::RolegateLoad(program) => self.rolegate_load(command, program, server, seconds),
        }
    }

    fn h2load(&self, mut command: Command, server: &Server, seconds: u32) -> Round {
        command.args(["h2load", "-c", "2", "-m", "32", "-t", "1", "-D", &seconds.to_string(), "-d"]);
        command.arg(&server.message).args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
        command.arg(format!("http://{}{CHECK}", server.address));
        let printed = output(command);
        let between = |start: &str, end: &str| -> &str {
            let rest = printed.split(start).nth(1).and_then(|it| it.split(end).next());
            rest.expect("a figure of h2load")
        };
        let figure = |text: &str| -> f64 { text.trim().parse().expect("a figure of h2load") };
        // `finished in 4.00s, 123456.75 req/s, …`
        let rate = between("finished in ", " req/s").rsplit(' ').next().map(figure);
        let checks = figure(between("status codes: ", " 2xx"));
        // An error has no message, and so no data.
        let data = figure(
            between("headers (space savings", " data")
                .rsplit('(')
                .next()
                .unwrap_or_default()
                .trim_end_matches(')'),
        );
        assert!(printed.contains(" 0 failed, 0 errored") && data >= checks * 5.0, "{printed}");
        Round { checks, seconds: checks / rate.expect("a rate") }
    }

    fn rolegate_load(&self, mut command: Command, program: &Path, server: &Server, seconds: u32) -> Round {
        command.arg(program).args(["check", &server.address, "--rate", "max", "--connections", "2"]);
        command.args(["--streams", "32", "--duration", &format!("{seconds}s"), "--json", "-", "--header"]);
        command.arg(format!("authorization: {}", server.authorization));
        let report: Value = serde_json::from_str(&output(command)).expect("a report in JSON");
        let figure = |path: &str| report.pointer(path).and_then(Value::as_f64).expect("a figure");
        let checks = figure("/DurationHistogram/Count");
        Round { checks, seconds: checks / figure("/ActualQPS") }
    }
}

fn output(mut command: Command) -> String {
    let output = command.stderr(Stdio::inherit()).output().expect("the client");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "the client failed: {printed}");
    printed
}

/// Nanoseconds that a process has run: the first field of schedstat, summed over its threads.
#[expect(clippy::disallowed_methods, reason = "the system says what a process has run in files")]
fn ran(process: &Process) -> f64 {
    let threads = fs::read_dir(format!("/proc/{}/task", process.id())).expect("the threads of a server");
    let of_thread = |thread: fs::DirEntry| -> Option<f64> {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    threads.flatten().filter_map(of_thread).sum()
}
