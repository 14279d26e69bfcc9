//! The developer's settings of `bart` on this machine: defaults of arguments, and logins.
//!
//! Arguments go before the environment, that before the file, and that before the built-in defaults: the file's values
//! become the defaults of the arguments, so that every command treats them alike.

mod login_file; // a file of logins
pub(super) mod logins; // tokens, by service
pub(super) mod vault_logins; // tokens, by Vault

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{CliError, CommandOutcome};
use crate::model::violation::Rejection;
use crate::support::clock;
use crate::waml::{checked_reader, emit};

/// The variable that names the file, instead of the system's folder for settings.
pub(super) const VARIABLE: &str = "BART_CONFIG";

/// The file of settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct BartSettings {
    /// The service's address.
    #[schemars(extend("format" = "url"))]
    pub(super) server: Option<String>,
    /// The format of results: `text`, `json` or `yaml`.
    pub(super) output: Option<Output>,
    /// The style of times: `relative` or `absolute`.
    pub(super) times: Option<Times>,
    /// The client id that `bart login` presents to GitHub, if the service does not name one.
    #[schemars(extend("format" = "line"))]
    pub(super) github_client_id: Option<String>,
}

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Output {
    Text,
    Json,
    Yaml,
}

/// The style of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Times {
    Relative,
    Absolute,
}

/// Returns the path of the file: of `--config`, of the variable, or the system's.
fn path(arguments: &[String], environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let configured =
        find_option(arguments, "--config").or_else(|| environment.get(VARIABLE).cloned());
    match configured.filter(|path| !path.is_empty()) {
        Some(path) => Some(PathBuf::from(path)),
        None => folder(environment).map(|folder| folder.join("config.yaml")),
    }
}

/// Does the same for this process.
pub(super) fn place() -> Option<PathBuf> {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    path(&arguments.collect::<Vec<_>>(), &crate::config::environment())
}

/// Finds the value of an option before the arguments are parsed: the defaults of all depend on `--config`, and a line
/// that a shell completes is unfinished.
pub(super) fn find_option(arguments: &[String], option: &str) -> Option<String> {
    let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
    while let Some(argument) = arguments.next() {
        if argument == option {
            return arguments.next().cloned();
        }
        if let Some(value) = argument.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value.to_owned());
        }
    }
    None
}

impl BartSettings {
    /// Reads the file; a missing one has no settings.
    pub(super) fn read(path: Option<PathBuf>) -> Result<Self, CliError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let name = path.display().to_string();
        let text = if_there(fs::read_to_string(&path), &path)?.unwrap_or_default();
        parse(&name, &text).map_err(|rejection| {
            CliError::usage(format!("the settings cannot be used: {rejection}"))
                .hint(format!("correct {name}, or set them anew with `bart config set KEY VALUE`"))
        })
    }

    /// Returns the value of that key.
    pub(super) fn get(&self, key: &str) -> Option<String> {
        let settings = serde_json::to_value(self).ok()?;
        settings.get(key)?.as_str().map(str::to_owned)
    }

    /// Returns the command with these settings as the defaults of its arguments.
    pub(super) fn defaults(&self, command: clap::Command) -> clap::Command {
        let values = ["server", "output", "times"].map(|id| Some((id, self.get(id)?)));
        let values = values.into_iter().flatten();
        values.fold(command, |command, (id, value)| with_default(command, id, &value))
    }
}

fn with_default(command: clap::Command, id: &'static str, value: &str) -> clap::Command {
    let is_argument = command.get_arguments().any(|argument| argument.get_id() == id);
    let value = value.to_owned();
    let default = value.clone();
    let set = |argument: clap::Arg| argument.default_value(default);
    let command = if is_argument { command.mut_arg(id, set) } else { command };
    command.mut_subcommands(move |inner| with_default(inner, id, &value))
}

/// Parses the file's text.
fn parse(name: &str, text: &str) -> Result<BartSettings, Rejection> {
    let blank = |line: &str| line.is_empty() || line.starts_with('#') || line == "---";
    if text.lines().map(str::trim).all(blank) {
        return Ok(BartSettings::default());
    }
    checked_reader::read(name, text)
}

/// Returns the text with that key set or removed; everything else stays as people wrote it.
pub(super) fn set_key(text: &str, key: &str, value: Option<&str>) -> String {
    let is_key = |line: &str| {
        let rest = line.strip_prefix(key).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with(':'))
    };
    let line =
        value.map(|value| emit::map(&serde_json::Map::from_iter([(key.to_owned(), value.into())])));
    let mut out = String::new();
    let mut is_set = false;
    for line_text in text.lines() {
        match (is_key(line_text), &line) {
            (false, _) => out.extend([line_text, "\n"]),
            (true, Some(line)) if !is_set => {
                out.push_str(line);
                is_set = true;
            }
            (true, _) => {}
        }
    }
    out.push_str(line.as_deref().filter(|_| !is_set).unwrap_or_default());
    out
}

