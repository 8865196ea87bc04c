//! A process of the testbed, with a log file. Dropping it stops this process and no other.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Why a part of the testbed could not be started or did not answer.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Failed {
    what: String,
    why: String,
}

impl Failed {
    /// A failure of this part for this reason.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }

    /// A failure of this part with an error of the system.
    pub fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(what, error.to_string())
    }
}

impl From<load::Failed> for Failed {
    fn from(error: load::Failed) -> Self {
        Self::new("load", error.to_string())
    }
}

/// A running process. Dropping it stops it.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    command: Command,
    pub(crate) child: Child,
    log: PathBuf,
    /// The length of the log when the process started.
    log_start: usize,
}

/// Where the standard output of a process goes. Its standard error always goes to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    /// To its log.
    Log,
    /// Nowhere.
    Discarded,
    /// Into a pipe that is never read.
    Unread,
    /// Into a pipe. Standard input is a pipe, too.
    Piped,
}

/// How often a starting or ending process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long to wait until a paused process has stopped.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a process may take to end before it is killed.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(10);

impl Process {
    /// Starts it. Its standard error is appended to `log`; its standard output goes to `stdout`.
    pub fn start(
        name: &'static str,
        mut command: Command,
        log: PathBuf,
        stdout: Stdout,
    ) -> Result<Self, Failed> {
        let log_start = read(&log).len();
        let output = File::options().create(true).append(true).open(&log);
        let output = output.map_err(|error| Failed::io(log.display().to_string(), &error))?;
        let errors = output.try_clone().map_err(|error| Failed::io(name, &error))?;
        command.stderr(errors).stdin(match stdout {
            Stdout::Piped => Stdio::piped(),
            Stdout::Log | Stdout::Discarded | Stdout::Unread => Stdio::null(),
        });
        command.stdout(match stdout {
            Stdout::Log => output.into(),
            Stdout::Discarded => Stdio::null(),
            Stdout::Unread | Stdout::Piped => Stdio::piped(),
        });
        let child = command.spawn().map_err(|error| {
            Failed::new(name, format!("cannot start {:?}: {error}", command.get_program()))
        })?;
        Ok(Self { name, command, child, log, log_start })
    }

    /// Starts it again after it has ended, with the same arguments and the same log.
    pub(crate) fn restart(&mut self) -> Result<(), Failed> {
        self.log_start = read(&self.log).len();
        self.child = self.command.spawn().map_err(|error| Failed::io(self.name, &error))?;
        Ok(())
    }

    /// Calls `ready` again and again until it returns something. Fails if the process ends first,
    /// or after `limit`.
    pub async fn until<T>(
        &mut self,
        limit: Duration,
        mut ready: impl AsyncFnMut(&Self) -> Option<T>,
    ) -> Result<T, Failed> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.status() {
                return Err(self.failed(&format!("it ended at once ({status})")));
            }
            if let Some(value) = ready(self).await {
                return Ok(value);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(self.failed(&format!("it is not ready after {limit:?}")))
    }

    /// Waits until it has ended.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus, Failed> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.status() {
                return Ok(status);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(self.failed(&format!("it still runs after {limit:?}")))
    }

    /// The contents of its log file.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&read(&self.log)).into_owned()
    }

    /// Its output since its last start, without the earlier contents of the log file.
    pub fn log_since_start(&self) -> String {
        let log = read(&self.log);
        String::from_utf8_lossy(log.get(self.log_start..).unwrap_or_default()).into_owned()
    }

    /// Its exit status, if it has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Whether it is running.
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    /// A failure with the last lines of its output.
    pub fn failed(&self, why: &str) -> Failed {
        let log = self.log_since_start();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n    ");
        Failed::new(self.name, format!("{why}; it printed:\n    {tail}"))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end (SIGTERM), without waiting.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Pauses it (SIGSTOP) and waits until it has stopped. It keeps its connections and answers
    /// nothing.
    ///
    /// The signal takes effect with a delay: on a busy machine, a thread runs on until its
    /// processor notices.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let end = Instant::now() + PAUSE_TIMEOUT;
        while !self.is_paused() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether each of its threads is stopped (state `T` in `/proc/PID/task/TID/stat`).
    fn is_paused(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.id())) else {
            return true;
        };
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name before the state is in parentheses and may contain any character.
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
        })
    }

    /// Continues it (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it (SIGKILL) and waits until it has ended.
    pub fn kill(&mut self) {
        // Fails only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        // Fails only if the process has already ended.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        self.resume();
        self.terminate();
        let end = Instant::now() + TERMINATION_TIMEOUT;
        while self.is_running() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }
}

/// The contents of a log; empty if it cannot be read.
fn read(log: &Path) -> Vec<u8> {
    std::fs::read(log).unwrap_or_default()
}

/// The program at the path in this environment variable, else the first of `candidates` that is a
/// file. `remedy` tells a person how to get the program: the error has it.
pub(crate) fn find_program(
    variable: &str,
    remedy: &str,
    candidates: impl IntoIterator<Item = PathBuf>,
) -> Result<PathBuf, Failed> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        let why = format!("no file at {}: name the program, or unset it", path.display());
        return if path.is_file() { Ok(path) } else { Err(Failed::new(variable, why)) };
    }
    let why = format!("the program was not found: {remedy}, or set {variable}=/path");
    let program = candidates.into_iter().find(|candidate| candidate.is_file());
    program.ok_or_else(|| Failed::new(variable, why))
}

/// The root folder of the repository.
pub fn repository() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_path_buf()
}
