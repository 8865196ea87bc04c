//! Data about a process and the machine, from `/proc`.

use std::process::Command;

use crate::report::units;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time so far, in nanoseconds.
    pub ran: u64,
    /// Resident memory now, in bytes.
    pub resident: u64,
}

impl Usage {
    /// The usage of this process; zeros if it has ended.
    #[must_use]
    pub fn of(process: u32) -> Self {
        Self { ran: ran(process), resident: resident(process) }
    }
}

/// The sum over its threads, in nanoseconds: the clock ticks of `stat` are too coarse for a second at 100 requests. The
/// time of threads that end in between is lost.
#[expect(clippy::disallowed_methods, reason = "what is measured is read from the machine")]
fn ran(process: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of = |it: std::fs::DirEntry| -> Option<u64> {
        std::fs::read_to_string(it.path().join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    threads.filter_map(of).sum()
}

#[expect(clippy::disallowed_methods, reason = "what is measured is read from the machine")]
fn resident(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kibibytes =
        text.lines().find_map(|it| it.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

/// The machine and its software, as names and values.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "what is measured is read from the machine")]
pub fn environment(envoy: &std::path::Path) -> Vec<(String, String)> {
    let rows = [
        ("processor", processor()),
        ("cores", super::pin::available().len().to_string()),
        ("memory", memory()),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("load average at the start", load()),
        ("Envoy", envoy_version(&printed(envoy.as_os_str(), &["--version"]))),
        ("rolegate-load", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", commit()),
        ("date", crate::report::date(std::time::SystemTime::now())),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// How the time of all cores was spent since the machine started, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticks {
    /// Time in which this virtual machine was ready to run, but its host ran something else.
    stolen: u64,
    all: u64,
}

impl Ticks {
    /// The present values; zeros if the kernel does not provide them.
    #[must_use]
    pub fn now() -> Self {
        Self::read(&read("/proc/stat"))
    }

    /// Parses the first line: user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)). The time of guests
    /// of this machine is included in the first two.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default().strip_prefix("cpu ").unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|it| it.parse().ok()).collect();
        Self { stolen: ticks.get(7).copied().unwrap_or_default(), all: ticks.iter().sum() }
    }

    /// The stolen share of the time since `earlier`, in percent.
    #[must_use]
    pub fn stolen_since(self, earlier: Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        100.0 * units::float(self.stolen.saturating_sub(earlier.stolen)) / units::float(all)
    }
}

/// The version without local paths.
fn envoy_version(printed: &str) -> String {
    printed.split_once("version: ").map_or(printed, |(_, it)| it).to_owned()
}

fn processor() -> String {
    let text = read("/proc/cpuinfo");
    let model = text.lines().find_map(|it| it.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, it)| it.to_owned())
}

fn memory() -> String {
    let text = read("/proc/meminfo");
    let kibibytes = text
        .lines()
        .find_map(|it| it.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or_else(String::new, |it| units::bytes(it * 1024))
}

/// The load averages over one, five and fifteen minutes. On an idle machine, they are far below the number of cores.
#[must_use]
pub fn load() -> String {
    read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The commit, and whether files differ from it; empty outside of a repository.
fn commit() -> String {
    let folder = testbed::repository();
    let folder = folder.to_string_lossy();
    let git = |arguments: &[&str]| printed("git".as_ref(), &[&["-C", &folder], arguments].concat());
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"]).is_empty();
    if changed && !commit.is_empty() { format!("{commit}, with changes") } else { commit }
}

#[expect(clippy::disallowed_methods, reason = "what is measured is read from the machine")]
fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// The output of a program; empty if it cannot be run.
fn printed(program: &std::ffi::OsStr, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| String::new(), |it| String::from_utf8_lossy(&it.stdout).trim().to_owned())
}
