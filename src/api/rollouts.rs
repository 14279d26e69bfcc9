//! Rollouts: one release over many targets, with gates between them, and back by itself.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::api::forms;
use crate::model::waiting::WaitingOn;
use crate::model::words::words;
use crate::support::time_text::{self, DURATIONS};

pub use crate::model::rollout_words::{
    GateOutcome, RolloutFailurePolicy, RolloutStatus, RolloutTargetStatus,
};

words! {
    /// The answer to a second rollout of an app that would meet a target of one that has not ended.
    pub enum OverlapChoice {
        /// It is refused.
        Refuse = "refuse",
        /// It waits until the other one has ended.
        Queue = "queue",
    }
}

/// The request to start a rollout, or to show the plan of one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct RolloutStartRequest {
    /// The service repository, `OWNER/NAME`.
    #[schemars(with = "forms::OfRepository")]
    pub repository: String,
    /// The whole name of a branch or tag, or a commit's id.
    #[serde(rename = "ref")]
    #[schemars(with = "forms::OfRef")]
    pub git_ref: String,
    /// The image tag.
    #[schemars(with = "forms::OfTag")]
    pub tag: String,
    /// The app, where the repository has several: the name of its file under `.weave/` without the ending, or
    /// `.weave.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfAppName>")]
    pub app_name: Option<String>,
    /// A rollout of the WAML, by its name. It has its own steps and gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfSlug>")]
    pub name: Option<String>,
    /// The targets: names and globs, in the order of the rollout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, with = "Vec<forms::OfName>")]
    pub targets: Vec<String>,
    /// Only targets with all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub labels: BTreeMap<String, String>,
    /// Only targets whose whole name matches this regular expression.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfReason>")]
    pub pattern: Option<String>,
    /// The number of targets that are under way at the same time; 1 where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, range(min = 1, max = 500))]
    pub parallel: Option<usize>,
    /// The number of failed targets that are accepted; 0 where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, range(max = 500))]
    pub max_failures: Option<usize>,
    /// The policy for failures; `undo` where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    pub on_failure: Option<RolloutFailurePolicy>,
    /// The time that each target may take: `15m`.
    #[serde(default, deserialize_with = "duration", skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfDuration>")]
    pub timeout: Option<SignedDuration>,
    /// The time between two steps: `10m`.
    #[serde(default, deserialize_with = "duration", skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfDuration>")]
    pub bake: Option<SignedDuration>,
    /// The weights of versions in each step: every target gets each of them, in this order. The last ones are those of
    /// the WAML.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, length(max = 100))]
    pub weights: Vec<BTreeMap<String, u32>>,
    /// The rollout of the WAML whose gates stand after each step with weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfSlug>")]
    pub gates: Option<String>,
    /// The answer where another rollout of the app is under way on one of the targets; `refuse` where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    pub on_overlap: Option<OverlapChoice>,
    /// The reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfReason>")]
    pub reason: Option<String>,
    /// Only return the plan; nothing is stored.
    #[serde(default)]
    pub dry_run: bool,
}

/// Parses a duration; errors are in the service's words.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SignedDuration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let length = time_text::duration(&text).filter(SignedDuration::is_positive);
    length.map(Some).ok_or_else(|| D::Error::custom(DURATIONS))
}

words! {
    /// What is live on a target before a rollout.
    pub enum LiveKind {
        /// A revision that was deployed.
        Revision = "revision",
        /// The app is not there.
        Absent = "absent",
        /// Files that were edited by hand.
        Edited = "edited",
        /// It cannot be read now.
        Unknown = "unknown",
    }
}

/// The plan of a rollout that was not started.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutPlan")]
pub struct RolloutPlanAnswer {
    /// `namespace/slug`.
    pub app: String,
    /// The service repository, `OWNER/NAME`.
    pub repository: String,
    /// The commit of the WAML.
    pub commit: String,
    /// The image tag.
    pub tag: String,
    /// The rollout of the WAML; null if targets were named.
    pub name: Option<String>,
    /// The policy for failures.
    pub on_failure: RolloutFailurePolicy,
    /// The number of failed targets that are accepted.
    pub max_failures: usize,
    /// The time that each target may take, in seconds.
    pub timeout_seconds: i64,
    /// The steps, in order.
    pub steps: Vec<RolloutStepState>,
    /// The targets, in the order of the rollout.
    pub targets: Vec<PlannedTarget>,
    /// The time that its gates take at least, in seconds.
    pub shortest_seconds: i64,
    /// The time after which it has failed, in seconds; null where a gate may take as long as it takes.
    pub longest_seconds: Option<i64>,
    /// The open rollout of the app that has one of the targets; null if there is none.
    pub overlap: Option<String>,
}

