//! What a message is made of: the deployment's record, its people, and what was told before.

use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::deployments::outcome::{NotDelivered, Problem, Remedy};
use crate::deployments::tell::slack::line::Line;
use crate::deployments::tell::slack::trouble::of_store;
use crate::model::deployment::{Contact, Deployment, State};
use crate::model::event::Recipient;
use crate::model::id::DeployId;
use crate::model::rollback::Holds;
use crate::notify::message::{LastGood, Links, Person};
use crate::notify::slack::error::SlackError;
use crate::notify::story::{Earlier, Fate, Whereabouts};
use crate::store::{Filter, Message, Told};

/// Who somebody is must not hold up what is told to others.
const LONGEST_PROFILE: Duration = Duration::from_secs(2);
/// Together with what comes after it, less than half a lease.
const LONGEST_PERSON: Duration = Duration::from_secs(5);

/// Among so many of the newest a good release is looked for.
const LOOKED_AT: u32 = 50;

pub(super) async fn deployment(
    deployments: &Deployments,
    message: &Message,
) -> Result<Deployment, NotDelivered> {
    let found =
        deployments.store.deployment(&message.deployment).await.map_err(|error| of_store(&error));
    found?.ok_or_else(|| {
        let message = format!("there is no deployment {} any more", message.deployment);
        NotDelivered { problem: Problem { remedy: Remedy::Reject, message }, unsure: false }
    })
}

/// As its own WAML says; where that could not be read, as the last one that could.
pub(super) async fn contact(
    deployments: &Deployments,
    deployment: &Deployment,
) -> Result<Option<Contact>, NotDelivered> {
    if deployment.contact.is_some() {
        return Ok(deployment.contact.clone());
    }
    let repository = &deployment.request.release.repository;
    deployments.store.last_contact(repository).await.map_err(|error| of_store(&error))
}

/// The newest release of the lane that arrived before, and that nobody has rolled back from since. A
/// rollback is that release: there is none to offer beside it.
pub(super) async fn last_good(
    deployments: &Deployments,
    deployment: &Deployment,
) -> Result<Option<LastGood>, NotDelivered> {
    if deployment.rollback.is_some() && deployment.state == State::Succeeded {
        return Ok(None);
    }
    let request = &deployment.request;
    let filter = Filter {
        state: Some(State::Succeeded),
        target: Some(request.target.clone()),
        repository: Some(request.release.repository.clone()),
        app: deployment.app.clone(),
        ..Filter::default()
    };
    let page = deployments.store.deployments(&filter, None, LOOKED_AT).await;
    Ok(good_before(&page.map_err(|error| of_store(&error))?.deployments, &deployment.id))
}

/// Of successes, newest first: the newest before the deployment from which no later one went back.
fn good_before(successes: &[Deployment], deployment: &DeployId) -> Option<LastGood> {
    let mut left: Vec<&DeployId> = Vec::new();
    for one in successes {
        // A rollback's own id stands for the revision that it made live.
        let revision = one.rollback.as_ref().map_or(&one.id, |rollback| &rollback.to);
        if one.id < *deployment && !left.contains(&revision) {
            return Some(LastGood { id: one.id.clone(), tag: one.request.release.tag.clone() });
        }
        left.extend(one.rollback.as_ref().and_then(|rollback| rollback.from.as_ref()));
    }
    None
}

/// Whom a hold keeps from deploying to the deployment's target.
pub(super) fn holds(deployments: &Deployments, deployment: &Deployment) -> Holds {
    let target = deployments.clusters.find(&deployment.request.target);
    target.map(|target| target.policies.holds).unwrap_or_default()
}

pub(super) async fn person(
    deployments: &Deployments,
    line: &Line,
    deployment: &Deployment,
    now: Timestamp,
) -> Result<Person, SlackError> {
    let login = match &deployment.request.recipient {
        Recipient::Actor => &deployment.request.actor,
        Recipient::Login(login) => login,
        Recipient::Nobody => {
            return Ok(Person { name: deployment.request.actor.clone(), slack: None });
        }
    };
    let profile = async || {
        // A code host that does not answer costs the mention, not the message.
        let asked = tokio::time::timeout(LONGEST_PROFILE, deployments.forge.email_of(login)).await;
        asked.ok()?.ok()?
    };
    let found = tokio::time::timeout(LONGEST_PERSON, line.people.find(login, profile, now)).await;
    let slow = || SlackError::Unreachable("looking a person up took too long".to_owned());
    let slack = found.map_err(|_| slow())??;
    Ok(Person { name: login.clone(), slack })
}

pub(super) fn links(deployments: &Deployments) -> Links<'_> {
    Links {
        pages: &deployments.external_url,
        forge: deployments.forge_url.as_deref(),
        waml: &deployments.waml.path,
    }
}

/// What became of a former message.
pub(super) fn earlier(told: &Told) -> Earlier {
    let Told { status, sent_at, parked, skipped, reference, .. } = told;
    let message = if sent_at.is_some() {
        Fate::Told(reference.as_deref().and_then(Whereabouts::parse))
    } else if parked.is_some() || skipped.is_some() {
        Fate::Untold
    } else {
        Fate::Waits
    };
    Earlier { state: status.state, message }
}
