//! The program `the-deployer` for operators.

use std::process::ExitCode;

/// The allocator: the service allocates and frees small objects on every thread, which is slow with glibc's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    the_deployer::cli::operator::main()
}