/// A target of a rollout that was not started.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlannedTarget {
    /// The target.
    pub target: String,
    /// The number of its step, from 0 on.
    pub step: usize,
    /// The kind of files that are live there.
    pub live: LiveKind,
    /// The live revision; null where none is.
    pub revision: Option<String>,
    /// The image tag of the live revision, where it is known.
    pub tag: Option<String>,
    /// The lock or window that stops a deployment there now, or the reason why what is live is not known.
    pub blocked: Option<String>,
}

/// The request for an act on a rollout: pause, resume, cancel, undo, retry.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct RolloutActRequest {
    /// The reason, for people who read the record later.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
}

/// The request to approve the gate at which a rollout waits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct RolloutApprovalRequest {
    /// The reason, for people who read the record later.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
    /// The number of the step that must wait, from 0 on, else nothing is done; absent: whichever waits.
    // Omitted by default, because an older service does not know the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, range(max = 1000))]
    pub step: Option<usize>,
}

/// Rollouts, newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RolloutList<R = RolloutSummary> {
    /// The rollouts of this page.
    pub rollouts: Vec<R>,
    /// The `cursor` of the next page.
    pub next: Option<String>,
}

/// A rollout in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Rollout")]
pub struct RolloutSummary {
    /// Its id.
    pub id: String,
    /// The id of its undo, which was made beforehand.
    pub undo_id: String,
    /// `namespace/slug`.
    pub app: String,
    /// The service repository, `OWNER/NAME`.
    pub repository: String,
    /// The commit of the WAML.
    pub commit: String,
    /// The image tag.
    pub tag: String,
    /// The rollout of the WAML by which it was started; null if its targets were named.
    pub name: Option<String>,
    /// Its state.
    pub state: RolloutStatus,
    /// The reason of that state, if it has one.
    pub reason: Option<String>,
    /// The time at which it came into that state.
    pub since: Timestamp,
    /// True if it goes on only when a person acts: it was paused by one, or by a failure, or its undo failed.
    #[serde(default)]
    pub needs_person: bool,
    /// The person or token that started it.
    pub created_by: String,
    /// The time of its start.
    pub created_at: Timestamp,
    /// The number of complete steps.
    pub index: usize,
    /// The number of steps.
    pub steps_count: usize,
    /// The number of targets.
    pub targets_count: usize,
    /// The number of targets with the release.
    pub complete: usize,
    /// The number of targets that have failed, also where the failure is undone by now.
    pub failed: usize,
    /// The number of changes of its record.
    pub version: i64,
}

/// One rollout.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutDetail")]
pub struct RolloutDetail {
    /// The same keys as in a list.
    #[serde(flatten)]
    pub summary: RolloutSummary,
    /// The reason of the person who started it; empty if there is none.
    #[serde(default)]
    pub description: String,
    /// The branch, tag or commit that was named; empty if that is not known.
    #[serde(default, rename = "ref")]
    pub git_ref: String,
    /// The commit that this name stands for by now, where it is another one. The rollout stays at its own.
    #[serde(default, deserialize_with = "super::or_default")]
    pub moved_to: Option<String>,
    /// The policy for failures.
    pub on_failure: RolloutFailurePolicy,
    /// The number of failed targets that are accepted.
    pub max_failures: usize,
    /// The time that each target may take, in seconds.
    pub timeout_seconds: i64,
    /// The steps, in order.
    pub steps: Vec<RolloutStepState>,
    /// The targets, in the order of the rollout.
    pub targets: Vec<RolloutTargetSummary>,
    /// The conditions that it waits for; empty once it has ended.
    #[serde(default)]
    pub waits: Vec<RolloutWaitSummary>,
    /// The commands by which a person can act now, each with its effect.
    #[serde(default)]
    pub commands: Vec<RolloutCommand>,
}

/// One step of a rollout: targets, or a gate.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RolloutStepState {
    /// The targets of the step; empty for a gate.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The number of its targets that are under way at the same time; null for a gate.
    pub parallel: Option<usize>,
    /// The weights of the versions in this step; empty where it has none of its own.
    #[serde(default)]
    pub weights: BTreeMap<String, u32>,
    /// The gate; null for a step with targets.
    #[serde(default, deserialize_with = "super::or_default")]
    pub gate: Option<RolloutGateState>,
}