/// Sets or removes a key in the file; does not write a file that could not be read again.
pub(super) fn change(path: &Path, key: &str, value: Option<&str>) -> CommandOutcome {
    let name = path.display().to_string();
    let old = if_there(fs::read_to_string(path), path)?.unwrap_or_default();
    let new = set_key(&old, key, value);
    parse(&name, &new)
        .map_err(|rejection| CliError::usage(format!("{name} was not changed: {rejection}")))?;
    write_private(path, new.as_bytes())
}

/// Returns the content of a file; `None` if it does not exist.
fn if_there<T>(result: io::Result<T>, path: &Path) -> Result<Option<T>, CliError> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some).map_err(CliError::file("read", path)),
    }
}

/// Returns the folder of `bart`, whether it exists or not: below `XDG_CONFIG_HOME` if that is set, else in the system's
/// place. `None` if no variable names this person's folders.
fn folder(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    folder_on(std::env::consts::OS, environment)
}

fn folder_on(system: &str, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let folder = |name: &str| {
        let text = environment.get(name).filter(|text| !text.is_empty())?;
        Some(PathBuf::from(text))
    };
    // The specification has relative paths ignored (XDG Base Directory, "Basics").
    let configured = folder("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let usual = || match system {
        "macos" => Some(folder("HOME")?.join("Library/Application Support")),
        "windows" => folder("APPDATA"),
        _ => Some(folder("HOME")?.join(".config")),
    };
    configured.or_else(usual).map(|folder| folder.join("bart"))
}

/// Writes a file under another name and renames it, so that no reader sees half of it; makes a missing folder. Only its
/// owner may read it.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> CommandOutcome {
    replace(path, bytes).map_err(CliError::file("write", path))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    make_folder(folder)?;
    let draft = folder.join(format!(".bart-{}", clock::random_digits()));
    let result = create(&draft).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&draft, path)
    });
    if result.is_err() {
        let _nothing_to_keep = fs::remove_file(&draft);
    }
    result
}

#[cfg(unix)]
fn create(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn create(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(unix)]
fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Returns whether other users of this machine may read that file.
#[cfg(unix)]
pub(super) fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

/// Returns whether other users of this machine may read that file; on this system its folder decides that.
#[cfg(not(unix))]
pub(super) fn is_open_to_others(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_its_place() {
        let environment = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let home = environment(&[("HOME", "/home/ada"), ("XDG_CONFIG_HOME", "relative")]);
        for (system, environment, expected) in [
            ("linux", &home, "/home/ada/.config/bart"),
            ("macos", &home, "/home/ada/Library/Application Support/bart"),
            ("linux", &environment(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]), "/x/bart"),
            ("macos", &environment(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]), "/x/bart"),
        ] {
            assert_eq!(folder_on(system, environment), Some(PathBuf::from(expected)), "{system}");
        }
        assert_eq!(folder_on("windows", &environment(&[("HOME", "/h")])), None);
        assert_eq!(folder_on("linux", &environment(&[("HOME", "")])), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_its_owners_and_never_half_written() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/logins.json");
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(!is_open_to_others(&path));
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing is left beside it");
        let message = write_private(&folder.path().join("a"), b"x").unwrap_err().to_string();
        assert!(message.contains("cannot write"), "{message}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_argument_names_the_file_before_the_environment() {
        let environment = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let environment_of_both =
            environment(&[("BART_CONFIG", "env.yaml"), ("XDG_CONFIG_HOME", "/x")]);
        let path = |arguments: &[&str]| path(&texts(arguments), &environment_of_both).unwrap();
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
        let new_text = set_key(text, "server", Some("https://b.example.com"));
        assert_eq!(new_text, "# mine\nserver: https://b.example.com\noutput: json\n");
        assert_eq!(set_key(&new_text, "output", None), "# mine\nserver: https://b.example.com\n");
        assert_eq!(set_key("", "output", Some("yaml")), "output: yaml\n");
        assert_eq!(set_key("outputs: x", "output", None), "outputs: x\n");
    }

    #[test]
    fn what_no_setting_is_is_named_with_its_place() {
        let message = parse("c.yaml", "server: https://x\noutpt: json\n").unwrap_err().to_string();
        assert!(message.contains("outpt"), "{message}");
        assert_eq!(parse("c.yaml", "# nothing\n").unwrap(), BartSettings::default());
        let settings = parse("c.yaml", "output: yaml\nserver: http://127.0.0.1:1\n").unwrap();
        assert_eq!(settings.output, Some(Output::Yaml));
    }

    #[test]
    fn settings_are_the_defaults_of_every_command_that_has_such_an_argument() {
        let settings =
            BartSettings { server: Some("https://d".to_owned()), ..BartSettings::default() };
        let server = || clap::Arg::new("server").long("server").default_value("http://built-in");
        let inner = clap::Command::new("inner").arg(server());
        let command =
            clap::Command::new("bart").subcommand(inner).subcommand(clap::Command::new("other"));
        let command = settings.defaults(command);
        let server_of = |arguments: &[&str]| {
            let matches = command.clone().get_matches_from(arguments);
            let (_, inner) = matches.subcommand().unwrap();
            inner.get_one::<String>("server").cloned().unwrap()
        };
        assert_eq!(server_of(&["bart", "inner"]), "https://d");
        assert_eq!(server_of(&["bart", "inner", "--server", "https://e"]), "https://e");
    }
}
