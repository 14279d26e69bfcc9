//! Manual edits of the manifest repository, imported into a WAML.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::api::forms;
use crate::model::hand_edit::EditCommit;
use crate::model::violation::Violation;

/// The request to import a manual edit.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct EditImportRequest {
    /// The text of the WAML that is to be edited.
    pub waml: String,
    /// The app, where the repository has several: the name of its file under `.weave/` without the ending, or
    /// `.weave.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfAppName>")]
    pub app_name: Option<String>,
    /// The texts of the files that its `manifests` names, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub manifests: BTreeMap<String, String>,
    /// The deployment that replaced the edit; absent: the present edit, or else the newest one that was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfDeployId>")]
    pub deployment: Option<String>,
}

/// The WAML that gives a manual edit.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EditImport")]
pub struct EditImportAnswer {
    /// The revision that was edited.
    pub revision: String,
    /// The deployment that replaced the edit; null for one that is still there.
    pub replaced_by: Option<String>,
    /// The commit of the edit; null where it cannot be found.
    pub commit: Option<EditCommit>,
    /// The text of the WAML with the changes; the same as before where none gives any of the edit.
    pub waml: String,
    /// The fields that it gives.
    pub imported: Vec<ImportedFieldSummary>,
    /// The parts of the edit that it does not give.
    pub left: Vec<LeftFieldSummary>,
    /// The violations for which the WAML is refused as it is: then nothing is imported.
    pub violations: Vec<Violation>,
    /// Remarks, one sentence each.
    pub notes: Vec<String>,
}

/// A field of the edit that the changed WAML gives.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ImportedField")]
pub struct ImportedFieldSummary {
    /// The object: `Deployment shop`.
    pub object: String,
    /// The field: `spec.replicas`.
    pub field: String,
    /// Its value before the edit; null where it had none.
    pub before: Json,
    /// Its value after the edit; null where it has none.
    pub after: Json,
    /// The setting that gives it: `scaling.replicas`, `patches`.
    pub setting: String,
}

/// A part of an edit that no change of the WAML gives.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LeftField")]
pub struct LeftFieldSummary {
    /// The object: `Deployment shop`.
    pub object: String,
    /// The field; null for the object as a whole.
    pub field: Option<String>,
    /// The reason, and what to do.
    pub why: String,
}
