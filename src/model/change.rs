//! The difference that new manifests make to an object of Kubernetes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// One object that would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// `Deployment`
    pub kind: String,
    /// `my-app`
    pub name: String,
    /// The kind of change.
    pub how: ChangeKind,
    /// The values that would be others, by their paths; none where all of it is new, or gone.
    #[serde(default)]
    #[schemars(!default)]
    pub fields: Vec<Field>,
    /// The number of changed values that are not listed.
    #[serde(default)]
    #[schemars(!default)]
    pub more_fields: usize,
    /// The lines that differ, with some around them.
    pub diff: String,
}

/// The kind of change to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", from = "String")]
#[schemars(rename = "How")]
pub enum ChangeKind {
    /// The object would be created.
    Added,
    /// The object would be changed.
    Changed,
    /// The object would be removed.
    Removed,
}

impl ChangeKind {
    /// Returns the word for it in a table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

/// Reads an unknown word of a newer service as the weakest kind of change.
impl From<String> for ChangeKind {
    fn from(word: String) -> Self {
        let kinds = [Self::Added, Self::Removed];
        kinds.into_iter().find(|how| how.as_str() == word).unwrap_or(Self::Changed)
    }
}

/// One value that would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Field {
    /// The path of the value in the object.
    pub path: String,
    /// The value now; null where it does not exist.
    pub before: Json,
    /// The value after the change; null where it would not exist. A value that is new as a whole is one field.
    pub after: Json,
}
