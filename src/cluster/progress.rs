//! The rules: they judge how far a workload is with what it was told to run.
//!
//! Each rule reads counters only after the controller says that they are about the present specification
//! (`observedGeneration`); before that they show the release before, finished. A condition's reason is never enough
//! alone: after an undo, and while a workload is scaled, it still says what was true of the rollout before.
//!
//! A rule knows no digest and no deployment. Whether a change is ours, new or told already is decided by the tracker.

use serde::{Deserialize, Serialize};

use crate::cluster::argocd::ArgoApplication;
use crate::cluster::flagger::{CanaryPhase, FlaggerCanary};
use crate::cluster::index::ClusterIndex;
use crate::cluster::job::{JobEnd, KubeJob};
use crate::cluster::object::{ObjectKey, WatchedKind};
use crate::cluster::template::TemplateHash;
use crate::cluster::watched::WatchedObject;
use crate::cluster::workload::{DaemonSet, KubeDeployment, ReplicaSet, StatefulSet};

/// The progress of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadProgress {
    /// Its pods, counted.
    pub counts: ReplicaCounts,
    /// The number of its pods that are of a former template.
    pub former: u32,
    /// The present step.
    pub step: ProgressStep,
}

/// The pods of a workload, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaCounts {
    /// The number that there are to be.
    pub desired: u32,
    /// The number of those of the present pod template.
    pub updated: u32,
    /// The number of those that can serve.
    pub available: u32,
}

/// The step that a workload is at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgressStep {
    /// Its controller has not seen the change yet.
    Unobserved,
    /// A person paused or suspended it.
    Paused,
    /// Pods of the present template are still missing.
    Updating,
    /// Pods of a former template are still there.
    Replacing,
    /// All pods are of the present template; some cannot serve yet.
    Starting,
    /// Pods of a former template stay until a person deletes them: the strategy is `OnDelete`.
    AwaitingDeletion,
    /// Flagger seems to have taken the workload over, and its Canary cannot be seen.
    CanaryHidden,
    /// Flagger shifts traffic and measures.
    Analysing {
        /// The phase of its run.
        phase: CanaryPhase,
        /// Percent of the traffic on the new template.
        weight: u32,
        /// The number of checks that have failed.
        #[serde(default)]
        failed_checks: u32,
        /// The number of failed checks at which Flagger rolls back; 0 where that is not known.
        #[serde(default)]
        threshold: u32,
        /// The reason of the last failed check.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Flagger has not taken the template up: its Canary is missing, or still shows the run before.
    CanaryIdle,
    /// Nothing is left to do.
    Complete,
    /// It ended by itself, badly: a Job or a canary.
    Failed {
        /// The reason, in the cluster's words.
        message: String,
    },
}

impl ProgressStep {
    /// Checks that a person ends it, or Flagger by itself, seen or not.
    pub(super) fn ends_elsewhere(&self) -> bool {
        matches!(
            self,
            Self::Paused | Self::AwaitingDeletion | Self::CanaryHidden | Self::Analysing { .. }
        )
    }

