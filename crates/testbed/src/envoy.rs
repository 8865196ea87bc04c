//! A real Envoy with the configuration `deploy/envoy/envoy.yaml`, in which addresses are replaced
//! by free ones. It may have several listeners, each with settings and authorization services of
//! its own.

mod dynamic;

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::get;
use crate::process::{Failed, Process, first_file, repository};
pub use dynamic::Dynamic;

/// A running Envoy with one worker. Dropping it stops it.
#[derive(Debug)]
pub struct Envoy {
    /// Where clients connect to its first listener: HTTP/1.1, or HTTP/2 without TLS.
    pub address: SocketAddr,
    /// Where they connect to each listener.
    pub addresses: Vec<SocketAddr>,
    /// Its admin interface.
    pub admin: SocketAddr,
    /// Its arguments.
    pub arguments: Vec<String>,
    process: Process,
}

/// A listener, and whom it asks.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its name, which is also a part of the names of its statistics.
    pub name: String,
    /// The authorization services; without any, Envoy has no ext_authz.
    pub targets: Vec<Target>,
    /// Authorizes inside Envoy, in place of the targets.
    pub module: Option<Module>,
    /// Differences from the shipped configuration.
    pub settings: Settings,
}

/// rolegate as a library in Envoy.
#[derive(Clone, Debug)]
pub struct Module {
    /// The folder of `librolegate.so`.
    pub folder: PathBuf,
    /// The policy.
    pub policy: PathBuf,
    /// The file that all decisions are logged to; `None` to log denied ones to standard output, as
    /// shipped.
    pub decisions: Option<PathBuf>,
    /// More lines of its configuration, such as `hash-timeout: 1s`.
    pub more: Vec<String>,
}

/// Differences from the shipped configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether headers are sent as separate, unmodified lines (`encode_raw_headers`).
    pub encode_raw_headers: bool,
    /// Whether the path is normalised and its slashes are merged before the Check call.
    pub normalize_path: bool,
    /// The maximum number of body bytes sent to rolegate; `None` for no body.
    pub with_request_body: Option<u32>,
    /// Whether these are whole bodies, as `deploy/envoy/search.yaml` has it.
    pub whole_bodies: bool,
    /// The timeout of a Check call.
    pub timeout: Duration,
    /// Whether Envoy uses Google's gRPC library instead of its own client.
    pub google_grpc: bool,
    /// Whether Envoy health-checks rolegate.
    pub health_checks: bool,
    /// Whether Envoy allows a request if rolegate does not answer. Never true in what we ship.
    pub failure_mode_allow: bool,
    /// Whether all routes disable rolegate inside Envoy.
    pub disabled: bool,
    /// More HTTP filters, in front of the router, as lines of YAML. Only for a listener without
    /// targets.
    pub filters: String,
}

impl Default for Settings {
    /// The shipped settings.
    fn default() -> Self {
        Self {
            encode_raw_headers: true,
            normalize_path: true,
            with_request_body: None,
            whole_bodies: false,
            timeout: Duration::from_secs(2),
            google_grpc: false,
            health_checks: true,
            failure_mode_allow: false,
            disabled: false,
            filters: String::new(),
        }
    }
}

/// The address at which rolegate listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// On a Unix socket.
    Unix(PathBuf),
    /// On TCP.
    Tcp(SocketAddr),
}

impl Target {
    /// The address, if it is a TCP address.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(at) => Some(*at),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Target {
    /// As `rolegate serve --listen` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(at) => at.fmt(f),
        }
    }
}

/// The shipped configuration.
const FILE: &str = "deploy/envoy/envoy.yaml";

/// The time after which Envoy closes the connections of a listener that it replaces.
const DRAIN_SECONDS: u32 = 1;

/// The maximum time for Envoy to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);

impl Envoy {
    /// Starts Envoy in `folder`, in front of the application at `app`, with these listeners.
    pub async fn start_all(
        folder: &Path,
        app: SocketAddr,
        listeners: &[Listener],
    ) -> Result<Self, Failed> {
        Self::start_program(&program()?, folder, app, listeners).await
    }

    /// Starts this Envoy with these listeners.
    pub(crate) async fn start_program(
        program: &Path,
        folder: &Path,
        app: SocketAddr,
        listeners: &[Listener],
    ) -> Result<Self, Failed> {
        let names: Vec<&str> = listeners.iter().map(|listener| listener.name.as_str()).collect();
        let modules = listeners.iter().find_map(|listener| listener.module.as_ref());
        let modules = modules.map_or(folder, |module| &module.folder);
        let configuration = render(&shipped(FILE)?, app, listeners)?;
        Self::spawn(program, folder, &configuration, &names, modules, DRAIN_SECONDS).await
    }

