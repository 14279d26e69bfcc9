//! The command lines: `bart/` for developers, `operator/` (`the-deployer`) for operators, one file a command. What
//! both use lies beside them: context, client, output.
//!
//! A command parses its arguments, calls the service or the library, and prints. A failure becomes an `error::CliError`
//! with a hint and an exit code: 0 done, 1 violations, a failed deployment or a refusal, 2 wrong usage or something
//! that could not be read or reached.
//!
//! Begin with [`bart`] and [`operator`], which list the commands. They share `context` (the app and the service),
//! `client` (requests to the service), `local` (plans without one), `output` (text, JSON and YAML) and `error`.

pub mod bart; // the developer's command line
pub mod operator; // the operator's command line
mod error; // the error of a command: kind, hint, exit code
mod output; // text for people, JSON for programs
pub(crate) mod diagnostics; // violations as a compiler shows them
mod local; // input of commands that need no service
mod extra_files; // the files that a WAML names
mod platform; // what targets offer
mod working_folder; // the working folder and its files
mod kubeconfig; // the kubeconfig of the person
mod context; // the app and the service of a command
mod repository_apps; // the apps of the repository that the working folder is in
mod client; // the service's API
mod names; // suggestions for mistyped names
mod verbatim; // answers passed on unchanged
mod event_stream; // the service's stream of events
mod live_lines; // lines that are redrawn in place
mod table; // tables that fit the terminal
mod changes; // changes of objects, as a terminal shows them
mod deployment; // deployments as a terminal shows them
mod loopback; // requests of a browser to a port of this machine
mod times; // times in arguments and results
mod host; // the service's code host
mod settings; // the settings of this machine
mod secret_store; // stores of secrets, with a person's login
#[cfg(test)]
mod secrets_tests; // no command shows a secret

/// The version of both programs, and the commit and day of what they are made of (`build.rs`).
pub(crate) const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("THE_DEPLOYER_BUILD"), ")");

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::event_stream::fuzz as fuzz_event_stream;
