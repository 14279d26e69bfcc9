//! The database of the configuration and the operator's identity, for the operator's acts.

use clap::Args;

use super::config::ConfigSource;
use crate::cli::error::CliError;
use crate::cli::output::Format;
use crate::config::SettingsSources;
use crate::deployments::AUDIT;
use crate::deployments::ledger::{Ledger, check_target};
use crate::model::audit::{AuthMethod, Principal};
use crate::model::id::{AppKey, Namespace, Slug, TargetName};
use crate::model::target::Clusters;
use crate::support::clock::Clock;
use crate::support::telemetry::{self, LogFormat};
use crate::support::text::refuse_invisible;

/// The person who acts, and the reason: every manual act is recorded.
#[derive(Debug, Args)]
pub(super) struct OperatorIdentity {
    /// The reason; the people concerned see it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The person who acts
    #[arg(long, value_name = "NAME", env = "USER")]
    by: String,
}

impl OperatorIdentity {
    /// Returns the principal and the reason, and adds them to the log from now on.
    pub(super) fn act(&self) -> Result<(Principal, String), CliError> {
        let (by, reason) = (self.by.trim(), self.reason.trim());
        for (name, text) in [("--by", by), ("--reason", reason)] {
            if text.is_empty() || text.chars().any(char::is_control) {
                return Err(CliError::usage(format!("{name} must be a line of text")));
            }
            refuse_invisible(name, text).map_err(CliError::usage)?;
        }
        telemetry::init(LogFormat::Text, &format!("{AUDIT}=info")).map_err(CliError::failed)?;
        let by =
            Principal { name: by.to_owned(), via: AuthMethod::Operator, from: None, request: None };
        Ok((by, reason.to_owned()))
    }
}

/// Opens the database of the configuration.
pub(super) async fn open(source: &ConfigSource) -> Result<Ledger, CliError> {
    open_for(source, None).await
}

/// Does the same for an act on a target that the configuration must have: an act on a mistyped target would do nothing
/// and seem to succeed.
pub(super) async fn open_for(
    source: &ConfigSource,
    target: Option<&TargetName>,
) -> Result<Ledger, CliError> {
    let (storage, clusters) = match target {
        None => (source.load_storage(Format::Text)?, Clusters::any()),
        Some(target) => {
            let settings =
                source.load_with(Format::Text, SettingsSources::load_for_record)?.settings;
            check_target((&settings.clusters, &settings.fleets), target)
                .map_err(|(unknown, hint)| CliError::usage(unknown).hint(hint))?;
            (settings.storage, settings.clusters)
        }
    };
    Ledger::open(&storage.url, Clock::system(), clusters).await.map_err(unusable)
}

/// Makes the error for a database that cannot be used.
pub(super) fn unusable(error: impl std::error::Error) -> CliError {
    CliError::io(format!("cannot use the database: {error}"))
        .hint("name the service's own configuration with --config")
}

/// Parses `NAMESPACE/APP`.
pub(super) fn app(text: &str) -> Result<AppKey, String> {
    let (namespace, slug) = text.split_once('/').ok_or("write it as NAMESPACE/APP")?;
    let namespace = Namespace::parse(namespace).map_err(|error| error.to_string())?;
    let slug = Slug::parse(slug).map_err(|error| error.to_string())?;
    Ok(AppKey { namespace, slug })
}
