//! The server under attack: a process for each attack, on free loopback ports.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use load::compare::pin;
use load::compare::procfs::Usage;

/// The program under attack.
pub(crate) struct Program<'a> {
    pub(crate) file: PathBuf,
    /// The cores reserved for it, if there are enough.
    pub(crate) cores: Option<&'a [usize]>,
}

/// A running `rolegate serve`. Dropping it ends it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    child: Child,
}

/// Where the decision log on standard output goes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Stdout {
    Discarded,
    /// A pipe that is never read.
    Unread,
}

/// The maximum time until the server is ready.
const START: Duration = Duration::from_secs(20);
/// The timeout of requests to the admin interface.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(2);

impl Server {
    /// Starts it with this policy; its files go to `folder`.
    pub(crate) fn start(
        program: &Program<'_>,
        policy: &str,
        more: &[&str],
        out: Stdout,
        folder: &Path,
    ) -> Result<Self> {
        let (file, log) = (folder.join("policy.yaml"), folder.join("rolegate.log"));
        std::fs::write(&file, policy)?;
        let mut command = Command::new(&program.file);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json"])
            .arg("--policy")
            .arg(&file)
            .args(more)
            .stdin(Stdio::null())
            .stdout(if out == Stdout::Unread { Stdio::piped() } else { Stdio::null() })
            .stderr(File::create(&log)?);
        let child = pin::on(program.cores, || command.spawn())
            .map_err(|error| Error::new(error.kind(), format!("{}: {error}", program.file.display())))?;
        let mut server =
            Self { address: ([127, 0, 0, 1], 0).into(), admin: ([127, 0, 0, 1], 0).into(), child };
        let end = Instant::now() + START;
        while Instant::now() < end && server.is_running() {
            let lines = std::fs::read_to_string(&log)?;
            if let (Some(address), Some(admin)) =
                (announced(&lines, "listening"), announced(&lines, "admin pages"))
            {
                (server.address, server.admin) = (address, admin);
                if server.ask("/readyz").is_ok() {
                    return Ok(server);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Error::other(format!("rolegate does not become ready: {}", std::fs::read_to_string(&log)?)))
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        Usage::of(self.id()).resident
    }

    /// The value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let page = self.ask("/metrics")?;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no metric {name}")))
    }

    fn ask(&self, path: &str) -> Result<String> {
        ask(self.admin, path, ADMIN_TIMEOUT)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `GET` on a new connection, like a probe. Returns the body if the status is 200.
pub(crate) fn ask(admin: SocketAddr, path: &str, timeout: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&admin, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200 ") { Ok(answer) } else { Err(Error::other(answer)) }
}

/// The address in the log line with this message.
fn announced(lines: &str, message: &str) -> Option<SocketAddr> {
    let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.find(|line| line["message"] == message)?["address"].as_str()?.parse().ok()
}
