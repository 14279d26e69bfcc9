//! The environment, files and ports of an app on a developer's machine, as its WAML says for a target. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use secrecy::SecretString;

use crate::cli::secret_store::app_secrets::AppSecret;
use crate::cli::secret_store::contents::{StoredSecret, StoredValue};
use crate::model::id::AppKey;
use crate::templates::view::network::app_ports;
use crate::waml::section::Section;
use crate::waml::section_network::Protocol;
use crate::waml::section_workload::{ConfigMapSource, EnvVar};

/// A variable of the process.
#[derive(Clone)]
pub(super) struct RunVariable {
    pub(super) name: String,
    pub(super) value: SecretString,
    /// The origin, for people: `the WAML`, `secret db/password`.
    pub(super) origin: String,
}

/// A variable, or a source of several, that has no value on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MissingValue {
    pub(super) name: String,
    pub(super) reason: String,
}

/// A file of the app.
#[derive(Clone)]
pub(super) struct RunFile {
    /// The name of its volume or secret, by which sidecars mount it.
    pub(super) volume: String,
    /// The folder in the container.
    pub(super) folder: String,
    pub(super) name: String,
    pub(super) content: Vec<u8>,
    pub(super) is_secret: bool,
}

/// A port that a container listens on; it shows itself as `--publish` takes it: `8000`, `5353/udp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunPort {
    pub(super) number: u16,
    pub(super) protocol: Protocol,
}

impl fmt::Display for RunPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, protocol } = self;
        match protocol {
            Protocol::Tcp => write!(f, "{number}"),
            Protocol::Udp => write!(f, "{number}/udp"),
        }
    }
}

/// Everything that a process gets.
#[derive(Default)]
pub(super) struct RunPlan {
    /// By name; each once.
    pub(super) variables: Vec<RunVariable>,
    pub(super) missing: Vec<MissingValue>,
    pub(super) files: Vec<RunFile>,
    /// The ports that the app listens on.
    pub(super) ports: BTreeSet<RunPort>,
}

/// The sources of values beside the WAML; a later one wins: secrets, dependencies, files, arguments.
#[derive(Default)]
pub(super) struct RunSources {
    /// Secrets by name, as the store has them.
    pub(super) secrets: BTreeMap<String, StoredSecret>,
    /// Variables of dependencies that run beside the app.
    pub(super) dependencies: Vec<(String, SecretString)>,
    /// Variables of env files, with the file.
    pub(super) env_files: Vec<(String, SecretString, String)>,
    /// Variables of arguments.
    pub(super) overrides: Vec<(String, SecretString)>,
}

impl RunSources {
    fn given_names(&self) -> BTreeSet<&str> {
        let files = self.env_files.iter().map(|(name, ..)| name.as_str());
        files.chain(self.overrides.iter().map(|(name, _)| name.as_str())).collect()
    }
}

/// Returns the secrets that variables of these containers and whole secrets need, and that no file or argument has
/// already.
pub(super) fn needed_secrets<'a>(
    variables: impl Iterator<Item = &'a EnvVar>,
    secrets: &'a [AppSecret],
    sources: &RunSources,
) -> Vec<&'a AppSecret> {
    let given = sources.given_names();
    let used: BTreeSet<&str> = variables
        .filter(|variable| !given.contains(variable.name.as_str()))
        .filter_map(|variable| variable.secret.as_ref().map(|from| from.name.as_str()))
        .collect();
    secrets.iter().filter(|secret| secret.whole || used.contains(secret.name.as_str())).collect()
}

