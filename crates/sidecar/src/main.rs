//! The process `rolegate`: everything is in the library of this package.

use std::process::ExitCode;

/// Requests allocate in many threads at once, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sidecar::main(std::env::args_os()).into()
}
