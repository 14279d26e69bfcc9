//! What a developer has set up for `bart` on this machine: defaults for arguments, and logins.
//!
//! An argument goes before the environment, that before the file, and that before what is built in: the
//! file's values are made the defaults of the arguments, so that every command takes them alike.

pub(super) mod folder; // where this machine keeps settings
pub(super) mod logins; // tokens, by service
pub(super) mod private; // files for their owner's eyes

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::CliError;
use crate::model::violation::Rejection;
use crate::waml::{emit, typed};

/// Names the file, over the place where this machine keeps settings.
pub(super) const VARIABLE: &str = "BART_CONFIG";

/// The file as people write it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    /// The service's address.
    #[schemars(extend("format" = "url"))]
    pub(super) server: Option<String>,
    /// How results are printed: `text`, `json` or `yaml`.
    pub(super) output: Option<Output>,
    /// How times are shown: `relative` or `absolute`.
    pub(super) times: Option<Times>,
    /// What `bart login` presents to GitHub, where the service does not say.
    #[schemars(extend("format" = "line"))]
    pub(super) github_client_id: Option<String>,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Output {
    Text,
    Json,
    Yaml,
}

/// How times are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Times {
    Relative,
    Absolute,
}

/// The settings.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// What the file says.
    pub(super) file: File,
}

/// The file that is meant: of `--config`, of the variable, or this machine's place.
pub(super) fn path(
    arguments: &[String],
    environment: &BTreeMap<String, String>,
) -> Option<PathBuf> {
    let named = named(arguments).or_else(|| environment.get(VARIABLE).cloned());
    match named.filter(|path| !path.is_empty()) {
        Some(path) => Some(PathBuf::from(path)),
        None => folder::of(environment).map(|folder| folder.join("config.yaml")),
    }
}

/// What `--config` says: the defaults of all arguments depend on it, so it is read before them.
fn named(arguments: &[String]) -> Option<String> {
    let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
    while let Some(argument) = arguments.next() {
        if argument == "--config" {
            return arguments.next().cloned();
        }
        if let Some(path) = argument.strip_prefix("--config=") {
            return Some(path.to_owned());
        }
    }
    None
}

impl Settings {
    /// Reads the file; one that is not there says nothing.
    ///
    /// # Errors
    /// When it cannot be read, or says what no setting is.
    pub(super) fn read(path: Option<PathBuf>) -> Result<Self, CliError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let name = path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(CliError::io(format!("cannot read {name}: {error}"))),
        };
        let file = parse(&name, &text).map_err(|rejection| {
            CliError::usage(format!("the settings cannot be used: {rejection}"))
                .hint(format!("mend {name}, or set them anew with `bart config set KEY VALUE`"))
        })?;
        Ok(Self { file })
    }

    /// The command with these settings as the defaults of its arguments.
    pub(super) fn defaults(&self, command: clap::Command) -> clap::Command {
        let mut values = Vec::new();
        if let Some(server) = &self.file.server {
            values.push(("server", server.clone()));
        }
        if let Some(output) = self.file.output {
            values.push(("output", output.word().to_owned()));
        }
        if let Some(times) = self.file.times {
            values.push(("times", times.word().to_owned()));
        }
        values.iter().fold(command, |command, (id, value)| with_default(command, id, value))
    }
}

fn with_default(command: clap::Command, id: &'static str, value: &str) -> clap::Command {
    let has = command.get_arguments().any(|argument| argument.get_id() == id);
    let value = value.to_owned();
    let command = if has {
        let value = value.clone();
        command.mut_arg(id, move |argument| argument.default_value(value))
    } else {
        command
    };
    command.mut_subcommands(move |inner| with_default(inner, id, &value))
}

impl Times {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Relative => "relative",
            Self::Absolute => "absolute",
        }
    }
}

impl Output {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Yaml => "yaml",
        }
    }
}

/// Reads the file's text.
fn parse(name: &str, text: &str) -> Result<File, Rejection> {
    let blank = |line: &str| line.is_empty() || line.starts_with('#') || line == "---";
    if text.lines().map(str::trim).all(blank) {
        return Ok(File::default());
    }
    typed::read(name, text)
}

