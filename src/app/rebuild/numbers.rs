//! Matches the code host's deployments with those of the record. Pure.
//!
//! A commit has its deploy id and not the code host's number. The request identifies most of them;
//! of two equal requests, the page's address in the statuses does.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::forge::{ListedStatus, is_own_task};
use crate::model::commit_record::{ForgeNumber, PastDeployment};
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppName, DeployId, ImageTag};

/// The numbers of one repository, matched with the pushed deployments.
#[derive(Debug, Default)]
pub(super) struct NumberMatches {
    /// The numbers by deploy id.
    pub(super) numbers: BTreeMap<DeployId, ForgeNumber>,
    /// The requests that only their statuses can identify.
    pub(super) unclear: Vec<DeploymentRequest>,
}

/// The part of a request by which two may be equal.
type NumberKey<'d> = (&'d str, &'d str, &'d ImageTag, Option<&'d AppName>);

/// Matches the pushed deployments and the requests of one repository.
pub(super) fn match_numbers(
    past: &[&PastDeployment],
    requests: Vec<DeploymentRequest>,
) -> NumberMatches {
    let mut deployed: BTreeMap<NumberKey<'_>, Vec<&DeployId>> = BTreeMap::new();
    for deployment in past {
        let wish = (
            deployment.release.commit.as_str(),
            deployment.target.as_str(),
            &deployment.release.tag,
            deployment.release.app.as_ref(),
        );
        deployed.entry(wish).or_default().push(&deployment.id);
    }
    let mut matches = NumberMatches::default();
    let mut by_wish: BTreeMap<_, Vec<DeploymentRequest>> = BTreeMap::new();
    for request in requests {
        let release = &request.release;
        let place = (release.commit.to_string(), request.target.to_string());
        let wish = (place.0, place.1, release.tag.clone(), release.app.clone());
        by_wish.entry(wish).or_default().push(request);
    }
    for ((commit, target, tag, app), mut requests) in by_wish {
        let wish = (commit.as_str(), target.as_str(), &tag, app.as_ref());
        match deployed.get(&wish).map(Vec::as_slice) {
            None => {}
            Some([id]) if requests.len() == 1 => {
                matches
                    .numbers
                    .extend(requests.pop().map(|request| ((*id).clone(), number(&request))));
            }
            Some(_) => matches.unclear.extend(requests),
        }
    }
    matches
}

/// Returns the deploy id to which one of the statuses links.
pub(super) fn own_deployment(
    statuses: &[ListedStatus],
    past: &[&PastDeployment],
) -> Option<DeployId> {
    let pages = statuses.iter().filter_map(|status| status.log_url.as_deref());
    let ids = pages.filter_map(|url| DeployId::parse(url.rsplit('/').next()?).ok());
    ids.into_iter().find(|id| past.iter().any(|deployment| deployment.id == *id))
}

/// Returns the deploy id and the number of a deployment that the service created at the code host with
/// its id: a rollback, or a target of a rollout.
pub(super) fn of_rollback(listed: &Value) -> Option<(DeployId, ForgeNumber)> {
    listed["task"].as_str().filter(|task| is_own_task(task))?;
    let id = DeployId::parse(listed.pointer("/payload/deploy_id")?.as_str()?).ok()?;
    let number = ForgeNumber {
        forge_id: listed["id"].as_i64()?,
        git_ref: listed["ref"].as_str().unwrap_or_default().to_owned(),
        production: listed["production_environment"].as_bool().unwrap_or_default(),
    };
    Some((id, number))
}

pub(super) fn number(request: &DeploymentRequest) -> ForgeNumber {
    let DeploymentRequest { forge_id, git_ref, production, .. } = request;
    ForgeNumber { forge_id: *forge_id, git_ref: git_ref.clone(), production: *production }
}
