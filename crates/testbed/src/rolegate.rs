//! The program `rolegate`, started like a user starts it.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::client::get;
use crate::envoy::Target;
use crate::process::{Failed, Process, Stdout};

/// A running `rolegate serve`. Dropping it kills it, without the delay of a drain.
#[derive(Debug)]
pub struct Rolegate {
    /// The address of its ext_authz listener.
    pub listen: Target,
    /// Its admin interface.
    pub admin: SocketAddr,
    process: Process,
}

/// The maximum time until it is ready.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A port chosen by the system. Searching for a free port beforehand fails now and then, because
/// another process may take it first.
pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Rolegate {
    /// Starts it with this policy and the further arguments `more`; its output goes to `folder`.
    /// The admin interface gets [`ANY_PORT`], which `listen` may be too.
    pub async fn start(
        program: &Path,
        policy: &Path,
        listen: Target,
        folder: &Path,
        more: &[&str],
    ) -> Result<Self, Failed> {
        Self::start_with(program, policy, listen, folder, more, Stdout::Log).await
    }

    /// Starts it with another standard output, to which it writes its decision log.
    pub async fn start_with(
        program: &Path,
        policy: &Path,
        listen: Target,
        folder: &Path,
        more: &[&str],
        stdout: Stdout,
    ) -> Result<Self, Failed> {
        let mut command = Command::new(program);
        command.arg("serve").arg("--policy").arg(policy);
        command.args(["--listen", &listen.to_string(), "--admin", &ANY_PORT.to_string()]);
        command.args(more);
        let process = Process::start("rolegate", command, unused_log(folder), stdout)?;
        let mut rolegate = Self { listen, admin: ANY_PORT, process };
        rolegate.ready().await?;
        Ok(rolegate)
    }

    /// Starts it again with the same arguments after it has ended, and waits until it is ready. An
    /// address that was given as [`ANY_PORT`] then has another port.
    pub async fn restart(&mut self) -> Result<(), Failed> {
        self.process.restart()?;
        self.ready().await
    }

    /// Its decision log so far: a JSON object per request, in order.
    pub fn decisions(&self) -> Vec<Value> {
        let log = self.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line.get("decision").is_some()).collect()
    }

    /// The address where it answers HTTP forward-auth, if its arguments have `--http`.
    pub async fn forward_auth(&mut self) -> Result<SocketAddr, Failed> {
        let address = async |process: &Process| {
            let log = process.log_since_start();
            announced(&log, "listening for HTTP forward-auth")?.parse().ok()
        };
        self.process.until(START_TIMEOUT, address).await
    }

    /// Waits until it has logged its addresses and is ready.
    async fn ready(&mut self) -> Result<(), Failed> {
        let ready = async |process: &Process| {
            let log = process.log_since_start();
            let admin = announced(&log, "admin pages")?.parse().ok()?;
            let listen = announced(&log, "listening")?;
            let answer = get(admin, "/readyz", &[]).await.ok()?;
            (answer.status == 200).then_some((admin, listen))
        };
        let (admin, listen) = self.process.until(START_TIMEOUT, ready).await?;
        self.admin = admin;
        if let Ok(address) = listen.parse() {
            self.listen = Target::Tcp(address);
        }
        Ok(())
    }
}

impl Deref for Rolegate {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Rolegate {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Drop for Rolegate {
    fn drop(&mut self) {
        self.process.kill();
    }
}

/// The address in the log line with this message.
fn announced(log: &str, message: &str) -> Option<String> {
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.find(|line| line.get("message").and_then(Value::as_str) == Some(message))?;
    Some(line.get("address")?.as_str()?.to_owned())
}

/// An unused log file name in the folder, so that each instance has its own.
fn unused_log(folder: &Path) -> PathBuf {
    let mut files = (0..).map(|number| folder.join(format!("rolegate-{number}.log")));
    files.find(|file| !file.exists()).unwrap_or_default()
}
