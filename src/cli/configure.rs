//! `bart config`: settings of this machine.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};

use super::error::{CliError, Outcome};
use super::output::{self, Format};
use super::settings::{self, File, Settings};
use super::table::{Column, table};

/// Shows and changes settings that count for every command on this machine.
///
/// They are in a YAML file in the system's folder for settings, or in the one that --config or `BART_CONFIG`
/// names. An argument goes before a variable, that before the file.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  bart config set server https://deployer.example.com
  bart config set output json
  bart config list
  bart config unset output")]
pub(super) enum Configure {
    /// Prints one setting; exit code 1 where it is not set
    Get(Get),
    /// Sets one
    Set(Set),
    /// Takes one out, so that what is built in counts again
    Unset(Unset),
    /// Prints all settings
    List(List),
    /// Prints where the file is, there or not
    Path,
}

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Key {
    /// The service's address
    Server,
    /// How results are printed: text, json or yaml
    Output,
    /// How times are shown: relative or absolute
    Times,
    /// What `bart login` presents to GitHub, where the service does not say
    #[value(name = "github_client_id")]
    GithubClientId,
}

#[derive(Debug, Args)]
pub(super) struct Get {
    /// Which setting
    #[arg(value_enum)]
    key: Key,
}

#[derive(Debug, Args)]
pub(super) struct Set {
    /// Which setting
    #[arg(value_enum)]
    key: Key,
    /// Its value
    value: String,
}

#[derive(Debug, Args)]
pub(super) struct Unset {
    /// Which setting
    #[arg(value_enum)]
    key: Key,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// How to print the list
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Configure {
    /// Runs the command.
    ///
    /// # Errors
    /// When the settings cannot be read or written, or the value is none for that key.
    pub(super) fn run(&self, settings: Result<Settings, CliError>) -> Outcome {
        // A file that cannot be read can still be found, and mended key by key.
        match self {
            Self::Path => output::print(&format!("{}\n", place()?.display())),
            Self::Set(Set { key, value }) => {
                key.check(value)?;
                settings::change(&place()?, key.word(), Some(value))
            }
            Self::Unset(Unset { key }) => settings::change(&place()?, key.word(), None),
            Self::Get(Get { key }) => match key.of(&settings?.file) {
                Some(value) => output::print(&format!("{value}\n")),
                None => Err(CliError::rejected()),
            },
            Self::List(List { output }) => list(&settings?, *output),
        }
    }
}

fn place() -> Result<std::path::PathBuf, CliError> {
    let arguments: Vec<String> =
        std::env::args_os().map(|one| one.to_string_lossy().into_owned()).collect();
    settings::path(&arguments, &crate::config::environment()).ok_or_else(|| {
        CliError::usage("there is no folder for settings")
            .hint("set HOME or XDG_CONFIG_HOME, or name a file with BART_CONFIG")
    })
}

fn list(settings: &Settings, format: Format) -> Outcome {
    let all: Vec<(&str, Option<String>)> =
        Key::value_variants().iter().map(|key| (key.word(), key.of(&settings.file))).collect();
    if format.is_data() {
        let pairs = all.into_iter().map(|(key, value)| (key.to_owned(), json!(value)));
        return output::data(format, &Json::Object(pairs.collect()));
    }
    let row = |(key, value): (&str, Option<String>)| {
        [key.to_owned(), value.unwrap_or_else(|| "(not set)".to_owned())]
    };
    output::print(&table(
        [Column::whole("KEY"), Column::whole("VALUE")],
        all.into_iter().map(row).collect(),
    ))
}

impl Key {
    fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Output => "output",
            Self::Times => "times",
            Self::GithubClientId => "github_client_id",
        }
    }

    fn of(self, file: &File) -> Option<String> {
        let File { server, output, times, github_client_id } = file;
        match self {
            Self::Server => server.clone(),
            Self::Output => output.map(|output| output.word().to_owned()),
            Self::Times => times.map(|times| times.word().to_owned()),
            Self::GithubClientId => github_client_id.clone(),
        }
    }

    /// An address with a password in it would end in messages.
    fn check(self, value: &str) -> Outcome {
        let url = (self == Self::Server).then(|| reqwest::Url::parse(value));
        match url {
            Some(Err(_)) => Err(CliError::usage(format!("{value} is no address"))
                .hint("write it like https://deployer.example.com")),
            Some(Ok(url)) if !matches!(url.scheme(), "http" | "https") => {
                Err(CliError::usage(format!("{value} is reached by neither http nor https")))
            }
            Some(Ok(url)) if !url.username().is_empty() || url.password().is_some() => {
                Err(CliError::usage("an address with a name or a password in it ends in messages")
                    .hint("take it out; `bart login` or BART_TOKEN say who you are"))
            }
            Some(Ok(_)) | None => Ok(()),
        }
    }
}
