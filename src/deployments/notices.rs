//! What comes in beside deployments: names of repositories, moved branches, pull requests.

use crate::deployments::{Deployments, Fault};
use crate::model::event::{CheckRerun, NamedRepository, PullRequest, Push};
use crate::store::{Noted, StoreError};

impl Deployments {
    /// Takes note of the name that a repository has. A hint, as every event gives it: one that is lost costs
    /// the time until the next.
    pub(crate) async fn recognize_repository(&self, named: &NamedRepository) {
        let NamedRepository { name, identity } = named;
        let now = self.clock.now();
        if let Err(error) = self.store.recognize_repository(*identity, name, now).await {
            tracing::warn!(repository = %name, %error, "a repository's name could not be noted");
        }
    }

    /// Whether somebody follows the branch that has moved; then it is looked at soon. The event itself is not
    /// needed any more: one that is lost costs the time until the next look.
    pub(crate) fn notice_push(&self, push: &Push) -> bool {
        self.templates.pushed(push)
    }

    /// Stores durably that a pull request is to be previewed, or forgets one that is closed.
    pub(crate) async fn note_pull_request(
        &self,
        request: &PullRequest,
    ) -> Result<Noted, StoreError> {
        let noted = self.store.note_pull_request(request, self.clock.now()).await?;
        let PullRequest { repository, number, head, .. } = request;
        tracing::info!(%repository, number, head = head.short(), ?noted, "pull request noted");
        self.wake.previews.notify_one();
        Ok(noted)
    }

    /// Stores durably that previews are to be made again; whether there are such.
    pub(crate) async fn repeat_previews(&self, rerun: &CheckRerun) -> Result<bool, Fault> {
        let found = self.store.repeat_previews(rerun, self.clock.now()).await;
        let found = found.map_err(Fault::new)?;
        if found > 0 {
            tracing::info!(repository = %rerun.repository, found, "previews are made again");
            self.wake.previews.notify_one();
        }
        Ok(found > 0)
    }
}
