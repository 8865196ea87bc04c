//! The program `rolegate`, as a user would start it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Connection, Version};
use crate::envoy::Target;
use crate::process::{Failed, Process};

/// A running `rolegate serve`. Dropping it stops it.
#[derive(Debug)]
pub struct Rolegate {
    /// Where it answers Envoy.
    pub listen: Target,
    /// Its admin interface.
    pub admin: SocketAddr,
    program: PathBuf,
    policy: PathBuf,
    log: PathBuf,
    more: Vec<String>,
    process: Process,
}

/// How long it may take until it is ready.
const START: Duration = Duration::from_secs(20);

/// Whichever port the system chooses. Looking for a free one beforehand fails now and then: another may take it first.
pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Rolegate {
    /// Starts it with this policy, its output in `folder`, and further arguments `more`. The admin interface gets
    /// [`ANY_PORT`], and so may `listen`.
    ///
    /// # Errors
    /// When it cannot be started, or does not become ready within 20 s.
    pub async fn start(
        program: &Path,
        policy: &Path,
        listen: Target,
        folder: &Path,
        more: &[&str],
    ) -> Result<Self, Failed> {
        let log = unused(folder);
        let more = more.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let process = spawn(program, policy, &listen, &log, &more)?;
        let (program, policy) = (program.to_path_buf(), policy.to_path_buf());
        let mut this = Self { listen, admin: ANY_PORT, program, policy, log, more, process };
        this.ready().await?;
        Ok(this)
    }

    /// Kills it without a warning (SIGKILL).
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to stop (SIGTERM), and does not wait.
    pub fn terminate(&self) {
        self.process.terminate();
    }

    /// Stops it where it is: it holds its connections and answers nothing.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Waits until it has ended by itself: whether it was with exit code 0.
    ///
    /// # Errors
    /// When it still runs after `limit`.
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

    /// Starts it again where it listened, after it has ended, and waits until it is ready.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn restart(&mut self) -> Result<(), Failed> {
        self.process = spawn(&self.program, &self.policy, &self.listen, &self.log, &self.more)?;
        self.ready().await
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.printed()
    }

    /// Its decision log so far: one JSON object a request, in order.
    #[must_use]
    pub fn decisions(&self) -> Vec<Value> {
        let lines = self.log();
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line.get("decision").is_some()).collect()
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What its admin interface answers to `GET path`: status and body.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn ask(&self, path: &str) -> Result<(u16, String), Failed> {
        let mut connection = Connection::open(self.admin, Version::Http1).await?;
        let answer = connection.send("GET", path, "localhost", &[], b"").await?;
        Ok((answer.status, answer.text()))
    }

    async fn ready(&mut self) -> Result<(), Failed> {
        let until = Instant::now() + START;
        while Instant::now() < until {
            if let Some(status) = self.process.ended() {
                return Err(self.process.failed(&format!("it ended at once ({status})")));
            }
            if self.listens() && matches!(self.ask("/readyz").await, Ok((200, _))) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(self.process.failed("it is not ready after 20 s"))
    }

    /// Whether it has said where it listens, which is then known.
    fn listens(&mut self) -> bool {
        let lines = self.process.printed_since_its_start();
        let Some(admin) = announced(&lines, "admin pages").and_then(|it| it.parse().ok()) else {
            return false;
        };
        let Some(at) = announced(&lines, "listening") else { return false };
        self.admin = admin;
        if let Ok(at) = at.parse() {
            self.listen = Target::Tcp(at);
        }
        true
    }
}

/// The address in the log line with this message.
fn announced(lines: &str, message: &str) -> Option<String> {
    let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.find(|line| line.get("message").and_then(Value::as_str) == Some(message))?;
    Some(line.get("address")?.as_str()?.to_owned())
}

/// A log file of its own for each instance in the folder.
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
) -> Result<Process, Failed> {
    let listen = match listen {
        Target::Unix(path) => format!("unix:{}", path.display()),
        Target::Tcp(at) => at.to_string(),
    };
    let mut command = Command::new(program);
    command.arg("serve").arg("--policy").arg(policy);
    command.args(["--listen", &listen, "--admin", &ANY_PORT.to_string()]).args(more);
    Process::start("rolegate", command, log.to_path_buf())
}
