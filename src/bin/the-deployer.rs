//! The operator's command.

use std::process::ExitCode;

fn main() -> ExitCode {
    the_deployer::cli::deployer::main()
}
