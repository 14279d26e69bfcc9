//! `the-deployer config`: the configuration looked at without being used.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::diagnostics::{self, Sources as Texts};
use super::error::{CliError, Outcome};
use super::output::{self, Format, GOOD};
use super::token::Token;
use crate::app::signing;
use crate::config::storage::StorageSettings;
use crate::config::{self, Loaded, Sources};
use crate::model::violation::{Rejection, Violation};

/// Looks at the configuration without starting anything.
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    Check(Check),
    Schema(Schema),
    Token(Token),
}

/// Checks the configuration: the file, and the `THE_DEPLOYER_*` variables over it.
///
/// All violations are told at once, each with its line and what to do. Secrets are read, and never
/// shown; a key for commits is tried. Exit code 0 when it can be used, 1 when not.
#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    source: Source,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// Prints the JSON Schema of the configuration file, for editors.
#[derive(Debug, Args)]
pub(super) struct Schema {}

/// Where the configuration is.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// The configuration file; without it, the built-in settings and the variables
    #[arg(long, short, value_name = "FILE", env = "THE_DEPLOYER_CONFIG")]
    pub(super) config: Option<PathBuf>,
}

impl Config {
    pub(super) fn run(self) -> Outcome {
        match self {
            Self::Check(check) => check.run(),
            Self::Schema(Schema {}) => output::json(&config::schema()),
            Self::Token(token) => token.run(),
        }
    }
}

impl Check {
    fn run(&self) -> Outcome {
        let loaded = self.source.load(self.output)?;
        let refused = signing::tried(&loaded.settings);
        if !refused.is_empty() {
            return self.refuse(&refused);
        }
        if self.output.is_data() {
            return output::data(
                self.output,
                &serde_json::json!({"valid": true, "violations": loaded.warnings}),
            );
        }
        let name = self
            .source
            .config
            .as_deref()
            .map_or("the built-in configuration".into(), Path::to_string_lossy);
        output::print(&format!("{GOOD}ok{GOOD:#} {name} can be used\n"))
    }

    /// What was found by trying has no line.
    fn refuse(&self, violations: &[Violation]) -> Outcome {
        match self.output {
            Format::Text => output::note(&diagnostics::render(violations, &Texts::default())),
            data @ (Format::Json | Format::Yaml) => {
                output::data(data, &serde_json::json!({"valid": false, "violations": violations}))?;
            }
        }
        Err(CliError::rejected())
    }
}

impl Source {
    /// The settings; warnings are printed.
    ///
    /// # Errors
    /// When the file cannot be read, or is refused (its violations are printed).
    pub(super) fn load(&self, format: Format) -> Result<Loaded, CliError> {
        self.load_with(format, Sources::load)
    }

    /// The settings for acts on the database; no secret is read.
    ///
    /// # Errors
    /// As [`Source::load`].
    pub(super) fn load_for_record(&self, format: Format) -> Result<Loaded, CliError> {
        self.load_with(format, Sources::load_for_record)
    }

    /// The settings for a rebuild; secrets that it does not need are not read.
    ///
    /// # Errors
    /// As [`Source::load`].
    pub(super) fn load_for_rebuild(&self, format: Format) -> Result<Loaded, CliError> {
        self.load_with(format, Sources::load_for_rebuild)
    }

    /// Where the state is, and nothing else.
    ///
    /// # Errors
    /// As [`Source::load`].
    pub(super) fn load_storage(&self, format: Format) -> Result<StorageSettings, CliError> {
        let sources = self.sources()?;
        sources.load_storage().map_err(|rejection| refused(&rejection, &sources, format))
    }

    fn load_with(
        &self,
        format: Format,
        load: impl FnOnce(&Sources) -> Result<Loaded, Rejection>,
    ) -> Result<Loaded, CliError> {
        let sources = self.sources()?;
        let loaded = load(&sources).map_err(|rejection| refused(&rejection, &sources, format))?;
        if format == Format::Text && !loaded.warnings.is_empty() {
            tell(&loaded.warnings, &sources);
        }
        Ok(loaded)
    }

    /// How another command is told of the same configuration: ` --config FILE`, or nothing.
    pub(super) fn argument(&self) -> String {
        let path = self.config.as_ref().map(|path| format!(" --config {}", path.display()));
        path.unwrap_or_default()
    }

    fn sources(&self) -> Result<Sources, CliError> {
        Sources::read(self.config.as_deref(), config::environment())
            .map_err(|error| CliError::io(error.to_string()))
    }
}

/// Prints what is wrong with the configuration.
fn refused(rejection: &Rejection, sources: &Sources, format: Format) -> CliError {
    match format {
        Format::Text => tell(&rejection.violations, sources),
        data @ (Format::Json | Format::Yaml) => {
            let violations = &rejection.violations;
            let printed =
                output::data(data, &serde_json::json!({"valid": false, "violations": violations}));
            if let Err(error) = printed {
                return error;
            }
        }
    }
    CliError::rejected()
}

fn tell(violations: &[Violation], sources: &Sources) {
    let mut texts = Texts::default();
    for (name, text) in sources.texts() {
        texts.add(&name, text);
    }
    output::note(&diagnostics::render(violations, &texts));
}
