//! The program `bart` for developers.

use std::process::ExitCode;

fn main() -> ExitCode {
    the_deployer::cli::bart::main()
}
