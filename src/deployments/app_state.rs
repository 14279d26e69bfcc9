//! The state of one app on one target: what is live, from the manifest repository; what is under
//! way, from the database.

use jiff::Timestamp;

use crate::deployments::history::{History, HistoryEntry, HistoryError};
use crate::deployments::{BackendError, Deployments, apps};
use crate::lookups::FactUnavailable;
use crate::model::app_instance::{AppInstance, InstanceState};
use crate::model::deployment::Deployment;
use crate::model::id::{LockId, RepoName};
use crate::model::lock::Lock;
use crate::model::notice::Sink;
use crate::model::rollback::Hold;
use crate::store::{Filter, Notification, StoreError};

/// An app on a target, now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppNow {
    /// The app in the manifest repository; `None` where it has nothing of the app yet.
    pub state: Option<InstanceState>,
    /// The live revision.
    pub live: Option<HistoryEntry>,
    /// The rollback that made the revision live, if one did.
    pub rollback: Option<Deployment>,
    /// True if `latest` has manual edits.
    pub hand_edited: bool,
    /// Deployments that have not ended, newest first. One whose WAML has not been read counts if it
    /// is of the app's repository.
    pub under_way: Vec<Deployment>,
    /// The newest deployment of which the app is known.
    pub last: Option<Deployment>,
    /// A newer one of the same repository, which has failed before its app was known.
    pub unread: Option<Deployment>,
    /// The locks that stop the app, oldest first.
    pub locks: Vec<(LockId, Lock)>,
    /// The hold that stops automation, if there is one: of the target, or of a cluster or a fleet that it shares a
    /// cluster with.
    pub hold: Option<Hold>,
    /// The state of the message to the cluster's Argo CD about the newest push.
    pub sync: SyncNotice,
}

/// The state of the message to a cluster's Argo CD about the newest push to an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncNotice {
    /// It was delivered at that time.
    Delivered(Timestamp),
    /// It waits to be sent.
    Waiting,
    /// It is parked for this reason; Argo CD polls every few minutes by itself.
    GivenUp(String),
    /// There is no message, as without a configured webhook; Argo CD polls every few minutes by itself.
    ByItself,
}

/// The most unfinished deployments of one app that are listed.
const MAX_UNDER_WAY: u32 = 20;

impl Deployments {
    /// Returns the state of the app; `None` if the service never heard of the app on that target.
    pub(crate) async fn find_app(
        &self,
        instance: &AppInstance,
    ) -> Result<Option<AppNow>, HistoryError> {
        let last = self.newest(app_filter(instance)).await?;
        if self.manifests_of(&instance.target).is_err() && last.is_none() {
            return Ok(None);
        }
        let history = self.history_of(instance).await?;
        // The manifest repository has the clusters of a fleet, and nothing of the fleet itself.
        let state = if self.fleets.is_fleet(&instance.target) {
            None
        } else {
            let state = self.facts.app(instance).await;
            state.map_err(|FactUnavailable(why)| HistoryError::Repository(why))?
        };
        if state.is_none() && last.is_none() {
            return Ok(None);
        }
        let repository = state.as_ref().and_then(|state| state.repository.clone());
        let repository = repository
            .or_else(|| last.as_ref().map(|last| last.request.release.repository.clone()));
        let contact = last.as_ref().and_then(|last| last.contact.as_ref());
        let owner = state.as_ref().and_then(|state| state.owner.clone());
        let owner = owner.or_else(|| contact.map(|contact| contact.owner.clone()));
        let locks = self.store.locks(self.clock.now()).await.map_err(BackendError::new)?;
        let overlapping = self.fleets.overlapping(&instance.target);
        let live = history.revisions.into_iter().find(|entry| entry.live);
        let newest_push = self.newest(Filter::pushed(&instance.target, &instance.app)).await?;
        Ok(Some(AppNow {
            hand_edited: history.hand_edited,
            hold: self
                .store
                .hold(&instance.target, &instance.app)
                .await
                .map_err(BackendError::new)?,
            sync: self.sync(newest_push.as_ref()).await?,
            rollback: newest_push.filter(|deployment| is_back_to(deployment, live.as_ref())),
            live,
            unread: Box::pin(self.find_unread(instance, repository.as_ref())).await?,
            under_way: self.under_way(instance, repository).await?,
            locks: apps::stopping_locks(locks, (&overlapping, &instance.app), owner.as_deref()),
            state,
            last,
        }))
    }

