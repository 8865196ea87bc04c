//! A real Envoy with the configuration `deploy/envoy/envoy.yaml`, in which addresses are replaced
//! by free addresses. It may have several listeners, each with settings and authorization services
//! of its own.

#![expect(clippy::indexing_slicing, reason = "a field that a JSON value does not have is null")]

mod dynamic;

use std::fmt;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::get;
use crate::manifests::{deploy, yaml, yaml_of};
use crate::process::{Failed, Process, Stdout, find_program, repository};
pub use dynamic::Dynamic;

/// A running Envoy with a single worker. Dropping it stops it.
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

/// A listener and its authorization.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its name, which is also a part of the names of its statistics.
    pub name: String,
    /// The authorization services. If there are none, the listener has no filter `ext_authz`.
    pub targets: Vec<Target>,
    /// rolegate inside Envoy. It is ignored unless `targets` is empty.
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
    /// The file that all decisions are logged to; `None` to log only denials to standard output, as
    /// shipped.
    pub decisions: Option<PathBuf>,
    /// More lines of rolegate's configuration, such as `hash-timeout: 1s`.
    pub more: Vec<String>,
}

/// Differences from the shipped configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether headers are sent as separate, unmodified lines (`encode_raw_headers`).
    pub encode_raw_headers: bool,
    /// Whether the path is normalised and its slashes are merged before the Check call.
    pub normalize_path: bool,
    /// Whether clients' addresses are those of their connections, whatever `x-forwarded-for` says.
    pub use_remote_address: bool,
    /// The maximum number of body bytes sent to rolegate; `None` for no body.
    pub with_request_body: Option<u32>,
    /// Whether Envoy sends only whole bodies, never a part of one, as in
    /// `deploy/envoy/search.yaml`.
    pub whole_bodies: bool,
    /// The timeout of a Check call.
    pub timeout: Duration,
    /// Whether Envoy uses Google's gRPC library instead of its own client.
    pub google_grpc: bool,
    /// Whether Envoy health-checks rolegate.
    pub health_checks: bool,
    /// Whether Envoy allows a request if rolegate does not answer. Never true under `deploy/`.
    pub failure_mode_allow: bool,
    /// Whether all routes disable rolegate inside Envoy.
    pub disabled: bool,
    /// Whether the application speaks HTTP/2, as gRPC servers do. One application is behind all
    /// listeners.
    pub http2_app: bool,
    /// More HTTP filters, in front of the router, as a list in YAML.
    pub filters: String,
    /// More clusters, as a list in YAML.
    pub clusters: String,
}

