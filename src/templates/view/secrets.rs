//! The secrets that an app needs, and the parts of them that its pods mount.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::model::id::{AppKey, is_rfc1123_label};
use crate::model::platform::secrets::{Delivery, Vault};
use crate::templates::view::{naming, without_nulls};
use crate::waml::section::Section;
use crate::waml::section_workload::Secret;

/// A secret that an app needs, wherever its WAML says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NeededSecret<'a> {
    /// The name of the Kubernetes Secret, where there is one.
    pub(crate) name: &'a str,
    /// The path in the store that it is delivered from.
    pub(crate) path: String,
    /// The folder for its keys, as the WAML has it.
    pub(crate) folder: Option<&'a str>,
    /// True if all of it is wanted; else only `keys`, which variables refer to.
    pub(crate) whole: bool,
    /// The keys that variables refer to.
    pub(crate) keys: BTreeSet<&'a str>,
}

/// Collects every secret once: those under `secrets`, then those that only variables refer to.
pub(crate) fn collect_secrets<'a>(section: &'a Section, app: &AppKey) -> Vec<NeededSecret<'a>> {
    let declared = section.secrets.iter().flatten().map(|secret| NeededSecret {
        name: &secret.name,
        path: secret.path.clone().unwrap_or_else(|| Vault::path_of(app, &secret.name)),
        folder: secret.mount_path.as_deref(),
        whole: true,
        keys: BTreeSet::new(),
    });
    let mut needed: Vec<NeededSecret<'a>> = declared.collect();
    for from in section.variables().filter_map(|(_, variable)| variable.secret.as_ref()) {
        match needed.iter_mut().find(|secret| secret.name == from.name) {
            Some(secret) => drop(secret.keys.insert(&from.key)),
            None => needed.push(NeededSecret {
                name: &from.name,
                path: Vault::path_of(app, &from.name),
                folder: None,
                whole: false,
                keys: BTreeSet::from([from.key.as_str()]),
            }),
        }
    }
    needed
}

/// Shows the secrets that the pod mounts or takes its environment from; null where the Vault agent brings files.
pub(super) fn of_the_pod(section: &Section, delivery: Delivery) -> Json {
    match (delivery, section.secrets.as_deref()) {
        (Delivery::VaultAgent, _) | (_, None) => Json::Null,
        (
            Delivery::Kubernetes | Delivery::ExternalSecrets | Delivery::VaultSecretsOperator,
            Some(secrets),
        ) => secrets.iter().map(with_volume).collect(),
    }
}

/// Shows a secret with `volume`, the name of the volume that a mounted secret becomes.
fn with_volume(secret: &Secret) -> Json {
    let mut view = without_nulls(json!(secret));
    if let Some(map) = view.as_object_mut() {
        map.insert("volume".to_owned(), volume_name(&secret.name).into());
    }
    view
}

/// Names the volume that a mounted secret becomes.
pub(crate) fn volume_name(secret: &str) -> String {
    short(secret, 63)
}

/// Shortens a Secret's name, which may be longer than a volume's, and have dots; then a part of its
/// hash keeps two of them apart.
pub(super) fn short(secret: &str, longest: usize) -> String {
    let plain = format!("secret-{secret}");
    if plain.len() <= longest && is_rfc1123_label(&plain) {
        return plain;
    }
    let start: String = plain.replace('.', "-").chars().take(longest - 13).collect();
    format!("{}-{}", start.trim_end_matches('-'), naming::hash(secret, 8))
}