/// The text with that key set, or taken out; everything else stays as people wrote it.
pub(super) fn changed(text: &str, key: &str, value: Option<&str>) -> String {
    let is_key = |line: &str| {
        let rest = line.strip_prefix(key).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with(':'))
    };
    let line = value.map(|value| {
        let mut one = serde_json::Map::new();
        one.insert(key.to_owned(), value.into());
        emit::map(&one)
    });
    let mut out = String::new();
    let mut set = false;
    for old in text.lines() {
        match (is_key(old), &line) {
            (false, _) => out.extend([old, "\n"]),
            (true, Some(line)) if !set => {
                out.push_str(line);
                set = true;
            }
            (true, _) => {}
        }
    }
    out.push_str(line.as_deref().filter(|_| !set).unwrap_or_default());
    out
}

/// Sets a key in the file, or takes it out; a file that would not be understood is not written.
///
/// # Errors
/// When the value is none for that key, or the file cannot be written.
pub(super) fn change(path: &Path, key: &str, value: Option<&str>) -> Result<(), CliError> {
    let name = path.display().to_string();
    let old = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(CliError::io(format!("cannot read {name}: {error}"))),
    };
    let new = changed(&old, key, value);
    parse(&name, &new)
        .map_err(|rejection| CliError::usage(format!("{name} was left as it is: {rejection}")))?;
    private::write(path, new.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_argument_names_the_file_before_the_environment() {
        let environment = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let both = environment(&[("BART_CONFIG", "env.yaml"), ("XDG_CONFIG_HOME", "/x")]);
        let path = |arguments: &[&str]| path(&texts(arguments), &both).unwrap();
        assert_eq!(path(&["bart", "status", "--config", "a.yaml"]), Path::new("a.yaml"));
        assert_eq!(path(&["bart", "--config=b.yaml", "status"]), Path::new("b.yaml"));
        assert_eq!(path(&["bart", "status", "--", "--config", "a.yaml"]), Path::new("env.yaml"));
        let place = environment(&[("XDG_CONFIG_HOME", "/x")]);
        assert_eq!(super::path(&[], &place).unwrap(), Path::new("/x/bart/config.yaml"));
        assert_eq!(super::path(&[], &BTreeMap::new()), None);
    }

    #[test]
    fn one_key_is_changed_and_the_rest_stays_as_it_was_written() {
        let text = "# mine\nserver: https://a.example.com # old\noutput: json\n";
        let set = changed(text, "server", Some("https://b.example.com"));
        assert_eq!(set, "# mine\nserver: https://b.example.com\noutput: json\n");
        assert_eq!(changed(&set, "output", None), "# mine\nserver: https://b.example.com\n");
        assert_eq!(changed("", "output", Some("yaml")), "output: yaml\n");
        assert_eq!(changed("outputs: x", "output", None), "outputs: x\n");
    }

    #[test]
    fn what_no_setting_is_is_named_with_its_place() {
        let told = parse("c.yaml", "server: https://x\noutpt: json\n").unwrap_err().to_string();
        assert!(told.contains("outpt"), "{told}");
        assert_eq!(parse("c.yaml", "# nothing\n").unwrap(), File::default());
        let file = parse("c.yaml", "output: yaml\nserver: http://127.0.0.1:1\n").unwrap();
        assert_eq!(file.output, Some(Output::Yaml));
    }

    #[test]
    fn settings_are_the_defaults_of_every_command_that_has_such_an_argument() {
        let file = File { server: Some("https://d".to_owned()), ..File::default() };
        let settings = Settings { file };
        let server = || clap::Arg::new("server").long("server").default_value("http://built-in");
        let inner = clap::Command::new("inner").arg(server());
        let command =
            clap::Command::new("bart").subcommand(inner).subcommand(clap::Command::new("other"));
        let command = settings.defaults(command);
        let read = |arguments: &[&str]| {
            let matches = command.clone().get_matches_from(arguments);
            let (_, inner) = matches.subcommand().unwrap();
            inner.get_one::<String>("server").cloned().unwrap()
        };
        assert_eq!(read(&["bart", "inner"]), "https://d");
        assert_eq!(read(&["bart", "inner", "--server", "https://e"]), "https://e");
    }
}
