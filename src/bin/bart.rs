//! The developer's command.

use std::process::ExitCode;

fn main() -> ExitCode {
    the_deployer::cli::bart::main()
}
