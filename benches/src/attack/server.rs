//! The server under attack: a process for each attack, on free loopback ports. If TLS is attacked,
//! the honest client uses a Unix socket, which has none: it measures what the server still does
//! beside the handshakes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testbed::client::get;
use testbed::envoy::Target;
use testbed::rolegate::{ANY_PORT, Rolegate};
use testbed::{Failed, Stdout, block_on};

use crate::machine::Usage;
use crate::pin;

/// The program under attack.
pub(crate) struct Program<'a> {
    pub(crate) file: PathBuf,
    /// The core reserved for it, if there are enough.
    pub(crate) cores: Option<&'a [usize]>,
}

/// A running `rolegate serve`. Dropping it ends it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Where the honest client connects.
    pub(crate) honest: String,
    rolegate: Rolegate,
}

impl Server {
    /// Starts it with this policy; its files go to `folder`. With the files of a certificate and
    /// its key, it has TLS on TCP.
    pub(crate) fn start(
        program: &Program<'_>,
        policy: &str,
        more: &[&str],
        stdout: Stdout,
        tls: Option<[String; 2]>,
        folder: &Path,
    ) -> Result<Self, Failed> {
        let file = folder.join("policy.yaml");
        crate::write(&file, policy)?;
        let socket = format!("unix:{}", folder.join("honest.sock").display());
        let with_tls = tls.iter().flat_map(|[certificate, key]| {
            ["--tls-certificate", certificate, "--tls-key", key, "--listen", &socket]
        });
        let more: Vec<&str> = ["--log-format", "json"]
            .into_iter()
            .chain(more.iter().copied())
            .chain(with_tls)
            .collect();
        let listen = Target::Tcp(ANY_PORT);
        let rolegate = pin::on(program.cores, || {
            block_on(Rolegate::start_with(&program.file, &file, listen, folder, &more, stdout))
        })?;
        let address = rolegate.listen.tcp().unwrap_or(ANY_PORT);
        let honest = if tls.is_some() { socket } else { address.to_string() };
        Ok(Self { address, admin: rolegate.admin, honest, rolegate })
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.rolegate.is_running()
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        Usage::of(self.rolegate.id()).resident
    }

    /// The hashes so far.
    pub(crate) fn hashes(&self) -> Result<f64, Failed> {
        hashes(self.admin)
    }
}

/// The hashes so far, from the metrics.
pub(crate) fn hashes(admin: SocketAddr) -> Result<f64, Failed> {
    let page = ask(admin, "/metrics", Duration::from_secs(2))?;
    let value =
        page.lines().find_map(|line| line.strip_prefix("rolegate_hashes_total ")?.parse().ok());
    value.ok_or_else(|| Failed::new("metrics", "no rolegate_hashes_total"))
}

/// `GET` on a new connection, like a probe. Returns the body if the status is 200.
pub(crate) fn ask(admin: SocketAddr, path: &str, timeout: Duration) -> Result<String, Failed> {
    let answer = block_on(async {
        let answering = tokio::time::timeout(timeout, get(admin, path, &[])).await;
        answering.unwrap_or_else(|_| Err(Failed::new("admin", "no answer in time")))
    })?;
    if answer.status == 200 { Ok(answer.text()) } else { Err(Failed::new("admin", answer.text())) }
}
