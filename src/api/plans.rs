//! Plans: the dry run of a deployment.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::forms;
use crate::model::canary::CanaryForecast;
use crate::model::change::Change;
use crate::model::violation::Violation;

/// The request to plan a deployment.
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
    /// The service repository, `OWNER/NAME`.
    #[schemars(with = "forms::OfRepository")]
    pub repository: String,
    /// The target.
    #[schemars(with = "forms::OfTarget")]
    pub target: String,
    /// The app, where the repository has several: the name of its file under `.weave/` without the ending, or
    /// `.weave.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfAppName>")]
    pub app_name: Option<String>,
    /// The image tag; absent: the live one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfTag>")]
    pub tag: Option<String>,
    /// The commit of the WAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfCommit>")]
    pub commit: Option<String>,
    /// A branch or a tag of git.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfRef>")]
    pub git_ref: Option<String>,
    /// The WAML's text, in place of the one at the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    pub waml: Option<String>,
    /// The texts of the files that `manifests` of that WAML names, by their paths. Without `waml` the files are those at
    /// the commit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub manifests: BTreeMap<String, String>,
}

/// The plan for one target.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct PlanAnswer {
    /// `changes`, `unchanged` or `refused`.
    pub outcome: PlanOutcome,
    /// `namespace/slug`; null if the WAML cannot be read.
    pub app: Option<String>,
    /// The target.
    pub target: String,
    /// The image tag of the plan.
    pub tag: Option<String>,
    /// The commit of the WAML; null if only its text was given.
    pub commit: Option<String>,
    /// The template and its version.
    pub template: Option<String>,
    /// The digest of the files that would be written.
    pub digest: Option<String>,
    /// The changes, object by object.
    pub changes: Vec<Change>,
    /// The steps and times of the release, where it is a canary; null for every other.
    #[serde(default)]
    pub canary: Option<CanaryForecast>,
    /// The first violations that would stop the deployment.
    pub violations: Vec<Violation>,
    /// The number of further violations.
    #[serde(default)]
    pub violations_left_out: usize,
    /// The first warnings.
    pub warnings: Vec<Violation>,
    /// The number of further warnings.
    #[serde(default)]
    pub warnings_left_out: usize,
    /// Further notes, one sentence each.
    pub notes: Vec<String>,
    /// The plan for each cluster of a fleet; empty for any other target.
    #[serde(default, deserialize_with = "super::or_default")]
    pub clusters: Vec<ClusterPlan>,
}

/// The plan for one cluster of a fleet.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ClusterPlan {
    /// The cluster.
    pub cluster: String,
    /// `changes`, `unchanged` or `refused`.
    pub outcome: PlanOutcome,
    /// The digest of the files that would be written.
    pub digest: Option<String>,
    /// The changes, object by object.
    pub changes: Vec<Change>,
    /// Further notes, one sentence each.
    pub notes: Vec<String>,
}

/// The result of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", from = "String")]
#[schemars(rename = "Outcome")]
pub enum PlanOutcome {
    /// The deployment would succeed, and change something.
    Changes,
    /// The deployment would succeed, and change nothing.
    Unchanged,
    /// Rules would refuse the deployment.
    Refused,
}

/// An unknown result of a newer service counts as changes.
impl From<String> for PlanOutcome {
    fn from(word: String) -> Self {
        match word.as_str() {
            "unchanged" => Self::Unchanged,
            "refused" => Self::Refused,
            _ => Self::Changes,
        }
    }
}
