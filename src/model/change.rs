//! What becomes of an object of Kubernetes when manifests are replaced by others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// One object that would not be the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// `Deployment`
    pub kind: String,
    /// `my-app`
    pub name: String,
    /// What would happen to it.
    pub how: How,
    /// The values that would be others, by their paths; none where all of it is new, or gone.
    #[serde(default)]
    #[schemars(!default)]
    pub fields: Vec<Field>,
    /// How many more values would be others than are listed.
    #[serde(default)]
    #[schemars(!default)]
    pub more_fields: usize,
    /// The lines that differ, with some around them.
    pub diff: String,
}

/// What would happen to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", from = "String")]
pub enum How {
    /// It would be new.
    Added,
    /// It would be another.
    Changed,
    /// It would be gone.
    Removed,
}

impl How {
    /// Returns the word for it in a table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

/// A word of a newer service is read as the least that can be said.
impl From<String> for How {
    fn from(word: String) -> Self {
        let all = [Self::Added, Self::Removed];
        all.into_iter().find(|how| how.as_str() == word).unwrap_or(Self::Changed)
    }
}

/// One value that would not be the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Field {
    /// Where it is in the object.
    pub path: String,
    /// What it is now; null where it is not there.
    pub before: Json,
    /// What it would be; null where it would not be there. What is new as a whole is one field.
    pub after: Json,
}