impl Default for Settings {
    /// The shipped settings.
    fn default() -> Self {
        Self {
            encode_raw_headers: true,
            normalize_path: true,
            use_remote_address: true,
            with_request_body: None,
            whole_bodies: false,
            timeout: Duration::from_secs(2),
            google_grpc: false,
            health_checks: true,
            failure_mode_allow: false,
            disabled: false,
            http2_app: false,
            filters: String::new(),
            clusters: String::new(),
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
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    fn endpoint(&self) -> Value {
        let address = match self {
            Self::Unix(path) => json!({ "pipe": { "path": path } }),
            Self::Tcp(address) => json!({
                "socket_address": { "address": address.ip(), "port_value": address.port() },
            }),
        };
        json!({ "endpoint": { "address": address } })
    }
}

impl fmt::Display for Target {
    /// As `rolegate serve --listen` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// The time after which Envoy closes the connections of a listener that it replaces.
const DRAIN_SECONDS: u32 = 1;

/// The maximum time for Envoy to start or to end.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(120);

impl Envoy {
    /// Starts Envoy in `folder`, in front of the application at `app`, with these listeners.
    pub async fn start(
        folder: &Path,
        app: SocketAddr,
        listeners: &[Listener],
    ) -> Result<Self, Failed> {
        Self::start_with_program(&program()?, folder, app, listeners).await
    }

    /// Like [`Self::start`], but runs this Envoy program.
    pub(crate) async fn start_with_program(
        program: &Path,
        folder: &Path,
        app: SocketAddr,
        listeners: &[Listener],
    ) -> Result<Self, Failed> {
        let names: Vec<&str> = listeners.iter().map(|listener| listener.name.as_str()).collect();
        let module = listeners.iter().find_map(|listener| listener.module.as_ref());
        let modules = module.map_or(folder, |module| &module.folder);
        let configuration = format!("{:#}", configuration(app, listeners, 0)?);
        Self::start_with_modules(program, folder, &configuration, &names, modules).await
    }

    /// Starts Envoy with this configuration. It must have an admin interface and the listeners that
    /// `listeners` names.
    pub async fn start_configured(
        folder: &Path,
        configuration: &str,
        listeners: &[&str],
    ) -> Result<Self, Failed> {
        Self::start_with_modules(&program()?, folder, configuration, listeners, folder).await
    }

    /// Like [`Self::start_configured`], but runs this Envoy program, which loads dynamic modules
    /// from the folder `modules`.
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
        let [file, admin_path] = [&file, &admin].map(|path| path.display().to_string());
        let (drain, shutdown) = (drain_seconds.to_string(), (drain_seconds + 1).to_string());
        let arguments = [
            ["--config-path", &file],
            ["--admin-address-path", &admin_path],
            ["--concurrency", "1"],
            ["--log-level", "warn"],
            ["--drain-time-s", &drain],
            ["--parent-shutdown-time-s", &shutdown],
        ];
        let arguments = arguments.iter().flatten().copied().chain(["--use-dynamic-base-id"]);
        let arguments: Vec<String> = arguments.map(str::to_owned).collect();
        let mut command = Command::new(program);
        command.args(&arguments).env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", modules);
        let log = folder.join("envoy.log");
        let mut process = Process::start("envoy", command, log, Stdout::Log)?;
        let (admin, addresses) =
            process.until(PROCESS_TIMEOUT, async |_| ready(&admin, listeners).await).await?;
        let first = addresses.first().copied();
        let address = first.ok_or_else(|| Failed::new("envoy", "it has no listener"))?;
        Ok(Self { address, addresses, admin, arguments, process })
    }

    /// Asks it to end (SIGTERM), and waits until it has ended.
    pub async fn end(&mut self) -> Result<(), Failed> {
        self.process.terminate();
        self.process.wait(PROCESS_TIMEOUT).await.map(drop)
    }

    /// The value of a counter or gauge; `None` if none has this name.
    pub async fn stat(&self, name: &str) -> Result<Option<u64>, Failed> {
        let answer = get(self.admin, &format!("/stats?filter=^{name}$"), &[]).await?.text();
        Ok(answer
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok()))
    }
}

impl Deref for Envoy {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Envoy {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The addresses of Envoy's admin interface and of its listeners; `None` until it accepts requests.
async fn ready(file: &Path, listeners: &[&str]) -> Option<(SocketAddr, Vec<SocketAddr>)> {
    let admin: SocketAddr = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    if get(admin, "/ready", &[]).await.ok()?.text().trim() != "LIVE" {
        return None;
    }
    let lines = get(admin, "/listeners", &[]).await.ok()?.text();
    let addresses: Option<Vec<SocketAddr>> = listeners
        .iter()
        .map(|name| {
            lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("::")?.parse().ok())
        })
        .collect();
    Some((admin, addresses?))
}

/// A configuration of `deploy/`.
fn shipped(file: &str) -> Result<Value, Failed> {
    let documents = yaml(&deploy(file))?;
    documents.into_iter().next().ok_or_else(|| Failed::new(file, "it is empty"))
}

/// The shipped configuration, with the application at `app`. Each of `listeners` gets a copy of the
/// shipped listener and, if it has targets, of the shipped cluster `rolegate`. The listeners use
/// this port; with 0, the system chooses a port for each.
fn configuration(app: SocketAddr, listeners: &[Listener], port: u16) -> Result<Value, Failed> {
    let mut config = shipped("envoy/envoy.yaml")?;
    config["admin"]["address"]["socket_address"]["port_value"] = 0.into();
    let resources = &mut config["static_resources"];
    let listener = resources["listeners"][0].take();
    let [mut application, rolegate] = [0, 1].map(|index| resources["clusters"][index].take());
    application["load_assignment"]["endpoints"][0]["lb_endpoints"] =
        json!([Target::Tcp(app).endpoint()]);
    if listeners.iter().any(|listener| listener.settings.http2_app) {
        application["typed_extension_protocol_options"] = http2();
    }
    let mut clusters = vec![application];
    let with_cluster = listeners.iter().filter(|listener| !listener.targets.is_empty());
    clusters.extend(with_cluster.map(|listener| listener.cluster(rolegate.clone())));
    for listener in listeners {
        clusters.extend(list(&listener.settings.clusters)?);
    }
    let listeners = listeners.iter().map(|wanted| wanted.listener(listener.clone(), port));
    resources["listeners"] = listeners.collect::<Result<_, _>>()?;
    resources["clusters"] = clusters.into();
    Ok(config)
}

impl Listener {
    /// A listener with the shipped settings and no authorization.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), targets: Vec::new(), module: None, settings: Settings::default() }
    }

