//! The settings: one YAML file, `THE_DEPLOYER_*` variables over it, defaults under it.
//!
//! ```text
//! file ─ waml::yaml ─▶ Node ◀─ variables    (every value with its place)
//!                        │ the file's JSON Schema
//!                        ▼
//!                      File ─ Resolver ─▶ Settings | every violation at once
//! ```
//! Each area has one file: its types as an operator writes them, its types as the program uses them (`…Settings` if
//! both would have one name), the conversion from the former to the latter, and its tests. Begin with `settings`, which
//! has the whole, then [`SettingsSources`], which loads it. Only [`environment`] reads the environment; everything else
//! is an argument.

pub mod settings; // the whole: the file, and the settings made from it

pub mod server; // the listener and the public address
pub mod storage; // the database and the data folder
pub mod limits; // limits
pub mod auth; // authentication of callers
pub mod forge; // the code host and its credentials
pub mod webhook; // the filter of its events
pub mod waml; // the developers' file
pub mod templates; // the source of templates
pub mod manifests; // manifest repositories
pub mod access; // credentials of git repositories
pub mod ssh; // the same over ssh: keys and known hosts
pub mod signing; // signatures of commits
pub mod clusters; // the targets
pub mod fleets; // sets of clusters that are one target
pub mod kubernetes; // the connections to their API servers
pub mod cluster_agent; // the agents of those that the service does not reach
pub mod argocd; // the targets in Argo CD, and its notification of pushes
pub mod lookups; // registries and secret stores
pub mod gates; // the servers that the gates of rollouts ask
pub mod outbound; // proxy and certificates of outgoing HTTP
pub mod slack; // Slack messages
pub mod event_webhooks; // webhooks with events
pub mod bigquery; // rows of deployments that have ended
pub mod credential; // a secret as the file names it
pub mod secret; // secrets in files and variables

mod policies; // policies of a target
mod resolver; // from the file to settings, shared parts
mod redact; // masks secrets
mod offline; // settings of commands that need no service
mod report; // violations at the place of a value
mod variables; // THE_DEPLOYER_*

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::config::report::ConfigReport;
use crate::config::resolver::{Purpose, Resolver};
use crate::config::settings::{File, Settings};
use crate::config::storage::StorageSettings;
use crate::model::violation::{Position, Rejection, Severity, Violation, sort};
use crate::waml::checked_reader::Reader;
use crate::waml::node::{Map, Node, Origin, Path as Way, Value};
use crate::waml::yaml::{self, Budget};

/// The default storage folder.
pub const HOME: &str = ".the-deployer";

/// The sources of the settings. Not printable: variables hold secrets.
#[derive(Clone)]
pub struct SettingsSources {
    /// The file's name and text, if there is a file.
    pub file: Option<(String, String)>,
    /// The environment.
    pub variables: BTreeMap<String, String>,
    /// The default storage folder.
    pub home: PathBuf,
}

/// The settings, with warnings.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The settings.
    pub settings: Settings,
    /// Violations that do not stop the service.
    pub warnings: Vec<Violation>,
}

/// An error for a file that cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("the configuration {path} cannot be read: {source}")]
pub struct ConfigFileError {
    /// The file.
    pub path: PathBuf,
    /// The error of the system.
    pub source: std::io::Error,
}

/// Returns the environment of this process: the one place that reads it. Values that are not UTF-8 are left out.
pub fn environment() -> BTreeMap<String, String> {
    let texts = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(texts).collect()
}

/// Returns the file's JSON Schema, for `config schema` and editors.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(File)
}

impl SettingsSources {
    /// Reads the file, if one is named.
    ///
    /// # Errors
    /// [`ConfigFileError`]
    pub fn read(
        path: Option<&Path>,
        variables: BTreeMap<String, String>,
    ) -> Result<Self, ConfigFileError> {
        let file = path.map(|path| Ok((path.display().to_string(), text_of(path)?)));
        let file = file.transpose().map_err(|(path, source)| ConfigFileError { path, source })?;
        Ok(Self { file, variables, home: HOME.into() })
    }

    /// Makes the settings from these sources.
    ///
    /// # Errors
    /// Every violation, warnings too, in the order of the file.
    pub fn load(&self) -> Result<LoadedConfig, Rejection> {
        self.load_for(Purpose::Serve)
    }

    fn load_for(&self, purpose: Purpose) -> Result<LoadedConfig, Rejection> {
        let mut violations = Vec::new();
        let settings = self.settings(purpose, &mut violations);
        let stops = violations.iter().any(|violation| violation.severity == Severity::Error);
        sort(&mut violations);
        match settings {
            Some(settings) if !stops => Ok(LoadedConfig { settings, warnings: violations }),
            _ => Err(Rejection { violations }),
        }
    }

    /// Makes the settings for acts on the database: `storage` and `clusters` are the configuration's, and no secret is
    /// read.
    ///
    /// # Errors
    /// As [`SettingsSources::load`].
    pub fn load_for_record(&self) -> Result<LoadedConfig, Rejection> {
        self.load_for(Purpose::Record)
    }

