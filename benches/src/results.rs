//! Turns the output of the benchmarks into records, charts and verdicts.
//!
//! [`record`] reads criterion's measurements and the notes of other measurements; [`goals`]
//! compares them with the goals; [`report`] draws the charts and writes the page.

mod goals;
mod record;
mod report;

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use load::Exit;

use crate::{machine, records, write};
use load::report::document;
use record::Records;

/// The arguments of `results`.
#[derive(Args)]
pub(crate) struct ResultsArgs {
    /// Folder with the output of criterion.
    criterion: PathBuf,
    /// File with the measurements that criterion does not make: the one that the environment
    /// variable `BENCH_NOTES` named when the benchmarks ran.
    notes: PathBuf,
    /// Folder for `README.md`, its charts and `records.csv`.
    out: PathBuf,
}

pub(crate) fn run(args: &ResultsArgs) -> Result<Exit, Box<dyn Error>> {
    let measured = Records::read(&args.criterion, &args.notes)?;
    if measured.is_empty() {
        return Err("nothing was measured".into());
    }
    let (facts, verdicts, charts) =
        (machine::facts(None), goals::verdicts(&measured), report::charts(&measured));
    let page = document::markdown("Results", &report::parts(&measured, &verdicts, &charts, &facts));
    write(&args.out.join("README.md"), &page)?;
    clear(&args.out)?;
    for (file, svg) in &charts {
        write(&args.out.join(file), svg)?;
    }
    records::append(&args.out, &facts, &measured.all().cloned().collect::<Vec<_>>())?;
    for verdict in &verdicts {
        let measured = verdict.measured.as_deref().unwrap_or("not measured");
        println!(
            "{} {:11} {} ({}): {measured}",
            verdict.goal,
            verdict.words(),
            verdict.what,
            verdict.limit
        );
    }
    println!("records, charts and verdicts: {}", args.out.display());
    Ok(Exit::Success)
}

/// Removes the charts of an earlier run.
fn clear(out: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(out)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}
