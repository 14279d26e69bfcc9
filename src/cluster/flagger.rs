//! Reads Flagger's Canary: its phase, the weight of its traffic, and the pod template that both are about.
//!
//! A phase says nothing of which release it is about: `Succeeded` may be left from the last one. Flagger writes the
//! digest of the template that it works on beside it (`lastAppliedSpec`), by which a new run is known.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::cluster::fields::{
    MESSAGE_BYTES, condition_at, count_at, counter, is_word, name_at, text_at, value_at,
};
use crate::cluster::object::{ObjectKey, ObjectMeta, WatchedKind};

/// The part of a Canary that the rules read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlaggerCanary {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// The workload that it takes over.
    pub target: Option<ObjectKey>,
    /// The phase of its run.
    pub phase: CanaryPhase,
    /// The share of the traffic on the new template, in percent: `status.canaryWeight`.
    pub weight: u32,
    /// The number of checks that failed: `status.failedChecks`.
    pub failed_checks: u32,
    /// The digest of the pod template that the phase is about: `status.lastAppliedSpec`.
    pub applied: Box<str>,
    /// The number of failed checks at which Flagger rolls back: `spec.analysis.threshold`.
    pub threshold: u32,
    /// The sentence of the condition `Promoted`, which says why it failed.
    pub message: Box<str>,
    /// The time at which that condition was last another one, in the cluster's words: two runs that end alike differ
    /// in it.
    pub changed_at: Box<str>,
    /// The reason for which it is held back, as far as its events were read.
    pub report: Option<CanaryReport>,
}

/// The reason for which Flagger holds a canary back, or has rolled it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryReport {
    /// `request duration 2.485 s > 1 s`
    pub reason: String,
    /// The number of checks that had failed when it was rolled back: its status forgets it then.
    pub failed_checks: Option<u32>,
}

/// The key beside those of the API under which an agent reports the reason.
pub(super) const REPORT_KEY: &str = "canaryReport";

/// A phase of a canary run. A word that is not known here counts as one in the middle of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CanaryPhase {
    /// Flagger makes the primary workload.
    Initializing,
    /// The primary workload serves all traffic; nothing was analysed yet.
    Initialized,
    /// A gate holds the run before it begins.
    Waiting,
    /// Traffic is shifted and measured.
    Progressing,
    /// A gate holds the promotion.
    WaitingPromotion,
    /// The primary workload takes the new template over.
    Promoting,
    /// Traffic goes back to the primary workload.
    Finalising,
    /// The new template was promoted.
    Succeeded,
    /// Flagger has rolled the run back.
    Failed,
    /// The Canary is being deleted.
    Terminating,
    /// The Canary was deleted.
    Terminated,
    /// No phase, or another word.
    Unknown,
}

impl FlaggerCanary {
    /// Reads a Canary; `None` where it has no name.
    pub fn read(json: &Json) -> Option<Self> {
        let meta = ObjectMeta::read(json)?;
        let condition = condition_at(json, "Promoted");
        let message = condition
            .filter(|one| !is_word(one, &["status"], "True"))
            .and_then(|one| text_at(one, &["message"], MESSAGE_BYTES));
        let changed_at = condition.and_then(|one| text_at(one, &["lastUpdateTime"], 64));
        Some(Self {
            target: read_target(json, &meta),
            phase: CanaryPhase::parse(
                value_at(json, &["status", "phase"]).and_then(Json::as_str).unwrap_or_default(),
            ),
            weight: counter(json, &["status", "canaryWeight"]),
            failed_checks: counter(json, &["status", "failedChecks"]),
            applied: text_at(json, &["status", "lastAppliedSpec"], 128).unwrap_or_default(),
            threshold: counter(json, &["spec", "analysis", "threshold"]),
            message: message.unwrap_or_default(),
            changed_at: changed_at.unwrap_or_default(),
            report: read_report(json),
            meta,
        })
    }
}

fn read_report(json: &Json) -> Option<CanaryReport> {
    let reason = text_at(json, &[REPORT_KEY, "reason"], MESSAGE_BYTES)?;
    let failed_checks = count_at(json, &[REPORT_KEY, "failedChecks"]);
    Some(CanaryReport { reason: reason.into(), failed_checks })
}

/// `spec.targetRef`: a Deployment or a `DaemonSet` of the same namespace.
fn read_target(json: &Json, meta: &ObjectMeta) -> Option<ObjectKey> {
    let kind = text_at(json, &["spec", "targetRef", "kind"], 64)?;
    let kind = WatchedKind::parse(&kind).filter(|kind| kind.is_workload())?;
    let name = name_at(json, &["spec", "targetRef", "name"]);
    (!name.is_empty()).then(|| ObjectKey { kind, namespace: meta.namespace.clone(), name })
}

impl FlaggerCanary {
    /// Checks that its events tell why it does not go on.
    pub fn is_held_back(&self) -> bool {
        self.failed_checks > 0 || self.phase == CanaryPhase::Failed
    }
}

impl CanaryPhase {
    /// Finds the phase of that word.
    pub fn parse(word: &str) -> Self {
        match word {
            "Initializing" => Self::Initializing,
            "Initialized" => Self::Initialized,
            "Waiting" => Self::Waiting,
            "Progressing" => Self::Progressing,
            "WaitingPromotion" => Self::WaitingPromotion,
            "Promoting" => Self::Promoting,
            "Finalising" => Self::Finalising,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Terminating" => Self::Terminating,
            "Terminated" => Self::Terminated,
            _ => Self::Unknown,
        }
    }
}
