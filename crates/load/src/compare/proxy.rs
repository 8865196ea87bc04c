//! One Envoy with one worker and a listener for each scenario, so that all of them are measured on the same worker and
//! nothing is restarted between measurements.
//!
//! The settings are those of `deploy/envoy/envoy.yaml`, except that health checks are omitted, because not every peer
//! supports them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{Failed, Process};

use super::ask;
use super::scenario::{Client, Endpoint, Scenario};
use crate::Address;

/// A running Envoy. Dropping it stops it.
#[derive(Debug)]
pub struct Proxy {
    /// The listener of each scenario; `None` for scenarios without Envoy.
    pub endpoints: Vec<Option<SocketAddr>>,
    /// The process.
    pub process: Process,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// The maximum time to start.
const START: Duration = Duration::from_secs(30);

impl Proxy {
    /// Starts it with this configuration in `folder`.
    ///
    /// # Errors
    /// If Envoy is not installed, or does not become ready.
    pub fn start(folder: &Path, config: &Value, scenarios: usize) -> Result<Self, Failed> {
        let program = testbed::envoy::program()?;
        let (file, admin) = (folder.join("envoy.json"), folder.join("envoy-admin"));
        std::fs::write(&file, format!("{config:#}\n")).map_err(|error| Failed::io("envoy.json", &error))?;
        let arguments = arguments(&file, &admin);
        let mut command = Command::new(&program);
        command.args(&arguments);
        let mut process = Process::start("envoy", command, folder.join("envoy.log"))?;
        let endpoints = ready(&mut process, &admin, scenarios)?;
        Ok(Self { endpoints, process, program, arguments })
    }
}

fn arguments(file: &Path, admin: &Path) -> Vec<String> {
    let (file, admin) = (file.display().to_string(), admin.display().to_string());
    let fixed = ["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn", "--drain-time-s", "1"];
    let mut all = vec!["--config-path".to_owned(), file, "--admin-address-path".to_owned(), admin];
    all.extend(fixed.map(str::to_owned));
    all
}

fn ready(process: &mut Process, admin: &Path, scenarios: usize) -> Result<Vec<Option<SocketAddr>>, Failed> {
    let until = Instant::now() + START;
    while Instant::now() < until {
        if let Some(status) = process.ended() {
            return Err(process.failed(&format!("it ended at once ({status})")));
        }
        if let Some(listeners) = listeners(admin) {
            return Ok((0..scenarios).map(|number| endpoint(&listeners, number)).collect());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(process.failed("it is not ready after 30 s"))
}

/// The list of listeners from the admin interface, once Envoy accepts requests.
#[expect(clippy::disallowed_methods, reason = "Envoy says in a file where its admin interface is")]
fn listeners(admin: &Path) -> Option<String> {
    let at: SocketAddr = std::fs::read_to_string(admin).ok()?.trim().parse().ok()?;
    let (_, state) = ask::get(at, "/ready", &[]).ok()?;
    if !state.contains("LIVE") {
        return None;
    }
    Some(ask::get(at, "/listeners", &[]).ok()?.1)
}

fn endpoint(listeners: &str, scenario: usize) -> Option<SocketAddr> {
    let name = format!("scenario-{scenario}::");
    listeners.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok())
}

/// An authorization server as Envoy uses it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where it listens.
    pub address: Address,
    /// Whether headers are sent as separate, unmodified lines (`encode_raw_headers`).
    pub raw_headers: bool,
}

/// The configuration, in front of the application at `app`. `asked` returns the authorization server of a scenario.
#[must_use]
pub fn config(scenarios: &[Scenario], app: SocketAddr, asked: &dyn Fn(Endpoint) -> Option<Asked>) -> Value {
    let mut listeners = Vec::new();
    let mut clusters = vec![cluster("application", &Address::Tcp(app.ip().to_string(), app.port()), false)];
    for (number, scenario) in scenarios.iter().enumerate() {
        match scenario.endpoint {
            Endpoint::App => {}
            Endpoint::Envoy => listeners.push(listener(number, None)),
            Endpoint::Check { client, .. } => {
                let Some(asked) = asked(scenario.endpoint) else { continue };
                let cluster_name = format!("check-{number}");
                listeners.push(listener(number, Some(&asking(client, &cluster_name, &asked))));
                if client == Client::Envoy {
                    clusters.push(cluster(&cluster_name, &asked.address, true));
                }
            }
        }
    }
    json!({
        "admin": {"address": socket("127.0.0.1", 0)},
        "static_resources": {"listeners": listeners, "clusters": clusters},
    })
}

fn listener(number: usize, asking: Option<&Value>) -> Value {
    let mut filters: Vec<Value> = asking.cloned().into_iter().collect();
    filters.push(filter("envoy.filters.http.router", "router.v3.Router", json!({})));
    json!({
        "name": format!("scenario-{number}"),
        "address": socket("127.0.0.1", 0),
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": format!("scenario-{number}"),
                "codec_type": "AUTO",
                "use_remote_address": true,
                "normalize_path": true,
                "merge_slashes": true,
                "max_request_headers_kb": 96,
                "http_filters": filters,
                "route_config": {"virtual_hosts": [{
                    "name": "application",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "application"}}],
                }]},
            },
        }]}],
    })
}

