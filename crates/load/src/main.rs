//! The process `rolegate-load`. All of its code is in the library of this package.

use std::process::ExitCode;

/// Makes the generator cheap compared with the servers that it measures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    load::main(std::env::args_os()).into()
}
