//! The environment, files and ports of an app on a developer's machine, as its WAML says for a target. Pure.

use std::collections::{BTreeMap, BTreeSet};

use secrecy::SecretString;

use crate::cli::secret_store::app_secrets::AppSecret;
use crate::cli::secret_store::contents::{StoredSecret, StoredValue};
use crate::model::id::AppKey;
use crate::templates::view::network::app_ports;
use crate::waml::section::Section;
use crate::waml::section_workload::EnvVar;

/// A variable of the process.
pub(super) struct RunVariable {
    pub(super) name: String,
    pub(super) value: SecretString,
    /// The origin, for people: `the WAML`, `secret db/password`.
    pub(super) origin: String,
}

/// A variable that has no value on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MissingVariable {
    pub(super) name: String,
    pub(super) reason: String,
}

/// A file of the app.
pub(super) struct RunFile {
    /// The folder in the container.
    pub(super) folder: String,
    pub(super) name: String,
    pub(super) content: Vec<u8>,
    pub(super) is_secret: bool,
}

/// Everything that a process gets.
#[derive(Default)]
pub(super) struct RunPlan {
    /// By name; each once.
    pub(super) variables: Vec<RunVariable>,
    pub(super) missing: Vec<MissingVariable>,
    pub(super) files: Vec<RunFile>,
    /// The ports that the app listens on.
    pub(super) ports: BTreeSet<u16>,
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

/// Returns the secrets that the app's own container needs and that no file or argument has already.
pub(super) fn needed_secrets<'a>(
    section: &Section,
    secrets: &'a [AppSecret],
    sources: &RunSources,
) -> Vec<&'a AppSecret> {
    let given = sources.given_names();
    let variables = section.env.iter().flatten();
    let used: BTreeSet<&str> = variables
        .filter(|variable| !given.contains(variable.name.as_str()))
        .filter_map(|variable| variable.secret.as_ref().map(|from| from.name.as_str()))
        .collect();
    secrets.iter().filter(|secret| secret.whole || used.contains(secret.name.as_str())).collect()
}

impl RunSources {
    fn given_names(&self) -> BTreeSet<&str> {
        let files = self.env_files.iter().map(|(name, ..)| name.as_str());
        files.chain(self.overrides.iter().map(|(name, _)| name.as_str())).collect()
    }
}

/// Makes the plan.
pub(super) fn plan(
    section: &Section,
    app: &AppKey,
    secrets: &[AppSecret],
    sources: RunSources,
) -> RunPlan {
    let mut values: BTreeMap<String, (SecretString, String)> = BTreeMap::new();
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let mut plan = RunPlan::default();
    for secret in secrets.iter().filter(|secret| secret.whole) {
        let Some(stored) = sources.secrets.get(&secret.name) else { continue };
        for (key, value) in &stored.values {
            match &secret.folder {
                Some(folder) => plan.files.push(RunFile {
                    folder: folder.clone(),
                    name: key.clone(),
                    content: value.expose().to_vec(),
                    is_secret: true,
                }),
                None => add_secret(&mut values, &mut missing, key, &secret.name, key, value),
            }
        }
    }
    for variable in section.env.iter().flatten() {
        add_variable(variable, app, &sources, &mut values, &mut missing);
    }
    for (name, value) in sources.dependencies {
        values.insert(name, (value, "a dependency".to_owned()));
    }
    for (name, value, file) in sources.env_files {
        values.insert(name, (value, file));
    }
    for (name, value) in sources.overrides {
        values.insert(name, (value, "the command line".to_owned()));
    }
    for volume in section.volumes.iter().flatten() {
        let files = volume.files.iter().flatten();
        for (name, content) in files {
            if let (Some(folder), Some(content)) = (&volume.mount_path, content) {
                plan.files.push(RunFile {
                    folder: folder.clone(),
                    name: name.clone(),
                    content: content.clone().into_bytes(),
                    is_secret: false,
                });
            }
        }
    }
    plan.ports = app_ports(section, app.slug.as_str()).iter().map(|port| port.target).collect();
    missing.retain(|name, _| !values.contains_key(name));
    plan.missing =
        missing.into_iter().map(|(name, reason)| MissingVariable { name, reason }).collect();
    plan.variables = values
        .into_iter()
        .map(|(name, (value, origin))| RunVariable { name, value, origin })
        .collect();
    plan
}

/// Adds a variable of the WAML, or the reason why it has no value here.
fn add_variable(
    variable: &EnvVar,
    app: &AppKey,
    sources: &RunSources,
    values: &mut BTreeMap<String, (SecretString, String)>,
    missing: &mut BTreeMap<String, String>,
) {
    let EnvVar { name, value, secret, config_map, field, resource, plain: _ } = variable;
    let reason = if let Some(value) = value {
        values.insert(name.clone(), (value.as_str().into(), "the WAML".to_owned()));
        return;
    } else if let Some(from) = secret {
        let stored = sources.secrets.get(&from.name);
        if let Some(value) = stored.and_then(|stored| stored.values.get(&from.key)) {
            return add_secret(values, missing, name, &from.name, &from.key, value);
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
            values.insert(name.clone(), (value.into(), format!("in place of {field}")));
            return;
        }
        format!("{field} is a field of a pod")
    } else if let Some(resource) = resource {
        format!("{resource} is an amount of a container")
    } else {
        return;
    };
    missing.insert(name.clone(), reason);
}

fn add_secret(
    values: &mut BTreeMap<String, (SecretString, String)>,
    missing: &mut BTreeMap<String, String>,
    name: &str,
    secret: &str,
    key: &str,
    value: &StoredValue,
) {
    match value.expose_text().filter(|text| !text.contains('\0')) {
        Some(text) => {
            values.insert(name.to_owned(), (text.into(), format!("secret {secret}/{key}")));
        }
        None => {
            missing.insert(name.to_owned(), format!("the secret {secret}/{key} is no text"));
        }
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
        let plan = plan(&section, &app, &secrets, sources());
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
        assert_eq!(missing, ["CM", "LOST", "MEMORY", "NODE"]);
        assert_eq!((plan.ports, plan.files.len()), ([8000].into(), 1));
        assert_eq!(needed_secrets(&section, &secrets, &sources()).len(), 1, "one key is missing");
        let mut whole = sources();
        whole.overrides.push(("LOST".to_owned(), "x".into()));
        assert!(needed_secrets(&section, &secrets, &whole).is_empty(), "the store is not asked");
    }
}