    /// Starts Envoy with this configuration, which has an admin interface, and listeners with these
    /// names.
    pub async fn start_configured(
        folder: &Path,
        configuration: &str,
        listeners: &[&str],
    ) -> Result<Self, Failed> {
        Self::start_with_modules(&program()?, folder, configuration, listeners, folder).await
    }

    /// Starts this Envoy with this configuration, whose dynamic modules are in the folder
    /// `modules`.
    pub async fn start_with_modules(
        program: &Path,
        folder: &Path,
        configuration: &str,
        listeners: &[&str],
        modules: &Path,
    ) -> Result<Self, Failed> {
        Self::spawn(program, folder, configuration, listeners, modules, DRAIN_SECONDS).await
    }

    async fn spawn(
        program: &Path,
        folder: &Path,
        configuration: &str,
        listeners: &[&str],
        modules: &Path,
        drain_seconds: u32,
    ) -> Result<Self, Failed> {
        let (file, admin) = (folder.join("envoy.yaml"), folder.join("envoy-admin"));
        std::fs::write(&file, configuration)
            .map_err(|error| Failed::io(file.display().to_string(), &error))?;
        let [config_path, admin_path] = [&file, &admin].map(|path| path.display().to_string());
        let fixed = "--concurrency 1 --use-dynamic-base-id --log-level warn";
        let drain = format!(
            "--drain-time-s {drain_seconds} --parent-shutdown-time-s {}",
            drain_seconds + 1
        );
        let mut arguments = vec![
            "--config-path".to_owned(),
            config_path,
            "--admin-address-path".to_owned(),
            admin_path,
        ];
        arguments.extend(fixed.split(' ').chain(drain.split(' ')).map(str::to_owned));
        let mut command = Command::new(program);
        command.args(&arguments).env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", modules);
        let mut process = Process::start("envoy", command, folder.join("envoy.log"))?;
        let (admin, addresses) =
            process.until(START_TIMEOUT, async |_| ready(&admin, listeners).await).await?;
        let none = || Failed::new("envoy", "it has no listener");
        let address = addresses.first().copied().ok_or_else(none)?;
        Ok(Self { address, addresses, admin, arguments, process })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to end (SIGTERM), and waits until it has ended.
    pub async fn end(&mut self) -> Result<(), Failed> {
        self.process.terminate();
        let until = Instant::now() + START_TIMEOUT;
        while self.process.ended().is_none() {
            if Instant::now() > until {
                return Err(self.process.failed("it does not end"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Its log.
    pub fn log(&self) -> String {
        self.process.printed()
    }

    /// The value of a counter or gauge; `None` if none has this name.
    pub async fn stat(&self, name: &str) -> Result<Option<u64>, Failed> {
        let answer = get(self.admin, &format!("/stats?filter=^{name}$"), &[]).await?.text();
        Ok(answer
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok()))
    }
}

/// The addresses of its admin interface and of its listeners, once it accepts requests.
async fn ready(file: &Path, listeners: &[&str]) -> Option<(SocketAddr, Vec<SocketAddr>)> {
    let admin: SocketAddr = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    if get(admin, "/ready", &[]).await.ok()?.text().trim() != "LIVE" {
        return None;
    }
    let lines = get(admin, "/listeners", &[]).await.ok()?.text();
    let address = |name: &str| {
        lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("::")?.parse().ok())
    };
    let addresses: Option<Vec<SocketAddr>> = listeners.iter().map(|name| address(name)).collect();
    Some((admin, addresses?))
}

/// The text of a file of the repository.
fn shipped(file: &str) -> Result<String, Failed> {
    std::fs::read_to_string(repository().join(file)).map_err(|error| Failed::io(file, &error))
}

/// A configuration in which each replaced text must occur exactly once.
struct Text(String);

impl Text {
    fn replace(&mut self, from: &str, to: &str) -> Result<(), Failed> {
        let times = self.0.matches(from).count();
        if times != 1 {
            return Err(Failed::new(FILE, format!("`{from}` occurs {times} times in it")));
        }
        self.0 = self.0.replacen(from, to, 1);
        Ok(())
    }

    fn cut(&mut self, from: &str, until: &str) -> Result<(), Failed> {
        let both = self
            .0
            .split_once(from)
            .and_then(|(before, rest)| Some((before, rest.split_once(until)?.1)));
        let Some((before, after)) = both else {
            return Err(Failed::new(FILE, format!("no `{from}` before `{until}` in it")));
        };
        self.0 = format!("{before}{until}{after}");
        Ok(())
    }
}

/// The shipped configuration with these addresses, and its listener and its cluster `rolegate` once
/// for each listener.
fn render(template: &str, app: SocketAddr, listeners: &[Listener]) -> Result<String, Failed> {
    let missing = || Failed::new(FILE, "it has other sections than expected");
    let (head, rest) = template.split_once(LISTENERS).ok_or_else(missing)?;
    let (listener_template, rest) = rest.split_once(CLUSTERS).ok_or_else(missing)?;
    let (application, cluster_template) = rest.split_once(ROLEGATE).ok_or_else(missing)?;
    let mut head = Text(head.to_owned());
    head.replace("port_value: 9901", "port_value: 0")?;
    let mut application = Text(application.to_owned());
    application.replace("port_value: 8080", &format!("port_value: {}", app.port()))?;
    let mut text = head.0 + LISTENERS;
    for listener in listeners {
        text += &listener.listener(listener_template)?;
    }
    text = text + CLUSTERS + &application.0;
    for listener in listeners.iter().filter(|listener| !listener.targets.is_empty()) {
        text += &listener.cluster(&format!("{ROLEGATE}{cluster_template}"))?;
    }
    Ok(text)
}

impl Listener {
    /// A listener with the shipped settings that asks nobody.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), targets: Vec::new(), module: None, settings: Settings::default() }
    }

    /// The listener, from the shipped one.
    fn listener(&self, template: &str) -> Result<String, Failed> {
        let settings = &self.settings;
        let mut text = Text(template.replace("name: public", &format!("name: {}", self.name)));
        text.replace("stat_prefix: public", &format!("stat_prefix: {}", self.name))?;
        text.replace("port_value: 10000", "port_value: 0")?;
        text.replace(
            "normalize_path: true",
            &format!("normalize_path: {}", settings.normalize_path),
        )?;
        text.replace(
            "merge_slashes: true",
            &format!("merge_slashes: {}", settings.normalize_path),
        )?;
        if self.targets.is_empty() {
            text.cut(EXT_AUTHZ, ROUTER)?;
            let module = self.module.as_ref().map(Module::filter).transpose()?.unwrap_or_default();
            text.replace(ROUTER, &(module + &settings.filters + ROUTER))?;
            if settings.disabled {
                text.replace(DOMAINS, &format!("{DOMAINS}{DISABLED}"))?;
            }
            return Ok(text.0);
        }
        let timeout = format!("{}s", settings.timeout.as_secs_f64());
        text.replace(" timeout: 2s", &format!(" timeout: {timeout}"))?;
        text.replace("max_interval: 2s", &format!("max_interval: {timeout}"))?;
        let failure = format!("failure_mode_allow: {}", settings.failure_mode_allow);
        text.replace("failure_mode_allow: false", &failure)?;
        let raw = format!("encode_raw_headers: {}", settings.encode_raw_headers);
        let body = settings.with_request_body.map_or_else(String::new, |bytes| {
            format!(
                "\n{:22}with_request_body: {{ max_request_bytes: {bytes}, allow_partial_message: {}, pack_as_bytes: true }}",
                "", !settings.whole_bodies
            )
        });
        if settings.whole_bodies {
            text.replace(DOMAINS, &format!("{DOMAINS}{BUFFERED}"))?;
        }
        text.replace("encode_raw_headers: true", &(raw + &body))?;
        let mut client = format!("envoy_grpc: {{ cluster_name: {} }}", self.cluster_name());
        if let (true, Some(target)) = (settings.google_grpc, self.targets.first()) {
            // Its `grpc_service` has no retries.
            text.cut("                        # Checks have no side effects", ROUTER)?;
            client = google(&self.cluster_name(), target);
        }
        text.replace("envoy_grpc: { cluster_name: rolegate }", &client)?;
        Ok(text.0)
    }

    /// The cluster of its authorization services, from the shipped one.
    fn cluster(&self, template: &str) -> Result<String, Failed> {
        let mut text =
            Text(template.replace("name: rolegate\n", &format!("name: {}\n", self.cluster_name())));
        text.replace(ENDPOINT, &endpoints(&self.targets))?;
        if !self.settings.health_checks {
            let after =
                format!("      load_assignment:\n        cluster_name: {}", self.cluster_name());
            text.cut("      # A stopping rolegate first fails", &after)?;
        }
        Ok(text.0)
    }

    /// The name of that cluster.
    fn cluster_name(&self) -> String {
        if self.name == "public" {
            "rolegate".to_owned()
        } else {
            format!("rolegate-{}", self.name)
        }
    }
}

impl Module {
    /// Its filter, from `deploy/envoy/module.yaml`.
    fn filter(&self) -> Result<String, Failed> {
        const FILTER: &str = "                  - name: rolegate\n";
        const LAST: &str = "                          decision-log: denied\n";
        let file = "deploy/envoy/module.yaml";
        let shipped = shipped(file)?;
        let filter =
            shipped.split_once(FILTER).and_then(|(_, rest)| Some(rest.split_once(LAST)?.0));
        let filter =
            filter.ok_or_else(|| Failed::new(file, "it has another filter than expected"))?;
        let policy = format!("policy: {}", self.policy.display());
        let mut filter = Text(FILTER.to_owned() + filter);
        filter.replace("policy: /etc/rolegate/policy.yaml", &policy)?;
        let log = self.decisions.iter().flat_map(|file| {
            ["decision-log: all".to_owned(), format!("decision-log-file: {}", file.display())]
        });
        for line in log.chain(self.more.iter().cloned()) {
            // Writing to a string does not fail.
            let _ = writeln!(filter.0, "{:26}{line}", "");
        }
        if self.decisions.is_none() {
            filter.0.push_str(LAST);
        }
        Ok(filter.0)
    }
}

/// On a Unix socket, Google's client sends the socket's path, percent-encoded, as the authority.
/// Servers based on the crate h2 (rolegate's and tonic's) reject that as malformed (seen with Envoy
/// 1.40: a reset with PROTOCOL_ERROR), so the authority is set.
fn google(name: &str, target: &Target) -> String {
    format!(
        "google_grpc: {{ target_uri: \"{target}\", stat_prefix: {name}, channel_args: {{ args: {{ \
         grpc.default_authority: {{ string_value: localhost }} }} }} }}"
    )
}

/// The first lines of its filters.
const EXT_AUTHZ: &str = "                  - name: envoy.filters.http.ext_authz\n";
const ROUTER: &str = "                  - name: envoy.filters.http.router";
const DOMAINS: &str = "                      domains: [\"*\"]\n";
/// What tells rolegate that Envoy sends each body.
const BUFFERED: &str = "                      typed_per_filter_config:
                        envoy.filters.http.ext_authz:
                          \"@type\": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute
                          check_settings: { context_extensions: { request_body: buffered } }
";
/// What switches the library off.
const DISABLED: &str = "                      typed_per_filter_config:
                        rolegate:
                          \"@type\": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute
                          dynamic_module_config: { name: rolegate, do_not_close: true }
                          filter_name: rolegate
                          filter_config:
                            \"@type\": type.googleapis.com/google.protobuf.Struct
                            value: { disabled: true }
";
/// The starts of the sections of the shipped configuration.
const LISTENERS: &str = "  listeners:\n";
const CLUSTERS: &str = "\n  clusters:\n";
const ROLEGATE: &str = "\n    - name: rolegate\n";
/// The line of the shipped configuration with rolegate's address.
const ENDPOINT: &str =
    "              - endpoint: { address: { pipe: { path: /run/rolegate/rolegate.sock } } }\n";

fn endpoints(targets: &[Target]) -> String {
    let mut lines = String::new();
    for target in targets {
        let address = match target {
            Target::Unix(path) => format!("pipe: {{ path: {} }}", path.display()),
            Target::Tcp(at) => {
                format!("socket_address: {{ address: {}, port_value: {} }}", at.ip(), at.port())
            }
        };
        // Writing to a string does not fail.
        let _ = writeln!(lines, "              - endpoint: {{ address: {{ {address} }} }}");
    }
    lines
}

/// The version of [`program`].
const VERSION: &str = "1.40.0";
/// The version of [`older_program`]: of the oldest minor version that loads the module.
const OLDER_VERSION: &str = "1.38.3";

/// The Envoy program: `ENVOY=/path`, else the one that `make tools` installed in `.tools/`.
pub fn program() -> Result<PathBuf, Failed> {
    installed("ENVOY", VERSION)
}

/// An older Envoy, which also loads the module: `ENVOY_OLDER=/path`, else the one that `make tools`
/// installed.
pub fn older_program() -> Result<PathBuf, Failed> {
    installed("ENVOY_OLDER", OLDER_VERSION)
}

fn installed(variable: &str, version: &str) -> Result<PathBuf, Failed> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        let why = format!(
            "no file at {}: name the program, or unset it and run `make tools`",
            path.display()
        );
        return first_file([path]).ok_or_else(|| Failed::new(variable, why));
    }
    let tools = repository().join(format!(".tools/envoy-{version}"));
    let libraries = std::fs::read_dir(tools.join("lib")).into_iter().flatten().flatten();
    let in_environment =
        libraries.map(|folder| folder.path().join("site-packages/envoy/_bin/envoy"));
    first_file(in_environment.chain([tools.join("envoy/_bin/envoy")])).ok_or_else(|| {
        let why =
            format!("{version} was not found: run `make tools`, or set {variable}=/path/to/envoy");
        Failed::new("envoy", why)
    })
}
