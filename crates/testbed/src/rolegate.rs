//! The program `rolegate`, as a user would start it.

use std::net::{SocketAddr, TcpListener};
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

impl Rolegate {
    /// Starts it with this policy, its output in `folder`, and further arguments `more`.
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
        let admin = free_address()?;
        let log = folder.join(format!("rolegate-{}.log", admin.port()));
        let more = more.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let process = spawn(program, policy, &listen, admin, &log, &more)?;
        let (program, policy) = (program.to_path_buf(), policy.to_path_buf());
        let mut this = Self { listen, admin, program, policy, log, more, process };
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

    /// Starts it again at the same addresses, after it has ended, and waits until it is ready.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub async fn restart(&mut self) -> Result<(), Failed> {
        self.process = spawn(&self.program, &self.policy, &self.listen, self.admin, &self.log, &self.more)?;
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
            if matches!(self.ask("/readyz").await, Ok((200, _))) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(self.process.failed("it is not ready after 20 s"))
    }
}

fn spawn(
    program: &Path,
    policy: &Path,
    listen: &Target,
    admin: SocketAddr,
    log: &Path,
    more: &[String],
) -> Result<Process, Failed> {
    let listen = match listen {
        Target::Unix(path) => format!("unix:{}", path.display()),
        Target::Tcp(at) => at.to_string(),
    };
    let mut command = Command::new(program);
    command.arg("serve").arg("--policy").arg(policy);
    command.args(["--listen", &listen, "--admin", &admin.to_string()]).args(more);
    Process::start("rolegate", command, log.to_path_buf())
}

/// An address of the loopback interface that was free a moment ago.
///
/// # Errors
/// When there is none.
pub fn free_address() -> Result<SocketAddr, Failed> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|it| it.local_addr())
        .map_err(|error| Failed::io("free port", &error))
}
