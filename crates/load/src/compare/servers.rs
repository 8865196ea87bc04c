//! The processes of a comparison: application, authorization servers and Envoy, each on its cores.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use testbed::envoy::Target;
use testbed::rolegate::{ANY_PORT, Rolegate};
use testbed::tokens::Signer;
use testbed::{Failed, Process};

use super::ask;
use super::pin::{Pins, on};
use super::procfs::Usage;
use super::proxy::{self, Asked, Proxy};
use super::scenario::{Endpoint, Role, Scenario, Server, Transport};
use crate::{Address, Request};

/// All running processes. Dropping it stops them, Envoy first.
#[derive(Debug)]
pub struct Running {
    proxy: Proxy,
    servers: Vec<Started>,
    app: Process,
    app_address: SocketAddr,
    token: String,
    /// The commands that were run, as a user would type them.
    pub commands: Vec<String>,
}

/// One authorization server.
#[derive(Debug)]
struct Started {
    server: Server,
    unix: Option<Address>,
    tcp: Option<Address>,
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
pub struct Places {
    /// The program `rolegate`.
    pub rolegate: PathBuf,
    /// The program `rolegate-load`.
    pub load: PathBuf,
    /// The folder for sockets, logs and policies.
    pub folder: PathBuf,
}

/// The credentials of alice in `policies/people`, a public example.
const ALICE: &str = "alice:wonderland";
/// Allows everything to everyone. Basic is read but not verified, so that the requests can be the same for all servers.
const NOP: &str = "version: 1
identity:
  basic: { realm: nop, verify: false }
roles:
  anyone: { allow: [\"* /**\"] }
";
/// The maximum time for a small server to start.
const START: Duration = Duration::from_secs(20);

impl Running {
    /// Starts everything that these scenarios need.
    ///
    /// # Errors
    /// If a part does not start.
    pub fn start(
        places: &Places,
        servers: &[Server],
        scenarios: &[Scenario],
        pins: &Pins,
    ) -> Result<Self, Failed> {
        let mut commands = Vec::new();
        let (app, app_address) = on(pins.outside.as_deref(), || {
            announced("app", &places.load, &["app", "127.0.0.1:0"], places, &mut commands)
        })?;
        let app_address =
            app_address.parse().map_err(|_| Failed::new("app", format!("it listens on `{app_address}`")))?;
        let signer = Signer::new()?;
        let token = token(&signer)?;
        let servers = on(pins.pod.as_deref(), || {
            servers
                .iter()
                .map(|it| Started::new(it, places, &signer, &mut commands))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let config = proxy::config(scenarios, app_address, &|endpoint| asked(&servers, endpoint));
        let proxy = on(pins.pod.as_deref(), || Proxy::start(&places.folder, &config, scenarios.len()))?;
        commands.push(words(&proxy.program, &proxy.arguments));
        let commands =
            commands.iter().map(|it| it.replace(&places.folder.display().to_string(), "$FOLDER")).collect();
        Ok(Self { proxy, servers, app, app_address, token, commands })
    }

    /// The URL of a scenario.
    #[must_use]
    pub fn url(&self, number: usize, scenario: &Scenario) -> Option<String> {
        let at = match scenario.endpoint {
            Endpoint::App => Some(self.app_address),
            _ => self.proxy.endpoints.get(number).copied().flatten(),
        };
        at.map(|at| format!("http://{at}/people"))
    }

    /// The request of a scenario: `GET /people` with the credentials that its server requires.
    #[must_use]
    pub fn request(&self, scenario: &Scenario) -> Request {
        let request = Request { expect: vec![200], ..Request::get("/people") };
        if self.wants_token(scenario) { request.bearer(&self.token) } else { request.basic(ALICE) }
    }

    /// The credentials of a scenario as curl options for the report, without the secret itself.
    #[must_use]
    pub fn proof(&self, scenario: &Scenario) -> &'static str {
        if self.wants_token(scenario) { "--bearer …" } else { "--basic …" }
    }

    fn wants_token(&self, scenario: &Scenario) -> bool {
        self.role(scenario) == Some(&Role::Jwt)
    }

    fn role(&self, scenario: &Scenario) -> Option<&Role> {
        Some(&self.servers.get(scenario.server()?)?.server.role)
    }

    /// Verifies that a scenario works as described: the known caller is allowed, and behind a policy all others are
    /// not. This also hashes the password, which happens only once.
    ///
    /// # Errors
    /// If a response is different. The message contains its status.
    pub fn check(&self, number: usize, scenario: &Scenario) -> Result<(), Failed> {
        let failed = |why: String| Failed::new(scenario.name.clone(), why);
        let at = match scenario.endpoint {
            Endpoint::App => self.app_address,
            _ => self
                .proxy
                .endpoints
                .get(number)
                .copied()
                .flatten()
                .ok_or_else(|| failed("no listener".to_owned()))?,
        };
        let status =
            |headers: &[(String, String)]| ask::get(at, "/people", headers).map(|it| it.0).map_err(failed);
        let known = status(&self.request(scenario).headers)?;
        if known != 200 {
            return Err(failed(format!("a known caller got {known} instead of 200")));
        }
        if matches!(self.role(scenario), Some(Role::Basic | Role::Jwt)) {
            let unknown = status(&[])?;
            if unknown != 401 {
                return Err(failed(format!("a caller without credentials got {unknown} instead of 401")));
            }
        }
        Ok(())
    }

    /// The usage of application, Envoy and server; zeros for those that are not part of the scenario.
    #[must_use]
    pub fn usage(&self, scenario: &Scenario) -> [Usage; 3] {
        let envoy = if scenario.endpoint == Endpoint::App { None } else { Some(self.proxy.process.id()) };
        let server = self.process(scenario);
        [Some(self.app.id()), envoy, server].map(|it| it.map(Usage::of).unwrap_or_default())
    }

    fn process(&self, scenario: &Scenario) -> Option<u32> {
        let Endpoint::Check { server, transport, .. } = scenario.endpoint else { return None };
        match &self.servers.get(server)?.running {
            What::Rolegate(it) => Some(it.id()),
            What::Baseline(both) => both.get(usize::from(transport == Transport::Tcp)).map(Process::id),
            What::Elsewhere(it) => *it,
        }
    }

    /// The admin interface of the scenario's rolegate.
    #[must_use]
    pub fn admin(&self, scenario: &Scenario) -> Option<SocketAddr> {
        match &self.servers.get(scenario.server()?)?.running {
            What::Rolegate(it) => Some(it.admin),
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
                let keys = places.folder.join("keys.json");
                std::fs::write(keys, signer.key_set()).map_err(|error| Failed::io("keys", &error))?;
                Self::rolegate(server, places, &policy(places, "jwt", JWT)?, commands)
            }
            Role::AlwaysAllow => Self::baseline(server, places, commands),
            Role::Peer { address, process, .. } => Ok(Self {
                server: server.clone(),
                unix: Some(address.clone()).filter(|it| matches!(it, Address::Unix(_))),
                tcp: Some(address.clone()).filter(|it| matches!(it, Address::Tcp(..))),
                running: What::Elsewhere(*process),
            }),
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
        let more = ["--listen", &unix, "--log-format", "json", "--drain-delay", "0s"];
        let rolegate = rolegate(places, policy, Target::Tcp(ANY_PORT), &more)?;
        let tcp = rolegate.listen.tcp().map(|it| Address::Tcp(it.ip().to_string(), it.port()));
        let listen = tcp.as_ref().map(ToString::to_string).unwrap_or_default();
        let policy = policy.strip_prefix(testbed::repository()).unwrap_or(policy).display();
        commands.push(format!(
            "rolegate serve --policy {policy} --listen {listen} --admin {} {}",
            rolegate.admin,
            more.join(" ")
        ));
        Ok(Self {
            server: server.clone(),
            unix: Some(Address::Unix(socket)),
            tcp,
            running: What::Rolegate(Box::new(rolegate)),
        })
    }

    fn baseline(server: &Server, places: &Places, commands: &mut Vec<String>) -> Result<Self, Failed> {
        let socket = unused(&places.folder, "baseline");
        let unix = format!("unix:{}", socket.display());
        let (first, _) = announced("baseline", &places.load, &["baseline", &unix], places, commands)?;
        let (second, at) =
            announced("baseline", &places.load, &["baseline", "127.0.0.1:0"], places, commands)?;
        let tcp = at.parse().map_err(|why: String| Failed::new("baseline", why))?;
        Ok(Self {
            server: server.clone(),
            unix: Some(Address::Unix(socket)),
            tcp: Some(tcp),
            running: What::Baseline(vec![first, second]),
        })
    }
}

/// Starts a rolegate and waits until it is ready.
///
/// # Errors
/// If it does not become ready.
pub fn rolegate(places: &Places, policy: &Path, listen: Target, more: &[&str]) -> Result<Rolegate, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failed::io("runtime", &error))?;
    runtime.block_on(Rolegate::start(&places.rolegate, policy, listen, &places.folder, more))
}

/// The time from the start of rolegate until this socket accepts a connection.
///
/// # Errors
/// If it never listens.
pub fn until_it_listens(places: &Places, policy: &Path, socket: &Path) -> Result<Duration, Failed> {
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
    let mut process = Process::start("rolegate", command, socket.with_extension("log"))?;
    while start.elapsed() < START {
        if std::os::unix::net::UnixStream::connect(socket).is_ok() {
            return Ok(start.elapsed());
        }
        if let Some(status) = process.ended() {
            return Err(process.failed(&format!("it ended at once ({status})")));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Err(process.failed("it does not listen after 20 s"))
}

/// Starts one of our programs that print `listening on ADDR`, and returns it with that address.
///
/// # Errors
/// If it ends or does not print its address.
pub fn announced(
    name: &'static str,
    program: &Path,
    arguments: &[&str],
    places: &Places,
    commands: &mut Vec<String>,
) -> Result<(Process, String), Failed> {
    let mut command = Command::new(program);
    command.args(arguments);
    let mut process = Process::start(name, command, unused(&places.folder, name).with_extension("log"))?;
    let until = Instant::now() + START;
    while Instant::now() < until {
        let said = process.printed_since_its_start();
        if let Some(at) = said.lines().find_map(|line| line.split("listening on ").nth(1)) {
            let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
            commands.push(words(program, &arguments));
            return Ok((process, at.trim().to_owned()));
        }
        if let Some(status) = process.ended() {
            return Err(process.failed(&format!("it ended at once ({status})")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(process.failed("it does not listen after 20 s"))
}

fn asked(servers: &[Started], endpoint: Endpoint) -> Option<Asked> {
    let Endpoint::Check { server, transport, .. } = endpoint else { return None };
    let server = servers.get(server)?;
    let address = match transport {
        Transport::Unix => server.unix.clone(),
        Transport::Tcp => server.tcp.clone(),
    };
    Some(Asked { address: address?, raw_headers: server.server.takes_raw_headers() })
}

fn policy(places: &Places, name: &str, text: &str) -> Result<PathBuf, Failed> {
    let file = places.folder.join(format!("{name}.yaml"));
    std::fs::write(&file, text).map_err(|error| Failed::io(name, &error))?;
    Ok(file)
}

/// An unused name in the folder, for which there is no log either.
fn unused(folder: &Path, name: &str) -> PathBuf {
    let mut number = 0;
    loop {
        let path = folder.join(format!("{name}-{number}.sock"));
        if !path.exists() && !path.with_extension("log").exists() {
            return path;
        }
        number += 1;
    }
}

/// A command as a user would type it: without the folder of the program.
fn words(program: &Path, arguments: &[String]) -> String {
    let name = program.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{name} {}", arguments.join(" "))
}

/// A token for a guest, valid for a day, which is longer than any comparison.
#[expect(clippy::disallowed_methods, reason = "a token says when it was made")]
fn token(signer: &Signer) -> Result<String, Failed> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let claims: Value = json!({
        "iss": "https://id.example.com", "aud": "people", "sub": "alice", "roles": ["guest"],
        "iat": now, "exp": now + 86_400,
    });
    signer.sign(&json!({"alg": "ES256", "kid": "testbed"}), &claims)
}

/// The people policy for callers with tokens.
const JWT: &str = "version: 1
identity:
  jwt:
    - issuer: https://id.example.com
      audiences: [people]
      keys: { file: keys.json }
      claims: { user: sub, roles: roles }
roles:
  guest:
    allow: [\"GET /people\"]
  admin:
    extends: [guest]
    allow: [\"POST /people\"]
allow_response:
  set_headers: { x-user: \"{user}\", x-roles: \"{roles}\" }
";
