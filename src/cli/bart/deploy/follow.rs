//! Finds created deployments at the service, and follows them until they end.

use std::time::Duration;

use tokio::sync::mpsc;

use super::progress::{Phase, ProgressPart};
use crate::api::deployments::{DeploymentPage, DeploymentSummary};
use crate::cli::client::ServiceEndpoint;
use crate::cli::error::{CliError, CliErrorKind};
use crate::model::deployment::{StageTime, State};
use crate::model::id::{DeployId, RepoName};

/// The pauses between requests; the first are shorter, because most deployments take some seconds.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(500), Duration::from_secs(1)];
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The number of requests in a row without an answer after which following ends: about half a minute.
const PATIENCE: usize = 16;
/// The length of the list, which has the new deployments among its newest.
const PAGE_SIZE: u32 = 100;

/// A deployment that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FollowedDeployment {
    pub(super) target: String,
    /// The code host's number.
    pub(super) forge_id: i64,
    /// The service's id, if it is known already.
    pub(super) id: Option<String>,
}

/// The phase of a deployment, by its place in the list, and its parts: the clusters of a fleet, or several apps.
pub(super) type FollowUpdate = (usize, Phase, Vec<ProgressPart>);

/// Follows all deployments; sends their phases until all have ended.
pub(super) fn follow_all(
    server: &ServiceEndpoint,
    repository: &RepoName,
    created: &[FollowedDeployment],
) -> mpsc::Receiver<FollowUpdate> {
    let (send, news) = mpsc::channel(64);
    let mut unknown = Vec::new();
    for (place, deployment) in created.iter().enumerate() {
        match &deployment.id {
            Some(id) => drop(tokio::spawn(watch(server.clone(), id.clone(), place, send.clone()))),
            None => unknown.push((place, deployment.forge_id)),
        }
    }
    if !unknown.is_empty() {
        tokio::spawn(find(server.clone(), repository.clone(), unknown, send));
    }
    news
}

/// Looks for deployments that the service has not reported yet; each that is found is watched.
async fn find(
    server: ServiceEndpoint,
    repository: RepoName,
    mut unknown: Vec<(usize, i64)>,
    send: mpsc::Sender<FollowUpdate>,
) {
    // Each pause but the last is made three times.
    let mut pauses = PAUSES.into_iter().flat_map(|pause| [pause; 3]);
    let mut in_vain = 0;
    while !unknown.is_empty() && !send.is_closed() {
        let query = [("repository", repository.to_string()), ("limit", PAGE_SIZE.to_string())];
        let answer: Result<DeploymentPage, CliError> =
            server.get("/api/v1/deployments", &query).await;
        match answer {
            Ok(list) => {
                in_vain = 0;
                for deployment in list.deployments {
                    let Some(at) =
                        unknown.iter().position(|(_, id)| Some(*id) == deployment.forge_id)
                    else {
                        continue;
                    };
                    let (place, _) = unknown.swap_remove(at);
                    let id = deployment.id.clone();
                    let _gone = send.send((place, phase(deployment, &[]), Vec::new())).await;
                    tokio::spawn(watch(server.clone(), id, place, send.clone()));
                }
            }
            Err(error) => {
                in_vain += 1;
                if in_vain >= PATIENCE || error.kind != CliErrorKind::Passing {
                    for (place, _) in unknown {
                        let _gone =
                            send.send((place, Phase::Lost(error.whole()), Vec::new())).await;
                    }
                    return;
                }
            }
        }
        tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
    }
}

/// Follows one deployment to its end, or until the receiver is closed.
async fn watch(
    server: ServiceEndpoint,
    id: String,
    place: usize,
    send: mpsc::Sender<FollowUpdate>,
) {
    let mut parts: Vec<ProgressPart> = Vec::new();
    let send_phase = |phase, parts| send.send((place, phase, parts));
    let Ok(id) = DeployId::parse(id.as_str()) else {
        let _gone =
            send_phase(Phase::Lost(format!("the service sent an invalid deploy id: {id}")), parts)
                .await;
        return;
    };
    let mut following = server.follow(&id);
    loop {
        let event = tokio::select! {
            event = following.next() => event,
            () = send.closed() => return,
        };
        let phase = match event {
            Ok(Some(picture)) => {
                let apps = picture.apps.into_iter().map(ProgressPart::of_app);
                let clusters = picture.clusters.into_iter().map(ProgressPart::of_cluster);
                parts = clusters.chain(apps).collect();
                phase(picture.summary.value, &picture.stages)
            }
            Ok(None) => Phase::Lost("the service ended the stream of events".to_owned()),
            Err(error) => Phase::Lost(error.whole()),
        };
        let over = phase.is_over();
        let _gone = send_phase(phase, parts.clone()).await;
        if over {
            return;
        }
    }
}

/// Returns the phase of a deployment. Pure.
fn phase(overview: DeploymentSummary, stages: &[StageTime]) -> Phase {
    let DeploymentSummary { id, state, finished_at, summary, .. } = overview;
    if finished_at.is_some() {
        return Phase::Ended { id, state, summary };
    }
    let stage = stages.last().map(|time| format!("{} done", time.stage.as_str()));
    let doing = match state {
        // "3 of 5 updated, 2 available; …"
        State::Syncing | State::Progressing => summary,
        _ => stage.unwrap_or(summary),
    };
    Phase::Going { id, state, doing }
}