/// Makes the plan.
pub(super) fn plan(
    section: &Section,
    app: &AppKey,
    secrets: &[AppSecret],
    sources: &RunSources,
) -> RunPlan {
    let mut variables = VariableSet::default();
    let mut plan = RunPlan::default();
    for config_map in section.config_maps.iter().flatten() {
        variables.add_config_map(config_map);
    }
    for secret in secrets.iter().filter(|secret| secret.whole) {
        let values = sources.secrets.get(&secret.name).map(|stored| &stored.values);
        let Some(values) = values.filter(|values| !values.is_empty()) else {
            variables.miss_secret(secret);
            continue;
        };
        for (key, value) in values {
            match &secret.folder {
                Some(folder) => plan.files.push(RunFile {
                    volume: secret.name.clone(),
                    folder: folder.clone(),
                    name: key.clone(),
                    content: value.expose().to_vec(),
                    is_secret: true,
                }),
                None => variables.add_secret(key, &secret.name, key, value),
            }
        }
    }
    for variable in section.env.iter().flatten() {
        variables.add(variable, app, sources);
    }
    for (name, value) in &sources.dependencies {
        variables.set(name, value.clone(), "a dependency");
    }
    variables.add_given(sources, |_| true);
    for volume in section.volumes.iter().flatten() {
        let files = volume.files.iter().flatten();
        for (name, content) in files {
            if let (Some(folder), Some(content)) = (&volume.mount_path, content) {
                plan.files.push(RunFile {
                    volume: volume.name.clone(),
                    folder: folder.clone(),
                    name: name.clone(),
                    content: content.clone().into_bytes(),
                    is_secret: false,
                });
            }
        }
    }
    let ports = app_ports(section, app.slug.as_str()).into_iter();
    plan.ports =
        ports.map(|port| RunPort { number: port.target, protocol: port.protocol }).collect();
    (plan.variables, plan.missing) = variables.finish();
    plan
}

/// The variables of a container while they are collected: each has a value with its origin, or a reason why not.
#[derive(Default)]
pub(super) struct VariableSet {
    values: BTreeMap<String, (SecretString, String)>,
    missing: BTreeMap<String, String>,
}

impl VariableSet {
    /// Makes a set of variables that have values.
    pub(super) fn of(variables: &[RunVariable]) -> Self {
        let mut set = Self::default();
        for RunVariable { name, value, origin } in variables {
            set.set(name, value.clone(), origin);
        }
        set
    }

    fn set(&mut self, name: &str, value: SecretString, origin: &str) {
        self.missing.remove(name);
        self.values.insert(name.to_owned(), (value, origin.to_owned()));
    }

    fn miss(&mut self, name: &str, reason: String) {
        self.values.remove(name);
        self.missing.insert(name.to_owned(), reason);
    }

    /// Adds a variable of the WAML, or the reason why it has no value here.
    pub(super) fn add(&mut self, variable: &EnvVar, app: &AppKey, sources: &RunSources) {
        let EnvVar { name, value, secret, config_map, field, resource, plain: _ } = variable;
        let reason = if let Some(value) = value {
            return self.set(name, value.as_str().into(), "the WAML");
        } else if let Some(from) = secret {
            let stored = sources.secrets.get(&from.name);
            if let Some(value) = stored.and_then(|stored| stored.values.get(&from.key)) {
                return self.add_secret(name, &from.name, &from.key, value);
            }
            format!("there is no secret {}/{}", from.name, from.key)
        } else if let Some(from) = config_map {
            format!("the ConfigMap {} is in the cluster", from.name)
        } else if let Some(field) = field {
            let known_field = match field.as_str() {
                "metadata.name" => Some(app.slug.to_string()),
                "metadata.namespace" => Some(app.namespace.to_string()),
                "status.podIP" | "status.hostIP" => Some("127.0.0.1".to_owned()),
                _ => None,
            };
            if let Some(value) = known_field {
                return self.set(name, value.into(), &format!("in place of {field}"));
            }
            format!("{field} is a field of a pod")
        } else if let Some(resource) = resource {
            format!("{resource} is an amount of a container")
        } else {
            return;
        };
        self.miss(name, reason);
    }

    fn add_secret(&mut self, name: &str, secret: &str, key: &str, value: &StoredValue) {
        match value.expose_text().filter(|text| !text.contains('\0')) {
            Some(text) => self.set(name, text.into(), &format!("secret {secret}/{key}")),
            None => self.miss(name, format!("the secret {secret}/{key} is no text")),
        }
    }

    /// Adds the reason why no variable of a `ConfigMap` is here: which keys it has is known in the cluster alone.
    fn add_config_map(&mut self, config_map: &ConfigMapSource) {
        let ConfigMapSource { name, optional } = config_map;
        let mut reason = "it is in the cluster, and each of its keys is a variable".to_owned();
        reason += if optional.unwrap_or_default() { "; the app starts without it" } else { "" };
        self.missing.insert(format!("the ConfigMap {name}"), reason);
    }

