//! `the-deployer config`: the configuration looked at without being used.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::diagnostics::{self, SourceTexts as Texts};
use super::error::{CliError, CommandOutcome, on_runtime};
use super::output::{self, Format, GOOD};
use super::token::TokenArgs;
use crate::app::{clusters, signing};
use crate::config::storage::StorageSettings;
use crate::config::{self, Loaded, SettingsSources};
use crate::model::snapshot::ClusterSnapshot;
use crate::model::violation::{Rejection, Violation};
use crate::support::clock::Clock;

/// Looks at the configuration without starting anything.
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    Check(ConfigCheckArgs),
    /// Prints the JSON Schema of the configuration file, for editors.
    Schema,
    Token(TokenArgs),
}

/// Checks the configuration: the file, and the `THE_DEPLOYER_*` variables over it.
///
/// All violations are told at once, each with its line and what to do. Secrets are read, and never
/// shown; a key for commits is tried, and each cluster is asked whether the service may watch it. Exit code 0 when it
/// can be used, 1 when not.
#[derive(Debug, Args)]
pub(super) struct ConfigCheckArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// Do not ask the clusters: this machine may not reach them
    #[arg(long)]
    offline: bool,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// `the-deployer platform`
#[derive(Debug, Subcommand)]
pub(super) enum PlatformCommand {
    Export(Export),
}

/// Prints what the clusters of the configuration offer, and which Kubernetes they have, for `bart validate` and
/// `bart render` on machines that do not reach the service.
///
/// It is JSON. The addresses of API servers are left out, and so is everything secret.
#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    source: ConfigSource,
}

/// Where the configuration is.
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
        output::json(&ClusterSnapshot { taken_at, ..ClusterSnapshot::new(&settings.clusters) })
    }
}

impl ConfigCheckArgs {
    async fn run(&self) -> CommandOutcome {
        let loaded = self.source.load(self.output)?;
        let mut refused = signing::tried(&loaded.settings);
        if !self.offline {
            refused.extend(clusters::tried(&loaded.settings).await);
        }
        if !refused.is_empty() {
            // What was found by trying has no line.
            return Err(refuse(&refused, &Texts::default(), self.output)?);
        }
        self.output.print(&json!({"valid": true, "violations": loaded.warnings}), || {
            let file = self.source.config.as_deref();
            let name = file.map_or("the built-in configuration".into(), Path::to_string_lossy);
            format!("{GOOD}ok{GOOD:#} {name} can be used\n")
        })
    }
}

impl ConfigSource {
    /// The settings. Warnings are printed, and the violations of a file that is refused.
    pub(super) fn load(&self, format: Format) -> Result<Loaded, CliError> {
        self.load_with(format, SettingsSources::load)
    }

    /// The same, of what `load` reads.
    pub(super) fn load_with(
        &self,
        format: Format,
        load: impl FnOnce(&SettingsSources) -> Result<Loaded, Rejection>,
    ) -> Result<Loaded, CliError> {
        let (loaded, texts) = self.read(format, load)?;
        if format == Format::Text && !loaded.warnings.is_empty() {
            output::note(&diagnostics::render(&loaded.warnings, &texts));
        }
        Ok(loaded)
    }

    /// Loads where the state is, and nothing else.
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

    /// Returns how another command is told of the same configuration: ` --config FILE`, or nothing.
    pub(super) fn argument(&self) -> String {
        let path = self.config.as_ref().map(|path| format!(" --config {}", path.display()));
        path.unwrap_or_default()
    }
}

/// Prints what is wrong with the configuration; the error to end with.
fn refuse(violations: &[Violation], texts: &Texts, format: Format) -> Result<CliError, CliError> {
    if format.is_data() {
        output::data(format, &json!({"valid": false, "violations": violations}))?;
    } else {
        output::note(&diagnostics::render(violations, texts));
    }
    Ok(CliError::rejected())
}
