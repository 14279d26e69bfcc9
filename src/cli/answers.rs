//! What the service answers, as far as several commands read it.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::model::deployment::{StageTime, State};
use crate::model::hand_edit::HandEdit;
use crate::model::id::CommitSha;
use crate::model::violation::Violation;

/// Keys that we do not know: those of a newer service. Programs get them as they came.
pub(super) type More = serde_json::Map<String, Json>;

/// A page of deployments.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct List {
    pub(super) deployments: Vec<Overview>,
    pub(super) next: Option<String>,
    #[serde(flatten)]
    pub(super) more: More,
}

/// A deployment in a list.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Overview {
    pub(super) id: String,
    pub(super) state: State,
    pub(super) app: Option<String>,
    pub(super) target: String,
    pub(super) repository: String,
    pub(super) tag: String,
    pub(super) actor: String,
    #[serde(default)]
    pub(super) forge_id: Option<i64>,
    pub(super) received_at: jiff::Timestamp,
    pub(super) finished_at: Option<jiff::Timestamp>,
    pub(super) summary: String,
    pub(super) template: Option<String>,
    #[serde(default)]
    pub(super) address: Option<String>,
    #[serde(default)]
    pub(super) templates_commit: Option<CommitSha>,
    pub(super) errors: usize,
    pub(super) warnings: usize,
    #[serde(flatten)]
    pub(super) more: More,
}

/// A deployment by itself. Keys that we do not know are in the overview's `more`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    pub(super) overview: Overview,
    pub(super) stages: Vec<StageTime>,
    pub(super) violations: Vec<Violation>,
    #[serde(default)]
    pub(super) violations_left_out: usize,
    #[serde(default)]
    pub(super) hand_edit: Option<HandEdit>,
    pub(super) statuses: Vec<Status>,
    #[serde(default)]
    pub(super) log_url: Option<String>,
    #[serde(default)]
    pub(super) changes: Option<Vec<Change>>,
}

/// What a deployment changes in one object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) how: String,
    #[serde(default)]
    pub(super) fields: Vec<Field>,
    #[serde(default)]
    pub(super) more_fields: usize,
    pub(super) diff: String,
    #[serde(flatten)]
    pub(super) more: More,
}

/// A value that becomes another; null where there is none.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Field {
    pub(super) path: String,
    pub(super) before: Json,
    pub(super) after: Json,
    #[serde(flatten)]
    pub(super) more: More,
}

/// What the forge is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) state: String,
    pub(super) description: String,
    pub(super) at: jiff::Timestamp,
    #[serde(flatten)]
    pub(super) more: More,
}
