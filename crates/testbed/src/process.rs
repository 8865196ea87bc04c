//! A process of the testbed. Its output goes to a file, and dropping it stops it by its process id.

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
    /// A failure of the part `what` for the reason `why`.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }

    /// A failure of the part `what` with an error of the system.
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
    child: Child,
    log: PathBuf,
    /// The length of the log when the process started.
    earlier: usize,
}

/// Where the standard output of a process goes. Its errors always go to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    /// To its log.
    Log,
    /// Nowhere.
    Discarded,
    /// Into a pipe that is never read.
    Unread,
}

/// How often a starting process is polled for readiness.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long to wait until a paused process has stopped.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a process may take to end before it is killed.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(10);

impl Process {
    /// Starts it, and appends its output to `log`.
    pub fn start(name: &'static str, command: Command, log: PathBuf) -> Result<Self, Failed> {
        Self::start_with(name, command, log, Stdout::Log)
    }

    /// Starts it with another standard output.
    pub fn start_with(
        name: &'static str,
        mut command: Command,
        log: PathBuf,
        stdout: Stdout,
    ) -> Result<Self, Failed> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|error| Failed::io(log.display().to_string(), &error))?;
        let earlier = read(&log).len();
        let errors = output.try_clone().map_err(|error| Failed::io(name, &error))?;
        let stdout = match stdout {
            Stdout::Log => output.into(),
            Stdout::Discarded => Stdio::null(),
            Stdout::Unread => Stdio::piped(),
        };
        let child = command.stdin(Stdio::null()).stdout(stdout).stderr(errors).spawn().map_err(
            |error| Failed::new(name, format!("cannot start {:?}: {error}", command.get_program())),
        )?;
        Ok(Self { name, child, log, earlier })
    }

    /// Waits until `ready` returns something.
    pub async fn until<T>(
        &mut self,
        limit: Duration,
        mut ready: impl AsyncFnMut(&Self) -> Option<T>,
    ) -> Result<T, Failed> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Some(status) = self.ended() {
                return Err(self.failed(&format!("it ended at once ({status})")));
            }
            if let Some(found) = ready(self).await {
                return Ok(found);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(self.failed(&format!("it is not ready after {limit:?}")))
    }

    /// The contents of its log file.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&read(&self.log)).into_owned()
    }

    /// Its own output, without what was in the log file before it started.
    pub fn printed_since_its_start(&self) -> String {
        let all = read(&self.log);
        String::from_utf8_lossy(all.get(self.earlier..).unwrap_or_default()).into_owned()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// A failure with the last lines of its output.
    pub fn failed(&self, why: &str) -> Failed {
        let printed = self.printed_since_its_start();
        let lines: Vec<&str> = printed.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n    ");
        Failed::new(self.name, format!("{why}; it printed:\n    {tail}"))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Pauses it (SIGSTOP) and waits until it has stopped. It keeps its connections and answers
    /// nothing.
    ///
    /// The signal takes effect with a delay: on a busy machine, a thread runs on until its
    /// processor notices.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        let until = Instant::now() + PAUSE_TIMEOUT;
        while !self.is_paused() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether each of its threads is stopped (state `T` in `/proc/PID/task/TID/stat`).
    fn is_paused(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else {
            return true;
        };
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name before the state is in parentheses and may contain any character.
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
        })
    }

    /// Continues it (SIGCONT).
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it (SIGKILL) and waits until it has ended.
    pub(crate) fn kill(&mut self) {
        // Fails only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        let number = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(number) = number {
            // Fails only if the process has already ended.
            let _ = kill_process(number, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        self.resume();
        self.terminate();
        let until = Instant::now() + TERMINATION_TIMEOUT;
        while self.ended().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }
}

/// The part of a log that can be read.
fn read(log: &Path) -> Vec<u8> {
    std::fs::read(log).unwrap_or_default()
}

/// The first of these paths that is a file.
pub(crate) fn first_file(candidates: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    candidates.into_iter().find(|candidate| candidate.is_file())
}

/// The root folder of the repository.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
