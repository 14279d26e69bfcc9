//! The secrets and keys that an app wants on a target, by its WAML, and the rows of `bart secrets list`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::contents::SecretState;
use crate::model::id::AppKey;
use crate::templates::view::secrets::collect_secrets;
use crate::waml::section::Section;
use crate::waml::section_workload::EnvVar;

/// A secret that an app wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct AppSecret {
    pub(in crate::cli) name: String,
    /// The path in a store that has paths.
    pub(in crate::cli) path: String,
    /// True if all of its keys are wanted.
    pub(in crate::cli) whole: bool,
    /// The keys that variables refer to, each with the names of the variables.
    pub(in crate::cli) keys: BTreeMap<String, BTreeSet<String>>,
    /// The folder in which the keys are files; `None` for variables.
    pub(in crate::cli) folder: Option<String>,
    /// True if the app starts without it.
    pub(in crate::cli) optional: bool,
}

/// A row of the list; stable for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct SecretRow {
    pub(in crate::cli) secret: String,
    /// The key; null for a secret that is wanted whole and is not there.
    pub(in crate::cli) key: Option<String>,
    /// True if the WAML wants it.
    pub(in crate::cli) wanted: bool,
    pub(in crate::cli) optional: bool,
    /// The variables that have its value.
    pub(in crate::cli) variables: BTreeSet<String>,
    /// The file that has its value.
    pub(in crate::cli) file: Option<String>,
    pub(in crate::cli) exists: bool,
    /// The version of the secret.
    pub(in crate::cli) version: Option<String>,
    /// The time of that version.
    pub(in crate::cli) since: Option<Timestamp>,
    /// The value, where it was to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) value: Option<String>,
}

/// Collects the secrets that the app's section wants, of all its containers.
pub(in crate::cli) fn app_secrets(section: &Section, app: &AppKey) -> Vec<AppSecret> {
    let mut variables: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for (_, EnvVar { name, secret, .. }) in section.variables() {
        if let Some(from) = secret {
            variables.entry((&from.name, &from.key)).or_default().insert(name.clone());
        }
    }
    let is_optional = |name: &str| {
        let declared = section.secrets.iter().flatten().find(|secret| secret.name == name);
        declared.and_then(|secret| secret.optional).unwrap_or(false)
    };
    let needed = collect_secrets(section, app).into_iter();
    let secret = |needed: crate::templates::view::secrets::NeededSecret<'_>| AppSecret {
        name: needed.name.to_owned(),
        optional: is_optional(needed.name),
        keys: needed
            .keys
            .iter()
            .map(|key| {
                let names = variables.get(&(needed.name, key)).cloned().unwrap_or_default();
                ((*key).to_owned(), names)
            })
            .collect(),
        whole: needed.whole,
        folder: needed.folder.map(str::to_owned),
        path: needed.path,
    };
    needed.map(secret).collect()
}

impl AppSecret {
    /// Returns the keys that are wanted; `None` for all.
    pub(in crate::cli) fn wanted_keys(&self) -> Option<BTreeSet<String>> {
        (!self.whole).then(|| self.keys.keys().cloned().collect())
    }

    /// Returns the rows of this secret: each key that is wanted or there.
    pub(in crate::cli) fn rows(&self, state: &SecretState) -> Vec<SecretRow> {
        let mut keys: BTreeSet<&String> = self.keys.keys().collect();
        keys.extend(&state.keys);
        let row = |key: Option<&String>| {
            let is_there = key.map_or(state.exists, |key| state.keys.contains(key));
            let variables = key.and_then(|key| self.keys.get(key)).cloned().unwrap_or_default();
            let file = self.folder.as_ref().zip(key).map(|(folder, key)| format!("{folder}/{key}"));
            SecretRow {
                secret: self.name.clone(),
                key: key.cloned(),
                wanted: self.whole || key.is_some_and(|key| self.keys.contains_key(key)),
                optional: self.optional,
                variables: match key {
                    // Without a folder, each key of a whole secret is a variable of its name.
                    Some(key) if self.whole && self.folder.is_none() => {
                        variables.into_iter().chain([key.clone()]).collect()
                    }
                    _ => variables,
                },
                file,
                exists: is_there,
                version: state.version.clone().filter(|_| is_there),
                since: state.since.filter(|_| is_there),
                value: None,
            }
        };
        if keys.is_empty() {
            vec![row(None)]
        } else {
            keys.into_iter().map(|key| row(Some(key))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(yaml: &str) -> Section {
        serde_yaml::from_str(yaml).unwrap()
    }

    #[test]
    fn each_key_that_is_wanted_or_there_is_a_row() {
        let app: AppKey = AppKey { namespace: "n".parse().unwrap(), slug: "a".parse().unwrap() };
        let section = section(
            "secrets: [{name: tls, mountPath: /tls, optional: true}, {name: all}]\nenv: [{name: PASSWORD, secret: {name: db, key: password}}]",
        );
        let secrets = app_secrets(&section, &app);
        let names: Vec<_> =
            secrets.iter().map(|one| (one.name.as_str(), one.path.as_str(), one.whole)).collect();
        assert_eq!(
            names,
            [("tls", "n/a/tls", true), ("all", "n/a/all", true), ("db", "n/a/db", false)]
        );
        let state = SecretState {
            exists: true,
            keys: ["old".to_owned()].into(),
            version: Some("3".to_owned()),
            since: None,
        };
        let rows = secrets[2].rows(&state);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (row.key.as_deref(), row.wanted, row.exists, row.version.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [(Some("old"), false, true, Some("3")), (Some("password"), true, false, None)]
        );
        assert_eq!(rows[1].variables, ["PASSWORD".to_owned()].into());
        let rows = secrets[0].rows(&SecretState::default());
        assert_eq!(
            (rows.len(), rows[0].key.as_ref(), rows[0].exists, rows[0].optional),
            (1, None, false, true)
        );
        assert_eq!(secrets[0].rows(&state)[0].file.as_deref(), Some("/tls/old"));
        assert_eq!(secrets[1].rows(&state)[0].variables, ["old".to_owned()].into());
    }
}
