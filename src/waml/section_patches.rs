//! The part of a section that changes rendered objects.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A change of rendered objects, for what neither the WAML nor the template's parameters can say. `merge` is applied
/// first, then the operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectPatch {
    /// The kind of the object: `Deployment`.
    pub kind: String,
    /// The object's name; absent: every object of the kind.
    #[serde(default)]
    pub name: Option<String>,
    /// What is laid over the object, as `kubectl patch` does: maps key by key, lists of things with names by their
    /// names, other lists as a whole; `null` removes a field.
    #[serde(default)]
    pub merge: Option<IndexMap<String, Json>>,
    /// Operations of JSON Patch (RFC 6902), in order.
    #[serde(default)]
    pub operations: Option<Vec<PatchOperation>>,
}

/// One operation of a JSON Patch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchOperation {
    /// The operation.
    pub op: PatchVerb,
    /// The place in the object, as a JSON Pointer: `/spec/template/spec/hostAliases`. `-` is behind the end of a list.
    pub path: String,
    /// The value; `remove` has none.
    #[serde(default)]
    pub value: Option<Json>,
}

/// The verb of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchVerb {
    /// Adds a key, or an element in front of the one at that place.
    Add,
    /// Removes what is there.
    Remove,
    /// Replaces what is there.
    Replace,
    /// Stops if something else is there.
    Test,
}
