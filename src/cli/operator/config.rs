//! `the-deployer config` and `platform` read the configuration without starting anything.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::token::TokenArgs;
use crate::app::{clusters, gates, receivers, signing};
use crate::cli::diagnostics::{self, SourceTexts as Texts};
use crate::cli::error::{CliError, CommandOutcome, on_runtime};
use crate::cli::output::{self, Format, GOOD};
use crate::config::storage::StorageSettings;
use crate::config::{self, LoadedConfig, SettingsSources};
use crate::model::snapshot::ClusterSnapshot;
use crate::model::violation::{Rejection, Violation};
use crate::support::clock::Clock;

/// Checks and describes the configuration without starting anything.
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    Check(ConfigCheckArgs),
    /// Prints the JSON Schema of the configuration file, for editors.
    Schema,
    Token(TokenArgs),
}

/// Checks the configuration: the file, and the `THE_DEPLOYER_*` variables over it.
///
/// All violations are printed at once, each with its line and what to do. Secrets are read and never shown; a key for
/// commits is tried, each cluster is asked for the permission to watch it, BigQuery for its table, and Prometheus and
/// Alertmanager for an answer. Exit code 0 when the configuration can be used, 1 when not.
#[derive(Debug, Args)]
pub(super) struct ConfigCheckArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// Do not connect to clusters and other servers: this machine may not reach them
    #[arg(long)]
    offline: bool,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// The subcommands of `the-deployer platform`.
#[derive(Debug, Subcommand)]
pub(super) enum PlatformCommand {
    Export(Export),
}

/// Prints what the clusters of the configuration offer and their versions of Kubernetes, for `bart validate` and `bart
/// render` on machines that do not reach the service.
///
/// The output is JSON, without the addresses of API servers and without secrets.
#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    source: ConfigSource,
}

/// The location of the configuration.
#[derive(Debug, Args)]
pub(super) struct ConfigSource {
    /// The configuration file; without it, the built-in settings and the variables
    #[arg(long, short, value_name = "FILE", env = "THE_DEPLOYER_CONFIG")]
    pub(super) config: Option<PathBuf>,
}

impl Config {
    pub(super) fn run(self) -> CommandOutcome {
        match self {
            Self::Check(check) => on_runtime(check.run()),
            Self::Schema => output::json(&config::schema()),
            Self::Token(token) => token.run(),
        }
    }
}

impl PlatformCommand {
    pub(super) fn run(&self) -> CommandOutcome {
        let Self::Export(Export { source }) = self;
        let settings = source.load(Format::Text)?.settings;
        let taken_at = Some(Clock::system().now());
        let snapshot = ClusterSnapshot::new(&settings.clusters, &settings.fleets);
        output::json(&ClusterSnapshot { taken_at, ..snapshot })
    }
}

impl ConfigCheckArgs {
    async fn run(&self) -> CommandOutcome {
        let loaded = self.source.load(self.output)?;
        let mut violations = signing::check_signing(&loaded.settings);
        if !self.offline {
            violations.extend(clusters::check_clusters(&loaded.settings).await);
            violations
                .extend(receivers::check_bigquery(&loaded.settings, Clock::system().now()).await);
            violations.extend(gates::check_gates(&loaded.settings).await);
        }
        if !violations.is_empty() {
            // Violations that only a trial finds have no line.
            return Err(refuse(&violations, &Texts::default(), self.output)?);
        }
        self.output.print(&json!({"valid": true, "violations": loaded.warnings}), || {
            let file = self.source.config.as_deref();
            let name = file.map_or("the built-in configuration".into(), Path::to_string_lossy);
            format!("{GOOD}ok{GOOD:#} {name} can be used\n")
        })
    }
}

impl ConfigSource {
    /// Loads the settings. Prints warnings, and the violations of a file that is refused.
    pub(super) fn load(&self, format: Format) -> Result<LoadedConfig, CliError> {
        self.load_with(format, SettingsSources::load)
    }

    /// Does the same with another loader.
    pub(super) fn load_with(
        &self,
        format: Format,
        load: impl FnOnce(&SettingsSources) -> Result<LoadedConfig, Rejection>,
    ) -> Result<LoadedConfig, CliError> {
        let (loaded, texts) = self.read(format, load)?;
        if format == Format::Text && !loaded.warnings.is_empty() {
            output::note(&diagnostics::render(&loaded.warnings, &texts));
        }
        Ok(loaded)
    }

    /// Loads the storage settings and nothing else.
    pub(super) fn load_storage(&self, format: Format) -> Result<StorageSettings, CliError> {
        Ok(self.read(format, SettingsSources::load_storage)?.0)
    }

    fn read<T>(
        &self,
        format: Format,
        load: impl FnOnce(&SettingsSources) -> Result<T, Rejection>,
    ) -> Result<(T, Texts), CliError> {
        let sources = SettingsSources::read(self.config.as_deref(), config::environment())
            .map_err(CliError::failed)?;
        let mut texts = Texts::default();
        for (name, text) in sources.texts() {
            texts.add(&name, text);
        }
        match load(&sources) {
            Ok(loaded) => Ok((loaded, texts)),
            Err(rejection) => Err(refuse(&rejection.violations, &texts, format)?),
        }
    }

    /// Returns the option by which another command reads the same configuration: ` --config FILE`, or nothing.
    pub(super) fn argument(&self) -> String {
        let path = self.config.as_ref().map(|path| format!(" --config {}", path.display()));
        path.unwrap_or_default()
    }
}

/// Prints the violations of the configuration, and returns the error to end with.
fn refuse(violations: &[Violation], texts: &Texts, format: Format) -> Result<CliError, CliError> {
    if format.is_data() {
        output::data(format, &json!({"valid": false, "violations": violations}))?;
    } else {
        output::note(&diagnostics::render(violations, texts));
    }
    Ok(CliError::rejected())
}
