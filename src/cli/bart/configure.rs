//! `bart config` shows and changes the settings of this machine.

use clap::{Subcommand, ValueEnum};

use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, Format, word};
use crate::cli::settings::{self, BartSettings};
use crate::cli::table::{Column, table};

/// Shows and changes settings that count for every command on this machine.
///
/// They are in a YAML file in the system's folder for settings, or in the one that --config or `BART_CONFIG` names.
/// Arguments go before variables, and variables before the file.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  bart config set server https://deployer.example.com
  bart config set output json
  bart config list
  bart config unset output")]
pub(super) enum Configure {
    /// Prints one setting; exit code 1 where it is not set
    Get {
        /// The setting
        #[arg(value_enum)]
        key: SettingKey,
    },
    /// Sets a setting
    Set {
        /// The setting
        #[arg(value_enum)]
        key: SettingKey,
        /// Its value
        value: String,
    },
    /// Removes a setting, so that the default counts again
    Unset {
        /// The setting
        #[arg(value_enum)]
        key: SettingKey,
    },
    /// Prints all settings
    List {
        /// The format of the list
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
    },
    /// Prints the path of the file, whether it exists or not
    Path,
}

/// The settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SettingKey {
    /// The service's address
    Server,
    /// The format of results: text, json or yaml
    Output,
    /// The style of times: relative or absolute
    Times,
    /// The client id that `bart login` presents to GitHub, if the service does not name one
    #[value(name = "github_client_id")]
    GithubClientId,
}

impl Configure {
    pub(super) fn run(&self, settings: Result<BartSettings, CliError>) -> CommandOutcome {
        // A file that cannot be read can still be found, and corrected key by key.
        match self {
            Self::Path => output::print(&format!("{}\n", place()?.display())),
            Self::Set { key, value } => {
                key.check(value)?;
                settings::change(&place()?, &word(key), Some(value))
            }
            Self::Unset { key } => settings::change(&place()?, &word(key), None),
            Self::Get { key } => match settings?.get(&word(key)) {
                Some(value) => output::print(&format!("{value}\n")),
                None => Err(CliError::rejected()),
            },
            Self::List { output } => list(&settings?, *output),
        }
    }
}

fn place() -> Result<std::path::PathBuf, CliError> {
    settings::place().ok_or_else(|| {
        CliError::usage("there is no folder for settings")
            .hint("set HOME or XDG_CONFIG_HOME, or name a file with BART_CONFIG")
    })
}

fn list(settings: &BartSettings, format: Format) -> CommandOutcome {
    format.print(settings, || {
        let row = |key: &SettingKey| {
            let value = settings.get(&word(key)).unwrap_or_else(|| "(not set)".to_owned());
            [word(key), value]
        };
        let rows = SettingKey::value_variants().iter().map(row).collect();
        table([Column::whole("KEY"), Column::whole("VALUE")], rows)
    })
}

impl SettingKey {
    /// Refuses an address with a password in it, which messages would show.
    fn check(self, value: &str) -> CommandOutcome {
        let url = (self == Self::Server).then(|| reqwest::Url::parse(value));
        match url {
            Some(Err(_)) => Err(CliError::usage(format!("{value} is not an address"))
                .hint("write it like https://deployer.example.com")),
            Some(Ok(url)) if !matches!(url.scheme(), "http" | "https") => {
                Err(CliError::usage(format!("{value} begins with neither http:// nor https://")))
            }
            Some(Ok(url)) if !url.username().is_empty() || url.password().is_some() => {
                Err(CliError::usage(
                    "the address has a user name or a password in it, which messages would show",
                )
                .hint("remove it; use `bart login` or BART_TOKEN"))
            }
            Some(Ok(_)) | None => Ok(()),
        }
    }
}