    /// Makes the settings for a rebuild: secrets are read for the code host and the manifest repositories only.
    ///
    /// # Errors
    /// As [`SettingsSources::load`].
    pub fn load_for_rebuild(&self) -> Result<LoadedConfig, Rejection> {
        self.load_for(Purpose::Rebuild)
    }

    /// Makes the settings of the part `storage` alone, whatever the rest is like: it may be of a newer version.
    ///
    /// # Errors
    /// Every violation of that part.
    pub fn load_storage(&self) -> Result<StorageSettings, Rejection> {
        let mut violations = Vec::new();
        let storage = self.storage(&mut violations);
        match (storage, Rejection::of(violations)) {
            (Some(storage), None) => Ok(storage),
            (_, rejection) => Err(rejection.unwrap_or(Rejection { violations: Vec::new() })),
        }
    }

    fn storage(&self, violations: &mut Vec<Violation>) -> Option<StorageSettings> {
        let mut root = self.root(violations)?;
        if let Value::Map(map) = &mut root.value {
            map.retain(|name, _| name == "storage");
        }
        let is_of_it = |name: &str| name.starts_with("THE_DEPLOYER_STORAGE_");
        let variables = self.variables.iter().filter(|(name, _)| is_of_it(name));
        let variables = variables.map(|(name, value)| (name.clone(), value.clone())).collect();
        let File { storage, .. } = read_file(&mut root, &variables, violations)?;
        let report = ConfigReport::new(&root);
        let (variables, home) = (&self.variables, &self.home);
        let mut resolver = Resolver { report, variables, home, purpose: Purpose::Record };
        let storage = resolver.storage(storage.unwrap_or_default());
        violations.append(&mut resolver.report.violations);
        Some(storage)
    }

    /// Returns the texts that violations point into, by name: the file, and the `THE_DEPLOYER_*` variables. Possible
    /// secrets are starred or left out.
    pub fn texts(&self) -> Vec<(String, String)> {
        let file =
            self.file.iter().map(|(name, text)| (name.clone(), redact::mask_secrets(name, text)));
        file.chain(variables::texts(&self.variables)).collect()
    }

    fn root(&self, violations: &mut Vec<Violation>) -> Option<Node> {
        match &self.file {
            Some((name, text)) if !is_blank(text) => {
                yaml::parse(name, text.as_bytes(), &Budget::default(), violations)
            }
            Some((name, _)) => Some(empty_file(name)),
            None => Some(empty_file("")),
        }
    }

    fn settings(&self, purpose: Purpose, violations: &mut Vec<Violation>) -> Option<Settings> {
        let mut root = self.root(violations)?;
        let file = read_file(&mut root, &self.variables, violations)?;
        let report = ConfigReport::new(&root);
        let (variables, home) = (&self.variables, &self.home);
        let mut resolver = Resolver { report, variables, home, purpose };
        let settings = resolver.settings(purpose.reduce(file));
        violations.append(&mut resolver.report.violations);
        settings
    }
}

/// Parses the file with the variables over it, by its schema.
fn read_file(
    root: &mut Node,
    variables: &BTreeMap<String, String>,
    violations: &mut Vec<Violation>,
) -> Option<File> {
    variables::overlay(root, &schema(), variables, violations);
    redact::refuse_plain_secrets(root, violations);
    let json = Reader::<File>::new().check(root, &Way::root(), violations)?;
    Some(readable_parts(json, root, violations))
}

/// Parses the file without its broken parts, so that the others can be checked.
fn readable_parts(json: Json, root: &mut Node, violations: &mut Vec<Violation>) -> File {
    let Json::Object(mut parts) = json else { return File::default() };
    parts.retain(|name, part| {
        let alone = serde_json::json!({name.as_str(): part});
        let Err(error) = serde_json::from_value::<File>(alone) else { return true };
        // A missing or wrong value is reported at its place, unless none has been reported.
        if violations.is_empty() {
            let message = format!("`{name}` cannot be read: {error}");
            violations.push(Violation::error(report::RULE, message).at(name.as_str(), None));
        }
        if let Value::Map(map) = &mut root.value
            && let Some(entry) = map.get_mut(name)
        {
            entry.node.broken = true;
        }
        false
    });
    serde_json::from_value(Json::Object(parts)).unwrap_or_default()
}

/// Reads at most one byte more than the limit, so that the parser can report that it is too much.
fn text_of(path: &Path) -> Result<String, (PathBuf, std::io::Error)> {
    let most = Budget::default().bytes as u64 + 1;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(most).read_to_string(&mut text))
        .map_err(|source| (path.to_owned(), source))?;
    Ok(text)
}

/// Returns whether the text has only comments: all values are defaults.
fn is_blank(text: &str) -> bool {
    let blank = |line: &str| line.is_empty() || line.starts_with('#') || line == "---";
    text.lines().map(str::trim).all(blank)
}

/// Makes an empty file.
fn empty_file(name: &str) -> Node {
    let file: Arc<str> = name.into();
    let position = Position { file: file.clone(), line: 1, column: 1, length: 1 };
    Node::new(Value::Map(Map::new()), Origin { position, layer: file })
}

#[cfg(test)]
mod tests;
