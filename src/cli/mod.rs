//! One file per command; `bart` for developers, `the-deployer` for operators.
//!
//! A command parses its arguments, calls the library, and prints. What went wrong becomes an
//! [`error::CliError`] with a hint and an exit code: 0 done, 1 violations or a failed deployment,
//! 2 wrong usage or something that could not be read or reached.

pub mod bart; // the developer's command line
mod client; // the service's API
mod config;
mod demo;
pub mod deployer; // the operator's command line
mod diagnostics; // violations as a compiler shows them
pub mod error; // kind, hint, exit code
mod explain;
mod offline; // reading a WAML and planning with no service
pub mod output; // text for people, JSON for programs
mod render;
mod schema;
mod serve;
mod status;
mod validate;
