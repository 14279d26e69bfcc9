//! `the-deployer config token` makes a token for the API, and prints its part of the configuration.

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{Format, GOOD, word};
use crate::config::secret;
use crate::support::text::refuse_invisible;

/// Makes a token for the API, and prints what goes into the configuration.
///
/// The configuration has the token's SHA-256 only: the token itself is shown this once, and kept
/// nowhere. Nothing is changed: add what is printed under `auth.tokens` and start the service anew.
///
///   the-deployer config token --name ci --scope deploy --target 'dev-*' --app 'devx/*'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct TokenArgs {
    /// The name of its user, which the audit log shows with each act
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The permissions of the token
    #[arg(long, value_enum, default_value_t)]
    scope: Scope,
    /// Only these targets, as a glob; several times for more than one. Default: all
    #[arg(long = "target", value_name = "GLOB")]
    targets: Vec<String>,
    /// Only these apps, as a glob over NAMESPACE/APP; several times for more than one. Default: all
    #[arg(long = "app", value_name = "GLOB")]
    apps: Vec<String>,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// The permissions of a token; the least is the default.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Scope {
    /// See apps and deployments
    #[default]
    Read,
    /// Deploy, roll back, hold, lock and remove apps
    Deploy,
    /// Everything
    Admin,
}

impl TokenArgs {
    pub(super) fn run(self) -> CommandOutcome {
        let Self { name, scope, targets, apps, output } = self;
        if name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(CliError::usage("--name must be a line of text"));
        }
        refuse_invisible("--name", &name).map_err(CliError::usage)?;
        let globs = targets.iter().chain(&apps).map(|glob| (glob, globset::Glob::new(glob)));
        if let Some((glob, Err(error))) = globs.into_iter().find(|(_, glob)| glob.is_err()) {
            return Err(CliError::usage(format!("{glob:?} is not a glob: {}", error.kind())));
        }
        let token = secret::token().map_err(CliError::failed)?;
        let mut entry = serde_json::Map::from_iter([
            ("name".to_owned(), json!(name)),
            ("sha256".to_owned(), json!(token.sha256)),
            ("scope".to_owned(), json!(word(&scope))),
        ]);
        let limits = [("targets", targets), ("apps", apps)].into_iter();
        let limits = limits.filter(|(_, globs)| !globs.is_empty());
        entry.extend(limits.map(|(key, globs)| (key.to_owned(), json!(globs))));
        let entry = serde_json::Value::Object(entry);
        // JSON is YAML, and quotes what must be quoted.
        output.print(&json!({"token": token.text, "config": entry}), || {
            format!(
                "{GOOD}token{GOOD:#}  {}\n\nGive it to its user; it is not shown again. Add this \
                 to the configuration:\n\nauth:\n  tokens:\n  - {entry}\n",
                token.text
            )
        })
    }
}
