//! A real nginx, HAProxy or Caddy with its configuration under `deploy/`, in which addresses are
//! replaced by free ones.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::net::TcpStream;

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

/// The version of Caddy in `.tools/`.
const CADDY_VERSION: &str = "2.11.9";

/// The maximum time until it accepts connections.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// What the shipped file, which belongs into the context `http`, needs around it. A single process:
/// when it is killed, none is left.
const AROUND_NGINX: &str = "daemon off; master_process off; pid nginx.pid; events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include rolegate.conf;
}
";

impl Kind {
    /// The value of `--http-profile`.
    pub fn profile(self) -> &'static str {
        self.name()
    }

    /// The program: `NGINX=/path` (`HAPROXY`, `CADDY`), else as the Makefile installs it.
    fn program(self) -> Result<PathBuf, Failed> {
        let (variable, remedy, folder) = match self {
            Self::Nginx => ("NGINX", "run `make tools`", "nginx-haproxy".to_owned()),
            Self::Haproxy => ("HAPROXY", "run `make tools`", "nginx-haproxy".to_owned()),
            Self::Caddy => ("CADDY", "run `make test-caddy`", format!("caddy-{CADDY_VERSION}")),
        };
        let program = repository().join(".tools").join(folder).join("bin").join(self.name());
        find_program(variable, remedy, [program])
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Caddy => "caddy",
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
        })
    }
}

impl Proxy {
    /// Starts it in front of the application. It asks `rolegate`; its files go to `folder`.
    pub async fn start(
        kind: Kind,
        rolegate: SocketAddr,
        application: SocketAddr,
        folder: &Path,
    ) -> Result<Self, Failed> {
        let port = ReservedPort::new()?;
        let address = port.address();
        let addresses = Addresses { public: address, rolegate, application };
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
}

/// What replaces the addresses in the files.
struct Addresses {
    public: SocketAddr,
    rolegate: SocketAddr,
    application: SocketAddr,
}

impl Addresses {
    /// Copies a file under `deploy/` to `folder`, with its addresses and `more` replaced.
    fn copy(&self, file: &str, folder: &Path, more: &[(&str, &str)]) -> Result<(), Failed> {
        let from = deploy(file);
        let text = std::fs::read_to_string(&from).map_err(|error| Failed::io(file, &error))?;
        let mut text = text
            .replace(ROLEGATE, &self.rolegate.to_string())
            .replace(APPLICATION, &self.application.to_string())
            .replace("127.0.0.1:10000", &self.public.to_string())
            .replace("http://:10000", &format!("http://:{}", self.public.port()));
        for (from, to) in more {
            text = text.replace(from, to);
        }
        let name = from.file_name().unwrap_or_default();
        write(&folder.join(name), &text)
    }
}

fn write(file: &Path, text: &str) -> Result<(), Failed> {
    std::fs::write(file, text).map_err(|error| Failed::io(file.display().to_string(), &error))
}
