//! The program `rolegate`, started like a user starts it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::get;
use crate::envoy::Target;
use crate::process::{Failed, Process, Stdout};

/// A running `rolegate serve`. Dropping it stops it.
#[derive(Debug)]
pub struct Rolegate {
    /// The address of its ext_authz listener.
    pub listen: Target,
    /// Its admin interface.
    pub admin: SocketAddr,
    program: PathBuf,
    policy: PathBuf,
    log: PathBuf,
    more: Vec<String>,
    stdout: Stdout,
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
        let log = unused(folder);
        let more = more.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>();
        let process = spawn(program, policy, &listen, &log, &more, stdout)?;
        let (program, policy) = (program.to_path_buf(), policy.to_path_buf());
        let mut this =
            Self { listen, admin: ANY_PORT, program, policy, log, more, stdout, process };
        this.ready().await?;
        Ok(this)
    }

    /// Whether it is running.
    pub fn is_running(&mut self) -> bool {
        self.process.ended().is_none()
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to stop (SIGTERM), without waiting.
    pub fn terminate(&self) {
        self.process.terminate();
    }

    /// Pauses it: it keeps its connections and answers nothing.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Continues it.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Waits until it has ended by itself. Returns whether its exit code is 0.
    pub async fn ended(&mut self, limit: Duration) -> Result<bool, Failed> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Some(status) = self.process.ended() {
                return Ok(status.success());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(self.process.failed(&format!("it still runs after {limit:?}")))
    }

    /// Starts it again on the same addresses after it has ended, and waits until it is ready.
    pub async fn restart(&mut self) -> Result<(), Failed> {
        self.process =
            spawn(&self.program, &self.policy, &self.listen, &self.log, &self.more, self.stdout)?;
        self.ready().await
    }

    /// Its log.
    pub fn log(&self) -> String {
        self.process.printed()
    }

    /// Its decision log so far: one JSON object per request, in order.
    pub fn decisions(&self) -> Vec<Value> {
        let lines = self.log();
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line.get("decision").is_some()).collect()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it has logged its addresses and is ready.
    async fn ready(&mut self) -> Result<(), Failed> {
        let ready = async |process: &Process| {
            let lines = process.printed_since_its_start();
            let admin = announced(&lines, "admin pages")?.parse().ok()?;
            let at = announced(&lines, "listening")?;
            let answer = get(admin, "/readyz", &[]).await.ok()?;
            (answer.status == 200).then_some((admin, at))
        };
        let (admin, at) = self.process.until(START_TIMEOUT, ready).await?;
        self.admin = admin;
        if let Ok(at) = at.parse() {
            self.listen = Target::Tcp(at);
        }
        Ok(())
    }
}

/// The address in the log line with this message.
fn announced(lines: &str, message: &str) -> Option<String> {
    let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.find(|line| line.get("message").and_then(Value::as_str) == Some(message))?;
    Some(line.get("address")?.as_str()?.to_owned())
}

/// An unused log file name in the folder, so that each instance has its own.
fn unused(folder: &Path) -> PathBuf {
    let mut number = 0;
    loop {
        let file = folder.join(format!("rolegate-{number}.log"));
        if !file.exists() {
            return file;
        }
        number += 1;
    }
}

fn spawn(
    program: &Path,
    policy: &Path,
    listen: &Target,
    log: &Path,
    more: &[String],
    stdout: Stdout,
) -> Result<Process, Failed> {
    let mut command = Command::new(program);
    command.arg("serve").arg("--policy").arg(policy);
    command.args(["--listen", &listen.to_string(), "--admin", &ANY_PORT.to_string()]).args(more);
    Process::start_with("rolegate", command, log.to_path_buf(), stdout)
}
