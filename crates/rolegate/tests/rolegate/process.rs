//! The program, started by a test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The program with these arguments and an empty environment.
pub(crate) fn rolegate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rolegate"));
    command.args(args).env_clear().stdin(Stdio::null());
    command
}

/// Runs the program to its end: its exit code, standard output and standard error.
pub(crate) fn run(args: &[&str]) -> (i32, String, String) {
    ended(&rolegate(args).output().unwrap())
}

/// Runs the program with this standard input, which it may leave unread: wrong arguments end it at
/// once.
pub(crate) fn run_with(args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = rolegate(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let written = child.stdin.take().unwrap().write_all(input.as_bytes());
    assert!(written.is_ok() || child.wait().unwrap().code() != Some(0));
    ended(&child.wait_with_output().unwrap())
}

pub(crate) fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// One of the policies in `policies/`.
pub(crate) fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    root.join("policies").join(name).display().to_string()
}

/// A running `rolegate serve`. Dropping it ends it.
pub(crate) struct Server {
    child: Child,
    folder: TempDir,
}

impl Server {
    /// Starts it on ports that the system chooses, and waits until it listens.
    pub(crate) fn start(policy: &str, more: &[&str]) -> Self {
        let server = Self::start_unready(policy, more);
        server.wait_for_log("listening");
        server
    }

    /// Starts it and does not wait. It ends at once, unless the test is about that: it would wait
    /// for connections, and a test that waits for its end on a runtime of one thread does not close
    /// them.
    pub(crate) fn start_unready(policy: &str, more: &[&str]) -> Self {
        let args =
            ["serve", "--policy", policy, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let is_about_the_end = more.iter().any(|arg| arg.starts_with("--drain-"));
        let end: &[&str] =
            if is_about_the_end { &[] } else { &["--drain-delay", "0s", "--drain-timeout", "0s"] };
        Self::spawn(rolegate(&[&args, end, more].concat()))
    }

    /// Starts this command, with its output in files.
    pub(crate) fn spawn(command: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let out = std::fs::File::create(folder.path().join("out")).unwrap();
        Self::spawn_in(folder, command, out)
    }

    /// Starts this command, with its standard output elsewhere.
    pub(crate) fn spawn_with_output(command: Command, stdout: impl Into<Stdio>) -> Self {
        Self::spawn_in(tempfile::tempdir().unwrap(), command, stdout)
    }

    fn spawn_in(folder: TempDir, mut command: Command, stdout: impl Into<Stdio>) -> Self {
        let err = std::fs::File::create(folder.path().join("err")).unwrap();
        let child = command.stdout(stdout).stderr(err).spawn().unwrap();
        Self { child, folder }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        self.printed("err")
    }

    /// What it has printed on standard output.
    pub(crate) fn out(&self) -> String {
        self.printed("out")
    }

    fn printed(&self, name: &str) -> String {
        std::fs::File::open(self.folder.path().join(name))
            .and_then(std::io::read_to_string)
            .unwrap()
    }

    /// Waits until it has logged this.
    pub(crate) fn wait_for_log(&self, text: &str) {
        self.wait_for_logs(text, 1);
    }

    /// Waits until it has logged this so many times.
    pub(crate) fn wait_for_logs(&self, text: &str, times: usize) {
        wait_until(
            || self.log().matches(text).count() >= times,
            || format!("`{text}` in\n{}", self.log()),
        );
    }

    /// Waits until one line of its log has all of this.
    pub(crate) fn wait_for_log_line(&self, texts: &[&str]) {
        let logged = || self.log().lines().any(|line| texts.iter().all(|text| line.contains(text)));
        wait_until(logged, || format!("{texts:?} in one line of\n{}", self.log()));
    }

    /// The address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.logged_address("listening")
    }

    /// The address of its admin listener.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.logged_address("admin pages")
    }

    /// The address in the log line with this message.
    pub(crate) fn logged_address(&self, message: &str) -> SocketAddr {
        let log = self.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let addresses = lines.filter(|line| line["message"] == message);
        addresses.filter_map(|line| line["address"].as_str()?.parse().ok()).next().unwrap()
    }

    /// An admin page: status and body.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        self.try_page(path).unwrap()
    }

    /// The same, or `None` if the connection is closed without an answer.
    pub(crate) fn try_page(&self, path: &str) -> Option<(u16, String)> {
        http_get(self.admin(), path)
    }

    /// A metric's value, by its name and labels as they are on the page.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let (_, page) = self.page("/metrics");
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Waits until a metric has this value.
    pub(crate) fn wait_for_metric(&self, name: &str, value: f64) {
        wait_until(
            || self.metric(name) == Some(value),
            || format!("{name} = {value}\n{}", self.page("/metrics").1),
        );
    }

    /// Its resident memory in KiB, read from the system, so that the process itself does nothing
    /// for it.
    pub(crate) fn resident(&self) -> u64 {
        self.reported("VmRSS:").strip_suffix(" kB").unwrap().parse().unwrap()
    }

    /// What the system reports about the process in this line (proc_pid_status(5)).
    #[expect(
        clippy::disallowed_methods,
        reason = "it reads what the system reports about the process"
    )]
    pub(crate) fn reported(&self, line: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        status.lines().find_map(|found| found.strip_prefix(line)).unwrap().trim().to_owned()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let number = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(number).unwrap(), signal).unwrap();
    }

    /// Waits until it has ended: its exit code.
    pub(crate) fn ended(&mut self) -> i32 {
        let mut status = None;
        wait_until(
            || {
                status = self.child.try_wait().unwrap();
                status.is_some()
            },
            || "the end of the process".to_owned(),
        );
        status.and_then(|status| status.code()).unwrap_or(-1)
    }

    /// The first line of the decision log, once it is there.
    pub(crate) fn wait_for_decision(&self) -> Value {
        self.wait_for_decisions(1).remove(0)
    }

    /// The decision log, once it has this many lines: they are written after the responses.
    pub(crate) fn wait_for_decisions(&self, number: usize) -> Vec<Value> {
        wait_until(|| self.out().matches('\n').count() >= number, || format!("{number} decisions"));
        self.decisions()
    }

    /// The decision log.
    pub(crate) fn decisions(&self) -> Vec<Value> {
        self.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
pub(crate) fn wait_until(mut holds: impl FnMut() -> bool, what: impl Fn() -> String) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {}", what());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A GET over HTTP/1.1, by hand: status and body.
pub(crate) fn http_get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LONG)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// A folder with a policy of its own.
pub(crate) struct PolicyFolder {
    folder: TempDir,
}

impl PolicyFolder {
    /// With this in its `policy.yaml`.
    pub(crate) fn new(policy: &str) -> Self {
        let folder = Self { folder: tempfile::tempdir().unwrap() };
        folder.write("policy.yaml", policy);
        folder
    }

    /// Replaces a file in one step, as editors do.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let fresh = self.path().join(format!(".{name}.new"));
        std::fs::write(&fresh, text).unwrap();
        std::fs::rename(fresh, self.path().join(name)).unwrap();
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Where it is, for an argument.
    pub(crate) fn arg(&self) -> String {
        self.path().display().to_string()
    }
}

/// A policy under which everybody may GET this path, without credentials.
pub(crate) fn open_to_all(path: &str) -> String {
    format!("version: 1\nroles:\n  anyone:\n    allow: [\"GET {path}\"]\n")
}
