//! Jobs and `CronJob` objects: the part of each that the rules need.

use serde_json::Value as Json;

use crate::cluster::fields::{MESSAGE_BYTES, count_at, counter, flag_at, text_at, true_condition};
use crate::cluster::object::ObjectMeta;
use crate::cluster::template::TemplateHash;

/// Pods that run to an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeJob {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// The number of pods that must succeed: `spec.completions`, or 1.
    pub completions: u32,
    /// `spec.suspend`
    pub suspended: bool,
    /// The digest of `spec.template`.
    pub template: TemplateHash,
    /// `status.active`
    pub active: u32,
    /// `status.succeeded`
    pub succeeded: u32,
    /// Its end; `None` while it runs.
    pub end: Option<JobEnd>,
}

/// The end of a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEnd {
    /// The condition `Complete`.
    Complete,
    /// The condition `Failed`.
    Failed {
        /// `BackoffLimitExceeded`, `DeadlineExceeded` …
        reason: Box<str>,
        /// Kubernetes' own sentence.
        message: Box<str>,
    },
}

impl KubeJob {
    /// Reads a Job; `None` where it has no name.
    pub fn read(json: &Json) -> Option<Self> {
        Some(Self {
            meta: ObjectMeta::read(json)?,
            completions: count_at(json, &["spec", "completions"]).unwrap_or(1),
            suspended: flag_at(json, &["spec", "suspend"]),
            template: TemplateHash::read(json, &["spec", "template"]),
            active: counter(json, &["status", "active"]),
            succeeded: counter(json, &["status", "succeeded"]),
            end: read_end(json),
        })
    }
}

fn read_end(json: &Json) -> Option<JobEnd> {
    if let Some(failed) = true_condition(json, "Failed") {
        return Some(JobEnd::Failed {
            reason: text_at(failed, &["reason"], MESSAGE_BYTES).unwrap_or_default(),
            message: text_at(failed, &["message"], MESSAGE_BYTES).unwrap_or_default(),
        });
    }
    true_condition(json, "Complete").map(|_| JobEnd::Complete)
}

/// Jobs by the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronJob {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// `spec.suspend`: it starts no jobs.
    pub suspended: bool,
    /// The digest of the template of its jobs' pods.
    pub template: TemplateHash,
}

impl CronJob {
    /// Reads a `CronJob`; `None` where it has no name.
    pub fn read(json: &Json) -> Option<Self> {
        Some(Self {
            meta: ObjectMeta::read(json)?,
            suspended: flag_at(json, &["spec", "suspend"]),
            template: TemplateHash::read(json, &["spec", "jobTemplate", "spec", "template"]),
        })
    }
}
