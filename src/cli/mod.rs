//! THE COMMAND LINES: `bart/` for developers, `operator/` (`the-deployer`) for operators, one file a command. What
//! both use lies beside them: context, client, output.
//!
//! A command parses its arguments, calls the library, and prints. What went wrong becomes an
//! `error::CliError` with a hint and an exit code: 0 done, 1 violations, a failed deployment or a refusal,
//! 2 wrong usage or something that could not be read or reached.

pub mod bart; // the developer's command line
pub mod operator; // the operator's command line
mod error; // kind, hint, exit code
mod output; // text for people, JSON for programs
pub(crate) mod diagnostics; // violations as a compiler shows them
mod local; // reading a WAML and planning with no service
mod platform; // what targets offer
mod context; // which app a command is about, at which service
mod client; // the service's API
mod names; // did you mean
mod verbatim; // what it answers, as it came
mod event_stream; // its events
mod table; // tables that fit the terminal
mod changes; // what becomes of objects, as a terminal shows it
mod deployment; // deployments as a terminal shows them
mod times; // how people write and read times
mod host; // where the service has its repositories
mod settings; // what is set up on this machine
#[cfg(test)]
mod secrets_tests; // no secret is shown

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::event_stream::fuzz as fuzz_event_stream;
