//! A real Envoy with the configuration `deploy/envoy/envoy.yaml`, in which addresses are replaced by free ones.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::{Connection, Version};
use crate::process::{Failed, Process, first_file, repository};

/// A running Envoy with one worker. Dropping it stops it.
#[derive(Debug)]
pub struct Envoy {
    /// Where clients connect: HTTP/1.1, or HTTP/2 without TLS.
    pub address: SocketAddr,
    /// Its admin interface.
    pub admin: SocketAddr,
    process: Process,
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
    /// The timeout of a Check call.
    pub timeout: Duration,
    /// Whether Envoy health-checks rolegate.
    pub health_checks: bool,
    /// Whether Envoy allows a request if rolegate does not answer. Never true in what we ship.
    pub failure_mode_allow: bool,
}

impl Default for Settings {
    /// The shipped settings.
    fn default() -> Self {
        Self {
            encode_raw_headers: true,
            normalize_path: true,
            with_request_body: None,
            timeout: Duration::from_secs(2),
            health_checks: true,
            failure_mode_allow: false,
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
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(at) => Some(*at),
            Self::Unix(_) => None,
        }
    }
}

/// The maximum time for Envoy to start.
const START: Duration = Duration::from_secs(30);

impl Envoy {
    /// Starts Envoy in `folder`, in front of the application at `app`, with the rolegates at `targets`.
    ///
    /// # Errors
    /// If Envoy is not installed, or does not become ready within half a minute.
    pub async fn start(
        folder: &Path,
        app: SocketAddr,
        targets: &[Target],
        settings: &Settings,
    ) -> Result<Self, Failed> {
        let program = program()?;
        let template = repository().join("deploy/envoy/envoy.yaml");
        let template = std::fs::read_to_string(&template)
            .map_err(|error| Failed::io(template.display().to_string(), &error))?;
        let file = folder.join("envoy.yaml");
        std::fs::write(&file, render(&template, app, targets, settings)?)
            .map_err(|error| Failed::io(file.display().to_string(), &error))?;
        let admin_file = folder.join("envoy-admin");
        let mut command = Command::new(program);
        command.arg("--config-path").arg(&file).arg("--admin-address-path").arg(&admin_file);
        command.args(["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn"]);
        command.args(["--drain-time-s", "1", "--parent-shutdown-time-s", "2"]);
        let mut process = Process::start("envoy", command, folder.join("envoy.log"))?;
        let (admin, address) = ready(&mut process, &admin_file).await?;
        Ok(Self { address, admin, process })
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.printed()
    }

    /// The value of a counter or gauge; `None` if none has this name.
    ///
    /// # Errors
    /// If its admin interface does not answer.
    pub async fn stat(&self, name: &str) -> Result<Option<u64>, Failed> {
        let answer = admin(self.admin, &format!("/stats?filter=^{name}$")).await?;
        Ok(answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok()))
    }
}

/// Waits until Envoy accepts requests. Returns the addresses of its admin interface and of its listener.
async fn ready(process: &mut Process, file: &Path) -> Result<(SocketAddr, SocketAddr), Failed> {
    let until = Instant::now() + START;
    while Instant::now() < until {
        if let Some(status) = process.ended() {
            return Err(process.failed(&format!("it ended at once ({status})")));
        }
        if let Some(both) = addresses(file).await {
            return Ok(both);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(process.failed("it is not ready after 30 s"))
}

async fn addresses(file: &Path) -> Option<(SocketAddr, SocketAddr)> {
    let own: SocketAddr = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    if admin(own, "/ready").await.ok()?.trim() != "LIVE" {
        return None;
    }
    let listeners = admin(own, "/listeners").await.ok()?;
    let listener = listeners.lines().find_map(|line| line.strip_prefix("public::")?.parse().ok())?;
    Some((own, listener))
}

async fn admin(address: SocketAddr, path: &str) -> Result<String, Failed> {
    let mut connection = Connection::open(address, Version::Http1).await?;
    let answer = connection.send("GET", path, "localhost", &[], b"").await?;
    Ok(answer.text())
}

/// The shipped configuration with these addresses and settings.
fn render(
    template: &str,
    app: SocketAddr,
    targets: &[Target],
    settings: &Settings,
) -> Result<String, Failed> {
    let mut text = Text(template.to_owned());
    text.replace("port_value: 9901", "port_value: 0")?;
    text.replace("port_value: 10000", "port_value: 0")?;
    text.replace("port_value: 8080", &format!("port_value: {}", app.port()))?;
    let timeout = format!("{}s", settings.timeout.as_secs_f64());
    text.replace(" timeout: 2s", &format!(" timeout: {timeout}"))?;
    text.replace("max_interval: 2s", &format!("max_interval: {timeout}"))?;
    text.replace("normalize_path: true", &format!("normalize_path: {}", settings.normalize_path))?;
    text.replace("merge_slashes: true", &format!("merge_slashes: {}", settings.normalize_path))?;
    let failure = format!("failure_mode_allow: {}", settings.failure_mode_allow);
    text.replace("failure_mode_allow: false", &failure)?;
    let raw = format!("encode_raw_headers: {}", settings.encode_raw_headers);
    let body = settings.with_request_body.map_or_else(String::new, |bytes| {
        format!(
            "\n{:22}with_request_body: {{ max_request_bytes: {bytes}, allow_partial_message: true, pack_as_bytes: true }}",
            ""
        )
    });
    text.replace("encode_raw_headers: true", &(raw + &body))?;
    text.replace(ENDPOINT, &endpoints(targets))?;
    if !settings.health_checks {
        text.cut("      health_checks:\n", "      load_assignment:\n        cluster_name: rolegate")?;
    }
    Ok(text.0)
}

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

/// A configuration in which each replaced text must occur exactly once.
struct Text(String);

impl Text {
    fn replace(&mut self, from: &str, to: &str) -> Result<(), Failed> {
        match self.0.matches(from).count() {
            1 => self.0 = self.0.replacen(from, to, 1),
            times => {
                return Err(Failed::new(
                    "deploy/envoy/envoy.yaml",
                    format!("`{from}` stands {times} times in it"),
                ));
            }
        }
        Ok(())
    }

    fn cut(&mut self, from: &str, until: &str) -> Result<(), Failed> {
        let both =
            self.0.split_once(from).and_then(|(before, rest)| Some((before, rest.split_once(until)?.1)));
        let Some((before, after)) = both else {
            return Err(Failed::new(
                "deploy/envoy/envoy.yaml",
                format!("no `{from}` before `{until}` in it"),
            ));
        };
        self.0 = format!("{before}{until}{after}");
        Ok(())
    }
}

/// The Envoy program: `ENVOY=/path`, else the one that `make tools` installed in `.tools/`.
///
/// # Errors
/// If it is missing. The message says how to get it.
pub fn program() -> Result<PathBuf, Failed> {
    if let Ok(path) = std::env::var("ENVOY") {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            let why =
                format!("no file at {}: name the program, or unset it and run `make tools`", path.display());
            Err(Failed::new("ENVOY", why))
        };
    }
    let tools = repository().join(".tools/envoy-1.40.0");
    let libraries = std::fs::read_dir(tools.join("lib")).into_iter().flatten().flatten();
    let in_environment = libraries.map(|it| it.path().join("site-packages/envoy/_bin/envoy"));
    first_file(in_environment.chain([tools.join("envoy/_bin/envoy")]))
        .ok_or_else(|| Failed::new("envoy", "not found: run `make tools`, or set ENVOY=/path/to/envoy"))
}
