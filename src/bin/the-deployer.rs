//! The operator's command.

use std::process::ExitCode;

/// A service makes and drops small things on every thread, which glibc's allocator makes dear.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    the_deployer::cli::operator::main()
}
