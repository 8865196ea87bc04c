//! The `rolegate` binary. All code is in the library of this package.

use std::process::ExitCode;

/// All worker threads allocate at the same time, and the system allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    program::main(std::env::args_os()).into()
}
