//! The processes of a comparison: application, authorization services and Envoy, each on its cores.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use benches::people;
use load::{Address, Request};
use testbed::client::get;
use testbed::envoy::{Envoy, Listener, Module, Settings, Target};
use testbed::rolegate::{ANY_PORT, Rolegate};
use testbed::tokens::Signer;
use testbed::{Failed, Process, Stdout, block_on};

use super::scenario::{Client, Endpoint, Role, Scenario, Server, Transport};
use crate::machine::Usage;
use crate::pin::{Pins, on};
use crate::{START_TIMEOUT, announced, start_app};

/// All running processes. Dropping it stops them, Envoy first.
#[derive(Debug)]
pub(crate) struct Running {
    envoy: Envoy,
    /// The listener of each scenario; `None` for scenarios without Envoy.
    listeners: Vec<Option<SocketAddr>>,
    servers: Vec<Started>,
    app: Process,
    app_address: SocketAddr,
    token: String,
    /// The commands that were run, as a user would type them.
    pub(crate) commands: Vec<String>,
}

/// One authorization service.
#[derive(Debug)]
struct Started {
    server: Server,
    unix: Option<Target>,
    tcp: Option<Target>,
    /// The policy, if it is rolegate.
    policy: Option<PathBuf>,
    running: What,
}

#[derive(Debug)]
enum What {
    Rolegate(Box<Rolegate>),
    /// One process per transport.
    Baseline(Vec<Process>),
    Elsewhere(Option<u32>),
}

/// Paths of programs and files.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) rolegate: PathBuf,
    pub(crate) baseline: PathBuf,
    /// The folder of `librolegate.so`, if that is measured too.
    pub(crate) module: Option<PathBuf>,
    /// The folder for sockets, logs and policies.
    pub(crate) folder: PathBuf,
}

/// The credentials of alice in `policies/people`, a public example.
const ALICE: &str = "alice:wonderland";
/// How often a password that was not hashed in time is sent again: hashes are computed at a low
/// priority, and a busy machine may need longer for the first than Envoy waits.
const RETRIES: usize = 5;
/// Allows everything to everyone. Basic is read but not verified, so that the requests can be the
/// same for all servers.
const NOP: &str = "version: 1
identity:
  basic: { realm: nop, verify: false }