    /// Returns the app's history; `None` if the manifest repository has nothing of it.
    pub(crate) async fn find_history(
        &self,
        instance: &AppInstance,
    ) -> Result<Option<History>, HistoryError> {
        let history = self.history_of(instance).await?;
        Ok(Some(history).filter(|history| history.hand_edited || !history.revisions.is_empty()))
    }
}

impl Deployments {
    async fn newest(&self, filter: Filter) -> Result<Option<Deployment>, BackendError> {
        let page = self.store.deployments(&filter, None, 1).await.map_err(BackendError::new)?;
        Ok(page.deployments.into_iter().next())
    }

    /// Returns the newest deployment of the app's repository, if it has failed before its app was known.
    async fn find_unread(
        &self,
        instance: &AppInstance,
        repository: Option<&RepoName>,
    ) -> Result<Option<Deployment>, BackendError> {
        let Some(repository) = repository else { return Ok(None) };
        let unread = self.store.unread_deployments(Some(&instance.target), Some(repository)).await;
        let mut unread = unread.map_err(BackendError::new)?.into_iter();
        let own = unread.find(|deployment| deployment.app.as_ref() == Some(&instance.app));
        let Some(own) = own else { return Ok(None) };
        self.store.deployment(&own.newest.id).await.map_err(BackendError::new)
    }

    /// Returns the deployments under way. The app of one is unknown before its WAML has been read;
    /// until then it may be any app of its repository.
    async fn under_way(
        &self,
        instance: &AppInstance,
        repository: Option<RepoName>,
    ) -> Result<Vec<Deployment>, BackendError> {
        let target = Some(instance.target.clone());
        let filter = match repository {
            Some(_) => Filter { target, repository, ..Filter::default() },
            None => app_filter(instance),
        };
        let filter = Filter { unfinished: true, ..filter };
        let page = self.store.deployments(&filter, None, MAX_UNDER_WAY).await;
        let mut deployments = page.map_err(BackendError::new)?.deployments;
        deployments
            .retain(|deployment| deployment.app.as_ref().is_none_or(|app| *app == instance.app));
        Ok(deployments)
    }

    /// Returns the state of the message about the newest push.
    async fn sync(&self, newest_push: Option<&Deployment>) -> Result<SyncNotice, BackendError> {
        let Some(deployment) = newest_push else { return Ok(SyncNotice::ByItself) };
        let messages: Result<_, StoreError> = self.store.messages(&deployment.id).await;
        let mut messages = messages.map_err(BackendError::new)?.into_iter();
        Ok(messages
            .rfind(|message| matches!(message.sink, Sink::ArgoCd(_)))
            .map_or(SyncNotice::ByItself, sync))
    }
}

/// Returns true if the deployment is a rollback to that revision.
fn is_back_to(deployment: &Deployment, live: Option<&HistoryEntry>) -> bool {
    let target_id = deployment.rollback.as_ref().map(|rollback| &rollback.to);
    target_id.is_some() && target_id == live.map(|live| &live.id)
}

fn sync(message: Notification) -> SyncNotice {
    match (message.sent_at, message.parked, message.skipped) {
        (Some(at), _, _) => SyncNotice::Delivered(at),
        (None, Some(why), _) | (None, None, Some(why)) => SyncNotice::GivenUp(why),
        (None, None, None) => SyncNotice::Waiting,
    }
}

fn app_filter(instance: &AppInstance) -> Filter {
    Filter {
        target: Some(instance.target.clone()),
        app: Some(instance.app.clone()),
        ..Filter::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::status::ForgeStatus;

    #[test]
    fn what_became_of_the_message_is_what_argo_cd_knows() {
        let at = "2026-11-21T05:48:12Z".parse().unwrap();
        let notification = |sent: bool, parked: Option<&str>, skipped: Option<&str>| Notification {
            sink: Sink::ArgoCd("prod".parse().unwrap()),
            seq: 1,
            status: ForgeStatus::queued(),
            at,
            sent_at: sent.then_some(at),
            parked: parked.map(str::to_owned),
            skipped: skipped.map(str::to_owned),
            reference: None,
        };
        assert_eq!(sync(notification(true, None, None)), SyncNotice::Delivered(at));
        assert_eq!(sync(notification(false, None, None)), SyncNotice::Waiting);
        let why = SyncNotice::GivenUp("no token".to_owned());
        assert_eq!(sync(notification(false, Some("no token"), None)), why);
        assert_eq!(sync(notification(false, None, Some("no token"))), why);
    }
}
