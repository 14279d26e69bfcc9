//! Turns what was seen of deployments in a cluster into what is stored, sent and logged.

use crate::cluster::failure::CauseKind;
use crate::cluster::record::ProgressRecord;
use crate::cluster::summary::DeploymentState;
use crate::cluster::view::DeploymentNews;
use crate::model::canary::CanaryStatus;
use crate::model::deployment::{ClusterPhase, ForgeState, State};
use crate::model::status::{ForgeStatus, one_line};
use crate::store::{ClusterChange, WorkloadRecord};

/// The longest summary, in characters.
const LONGEST_SUMMARY: usize = 2000;

/// Returns a record as the store keeps it.
pub(super) fn to_stored(record: &ProgressRecord) -> WorkloadRecord {
    let key = &record.key;
    WorkloadRecord {
        workload: format!("{}/{}/{}", key.workload.kind, key.workload.namespace, key.workload.name),
        uid: key.uid.to_string(),
        sequence: key.sequence,
        deployment: key.deploy_id.clone(),
        record: serde_json::to_string(record).expect("records have string keys alone"),
    }
}

/// Decides what is stored and told of a change.
pub(super) fn change_of(news: &DeploymentNews, log_tail: Vec<String>) -> ClusterChange {
    let progress = &news.progress;
    let sentence = &progress.sentence;
    // The code host shows one short line: of a canary the share and the reason count.
    let canary = progress.canaries.iter().max_by_key(|canary| canary.failed_checks);
    let line = canary.filter(|_| news.failure.is_none()).map(CanaryStatus::describe);
    let in_cluster = |phase| ForgeStatus::in_cluster(phase, line.as_ref().unwrap_or(sentence));
    let end = |state| ForgeStatus::new(state, sentence);
    let (state, status) = match &progress.state {
        DeploymentState::Syncing => (State::Syncing, in_cluster(ClusterPhase::Syncing)),
        DeploymentState::Progressing => (State::Progressing, in_cluster(ClusterPhase::Progressing)),
        DeploymentState::Finished { .. } => (State::Succeeded, end(ForgeState::Success)),
        DeploymentState::Failed { .. } => (State::Failed, end(ForgeState::Failure)),
        DeploymentState::Superseded => (State::Superseded, end(ForgeState::Inactive)),
    };
    ClusterChange {
        deployment: news.deploy_id.clone(),
        state,
        summary: one_line(sentence, LONGEST_SUMMARY),
        waiting: progress.waiting.clone(),
        log_tail,
        canaries: progress.canaries.clone(),
        is_canary_failure: matches!(
            &progress.state,
            DeploymentState::Failed { cause, .. } if cause.kind == CauseKind::CanaryFailed
        ),
        status: news.is_announced.then_some(status),
    }
}

/// Logs a change: an end for everybody, progress for debugging.
pub(super) fn log_news(news: &DeploymentNews) {
    let (deployment, sentence) = (&news.deploy_id, &news.progress.sentence);
    match &news.progress.state {
        DeploymentState::Finished { .. } => {
            tracing::info!(%deployment, summary = sentence, "deployment runs in the cluster");
        }
        DeploymentState::Failed { .. } => {
            tracing::warn!(%deployment, summary = sentence, "deployment failed in the cluster");
        }
        DeploymentState::Superseded => {
            tracing::info!(%deployment, "deployment superseded in the cluster");
        }
        DeploymentState::Syncing | DeploymentState::Progressing => {
            tracing::debug!(%deployment, summary = sentence, "deployment progresses in the cluster");
        }
    }
}