/// One gate of a rollout.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RolloutGateState {
    /// The kind: `bake`, `approval`, `http`, `promql`, `no_alert`, `calendar`.
    pub kind: String,
    /// The condition, as a sentence.
    pub condition: String,
    /// The team whose members may approve it; null for other gates, and where all may who may deploy.
    pub team: Option<String>,
    /// The time after which it has failed, in seconds; null where it may take as long as it takes.
    pub timeout_seconds: Option<i64>,
    /// The last answer; null until it was asked.
    #[serde(default, deserialize_with = "super::or_default")]
    pub answer: Option<GateReading>,
    /// Its answers, oldest first, as many as are kept; those in a row that are the same are one. Empty in a list, in a
    /// plan and in a stream.
    #[serde(default)]
    pub answers: Vec<GateReadings>,
    /// The time at which it passes by itself; null but for the bake time at which the rollout is.
    #[serde(default, deserialize_with = "super::or_default")]
    pub passes_at: Option<Timestamp>,
    /// The time at which it passed; null until then.
    #[serde(default, deserialize_with = "super::or_default")]
    pub passed_at: Option<Timestamp>,
    /// The approval; null until a person has approved it.
    #[serde(default, deserialize_with = "super::or_default")]
    pub approval: Option<ApprovalSummary>,
}

/// The answer of a gate.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GateReading {
    /// The time of the question.
    pub at: Timestamp,
    /// The result.
    pub result: GateOutcome,
    /// The value, or the reason why there is none.
    pub value: String,
}

/// The answer of a gate to questions in a row.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GateReadings {
    /// The time of the first question with this answer.
    pub first_at: Timestamp,
    /// The time of the last one.
    pub last_at: Timestamp,
    /// The number of questions.
    pub asked: u32,
    /// The result.
    pub result: GateOutcome,
    /// The value, or the reason why there is none.
    pub value: String,
}

/// The approval of a gate.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalSummary {
    /// The person.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The time.
    pub at: Timestamp,
}

/// One target of a rollout.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutTarget")]
pub struct RolloutTargetSummary {
    /// The target.
    pub target: String,
    /// The number of its step, from 0 on.
    pub step: usize,
    /// Its state.
    pub state: RolloutTargetStatus,
    /// The time at which it came into that state.
    pub since: Timestamp,
    /// The deployment of the release there; null until it is created.
    pub deployment: Option<String>,
    /// The time at which that deployment was created.
    pub started_at: Option<Timestamp>,
    /// The rollback or removal that undoes it; null if there is none.
    pub undo: Option<String>,
    /// The revision that was live before; null where the app was not there, and until its deployment is created.
    pub before: Option<String>,
    /// The number of deployments that were created there.
    pub attempts: u32,
    /// The reason why it failed.
    pub failure: Option<String>,
    /// The remark for people: why it was skipped, who took it over, what to do where its undo failed.
    pub note: Option<String>,
}

/// A condition that a rollout waits for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RolloutWaitSummary {
    /// The target that waits; null where a gate or the whole does.
    pub target: Option<String>,
    /// The same keys as for a deployment.
    #[serde(flatten)]
    pub waiting: WaitingOn,
}

/// A command by which a person can act on a rollout.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RolloutCommand {
    /// The command.
    pub command: String,
    /// Its effect, as a sentence.
    pub effect: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_meant() {
        let json = json!({
            "repository": "acme/shop", "ref": "main", "tag": "1.0", "targets": ["prod-*"], "labels": {"region": "eu"},
            "match": "prod-.*", "parallel": 2, "max_failures": 1, "on_failure": "pause", "timeout": "15m",
            "bake": "10m", "on_overlap": "queue", "reason": "the sale", "dry_run": true,
        });
        let request: RolloutStartRequest = from_value(json.clone()).unwrap();
        assert_eq!(request.bake, Some(SignedDuration::from_mins(10)));
        assert_eq!(request.on_failure, Some(RolloutFailurePolicy::Pause));
        let again: RolloutStartRequest = from_value(to_value(&request).unwrap()).unwrap();
        assert_eq!(to_value(&again).unwrap(), to_value(&request).unwrap());
        for (key, value, message) in [
            ("bake", json!("-10m"), DURATIONS),
            ("timeout", json!("soon"), DURATIONS),
            ("target", json!("prod-1"), "unknown field `target`"),
            ("on_failure", json!("explode"), "unknown variant `explode`"),
        ] {
            let mut wrong = json.clone();
            wrong[key] = value;
            let error = from_value::<RolloutStartRequest>(wrong).unwrap_err().to_string();
            assert!(error.contains(message), "{key}: {error}");
        }
    }

    #[test]
    fn a_client_ignores_what_a_newer_service_adds() {
        let gate = json!({"kind": "moon", "condition": "full", "team": null, "timeout_seconds": null, "later": 1});
        let step: RolloutStepState = from_value(json!({"parallel": null, "gate": gate})).unwrap();
        assert_eq!(step.gate.unwrap().kind, "moon");
        let step: RolloutStepState = from_value(json!({"parallel": null, "gate": ["x"]})).unwrap();
        assert!(step.gate.is_none(), "another form leaves the rest readable");
    }
}