    /// Sets up a copy of the shipped listener.
    fn listener(&self, mut listener: Value, port: u16) -> Result<Value, Failed> {
        let settings = &self.settings;
        listener["name"] = self.name.as_str().into();
        listener["address"]["socket_address"]["port_value"] = port.into();
        let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
        manager["stat_prefix"] = self.name.as_str().into();
        manager["use_remote_address"] = settings.use_remote_address.into();
        manager["normalize_path"] = settings.normalize_path.into();
        manager["merge_slashes"] = settings.normalize_path.into();
        let [mut ext_authz, router] = [0, 1].map(|index| manager["http_filters"][index].take());
        let mut filters = Vec::new();
        let mut route_settings = json!({});
        if self.targets.is_empty() {
            filters.extend(self.module.as_ref().map(Module::filter).transpose()?);
            if settings.disabled {
                route_settings["rolegate"] = disabled();
            }
        } else {
            self.configure(&mut ext_authz["typed_config"]);
            filters.push(ext_authz);
            if settings.whole_bodies {
                route_settings["envoy.filters.http.ext_authz"] = buffered();
            }
        }
        filters.extend(list(&settings.filters)?);
        filters.push(router);
        manager["http_filters"] = filters.into();
        manager["route_config"]["virtual_hosts"][0]["typed_per_filter_config"] = route_settings;
        Ok(listener)
    }

    /// Sets up its filter `ext_authz`.
    fn configure(&self, ext_authz: &mut Value) {
        let settings = &self.settings;
        ext_authz["failure_mode_allow"] = settings.failure_mode_allow.into();
        ext_authz["encode_raw_headers"] = settings.encode_raw_headers.into();
        if let Some(bytes) = settings.with_request_body {
            ext_authz["with_request_body"] = json!({
                "max_request_bytes": bytes,
                "allow_partial_message": !settings.whole_bodies,
                "pack_as_bytes": true,
            });
        }
        let service = &mut ext_authz["grpc_service"];
        if let (true, Some(target)) = (settings.google_grpc, self.targets.first()) {
            // Google's client has no retries.
            *service = json!({ "google_grpc": google(&self.cluster_name(), target) });
        } else {
            service["envoy_grpc"]["cluster_name"] = self.cluster_name().into();
            // Envoy also limits the time of each try to `max_interval`.
            let max_interval = &mut service["retry_policy"]["retry_back_off"]["max_interval"];
            *max_interval = seconds(settings.timeout);
        }
        service["timeout"] = seconds(settings.timeout);
    }

    /// Sets up a copy of the shipped cluster for its authorization services.
    fn cluster(&self, mut cluster: Value) -> Value {
        cluster["name"] = self.cluster_name().into();
        cluster["load_assignment"]["cluster_name"] = self.cluster_name().into();
        cluster["load_assignment"]["endpoints"][0]["lb_endpoints"] =
            self.targets.iter().map(Target::endpoint).collect();
        if !self.settings.health_checks {
            cluster["health_checks"] = json!([]);
        }
        cluster
    }