    /// Adds the reason why no key of a secret is here.
    fn miss_secret(&mut self, secret: &AppSecret) {
        let AppSecret { name, folder, optional, .. } = secret;
        let mut reason = match folder {
            Some(folder) => format!("its keys are files in {folder}, and none was read"),
            None => "each of its keys is a variable, and none was read".to_owned(),
        };
        reason += if *optional { "; the app starts without it" } else { "" };
        self.missing.insert(format!("the secret {name}"), reason);
    }

    /// Adds the values of env files, then those of arguments.
    pub(super) fn add_given(&mut self, sources: &RunSources, is_wanted: impl Fn(&str) -> bool) {
        let RunSources { env_files, overrides, .. } = sources;
        for (name, value, file) in env_files.iter().filter(|(name, ..)| is_wanted(name)) {
            self.set(name, value.clone(), file);
        }
        for (name, value) in overrides.iter().filter(|(name, _)| is_wanted(name)) {
            self.set(name, value.clone(), "the command line");
        }
    }

    /// Returns the variables by name, and what has no value.
    pub(super) fn finish(self) -> (Vec<RunVariable>, Vec<MissingValue>) {
        let Self { values, missing } = self;
        let variable = |(name, (value, origin))| RunVariable { name, value, origin };
        let missing = missing.into_iter().map(|(name, reason)| MissingValue { name, reason });
        (values.into_iter().map(variable).collect(), missing.collect())
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::cli::secret_store::app_secrets::app_secrets;

    const SECTION: &str = "
env:
- {name: MODE, value: slow}
- {name: PASSWORD, secret: {name: db, key: password}}
- {name: LOST, secret: {name: db, key: lost}}
- {name: NAME, field: metadata.name}
- {name: NODE, field: spec.nodeName}
- {name: CM, configMap: {name: c, key: k}}
- {name: MEMORY, resource: limits.memory}
configMaps: [{name: flags}, {name: tuning, optional: true}]
secrets: [{name: all}]
ports: [{name: dns, number: 5353, protocol: UDP}, {name: dns-tcp, number: 5353}]
volumes: [{name: conf, mountPath: /etc/app, files: {app.toml: 'a = 1'}}]
service: [{ports: [{name: http, number: 80, targetPort: 8000}]}]
";

    #[test]
    fn each_variable_has_a_value_and_an_origin_or_a_reason_why_not() {
        let section: Section = serde_yaml::from_str(SECTION).unwrap();
        let app = AppKey { namespace: "n".parse().unwrap(), slug: "shop".parse().unwrap() };
        let secrets = app_secrets(&section, &app);
        let sources = || RunSources {
            env_files: vec![("PASSWORD".to_owned(), "mine".into(), ".env".to_owned())],
            overrides: vec![("MODE".to_owned(), "fast".into()), ("EXTRA".to_owned(), "1".into())],
            ..RunSources::default()
        };
        let plan = plan(&section, &app, &secrets, &sources());
        let values: Vec<_> = plan
            .variables
            .iter()
            .map(|one| (one.name.as_str(), one.value.expose_secret(), one.origin.as_str()))
            .collect();
        assert_eq!(
            values,
            [
                ("EXTRA", "1", "the command line"),
                ("MODE", "fast", "the command line"),
                ("NAME", "shop", "in place of metadata.name"),
                ("PASSWORD", "mine", ".env"),
            ]
        );
        let missing: Vec<_> = plan.missing.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            missing,
            [
                "CM",
                "LOST",
                "MEMORY",
                "NODE",
                "the ConfigMap flags",
                "the ConfigMap tuning",
                "the secret all"
            ]
        );
        assert!(plan.missing[5].reason.ends_with("the app starts without it"));
        let ports: Vec<_> = plan.ports.iter().map(ToString::to_string).collect();
        assert_eq!((ports.join(" ").as_str(), plan.files.len()), ("5353 5353/udp 8000", 1));
        let needed = |sources: &RunSources| -> Vec<String> {
            let variables = section.env.iter().flatten();
            let needed = needed_secrets(variables, &secrets, sources).into_iter();
            needed.map(|secret| secret.name.clone()).collect()
        };
        assert_eq!(needed(&sources()), ["all", "db"], "one key is missing");
        let mut whole = sources();
        whole.overrides.push(("LOST".to_owned(), "x".into()));
        assert_eq!(needed(&whole), ["all"], "the store is not asked for db");
    }
}