fn filter(name: &str, kind: &str, mut config: Value) -> Value {
    if let Some(config) = config.as_object_mut() {
        let url = format!("type.googleapis.com/envoy.extensions.filters.http.{kind}");
        config.insert("@type".to_owned(), json!(url));
    }
    json!({"name": name, "typed_config": config})
}

fn asking(client: Client, cluster: &str, asked: &Asked) -> Value {
    let address = &asked.address;
    let mut service = json!({"timeout": "2s"});
    let (key, client) = match client {
        Client::Envoy => ("envoy_grpc", json!({"cluster_name": cluster})),
        Client::Google => ("google_grpc", google(cluster, address)),
    };
    if let Some(service) = service.as_object_mut() {
        if key == "envoy_grpc" {
            service.insert("retry_policy".to_owned(), retries());
        }
        service.insert(key.to_owned(), client);
    }
    let config = json!({
        "transport_api_version": "V3",
        "failure_mode_allow": false,
        "status_on_error": {"code": "ServiceUnavailable"},
        "encode_raw_headers": asked.raw_headers,
        "validate_mutations": true,
        "grpc_service": service,
    });
    filter("envoy.filters.http.ext_authz", "ext_authz.v3.ExtAuthz", config)
}

/// On a Unix socket, Google's client sends the socket's path, percent-encoded, as the authority. Servers based on the
/// crate h2 (ours and tonic's) reject that as malformed (seen with Envoy 1.40: a reset with PROTOCOL_ERROR), so the
/// authority is set.
fn google(cluster: &str, address: &Address) -> Value {
    json!({
        "target_uri": address.to_string(),
        "stat_prefix": cluster,
        "channel_args": {"args": {"grpc.default_authority": {"string_value": "localhost"}}},
    })
}

fn retries() -> Value {
    json!({
        "retry_on": "connect-failure,refused-stream,reset,unavailable",
        "num_retries": 2,
        "retry_back_off": {"base_interval": "0.005s", "max_interval": "2s"},
    })
}

fn cluster(name: &str, address: &Address, http2: bool) -> Value {
    let mut cluster = json!({
        "name": name,
        "type": if matches!(address, Address::Tcp(host, _) if host.parse::<std::net::IpAddr>().is_err()) {
            "STRICT_DNS"
        } else {
            "STATIC"
        },
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [
            {"max_requests": 100_000, "max_pending_requests": 100_000, "max_retries": 100_000},
        ]},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": place(address)}}]}],
        },
    });
    if let (true, Some(cluster)) = (http2, cluster.as_object_mut()) {
        let options = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }});
        cluster.insert("typed_extension_protocol_options".to_owned(), options);
    }
    cluster
}

fn place(address: &Address) -> Value {
    match address {
        Address::Tcp(host, port) => socket(host, *port),
        Address::Unix(path) => json!({"pipe": {"path": path}}),
    }
}

fn socket(host: &str, port: u16) -> Value {
    json!({"socket_address": {"address": host, "port_value": port}})
}
