//! Facts about a process and the machine, from `/proc` and from programs.

use std::path::Path;
use std::process::Command;

use load::report::{rfc3339, units};

use crate::pin;

/// Facts for a report: names and values.
pub(crate) type Facts = Vec<(String, String)>;

/// The machine and its software. Empty values are omitted.
pub(crate) fn facts(envoy: Option<&Path>) -> Facts {
    let envoy = envoy.map(|envoy| printed(envoy.as_os_str(), &["--version"])).unwrap_or_default();
    let rows = [
        ("processor", processor()),
        ("cores", pin::available().len().to_string()),
        ("memory", units::bytes(1024 * kibibytes("/proc/meminfo", "MemTotal:"))),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("load average at the start", load()),
        // Without the path that it prints before.
        (
            "Envoy",
            envoy.split_once("version: ").map_or(envoy.as_str(), |(_, version)| version).to_owned(),
        ),
        ("compiler", printed("rustc".as_ref(), &["--version"])),
        ("commit", commit()),
        ("date", rfc3339(std::time::SystemTime::now())),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    rows.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Processor time so far, in nanoseconds.
    pub(crate) ran: u64,
    /// Resident memory now, in bytes.
    pub(crate) resident: u64,
}

impl Usage {
    /// The usage of this process; zeros if it has ended.
    pub(crate) fn of(process: u32) -> Self {
        Self {
            ran: ran(process),
            resident: 1024 * kibibytes(&format!("/proc/{process}/status"), "VmRSS:"),
        }
    }
}

/// The sum over its threads, in nanoseconds: the clock ticks of `stat` are too coarse for a second
/// at 100 requests. The time of threads that end in between is lost.
fn ran(process: u32) -> u64 {
    let threads =
        std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of = |thread: std::fs::DirEntry| -> Option<u64> {
        std::fs::read_to_string(thread.path().join("schedstat"))
            .ok()?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    threads.filter_map(of).sum()
}

/// How the time of all cores was spent since the machine started, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ticks {
    /// Time in which this virtual machine was ready to run, but its host ran something else.
    stolen: u64,
    all: u64,
}

impl Ticks {
    /// The present values; zeros if the kernel does not provide them.
    pub(crate) fn now() -> Self {
        Self::read(&read("/proc/stat"))
    }

    /// Parses the first line: user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)).
    /// The time of guests of this machine is included in the first two.
    fn read(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default().strip_prefix("cpu ").unwrap_or_default();
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).filter_map(|ticks| ticks.parse().ok()).collect();
        Self { stolen: ticks.get(7).copied().unwrap_or_default(), all: ticks.iter().sum() }
    }

    /// The stolen share of the time since `earlier`, in percent.
    pub(crate) fn stolen_since(self, earlier: Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        100.0 * units::float(self.stolen.saturating_sub(earlier.stolen)) / units::float(all)
    }
}

fn processor() -> String {
    let text = read("/proc/cpuinfo");
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.to_owned())
}

/// The load averages over one, five and fifteen minutes. On an idle machine, they are far below the
/// number of cores.
pub(crate) fn load() -> String {
    read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The commit, and whether other files than results differ from it; empty outside of a repository.
fn commit() -> String {
    let folder = testbed::repository();
    let folder = folder.to_string_lossy();
    let git = |arguments: &[&str]| printed("git".as_ref(), &[&["-C", &folder], arguments].concat());
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changes =
        git(&["status", "--porcelain", "--untracked-files=no", "--", ":!benches/results"]);
    if changes.is_empty() { commit } else { format!("{commit}, with changes") }
}

fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// The number in the line with this name.
fn kibibytes(file: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok();
    read(file).lines().find_map(value).unwrap_or_default()
}

/// The output of a program; empty if it cannot be run.
fn printed(program: &std::ffi::OsStr, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    #[test]
    fn stolen_time_is_a_part_of_all_time() {
        let before = Ticks::read("cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 1 1 1 1 1 1 1 1\n");
        let after = Ticks::read("cpu  150 0 70 900 10 0 5 65 9 0\ncpu0 1 1 1 1 1 1 1 1\n");
        assert!((after.stolen_since(before) - 15.0).abs() < 1e-9);
        assert_eq!(Ticks::read("").stolen_since(Ticks::read("")).to_bits(), 0.0_f64.to_bits());
    }
}
