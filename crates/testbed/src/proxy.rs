//! A real nginx, HAProxy, Caddy or Traefik with its configuration under `deploy/`, in which
//! addresses are replaced by free addresses. [`ProxyStack`] is such a proxy with rolegate beside
//! it.

mod stack;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

pub use self::stack::ProxyStack;
use crate::client::get;
use crate::manifests::deploy;
use crate::port::ReservedPort;
use crate::process::{Failed, Process, Stdout, find_program, repository};

/// Which proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Caddy.
    Caddy,
    /// Traefik.
    Traefik,
}

/// How long a proxy waits for rolegate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeouts {
    /// As in the shipped file.
    Shipped,
    /// Long enough that a busy machine turns no answer into an error.
    Long,
}

/// A running proxy. Dropping it stops it.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect to it.
    pub address: SocketAddr,
    _port: ReservedPort,
    _process: Process,
}

/// The addresses in the files under `deploy/`.
const ROLEGATE: &str = "127.0.0.1:9193";
const APPLICATION: &str = "127.0.0.1:8080";

/// The timeouts in the files, each with its replacement for [`Timeouts::Long`].
const LONG_TIMEOUTS: &[(&str, &str)] = &[
    ("proxy_connect_timeout 1s", "proxy_connect_timeout 60s"),
    ("proxy_read_timeout 2s", "proxy_read_timeout 60s"),
    ("TIMEOUT_MS = 2000", "TIMEOUT_MS = 60000"),
    ("timeout connect 1s", "timeout connect 60s"),
    ("dial_timeout 1s", "dial_timeout 60s"),
    ("response_header_timeout 2s", "response_header_timeout 60s"),
];

/// The version of Caddy in `.tools/`.
const CADDY_VERSION: &str = "2.11.9";
/// The version of Traefik in `.tools/`.
const TRAEFIK_VERSION: &str = "3.6.12";

/// The maximum time until a proxy accepts connections, and then until it has its routes.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The main configuration of nginx. It includes the shipped file, which is only a part of the
/// context `http`. nginx runs as a single process, so that killing it leaves no worker behind.
const AROUND_NGINX: &str = "daemon off; master_process off; pid nginx.pid; events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include rolegate.conf;
}
";

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nginx, Self::Haproxy, Self::Caddy, Self::Traefik];

    /// The proxy with this name, as in `make demo PROXY=nginx`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its name, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::Caddy => "Caddy",
            Self::Traefik => "Traefik",
        }
    }

    /// The value of `--http-profile`.
    pub fn profile(self) -> &'static str {
        self.name()
    }

    /// The program: `NGINX=/path` (or `HAPROXY`, `CADDY`, `TRAEFIK`), else as the Makefile installs
    /// it.
    fn program(self) -> Result<PathBuf, Failed> {
        let (variable, remedy, folder) = match self {
            Self::Nginx => ("NGINX", "run `make tools`", "nginx-haproxy".to_owned()),
            Self::Haproxy => ("HAPROXY", "run `make tools`", "nginx-haproxy".to_owned()),
            Self::Caddy => ("CADDY", "run `make test-proxies`", format!("caddy-{CADDY_VERSION}")),
            Self::Traefik => {
                ("TRAEFIK", "run `make test-proxies`", format!("traefik-{TRAEFIK_VERSION}"))
            }
        };
        let program = repository().join(".tools").join(folder).join("bin").join(self.name());
        find_program(variable, remedy, [program])
    }

    /// Its name in lower case. Its program has this name, too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Caddy => "caddy",
            Self::Traefik => "traefik",
        }
    }

    /// Writes its configuration to `folder`, and returns its arguments.
    fn configure(self, folder: &Path, addresses: &Addresses) -> Result<Vec<String>, Failed> {
        let at = |file: &str| folder.join(file).display().to_string();
        Ok(match self {
            Self::Nginx => {
                addresses.copy("nginx/rolegate.conf", folder, &[])?;
                write(&folder.join("nginx.conf"), AROUND_NGINX)?;
                ["-e", "stderr", "-p", &folder.display().to_string(), "-c", &at("nginx.conf")]
                    .map(str::to_owned)
                    .into()
            }
            Self::Haproxy => {
                addresses.copy("haproxy/rolegate.lua", folder, &[])?;
                let script = ("/etc/haproxy/rolegate.lua", &*at("rolegate.lua"));
                addresses.copy("haproxy/haproxy.cfg", folder, &[script])?;
                vec!["-db".to_owned(), "-f".to_owned(), at("haproxy.cfg")]
            }
            Self::Caddy => {
                addresses.copy("caddy/Caddyfile", folder, &[])?;
                ["run", "--adapter", "caddyfile", "--config", &at("Caddyfile")]
                    .map(str::to_owned)
                    .into()
            }
            Self::Traefik => {
                addresses.copy("traefik/rolegate.yaml", folder, &[])?;
                let routes = ("/etc/traefik/rolegate.yaml", &*at("rolegate.yaml"));
                addresses.copy("traefik/traefik.yaml", folder, &[routes])?;
                vec![format!("--configFile={}", at("traefik.yaml"))]
            }
        })
    }
}

