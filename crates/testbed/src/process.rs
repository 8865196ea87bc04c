//! A process of the testbed: started with its output in a file, stopped by its number when it is dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Why something of the testbed could not be started or asked.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Failed {
    what: String,
    why: String,
}

impl Failed {
    /// A failure of this part, for this reason.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }

    /// A failure of this part, as the system tells it.
    pub fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(what, error.to_string())
    }
}

/// A running process. Dropping it stops it.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    /// How long the log was before.
    earlier: usize,
}

/// How long a process may take to stand still.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
/// How long a process may take to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(10);

impl Process {
    /// Starts it, with what it prints in `log`, which is appended to.
    ///
    /// # Errors
    /// When the log cannot be written, or the program not started.
    pub fn start(name: &'static str, mut command: Command, log: PathBuf) -> Result<Self, Failed> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|error| Failed::io(log.display().to_string(), &error))?;
        let earlier = read(&log).len();
        let errors = output.try_clone().map_err(|error| Failed::io(name, &error))?;
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().map_err(|error| {
            Failed::new(name, format!("cannot start {:?}: {error}", command.get_program()))
        })?;
        Ok(Self { name, child, log, earlier })
    }

    /// What it has printed so far.
    #[must_use]
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&read(&self.log)).into_owned()
    }

    /// What it has printed so far, and none before it into the same file.
    #[must_use]
    pub fn printed_since_its_start(&self) -> String {
        let all = read(&self.log);
        String::from_utf8_lossy(all.get(self.earlier..).unwrap_or_default()).into_owned()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// An error with the last lines of what it printed.
    #[must_use]
    pub fn failed(&self, why: &str) -> Failed {
        let printed = self.printed_since_its_start();
        let lines: Vec<&str> = printed.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n    ");
        Failed::new(self.name, format!("{why}; it printed:\n    {tail}"))
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops it where it is (SIGSTOP), and waits until it stands still: it holds its connections and answers nothing.
    ///
    /// The signal only asks; on a busy machine a thread goes on for as long as its processor takes to notice.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        let until = Instant::now() + STOPS_WITHIN;
        while !self.stands_still() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether each of its threads is stopped (state `T` in `/proc/PID/task/TID/stat`).
    fn stands_still(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else { return true };
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name before it is in parentheses and may hold any character.
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
        })
    }

    /// Lets it go on (SIGCONT).
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it at once (SIGKILL) and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // It fails only where the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        let number = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(number) = number {
            // It fails only where the process has ended already.
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
        let until = Instant::now() + GRACE;
        while self.ended().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }
}

/// A log as far as it can be read.
fn read(log: &Path) -> Vec<u8> {
    std::fs::read(log).unwrap_or_default()
}

/// The first of these paths that is a file.
pub(crate) fn first_file(candidates: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    candidates.into_iter().find(|it| it.is_file())
}

/// The folder of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
