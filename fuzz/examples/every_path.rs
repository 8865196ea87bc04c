//! Checks the invariant of paths on every path of up to seven characters after the first `/`, and
//! of up to six escapes.
//!
//! `cargo run --release -p fuzz --example every_path`; arguments set the numbers of symbols.
#![expect(clippy::print_stdout, reason = "it prints what it finds")]

use std::process::ExitCode;
use std::time::Instant;

use fuzz::{CHARACTERS, ESCAPES, every_path};

fn main() -> ExitCode {
    let mut lengths = std::env::args().skip(1).filter_map(|length| length.parse().ok());
    let (characters, escapes) = (lengths.next().unwrap_or(7), lengths.next().unwrap_or(6));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let start = Instant::now();
    let mut found = false;
    for (name, symbols, max_symbols) in
        [("characters", CHARACTERS, characters), ("escapes", ESCAPES, escapes)]
    {
        println!("up to {max_symbols} of {} {name} after the first `/`", symbols.len());
        let tally = every_path(symbols, max_symbols, threads, |done, of, tally| {
            if done % 25 == 0 {
                println!(
                    "  {done} of {of} parts, {} paths, {} s",
                    tally.paths,
                    start.elapsed().as_secs()
                );
            }
        });
        println!(
            "  {} paths, {} of them valid, with {} interpretations; {} times allowed, {} wrong, {} s",
            tally.paths,
            tally.valid,
            tally.interpretations,
            tally.allowed,
            tally.wrong,
            start.elapsed().as_secs()
        );
        tally.findings.iter().for_each(|finding| println!("  {finding}"));
        found |= tally.wrong > 0;
    }
    ExitCode::from(u8::from(found))
}
