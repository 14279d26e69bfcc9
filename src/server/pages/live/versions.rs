//! The versions of records: each changes with what a page shows of its record, and costs less to read.

use crate::deployments::Deployments;
use crate::deployments::rollouts::RolloutView;
use crate::model::app_instance::AppInstance;
use crate::model::deployment::Deployment;
use crate::model::id::{DeployId, RolloutId};
use crate::server::call::{no_deployment, unavailable};
use crate::server::pages::document;
use crate::server::problem::Problem;
use crate::server::routes;
use crate::store::{Filter, RolloutFilter};

/// The number of the newest deployments that have a part in the version of their list.
const NEWEST: u32 = 50;

/// A page that changes with a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LiveRecord {
    /// The newest deployments.
    Deployments,
    /// A deployment.
    Deployment(DeployId),
    /// An app on a target.
    App(Box<AppInstance>),
    /// All rollouts.
    Rollouts,
    /// A rollout.
    Rollout(RolloutId),
}

impl LiveRecord {
    /// Returns a unique name of the record.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Deployments => "deployments".to_owned(),
            Self::Deployment(id) => format!("deployments/{id}"),
            Self::App(instance) => format!("apps/{instance}"),
            Self::Rollouts => "rollouts".to_owned(),
            Self::Rollout(id) => format!("rollouts/{id}"),
        }
    }
}

/// Reads the version of a record. What one caller may see of it is none of its business.
pub(super) async fn read_version(
    deployments: &Deployments,
    record: &LiveRecord,
) -> Result<String, Problem> {
    let store = &deployments.store;
    match record {
        LiveRecord::Deployments => read_deployments(deployments, &Filter::default()).await,
        LiveRecord::Deployment(id) => {
            let version = store.deployment_version(id).await;
            let version = version.map_err(|error| unavailable(&error))?;
            let messages = store.messages_version(id).await;
            let messages = messages.map_err(|error| unavailable(&error))?;
            Ok(format!("{} {messages}", version.ok_or_else(|| no_deployment(id))?))
        }
        LiveRecord::App(instance) => read_app(deployments, instance).await,
        LiveRecord::Rollouts => {
            let rollouts = deployments.rollouts(&RolloutFilter::default(), None, NEWEST).await;
            let rollouts = rollouts.map_err(|error| routes::rollouts::unavailable(&error))?;
            let line = |one: &RolloutView| format!("{} {}\n", one.record.id, one.record.version);
            Ok(document::version(rollouts.rollouts.iter().map(line).collect::<String>()))
        }
        LiveRecord::Rollout(id) => {
            let version = store.rollout_version(id).await;
            let version = version.map_err(|error| routes::rollouts::unavailable(&error))?;
            version.ok_or_else(|| routes::rollouts::no_rollout(id))
        }
    }
}

/// Reads a version of the newest deployments.
async fn read_deployments(deployments: &Deployments, filter: &Filter) -> Result<String, Problem> {
    let newest = deployments.store.deployments(filter, None, NEWEST).await;
    Ok(version_of_list(&newest.map_err(|error| unavailable(&error))?.deployments))
}

/// Returns a version of a list of deployments.
fn version_of_list(newest: &[Deployment]) -> String {
    let line = |one: &Deployment| {
        let waiting = one.waiting.as_ref().map(|waiting| &waiting.what);
        format!("{} {} {} {waiting:?}\n", one.id, one.state.as_str(), one.summary)
    };
    document::version(newest.iter().map(line).collect::<String>())
}

/// Returns a version of an app: of its deployments, and of what stands in the way of others.
async fn read_app(deployments: &Deployments, instance: &AppInstance) -> Result<String, Problem> {
    let AppInstance { target, app } = instance;
    let filter =
        Filter { target: Some(target.clone()), app: Some(app.clone()), ..Filter::default() };
    let store = &deployments.store;
    let newest = store.deployments(&filter, None, NEWEST).await;
    let newest = newest.map_err(|error| unavailable(&error))?.deployments;
    let unread = match newest.first().map(|deployment| &deployment.request.release.repository) {
        Some(repository) => store.unread_deployments(Some(target), Some(repository)).await,
        None => Ok(Vec::new()),
    };
    let unread: Vec<_> =
        unread.map_err(|error| unavailable(&error))?.into_iter().map(|one| one.newest.id).collect();
    let hold = store.hold(target, app).await.map_err(|error| unavailable(&error))?;
    let locks = store.locks(deployments.clock.now()).await.map_err(|error| unavailable(&error))?;
    let locks: Vec<_> = locks.into_iter().map(|(id, _)| id).collect();
    let (newest, hold) = (version_of_list(&newest), hold.map(|hold| hold.since));
    Ok(format!("{newest} {hold:?} {locks:?} {unread:?}"))
}
