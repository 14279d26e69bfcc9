//! The command lines: one file for each command of `bart` (developers) and of `the-deployer` (operators).
//!
//! A command parses its arguments, calls the service or the library, and prints. A failure becomes an `error::CliError`
//! with a hint and an exit code: 0 done, 1 violations, a failed deployment or a refusal, 2 wrong usage or something
//! that could not be read or reached.
//!
//! Begin with [`bart`] and [`deployer`], which list the commands. They share `context` (the app and the service),
//! `client` (requests to the service), `offline` (plans without one), `output` (text, JSON and YAML) and `error`.

pub mod bart; // the developer's command line
mod validate;
mod render;
mod explain;
mod deploy;
mod builds;
mod status;
mod history;
mod logs;
mod open;
mod plan;
mod keep_back; // bart lock, unlock, locks
mod cancel;
mod rollback;
mod hold;
mod remove;
mod login;
mod configure; // `bart config`
mod completion;
pub mod deployer; // the operator's command line
mod serve;
mod init;
mod demo;
mod config;
mod token;
mod ledger; // the database of the configuration, for acts
mod audit;
mod owners;
mod locks;
mod backup; // backup, restore, rebuild
mod validators;
mod templates;
mod error; // the error of a command: kind, hint, exit code
mod output; // text for people, JSON for programs
pub(crate) mod diagnostics; // violations as a compiler shows them
mod offline; // input of commands that need no service
mod platform; // what targets offer
mod context; // the app and the service of a command
mod client; // the service's API
mod names; // suggestions for mistyped names
mod verbatim; // answers passed on unchanged
mod event_stream; // the service's stream of events
mod table; // tables that fit the terminal
mod changes; // changes of objects, as a terminal shows them
mod deployment; // deployments as a terminal shows them
mod times; // times in arguments and results
mod host; // the service's code host
mod settings; // the settings of this machine
#[cfg(test)]
mod secrets_tests; // no command shows a secret

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::event_stream::fuzz as fuzz_event_stream;