    /// Checks that nobody has looked at the release yet: the pods that are there are those of the one before.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Unobserved | Self::CanaryIdle)
    }

    /// Checks that the same is waited for: the weight of a canary may be another one.
    pub(super) fn is_same_wait(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The facts about earlier releases of a workload that the rules need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgressContext {
    /// The present pod template is another one than that of the release before.
    pub template_changed: bool,
    /// The pod template of the last release that finished.
    pub promoted_template: Option<TemplateHash>,
    /// The template that Flagger had worked on (`lastAppliedSpec`) when the release before was live.
    pub canary_before: Option<String>,
    /// The time of the Canary's last change of phase then, in the cluster's words.
    pub canary_changed_before: Option<String>,
    /// The number of checks that had failed at the last look.
    pub failed_checks: u32,
    /// The revision has a Canary for the workload.
    pub expects_canary: bool,
    /// The number of pods that the manifest asks for.
    pub manifest_replicas: Option<u32>,
    /// Flagger had taken the workload over when it was looked at before.
    pub taken_over: bool,
}

/// Judges a workload by its kind. Other kinds have no progress of their own: `None`.
pub fn workload_progress(
    object: &WatchedObject,
    index: &ClusterIndex,
    context: &ProgressContext,
) -> Option<WorkloadProgress> {
    let progress = match object {
        WatchedObject::Deployment(deployment) => deployment_progress(deployment, index, context),
        WatchedObject::StatefulSet(stateful_set) => stateful_set_progress(stateful_set),
        WatchedObject::DaemonSet(daemon_set) => daemon_set_progress(daemon_set),
        WatchedObject::Job(job) => job_progress(job),
        // Its jobs start by the clock: there is nothing to wait for.
        WatchedObject::CronJob(_) => WorkloadProgress {
            counts: ReplicaCounts::default(),
            former: 0,
            step: ProgressStep::Complete,
        },
        WatchedObject::ReplicaSet(_)
        | WatchedObject::Pod(_)
        | WatchedObject::Application(_)
        | WatchedObject::Canary(_) => return None,
    };
    let step = match index.canary_of(&object.key()) {
        Some(canary) => canary_step(canary, object, &progress.step, context),
        None if progress.step == ProgressStep::Complete
            && is_taken_over(object, index, context) =>
        {
            ProgressStep::CanaryHidden
        }
        // Argo CD applies the Canary after the workload.
        None if progress.step == ProgressStep::Complete
            && context.expects_canary
            && index.sees(WatchedKind::Canary) =>
        {
            ProgressStep::CanaryIdle
        }
        None => progress.step,
    };
    Some(WorkloadProgress { step, ..progress })
}

/// Checks for signs that Flagger has taken a workload over where its Canary cannot be seen: the copy that serves, or no
/// pods where the manifest asks for some. During a run there are pods, so a sign that was seen once counts later.
pub fn is_taken_over(
    object: &WatchedObject,
    index: &ClusterIndex,
    context: &ProgressContext,
) -> bool {
    if !object.kind().inputs().contains(&WatchedKind::Canary)
        || !index.is_hidden(WatchedKind::Canary)
    {
        return false;
    }
    let key = object.key();
    let copy = ObjectKey { name: format!("{}-primary", key.name).into(), ..key };
    let is_copy = |one: &WatchedObject| {
        let controller = one.meta().controller.as_ref();
        controller.is_some_and(|owner| owner.kind == Some(WatchedKind::Canary))
    };
    let is_empty = object.replicas() == Some(0) && context.manifest_replicas != Some(0);
    context.taken_over || is_empty || index.get(&copy).is_some_and(is_copy)
}

/// Judges a Deployment.
///
/// It is complete when all pods that there are, all that are available and all that are wanted are of the present
/// template, and every other `ReplicaSet` is empty. The `ReplicaSet` objects come from another watch, so they are asked
/// too: a status that is ahead of them waits for them, and one that is behind them shows the old generation.
fn deployment_progress(
    deployment: &KubeDeployment,
    index: &ClusterIndex,
    context: &ProgressContext,
) -> WorkloadProgress {
    let KubeDeployment { replicas, present, updated, available, .. } = *deployment;
    let counts = ReplicaCounts { desired: replicas, updated, available };
    let step = if !deployment.is_observed() {
        ProgressStep::Unobserved
    } else if deployment.paused {
        ProgressStep::Paused
    } else if let Some(step) = replica_sets_step(deployment, index, context) {
        step
    } else if updated == present && present == available && available == replicas {
        ProgressStep::Complete
    } else if updated < replicas {
        ProgressStep::Updating
    } else if present > updated {
        ProgressStep::Replacing
    } else {
        ProgressStep::Starting
    };
    WorkloadProgress { counts, former: present.saturating_sub(updated), step }
}

/// Judges a Deployment by its `ReplicaSet` objects; `None` where its status decides.
fn replica_sets_step(
    deployment: &KubeDeployment,
    index: &ClusterIndex,
    context: &ProgressContext,
) -> Option<ProgressStep> {
    if !index.sees(WatchedKind::ReplicaSet) {
        return None;
    }
    let Some(current) = index.current_replica_set(deployment) else {
        // One without pods may be unknown: it is not kept while nobody is known to need it.
        let is_empty = deployment.replicas == 0
            && deployment.present == 0
            && index.replica_sets(deployment).all(ReplicaSet::is_empty);
        return (!is_empty).then_some(ProgressStep::Updating);
    };
    if has_others(deployment, current, index) {
        let is_short = deployment.updated < deployment.replicas;
        return Some(if is_short { ProgressStep::Updating } else { ProgressStep::Replacing });
    }
    // An autoscaler may raise the number of pods again and again before the last one serves. The rollout of a new
    // template is over when the controller has once seen all of it available, which it says of this ReplicaSet.
    let is_scaling = context.template_changed
        && deployment.has_completed(&current.meta.name)
        && deployment.updated == deployment.present
        && deployment.available > 0;
    is_scaling.then_some(ProgressStep::Complete)
}

/// Checks that a Deployment was finished at some time with what it runs now, even if pods are missing at the moment: it
/// is being scaled, or a node is gone. Asked of a workload that was never seen before.
pub fn was_complete(object: &WatchedObject, index: &ClusterIndex) -> bool {
    let context = ProgressContext {
        template_changed: true,
        // Somebody may have scaled it to nothing: Flagger is not suspected.
        manifest_replicas: Some(0),
        ..ProgressContext::default()
    };
    match workload_progress(object, index, &context).map(|progress| progress.step) {
        Some(ProgressStep::Complete) => true,
        // It was scaled, paused or annotated a moment ago. All pods are of its template, so the status is about it.
        Some(ProgressStep::Unobserved) => object.deployment().is_some_and(|deployment| {
            let KubeDeployment { present, updated, available, .. } = *deployment;
            let serves = present > 0 && updated == present && available == present;
            let current = index.current_replica_set(deployment);
            current.is_some_and(|current| {
                let has_pods = serves && current.present == present;
                !has_others(deployment, current, index)
                    && (has_pods || deployment.has_completed(&current.meta.name))
            })
        }),
        Some(ProgressStep::Paused) => object.deployment().is_some_and(|deployment| {
            let resumed = KubeDeployment { paused: false, ..deployment.clone() };
            deployment_progress(&resumed, index, &context).step == ProgressStep::Complete
        }),
        Some(_) | None => false,
    }
}

/// Checks that another `ReplicaSet` than the present one has pods.
fn has_others(deployment: &KubeDeployment, current: &ReplicaSet, index: &ClusterIndex) -> bool {
    let is_left = |other: &ReplicaSet| other.meta.uid != current.meta.uid && !other.is_empty();
    index.replica_sets(deployment).any(is_left)
}

/// Judges a `StatefulSet`: pods below the partition keep the former template.
fn stateful_set_progress(set: &StatefulSet) -> WorkloadProgress {
    let StatefulSet { replicas, present, updated, available, .. } = *set;
    let counts = ReplicaCounts { desired: replicas, updated, available };
    let to_update = replicas.saturating_sub(set.partition);
    // Without a partition the controller names one revision only when it is done.
    let is_one_revision =
        set.on_delete || set.partition > 0 || set.current_revision == set.update_revision;
    let step = if !set.is_observed() {
        ProgressStep::Unobserved
    } else if set.on_delete && updated < replicas {
        ProgressStep::AwaitingDeletion
    } else if !set.on_delete && updated < to_update {
        ProgressStep::Updating
    } else if available < replicas {
        ProgressStep::Starting
    } else if present != replicas || !is_one_revision {
        ProgressStep::Replacing
    } else {
        ProgressStep::Complete
    };
    WorkloadProgress { counts, former: present.saturating_sub(updated), step }
}

/// Judges a `DaemonSet`; without a node that should have a pod it is complete.
fn daemon_set_progress(set: &DaemonSet) -> WorkloadProgress {
    let DaemonSet { desired, updated, available, .. } = *set;
    let step = if !set.is_observed() {
        ProgressStep::Unobserved
    } else if updated < desired && set.on_delete {
        ProgressStep::AwaitingDeletion
    } else if updated < desired {
        ProgressStep::Updating
    } else if available < desired {
        ProgressStep::Starting
    } else {
        ProgressStep::Complete
    };
    let counts = ReplicaCounts { desired, updated, available };
    WorkloadProgress { counts, former: desired.saturating_sub(updated), step }
}

/// Judges a Job: it says itself how it ended.
fn job_progress(job: &KubeJob) -> WorkloadProgress {
    let counts = ReplicaCounts {
        desired: job.completions,
        updated: job.active.saturating_add(job.succeeded),
        available: job.succeeded,
    };
    let step = match &job.end {
        Some(JobEnd::Complete) => ProgressStep::Complete,
        Some(JobEnd::Failed { reason, message }) => {
            ProgressStep::Failed { message: format!("{reason}: {message}") }
        }
        None if job.suspended => ProgressStep::Paused,
        None => ProgressStep::Starting,
    };
    WorkloadProgress { counts, former: 0, step }
}

/// Judges a workload that Flagger has taken over: the run of *this* template decides, not a phase that is left from
/// the run before.
fn canary_step(
    canary: &FlaggerCanary,
    object: &WatchedObject,
    step: &ProgressStep,
    context: &ProgressContext,
) -> ProgressStep {
    // Flagger takes no template up that it has promoted already: it says nothing about a rollback to it.
    let is_promoted = context.promoted_template.as_ref() == Some(&object.template());
    let is_new_run =
        context.canary_before.as_deref().is_none_or(|before| before != &*canary.applied);
    let is_waiting = context.template_changed && !is_new_run && !is_promoted;
    // Flagger first writes the new template beside the failure of the run before, and then begins the new run.
    let is_former_failure = canary.phase == CanaryPhase::Failed
        && context.template_changed
        && !canary.changed_at.is_empty()
        && context.canary_changed_before.as_deref() == Some(&*canary.changed_at);
    match canary.phase {
        _ if *step == ProgressStep::Unobserved => ProgressStep::Unobserved,
        _ if is_waiting => ProgressStep::CanaryIdle,
        CanaryPhase::Failed if is_former_failure && !is_promoted => ProgressStep::CanaryIdle,
        // Flagger has not looked at it at all.
        CanaryPhase::Unknown if canary.applied.is_empty() => ProgressStep::CanaryIdle,
        CanaryPhase::Succeeded | CanaryPhase::Initialized => ProgressStep::Complete,
        CanaryPhase::Failed if is_promoted => ProgressStep::Complete,
        CanaryPhase::Failed => ProgressStep::Failed { message: failure_message(canary, context) },
        phase @ (CanaryPhase::Initializing
        | CanaryPhase::Waiting
        | CanaryPhase::Progressing
        | CanaryPhase::WaitingPromotion
        | CanaryPhase::Promoting
        | CanaryPhase::Finalising
        | CanaryPhase::Terminating
        | CanaryPhase::Terminated
        | CanaryPhase::Unknown) => ProgressStep::Analysing {
            phase,
            weight: canary.weight,
            failed_checks: canary.failed_checks,
            threshold: canary.threshold,
            reason: canary
                .report
                .as_ref()
                .filter(|_| canary.failed_checks > 0)
                .map(|report| report.reason.clone()),
        },
    }
}

/// Says why Flagger rolled a canary back: `request duration 2.485 s > 1 s, 3 of 3 checks failed`. Its status counts
/// no failed checks any more.
fn failure_message(canary: &FlaggerCanary, context: &ProgressContext) -> String {
    let Some(report) = &canary.report else {
        if !canary.message.is_empty() {
            return canary.message.to_string();
        }
        let count = canary.failed_checks.max(context.failed_checks);
        return format!("the canary failed after {count} failed checks");
    };
    let counts = [report.failed_checks, Some(canary.failed_checks), Some(context.failed_checks)];
    let count = counts.into_iter().flatten().max().unwrap_or_default();
    format!("{}{}", report.reason, describe_checks(count, canary.threshold))
}

/// Writes `, 2 of 3 checks failed`; nothing where none has.
pub(super) fn describe_checks(failed: u32, threshold: u32) -> String {
    match (failed, threshold) {
        (0, _) => String::new(),
        (failed, 0) => format!(", {failed} checks failed"),
        (failed, threshold) => format!(", {failed} of {threshold} checks failed"),
    }
}

/// The progress of an Application with the commit of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncProgress {
    /// It was not compared with the commit yet.
    Waiting,
    /// The commit is being synced.
    Syncing,
    /// The cluster is as the commit says.
    Synced,
    /// Argo CD could not sync the commit, and may try again.
    Failing {
        /// Argo CD's own sentence.
        message: String,
    },
}

/// Judges an Application by its own status: the commit is one of these, which hold the revision.
pub fn sync_progress(application: &ArgoApplication, commits: &[String]) -> SyncProgress {
    let holds = |revision: &str| commits.iter().any(|commit| commit == revision);
    let operation = application.operation.as_ref().filter(|one| holds(&one.revision));
    let is_running = operation.is_some_and(|one| &*one.phase == "Running");
    if holds(&application.revision) && &*application.sync == "Synced" && !is_running {
        return SyncProgress::Synced;
    }
    if let Some(one) = operation.filter(|one| matches!(&*one.phase, "Failed" | "Error")) {
        return SyncProgress::Failing { message: one.message.to_string() };
    }
    // Argo CD names no commit while it cannot read any.
    let is_about_it = application.revision.is_empty() || holds(&application.revision);
    if let Some(error) = application.error.as_ref().filter(|_| is_about_it) {
        return SyncProgress::Failing { message: error.to_string() };
    }
    let is_seen = operation.is_some() || holds(&application.revision);
    if is_seen { SyncProgress::Syncing } else { SyncProgress::Waiting }
}
