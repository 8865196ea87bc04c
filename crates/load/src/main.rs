//! The process `rolegate-load`: everything is in the library of this package.

use std::process::ExitCode;

/// The generator must cost little beside what it measures; the yardstick server has the same allocator as rolegate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    load::main(std::env::args_os()).into()
}