roles:
  anyone: { allow: [\"* /**\"] }
";
impl Running {
    /// Starts everything that these scenarios need.
    pub(crate) fn start(
        places: &Places,
        servers: &[Server],
        scenarios: &[Scenario],
        pins: &Pins,
    ) -> Result<Self, Failed> {
        let mut commands = Vec::new();
        let (app, app_address) = on(pins.outside.as_deref(), || start_app(&places.folder))?;
        commands.push("measure app 127.0.0.1:0".to_owned());
        let signer = Signer::default();
        let servers = on(pins.server.as_deref(), || {
            servers
                .iter()
                .map(|server| Started::new(server, places, &signer, &mut commands))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let (envoy, listeners) =
            on(pins.envoy.as_deref(), || proxy(places, app_address, scenarios, &servers))?;
        commands.push(format!("envoy {}", envoy.arguments.join(" ")));
        let folder = places.folder.display().to_string();
        let commands = commands.iter().map(|command| command.replace(&folder, "$FOLDER")).collect();
        Ok(Self {
            envoy,
            listeners,
            servers,
            app,
            app_address,
            token: people::token(&signer),
            commands,
        })
    }

    pub(crate) fn url(&self, number: usize, scenario: &Scenario) -> Option<String> {
        self.address(number, scenario).map(|at| format!("http://{at}/people"))
    }

    fn address(&self, number: usize, scenario: &Scenario) -> Option<SocketAddr> {
        match scenario.endpoint {
            Endpoint::App => Some(self.app_address),
            _ => self.listeners.get(number).copied().flatten(),
        }
    }

    /// The request of a scenario: `GET /people` with the credentials that its server requires.
    pub(crate) fn request(&self, scenario: &Scenario) -> Request {
        let request = Request { expect: vec![200], ..Request::get("/people") };
        if self.wants_token(scenario) { request.bearer(&self.token) } else { request.basic(ALICE) }
    }

    /// The credentials of a scenario as options of `rolegate-load` for the report, without the
    /// secret itself.
    pub(crate) fn credentials(&self, scenario: &Scenario) -> &'static str {
        if self.wants_token(scenario) { "--bearer …" } else { "--basic …" }
    }

    fn wants_token(&self, scenario: &Scenario) -> bool {
        self.role(scenario) == Some(&Role::Jwt)
    }

    fn role(&self, scenario: &Scenario) -> Option<&Role> {
        Some(&self.servers.get(scenario.policy_of()?)?.server.role)
    }

    /// Verifies that a scenario works as described: a caller with credentials is allowed, and
    /// behind a policy all others are not. This also hashes the password, which happens only once.
    pub(crate) fn check(&self, number: usize, scenario: &Scenario) -> Result<(), Failed> {
        let failed = |why: String| Failed::new(scenario.name.clone(), why);
        let at = self.address(number, scenario).ok_or_else(|| failed("no listener".to_owned()))?;
        let status = |headers: &[(String, String)]| {
            block_on(get(at, "/people", headers)).map(|response| response.status)
        };
        let with = || status(&self.request(scenario).headers);
        let mut answer = with()?;
        for _ in 0..RETRIES {
            if answer == 503 {
                answer = with()?;
            }
        }
        if answer != 200 {
            return Err(failed(format!("a caller with credentials got {answer} instead of 200")));
        }
        if matches!(self.role(scenario), Some(Role::Basic | Role::Jwt)) {
            let without = status(&[])?;
            if without != 401 {
                return Err(failed(format!(
                    "a caller without credentials got {without} instead of 401"
                )));
            }
        }
        Ok(())
    }

    /// The usage of application, Envoy and server; zeros for those that are not part of the
    /// scenario.
    pub(crate) fn usage(&self, scenario: &Scenario) -> [Usage; 3] {
        let envoy = if scenario.endpoint == Endpoint::App { None } else { Some(self.envoy.id()) };
        let server = self.process(scenario);
        [Some(self.app.id()), envoy, server]
            .map(|process| process.map(Usage::of).unwrap_or_default())
    }

    fn process(&self, scenario: &Scenario) -> Option<u32> {
        let Endpoint::Check { server, transport, .. } = scenario.endpoint else { return None };
        match &self.servers.get(server)?.running {
            What::Rolegate(rolegate) => Some(rolegate.id()),
            What::Baseline(both) => {
                both.get(usize::from(transport == Transport::Tcp)).map(Process::id)
            }
            What::Elsewhere(process) => *process,
        }
    }

    /// The admin interface of the scenario's rolegate.
    pub(crate) fn admin(&self, scenario: &Scenario) -> Option<SocketAddr> {
        match &self.servers.get(scenario.server()?)?.running {
            What::Rolegate(rolegate) => Some(rolegate.admin),
            What::Baseline(_) | What::Elsewhere(_) => None,
        }
    }
}

impl Started {
    fn new(
        server: &Server,
        places: &Places,
        signer: &Signer,
        commands: &mut Vec<String>,
    ) -> Result<Self, Failed> {
        match &server.role {
            Role::Nop => Self::rolegate(server, places, &policy(places, "nop", NOP)?, commands),
            Role::Basic => {
                let policy = testbed::repository().join("policies/people");
                Self::rolegate(server, places, &policy, commands)
            }
            Role::Jwt => {
                crate::write(&places.folder.join("jwks.json"), &signer.key_set())?;
                Self::rolegate(
                    server,
                    places,
                    &policy(places, "jwt", &people::with_tokens())?,
                    commands,
                )
            }
            Role::Baseline => Self::baseline(server, places, commands),
            Role::Peer { address, process, .. } => {
                let (unix, tcp) = match address {
                    Address::Unix(path) => (Some(Target::Unix(path.clone())), None),
                    Address::Tcp(host, port) => (None, Some(Target::Tcp(resolved(host, *port)?))),
                };
                Ok(Self {
                    server: server.clone(),
                    unix,
                    tcp,
                    policy: None,
                    running: What::Elsewhere(*process),
                })
            }
        }
    }

    fn rolegate(
        server: &Server,
        places: &Places,
        policy: &Path,
        commands: &mut Vec<String>,
    ) -> Result<Self, Failed> {
        let socket = unused(&places.folder, "rolegate");
        let unix = format!("unix:{}", socket.display());
        let more =
            ["--listen", &unix, "--threads", "1", "--log-format", "json", "--drain-delay", "0s"];
        let rolegate = rolegate(places, policy, Target::Tcp(ANY_PORT), &more)?;
        let full = policy.to_owned();
        let policy = policy.strip_prefix(testbed::repository()).unwrap_or(policy).display();
        commands.push(format!(
            "rolegate serve --policy {policy} --listen {} --admin {} {}",
            rolegate.listen,
            rolegate.admin,
            more.join(" ")
        ));
        Ok(Self {
            server: server.clone(),
            unix: Some(Target::Unix(socket)),
            tcp: Some(rolegate.listen.clone()),
            policy: Some(full),
            running: What::Rolegate(Box::new(rolegate)),
        })
    }

    fn baseline(
        server: &Server,
        places: &Places,
        commands: &mut Vec<String>,
    ) -> Result<Self, Failed> {
        let socket = unused(&places.folder, "baseline");
        let unix = format!("unix:{}", socket.display());
        let (first, _) = started("baseline", &places.baseline, &[&unix], places, commands)?;
        let (second, at) =
            started("baseline", &places.baseline, &["127.0.0.1:0"], places, commands)?;
        let at =
            at.parse().map_err(|_| Failed::new("baseline", format!("it listens on `{at}`")))?;
        Ok(Self {
            server: server.clone(),
            unix: Some(Target::Unix(socket)),
            tcp: Some(Target::Tcp(at)),
            policy: None,
            running: What::Baseline(vec![first, second]),
        })
    }
}

/// Starts a rolegate and waits until it is ready.
pub(crate) fn rolegate(
    places: &Places,
    policy: &Path,
    listen: Target,
    more: &[&str],
) -> Result<Rolegate, Failed> {
    block_on(Rolegate::start(&places.rolegate, policy, listen, &places.folder, more))
}

/// The time from the start of rolegate until this socket accepts a connection.
pub(crate) fn until_it_listens(
    places: &Places,
    policy: &Path,
    socket: &Path,
) -> Result<Duration, Failed> {
    let mut command = Command::new(&places.rolegate);
    command.arg("serve").arg("--policy").arg(policy).args([
        "--drain-delay",
        "0s",
        "--admin",
        "off",
        "--listen",
    ]);
    command.arg(format!("unix:{}", socket.display()));
    let start = Instant::now();
    let mut process =
        Process::start("rolegate", command, socket.with_extension("log"), Stdout::Log)?;
    while start.elapsed() < START_TIMEOUT {
        if std::os::unix::net::UnixStream::connect(socket).is_ok() {
            return Ok(start.elapsed());
        }
        if let Some(status) = process.status() {
            return Err(process.failed(&format!("it ended at once ({status})")));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Err(process.failed("it does not listen after 20 s"))
}

/// Starts a program that prints where it listens, and records its command as a user would type it.
fn started(
    name: &'static str,
    program: &Path,
    arguments: &[&str],
    places: &Places,
    commands: &mut Vec<String>,
) -> Result<(Process, String), Failed> {
    let started = announced(name, program, arguments, &places.folder)?;
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    commands.push(format!("{program} {}", arguments.join(" ")));
    Ok(started)
}

/// One Envoy with one worker and a listener for each scenario, so that all of them are measured on
/// the same worker and nothing is restarted between measurements. The settings are the shipped
/// ones, but without health checks, because not every peer supports them.
fn proxy(
    places: &Places,
    app: SocketAddr,
    scenarios: &[Scenario],
    servers: &[Started],
) -> Result<(Envoy, Vec<Option<SocketAddr>>), Failed> {
    let through_envoy: Vec<Option<Listener>> = scenarios
        .iter()
        .enumerate()
        .map(|(number, scenario)| listener(number, scenario, servers, places))
        .collect();
    let all: Vec<Listener> = through_envoy.iter().flatten().cloned().collect();
    let envoy = block_on(Envoy::start(&places.folder, app, &all))?;
    let mut addresses = envoy.addresses.iter().copied();
    let listeners = through_envoy
        .iter()
        .map(|listener| listener.as_ref().and_then(|_| addresses.next()))
        .collect();
    Ok((envoy, listeners))
}

/// The listener of a scenario.
fn listener(
    number: usize,
    scenario: &Scenario,
    servers: &[Started],
    places: &Places,
) -> Option<Listener> {
    let name = format!("scenario-{number}");
    let settings = Settings { health_checks: false, ..Settings::default() };
    match scenario.endpoint {
        Endpoint::App => None,
        Endpoint::Envoy => Some(Listener { settings, ..Listener::new(name) }),
        Endpoint::Inside { server } => {
            let policy = servers.get(server)?.policy.clone()?;
            let module = Module {
                folder: places.module.clone()?,
                policy,
                decisions: None,
                more: Vec::new(),
            };
            Some(Listener { module: Some(module), settings, ..Listener::new(name) })
        }
        Endpoint::Check { server, transport, client } => {
            let asked = servers.get(server)?;
            let target = if transport == Transport::Unix { &asked.unix } else { &asked.tcp };
            let google_grpc = client == Client::Google;
            let settings = Settings {
                encode_raw_headers: asked.server.takes_raw_headers(),
                google_grpc,
                ..settings
            };
            Some(Listener { targets: vec![target.clone()?], settings, ..Listener::new(name) })
        }
    }
}

fn resolved(host: &str, port: u16) -> Result<SocketAddr, Failed> {
    let mut all = (host, port).to_socket_addrs().map_err(|error| Failed::io(host, &error))?;
    all.next().ok_or_else(|| Failed::new(host, "it has no address"))
}

fn policy(places: &Places, name: &str, text: &str) -> Result<PathBuf, Failed> {
    let file = places.folder.join(format!("{name}.yaml"));
    crate::write(&file, text)?;
    Ok(file)
}

/// An unused name of a socket in the folder.
fn unused(folder: &Path, name: &str) -> PathBuf {
    let mut sockets = (0..).map(|number| folder.join(format!("{name}-{number}.sock")));
    sockets.find(|socket| !socket.exists()).unwrap_or_default()
}
