//! Plans: what a deployment would do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::forms;
use crate::model::change::Change;
use crate::model::violation::Violation;

/// A deployment that somebody thinks of.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
#[schemars(extend(
    "anyOf" = [
        {"required": ["commit"], "properties": {"commit": {"type": "string"}}},
        {"required": ["ref"], "properties": {"ref": {"type": "string"}}},
        {"required": ["waml"], "properties": {"waml": {"type": "string"}}},
    ],
    "not" = {
        "required": ["commit", "ref"],
        "properties": {"commit": {"type": "string"}, "ref": {"type": "string"}},
    }
))]
pub struct PlanRequest {
    /// The service's repository, `OWNER/NAME`.
    #[schemars(with = "forms::OfRepository")]
    pub repository: String,
    /// The cluster.
    #[schemars(with = "forms::OfTarget")]
    pub target: String,
    /// Absent: the tag that is live there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfTag>")]
    pub tag: Option<String>,
    /// The commit whose WAML is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfCommit>")]
    pub commit: Option<String>,
    /// A branch or a tag of git.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfRef>")]
    pub git_ref: Option<String>,
    /// The WAML's text, in place of that at the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    pub waml: Option<String>,
}

/// What would come of it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct PlanAnswer {
    /// `changes`, `unchanged` or `refused`.
    pub outcome: PlanOutcome,
    /// `namespace/slug`; null where the WAML cannot be read.
    pub app: Option<String>,
    /// The cluster.
    pub target: String,
    /// The image tag that it was planned with.
    pub tag: Option<String>,
    /// The commit that the WAML is of; null where its text was given alone.
    pub commit: Option<String>,
    /// The template and its version.
    pub template: Option<String>,
    /// Of what would be written.
    pub digest: Option<String>,
    /// What would become another, object by object.
    pub changes: Vec<Change>,
    /// Why it would be refused: the first of them.
    pub violations: Vec<Violation>,
    /// How many more violations there are.
    #[serde(default)]
    pub violations_left_out: usize,
    /// What would not stop it: the first of them.
    pub warnings: Vec<Violation>,
    /// How many more warnings there are.
    #[serde(default)]
    pub warnings_left_out: usize,
    /// What else there is to know, one sentence each.
    pub notes: Vec<String>,
}

/// What a deployment would come to, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", from = "String")]
#[schemars(rename = "Outcome")]
pub enum PlanOutcome {
    /// It would be deployed, and something would be different.
    Changes,
    /// It would succeed, and nothing would be different.
    Unchanged,
    /// Rules speak against it.
    Refused,
}

/// A word of a newer service is read as that there are changes.
impl From<String> for PlanOutcome {
    fn from(word: String) -> Self {
        match word.as_str() {
            "unchanged" => Self::Unchanged,
            "refused" => Self::Refused,
            _ => Self::Changes,
        }
    }
}