    /// The name of the cluster for its authorization services.
    fn cluster_name(&self) -> String {
        match self.name.as_str() {
            "public" => "rolegate".to_owned(),
            name => format!("rolegate-{name}"),
        }
    }
}

impl Module {
    /// Its filter, from `deploy/envoy/module.yaml`.
    fn filter(&self) -> Result<Value, Failed> {
        let mut config = shipped("envoy/module.yaml")?;
        let listener = &mut config["static_resources"]["listeners"][0];
        let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
        let mut filter = manager["http_filters"][0].take();
        let settings = &mut filter["typed_config"]["filter_config"]["value"];
        settings["policy"] = json!(self.policy);
        if let Some(file) = &self.decisions {
            settings["decision-log"] = "all".into();
            settings["decision-log-file"] = json!(file);
        }
        for line in &self.more {
            if let Some(Value::Object(fields)) = yaml_of(line)?.pop() {
                fields.into_iter().for_each(|(name, value)| settings[name] = value);
            }
        }
        Ok(filter)
    }
}

/// The items of a list in YAML; none if the text is empty.
fn list(text: &str) -> Result<Vec<Value>, Failed> {
    match yaml_of(text)?.pop() {
        Some(Value::Array(items)) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

fn seconds(time: Duration) -> Value {
    format!("{}s", time.as_secs_f64()).into()
}

/// The settings of Google's client for this target. They set the authority to `localhost`.
///
/// Otherwise, on a Unix socket, the client sends the socket's path, percent-encoded, as the
/// authority. Servers based on the crate h2 (rolegate's and tonic's) reject that as malformed (seen
/// with Envoy 1.40: a reset with PROTOCOL_ERROR).
fn google(name: &str, target: &Target) -> Value {
    let arguments = json!({ "grpc.default_authority": { "string_value": "localhost" } });
    json!({
        "target_uri": target.to_string(),
        "stat_prefix": name,
        "channel_args": { "args": arguments },
    })
}

/// The options of a cluster that is reached over HTTP/2.
fn http2() -> Value {
    const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let options = json!({
        "@type": format!("type.googleapis.com/{OPTIONS}"),
        "explicit_http_config": { "http2_protocol_options": {} },
    });
    json!({ OPTIONS: options })
}

/// The settings of a route that tell rolegate that Envoy sends the whole body of each request.
fn buffered() -> Value {
    json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute",
        "check_settings": { "context_extensions": { "request_body": "buffered" } },
    })
}

/// The settings of a route that switch rolegate inside Envoy off.
fn disabled() -> Value {
    const MODULES: &str = "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3";
    json!({
        "@type": format!("{MODULES}.DynamicModuleFilterPerRoute"),
        "dynamic_module_config": { "name": "rolegate", "do_not_close": true },
        "filter_name": "rolegate",
        "filter_config": {
            "@type": "type.googleapis.com/google.protobuf.Struct",
            "value": { "disabled": true },
        },
    })
}

/// The version of [`program`].
const VERSION: &str = "1.40.0";
/// The version of [`older_program`]. No Envoy of an older minor version loads the module.
const OLDER_VERSION: &str = "1.38.3";

/// The Envoy program: `ENVOY=/path`, else as `make tools` installed it in `.tools/`.
pub fn program() -> Result<PathBuf, Failed> {
    installed("ENVOY", VERSION)
}

/// An older Envoy: `ENVOY_OLDER=/path`, else as `make tools` installed it.
pub fn older_program() -> Result<PathBuf, Failed> {
    installed("ENVOY_OLDER", OLDER_VERSION)
}

fn installed(variable: &str, version: &str) -> Result<PathBuf, Failed> {
    let tools = repository().join(format!(".tools/envoy-{version}"));
    let libraries = std::fs::read_dir(tools.join("lib")).into_iter().flatten().flatten();
    let in_venv = libraries.map(|folder| folder.path().join("site-packages/envoy/_bin/envoy"));
    let candidates = in_venv.chain([tools.join("envoy/_bin/envoy")]);
    find_program(variable, "run `make tools`", candidates)
}
