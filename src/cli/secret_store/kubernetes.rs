//! Secrets of a cluster, with a person's kubeconfig. A write carries the `resourceVersion` that was read.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};

use super::contents::{SecretState, StoredSecret, StoredValue, WriteBase};
use super::vault::conflict;
use crate::cli::error::CliError;
use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::secret_objects::{
    SecretObjectError, SecretObjectKind, create_secret, get_object, replace_secret,
};
use crate::model::id::Namespace;

/// The Secrets of a namespace.
pub(super) struct KubernetesSecrets {
    pub(super) connection: ClusterConnection,
    /// The name of the kubeconfig's context, for errors.
    pub(super) context: String,
    pub(super) namespace: Namespace,
}

impl KubernetesSecrets {
    /// Reads a Secret with its values.
    pub(super) async fn read(&self, name: &str) -> Result<StoredSecret, CliError> {
        let (connection, namespace) = (&self.connection, self.namespace.as_str());
        let object = get_object(connection, SecretObjectKind::Secret, namespace, name).await;
        let object = object.map_err(|error| self.error(&error))?;
        let Some(mut object) = object else {
            let (state, values) = (SecretState::default(), BTreeMap::new());
            return Ok(StoredSecret { state, values, base: WriteBase::Kubernetes(None) });
        };
        let data = object.as_object_mut().and_then(|map| map.remove("data")).unwrap_or_default();
        let values = values_of(&data).ok_or_else(|| {
            CliError::io(format!("the Secret {name} has a value that is no Base64"))
        })?;
        let metadata = object.get("metadata");
        let text =
            |key: &str| metadata.and_then(|metadata| metadata.get(key)).and_then(Json::as_str);
        let state = SecretState {
            exists: true,
            keys: values.keys().cloned().collect(),
            version: text("resourceVersion").map(str::to_owned),
            since: last_change(&object),
        };
        Ok(StoredSecret { state, values, base: WriteBase::Kubernetes(Some(Box::new(object))) })
    }

    /// Creates the Secret, or replaces the one that was read; returns the new version.
    pub(super) async fn write(
        &self,
        name: &str,
        base: Option<&Json>,
        values: &BTreeMap<String, StoredValue>,
    ) -> Result<String, CliError> {
        let namespace = self.namespace.as_str();
        let data: Map<String, Json> = values
            .iter()
            .map(|(key, value)| (key.clone(), STANDARD.encode(value.expose()).into()))
            .collect();
        let result = if let Some(base) = base {
            if let Some(owner) = owner(base) {
                return Err(CliError::refused(format!(
                    "the Secret {name} is made by {owner}, which would undo the change: nothing was written"
                ))
                .hint("change the value in the store that it comes from"));
            }
            let mut object = base.clone();
            if let Some(map) = object.as_object_mut() {
                map.insert("data".to_owned(), data.into());
            }
            replace_secret(&self.connection, namespace, name, &object).await
        } else {
            let object = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {"name": name, "namespace": namespace}, "data": data,
            });
            create_secret(&self.connection, namespace, &object).await
        };
        let object = result.map_err(|error| self.error(&error))?;
        let version = object.pointer("/metadata/resourceVersion").and_then(Json::as_str);
        Ok(version.unwrap_or_default().to_owned())
    }

    fn error(&self, error: &SecretObjectError) -> CliError {
        let (context, namespace) = (&self.context, &self.namespace);
        match error {
            SecretObjectError::Conflict => conflict(),
            SecretObjectError::Refused(message) => CliError::refused(format!(
                "the cluster of the context {context}: {message}"
            ))
            .hint(format!("you need the right to get, create and update Secrets in {namespace}")),
            SecretObjectError::NoAnswer(message) => CliError::io(format!(
                "the cluster of the context {context} cannot be asked: {message}"
            ))
            .passing(),
        }
    }
}

/// Decodes the data of a Secret; `None` if a value is no Base64.
fn values_of(data: &Json) -> Option<BTreeMap<String, StoredValue>> {
    let data = data.as_object().into_iter().flatten();
    data.map(|(key, value)| {
        let bytes = STANDARD.decode(value.as_str()?).ok()?;
        Some((key.clone(), StoredValue::bytes(bytes)))
    })
    .collect()
}

/// Returns the time of the last change that the API server knows.
fn last_change(object: &Json) -> Option<Timestamp> {
    let time = |json: Option<&Json>| json.and_then(Json::as_str).and_then(|text| text.parse().ok());
    let fields = object.pointer("/metadata/managedFields").and_then(Json::as_array);
    let changes = fields.into_iter().flatten().filter_map(|one| time(one.get("time")));
    changes.max().or_else(|| time(object.pointer("/metadata/creationTimestamp")))
}

/// Returns the object that makes this one, if there is one: `ExternalSecret db`.
fn owner(object: &Json) -> Option<String> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Json::as_array);
    let owner = owners.and_then(|owners| owners.first())?;
    let text = |key: &str| owner.get(key).and_then(Json::as_str).unwrap_or("?");
    Some(format!("the {} {}", text("kind"), text("name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_an_operator_makes_has_an_owner_and_a_last_change() {
        let object = json!({"metadata": {
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"time": "2026-02-01T00:00:00Z"}, {"time": "2026-01-05T00:00:00Z"}, {}],
            "ownerReferences": [{"kind": "ExternalSecret", "name": "db"}],
        }});
        assert_eq!(owner(&object).as_deref(), Some("the ExternalSecret db"));
        assert_eq!(last_change(&object).unwrap().to_string(), "2026-02-01T00:00:00Z");
        assert_eq!((owner(&json!({})), last_change(&json!({}))), (None, None));
        assert!(
            values_of(&json!({"a": "%"})).is_none() && values_of(&json!(null)).unwrap().is_empty()
        );
    }
}
