//! Application, Envoy and rolegate together.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Connection, Version, get};
use crate::envoy::{self, Envoy, Listener, Module, Settings, Target};
use crate::guarded::Guarded;
use crate::process::{Failed, find_program};
use crate::rolegate::{ANY_PORT, Rolegate};
use crate::{App, app};

/// The maximum time for lines of the decision log to appear, on a busy machine.
const LINES_TIMEOUT: Duration = Duration::from_secs(30);

/// An application, Envoy in front of it, and rolegate. Dropping it stops them and removes their
/// files.
#[derive(Debug)]
pub struct Stack {
    /// The proxy.
    pub envoy: Envoy,
    /// The authorization services ([`Options::instances`]); none with [`Options::module`].
    pub rolegates: Vec<Rolegate>,
    /// The application.
    pub app: app::App,
    /// The decision log of the module.
    decisions: PathBuf,
    folder: TempDir,
}

/// The options of a [`Stack`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Differences from the shipped Envoy configuration.
    pub envoy: Settings,
    /// Whether rolegate listens on TCP instead of a Unix socket.
    pub tcp: bool,
    /// The number of rolegates.
    pub instances: usize,
    /// The folder of `librolegate.so`, if that authorizes inside Envoy.
    pub module: Option<PathBuf>,
    /// The program of Envoy; `None` for [`envoy::program`].
    pub program: Option<PathBuf>,
    /// Another application in place of [`Stack::app`].
    pub app: Option<SocketAddr>,
    /// Further arguments of `rolegate serve`, or lines of the configuration of the module.
    pub arguments: Vec<&'static str>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            envoy: Settings::default(),
            tcp: false,
            instances: 1,
            module: None,
            program: None,
            app: None,
            arguments: Vec::new(),
        }
    }
}

impl Stack {
    /// Starts everything, with the program `rolegate` and this policy.
    pub async fn start(rolegate: &Path, policy: &Path, options: &Options) -> Result<Self, Failed> {
        let folder = tempfile::Builder::new()
            .prefix("rolegate-testbed-")
            .tempdir()
            .map_err(|error| Failed::io("temporary folder", &error))?;
        let app = App::start().await?;
        let decisions = folder.path().join("decisions");
        let mut listener = Listener { settings: options.envoy.clone(), ..Listener::new("public") };
        let mut rolegates = Vec::new();
        if let Some(library) = &options.module {
            listener.module = Some(Module {
                folder: library.clone(),
                policy: policy.to_owned(),
                decisions: Some(decisions.clone()),
                more: options.arguments.iter().map(|line| (*line).to_owned()).collect(),
            });
        } else {
            for number in 0..options.instances {
                let listen = if options.tcp {
                    Target::Tcp(ANY_PORT)
                } else {
                    Target::Unix(folder.path().join(format!("{number}.sock")))
                };
                let started =
                    Rolegate::start(rolegate, policy, listen, folder.path(), &options.arguments);
                rolegates.push(started.await?);
            }
            listener.targets = rolegates.iter().map(|rolegate| rolegate.listen.clone()).collect();
        }
        let program = options.program.clone().map_or_else(envoy::program, Ok)?;
        let (at, listeners) = (folder.path(), [listener]);
        let behind = options.app.unwrap_or(app.address);
        let envoy = Envoy::start_with_program(&program, at, behind, &listeners).await?;
        Ok(Self { envoy, rolegates, app, decisions, folder })
    }

    /// Opens a connection to Envoy.
    pub async fn connect(&self, version: Version) -> Result<Connection, Failed> {
        Connection::open(self.envoy.address, version).await
    }

    /// All decisions that are logged so far: a JSON object per request, in order.
    pub fn decisions(&self) -> Vec<Value> {
        let module_log = std::fs::read_to_string(&self.decisions).unwrap_or_default();
        let lines = module_log.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.chain(self.rolegates.iter().flat_map(Rolegate::decisions)).collect()
    }

    /// Waits until this many decisions are logged, for at most half a minute: a thread of its own
    /// writes them, after the responses.
    pub async fn wait_for_decisions(&self, number: usize) -> Result<Vec<Value>, Failed> {
        let until = Instant::now() + LINES_TIMEOUT;
        loop {
            let decisions = self.decisions();
            if decisions.len() >= number {
                return Ok(decisions);
            }
            if Instant::now() > until {
                let why = format!("{number} lines expected: {decisions:?}");
                return Err(Failed::new("decision log", why));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// How many reloads of the policy have succeeded and how many have failed. The module updates
    /// its statistics with requests: they can lag behind.
    pub async fn reloads(&self) -> Result<(u64, u64), Failed> {
        let Some(rolegate) = self.rolegates.first() else {
            let name = "dynamicmodulescustom.rolegate.policy_reloads";
            let succeeded = self.envoy.stat(name).await?.unwrap_or_default();
            let failed = self.envoy.stat(&format!("{name}_failed")).await?.unwrap_or_default();
            return Ok((succeeded, failed));
        };
        let metrics = get(rolegate.admin, "/metrics", &[]).await?.text();
        let [succeeded, failed] = ["ok", "failed"].map(|result| {
            let name = format!("rolegate_policy_reloads_total{{result=\"{result}\"}} ");
            let mut values = metrics.lines().filter_map(|line| line.strip_prefix(&name));
            values.next().and_then(|value| value.parse().ok()).unwrap_or_default()
        });
        Ok((succeeded, failed))
    }

    /// The folder of its files, which exists as long as the stack.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Guarded for Stack {
    fn proxy(&self) -> &'static str {
        "Envoy"
    }

    fn address(&self) -> SocketAddr {
        self.envoy.address
    }

    fn app(&self) -> &App {
        &self.app
    }

    fn rolegates(&self) -> &[Rolegate] {
        &self.rolegates
    }

    fn decisions(&self) -> Vec<Value> {
        Stack::decisions(self)
    }
}

/// The program `rolegate`: `ROLEGATE=/path`, else beside the current program.
pub fn program() -> Result<PathBuf, Failed> {
    let current = std::env::current_exe().map_err(|error| Failed::io("rolegate", &error))?;
    let remedy = "run `cargo build --bin rolegate`";
    find_program("ROLEGATE", remedy, [current.with_file_name("rolegate")])
}
