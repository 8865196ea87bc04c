//! Process metrics, from `/proc/self` (proc(5)); none if it cannot be read.

use std::fs;

use runtime::{clock, files};

use super::{MetricsPage, whole};

/// Ticks per second in `/proc`: `USER_HZ`, which Linux keeps at 100 for all programs.
const TICKS: f64 = 100.0;

pub(super) fn process(page: &mut MetricsPage<'_>) {
    if let Some(times) = Times::read() {
        page.gauge("process_start_time_seconds", "When the process started", times.start);
        page.counter("process_cpu_seconds", "CPU time used", times.cpu);
    }
    let status = proc_file("status").unwrap_or_default();
    if let Some(kib) = field(&status, "VmRSS:") {
        page.gauge(
            "process_resident_memory_bytes",
            "Resident memory",
            whole(kib.saturating_mul(1024)),
        );
    }
    if let Some(threads) = field(&status, "Threads:") {
        page.gauge("process_threads", "Threads", whole(threads));
    }
    if let Some(open) = fs::read_dir("/proc/self/fd").ok().map(Iterator::count) {
        page.gauge("process_open_fds", "Open file descriptors", whole(open));
    }
    if let Some(max) = field(&proc_file("limits").unwrap_or_default(), "Max open files") {
        page.gauge("process_max_fds", "File descriptors that may be open", whole(max));
    }
}

/// When the process started, and how much CPU time it has used, in seconds.
struct Times {
    start: f64,
    cpu: f64,
}

impl Times {
    fn read() -> Option<Self> {
        let stat = proc_file("stat")?;
        // The second field is the program's name in parentheses, which may hold anything.
        let (_, after_name) = stat.rsplit_once(')')?;
        let mut fields = after_name
            .split_ascii_whitespace()
            .skip(11)
            .map(|field| field.parse::<f64>().unwrap_or(0.0));
        let cpu = fields.next()? + fields.next()?;
        let started_after_boot = fields.nth(6)? / TICKS;
        let up: f64 = files::text("/proc/uptime".as_ref())
            .ok()?
            .split_ascii_whitespace()
            .next()?
            .parse()
            .ok()?;
        let start = clock::now().as_secs_f64() - up + started_after_boot;
        Some(Self { start, cpu: cpu / TICKS })
    }
}

fn proc_file(name: &str) -> Option<String> {
    files::text(format!("/proc/self/{name}").as_ref()).ok()
}

/// The first number after `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .split_ascii_whitespace()
        .find_map(|field| field.parse().ok())
}