impl Proxy {
    /// Starts it in front of the application. It asks `rolegate`; its files go to `folder`.
    pub async fn start(
        kind: Kind,
        (rolegate, application): (SocketAddr, SocketAddr),
        folder: &Path,
        timeouts: Timeouts,
    ) -> Result<Self, Failed> {
        let port = ReservedPort::new()?;
        let address = port.address();
        let addresses = Addresses { public: address, rolegate, application, timeouts };
        let mut command = Command::new(kind.program()?);
        command.args(kind.configure(folder, &addresses)?);
        // Where Caddy keeps certificates.
        command.env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
        let log = folder.join(format!("{}.log", kind.name()));
        let mut process = Process::start(kind.name(), command, log, Stdout::Log)?;
        let ready = async |_: &Process| TcpStream::connect(address).await.ok();
        process.until(START_TIMEOUT, ready).await?;
        Ok(Self { address, _port: port, _process: process })
    }

    /// Sends requests until one is not answered with 404. Traefik accepts connections before it has
    /// its routes, and then answers 404 itself; neither rolegate nor the application does.
    pub async fn wait_for_routes(&self) -> Result<(), Failed> {
        let end = Instant::now() + START_TIMEOUT;
        while get(self.address, "/", &[]).await?.status == 404 {
            if Instant::now() > end {
                return Err(Failed::new("proxy", format!("no route after {START_TIMEOUT:?}")));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

/// What replaces the addresses and the timeouts in the files.
struct Addresses {
    public: SocketAddr,
    rolegate: SocketAddr,
    application: SocketAddr,
    timeouts: Timeouts,
}

impl Addresses {
    /// Copies a file under `deploy/` to `folder`, and replaces addresses and timeouts in it. `more`
    /// has more texts to replace, each with its replacement.
    fn copy(&self, file: &str, folder: &Path, more: &[(&str, &str)]) -> Result<(), Failed> {
        let from = deploy(file);
        let text = std::fs::read_to_string(&from).map_err(|error| Failed::io(file, &error))?;
        let mut text = text
            .replace(ROLEGATE, &self.rolegate.to_string())
            .replace(APPLICATION, &self.application.to_string())
            .replace("127.0.0.1:10000", &self.public.to_string())
            .replace("http://:10000", &format!("http://:{}", self.public.port()));
        let timeouts = match self.timeouts {
            Timeouts::Shipped => &[],
            Timeouts::Long => LONG_TIMEOUTS,
        };
        for (from, to) in timeouts.iter().chain(more) {
            text = text.replace(from, to);
        }
        let name = from.file_name().unwrap_or_default();
        write(&folder.join(name), &text)
    }
}

fn write(file: &Path, text: &str) -> Result<(), Failed> {
    std::fs::write(file, text).map_err(|error| Failed::io(file.display().to_string(), &error))
}
