//! Turns the output of the benchmarks into records, charts and verdicts: `results CRITERION_FOLDER NOTES OUT_FOLDER`.
//!
//! [`record`] reads criterion's measurements and the notes of other measurements; [`chart`] draws them; [`verdict`]
//! compares them with the goals; [`report`] writes the page.

mod chart;
mod record;
mod report;
mod verdict;

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::record::Records;
use crate::report::{About, drawings, page};
use crate::verdict::verdicts;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [criterion, notes, out] = &*arguments else {
        return Err("usage: results CRITERION_FOLDER NOTES OUT_FOLDER".into());
    };
    let records = Records::read(criterion, notes)?;
    if records.is_empty() {
        return Err("nothing was measured".into());
    }
    let (verdicts, drawings) = (verdicts(&records), drawings(&records));
    fs::create_dir_all(out)?;
    clear(out)?;
    for (file, svg) in &drawings {
        fs::write(out.join(file), svg)?;
    }
    fs::write(out.join("records.csv"), records.to_csv())?;
    fs::write(out.join("README.md"), page(&records, &verdicts, &drawings, &about()))?;
    let mut stdout = std::io::stdout().lock();
    for verdict in &verdicts {
        let measured = verdict.measured.as_deref().unwrap_or("not measured");
        let met = verdict.met.map_or("-", |met| if met { "met" } else { "NOT MET" });
        writeln!(stdout, "{} {met:8} {}: {measured}", verdict.goal, verdict.wanted)?;
    }
    writeln!(stdout, "records, curves and verdicts: {}", out.display())?;
    Ok(())
}

/// Removes the charts of an earlier run.
fn clear(out: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(out)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "svg") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The machine, commit, date and compiler, as far as they can be determined.
fn about() -> About {
    let model = line_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let memory = line_of("/proc/meminfo", "MemTotal").unwrap_or_else(|| "unknown".into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let machine = format!("{model}, {cores} cores, {memory} of memory, {}", said("uname", &["-sm"]));
    let changed = said("git", &["status", "--porcelain", "--", ":!benches/results"]);
    let changed = if changed.is_empty() { "" } else { ", with changes that are not committed" };
    About {
        machine,
        commit: said("git", &["rev-parse", "--short=12", "HEAD"]) + changed,
        date: said("date", &["-u", "+%F"]),
        compiler: said("rustc", &["--version"]),
    }
}

/// The value in the first line of a file that starts with a name.
#[expect(clippy::disallowed_methods, reason = "the machine says what it is in files")]
fn line_of(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The output of a program; empty if it cannot be run.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default()
}
