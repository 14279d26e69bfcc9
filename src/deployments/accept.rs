//! Accepts events: an event becomes a stored deployment before its sender gets an answer. Other
//! events tell names of repositories, moved branches and pull requests.

use crate::deployments::{BackendError, Deployments};
use crate::model::audit::{AuditRecord, Principal};
use crate::model::event::{
    BranchPush, CheckRerun, DeploymentRequest, NamedRepository, PullRequest, WebhookEvent,
};
use crate::model::id::{AppKey, DeliveryId, DeployId};
use crate::model::release::Release;
use crate::store::{
    Accepted as Stored, NewRollback, PendingAnswer, PreviewIntake, RollbackTurn, StoreError,
};

/// The result of accepting a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// It is stored now, under this id.
    New(DeployId),
    /// It was stored before, as this deployment.
    Duplicate(DeployId),
}

/// The context of a deployment that a caller requests from this service: the principal, the app,
/// and the idempotent answer to store once the deployment has an id.
type DirectRequest<'a> =
    (AuditContext<'a>, &'a (dyn Fn(&DeployId) -> Option<PendingAnswer> + Sync));

/// The part of an audit log entry that the request does not contain.
#[derive(Debug, Clone, Copy)]
pub struct AuditContext<'a> {
    /// The principal that requests the deployment.
    pub by: &'a Principal,
    /// The app of the WAML at the commit; `None` where the WAML cannot be read.
    pub app: Option<&'a AppKey>,
}

/// The attempts at drawing a free id: ids have a millisecond and 24 random bits.
const DRAWS: usize = 3;

impl Deployments {
    /// Accepts an event. When this returns, nothing of it can be lost.
    pub(crate) async fn receive(
        &self,
        delivery: &DeliveryId,
        event: &WebhookEvent,
    ) -> Result<Option<Acceptance>, StoreError> {
        match event {
            WebhookEvent::Ping
            | WebhookEvent::Push(_)
            | WebhookEvent::Rerun(_)
            | WebhookEvent::Refused(_) => Ok(None),
            // The loop of previews polls the store.
            WebhookEvent::PullRequest(request) => {
                let outcome = self.store.note_pull_request(request, self.clock.now()).await?;
                tracing::debug!(%delivery, ?outcome, "pull request recorded");
                Ok(None)
            }
            WebhookEvent::Ignored { reason, .. } => {
                tracing::debug!(%delivery, reason, "event ignored");
                Ok(None)
            }
            WebhookEvent::Deployment(request) => self.accept(delivery, request).await.map(Some),
            WebhookEvent::Rollout(trigger) => {
                self.accept_rollout(trigger).await?;
                Ok(None)
            }
        }
    }

    /// Stores a request durably; a second request of the same delivery or deployment changes
    /// nothing.
    pub(crate) async fn accept(
        &self,
        delivery: &DeliveryId,
        request: &DeploymentRequest,
    ) -> Result<Acceptance, StoreError> {
        self.record(delivery, request, None).await
    }

    /// Stores a deployment that a caller requests from this service, with its entry in the audit
    /// log and the answer that holds its id. When this returns, nothing of it can be lost.
    pub(crate) async fn record_direct(
        &self,
        delivery: &DeliveryId,
        request: &DeploymentRequest,
        act: AuditContext<'_>,
        answer: &(dyn Fn(&DeployId) -> Option<PendingAnswer> + Sync),
    ) -> Result<Acceptance, StoreError> {
        self.record(delivery, request, Some((act, answer))).await
    }

    async fn record(
        &self,
        delivery: &DeliveryId,
        request: &DeploymentRequest,
        direct_request: Option<DirectRequest<'_>>,
    ) -> Result<Acceptance, StoreError> {
        let mut draw = 1;
        let (id, stored) = loop {
            let (id, now) = (DeployId::of(self.clock.draw()), self.clock.now());
            let stored = match direct_request {
                None => self.store.accept(delivery, request, &id, now).await,
                Some((act, answer)) => {
                    let (entry, pending) = (self.deploy_entry(request, &id, act), answer(&id));
                    let act = Some((&entry, pending.as_ref()));
                    self.store.accept_act(delivery, request, &id, act, now).await
                }
            };
            match stored {
                Err(StoreError::IdTaken(_)) if draw < DRAWS => draw += 1,
                other => break (id, other?),
            }
        };
        match stored {
            Stored::New => {
                self.wake.notify_all();
                tracing::info!(
                    deployment = %id, %delivery, repository = %request.release.repository,
                    target = %request.target, tag = %request.release.tag, actor = request.actor,
                    "deployment accepted"
                );
                Ok(Acceptance::New(id))
            }
            Stored::Duplicate(existing) => {
                tracing::info!(deployment = %existing, %delivery, "duplicate event, nothing to do");
                Ok(Acceptance::Duplicate(existing))
            }
        }
    }

    /// Stores a rollback. When this returns, nothing of it can be lost.
    pub(crate) async fn record_rollback(
        &self,
        new: &NewRollback,
        act: (&AuditRecord, Option<&PendingAnswer>),
    ) -> Result<RollbackTurn, StoreError> {
        let turn = self.store.accept_rollback(new, act, self.clock.now()).await?;
        if turn == RollbackTurn::Yes {
            self.wake.notify_all();
            tracing::info!(
                deployment = %new.id, app = %new.app, target = %new.request.target,
                to = %new.rollback.to, actor = new.request.actor, reason = new.rollback.reason,
                "rollback accepted"
            );
        }
        Ok(turn)
    }

    /// Returns the entry of the audit log for a deployment that a caller requested from this
    /// service.
    fn deploy_entry(
        &self,
        request: &DeploymentRequest,
        deployment: &DeployId,
        AuditContext { by, app }: AuditContext<'_>,
    ) -> AuditRecord {
        let DeploymentRequest { release, target, description, git_ref, .. } = request;
        let Release { repository, app: _, commit, tag } = release;
        AuditRecord {
            target: Some(target.clone()),
            app: app.cloned(),
            subject: format!(
                "deployment {deployment} of {repository}:{tag} at {} ({git_ref})",
                commit.short()
            ),
            outcome: "accepted".to_owned(),
            ..self.ledger.entry("deploy", description.clone(), by.clone())
        }
    }
}

impl Deployments {
    /// Records the name that a repository has. Every event carries it: a lost one costs the time
    /// until the next.
    pub(crate) async fn recognize_repository(&self, repository: &NamedRepository) {
        let NamedRepository { name, identity } = repository;
        let now = self.clock.now();
        if let Err(error) = self.store.recognize_repository(*identity, name, now).await {
            tracing::warn!(repository = %name, %error, "repository name could not be recorded");
        }
    }

    /// Returns true if the service follows the branch that has moved; then the branch is read soon.
    /// The event itself is not needed any more: a lost one costs the time until the next poll.
    pub(crate) fn notice_push(&self, push: &BranchPush) -> bool {
        self.templates.notice_push(push)
    }

    /// Stores durably that a pull request needs a preview, or forgets one that is closed.
    pub(crate) async fn note_pull_request(
        &self,
        request: &PullRequest,
    ) -> Result<PreviewIntake, StoreError> {
        let outcome = self.store.note_pull_request(request, self.clock.now()).await?;
        let PullRequest { repository, number, head, .. } = request;
        tracing::info!(%repository, number, head = head.short(), ?outcome, "pull request recorded");
        self.wake.previews.notify_one();
        Ok(outcome)
    }

    /// Stores durably that previews are to be computed again; returns true if there are any.
    pub(crate) async fn repeat_previews(&self, rerun: &CheckRerun) -> Result<bool, BackendError> {
        let count = self.store.repeat_previews(rerun, self.clock.now()).await;
        let count = count.map_err(BackendError::new)?;
        if count > 0 {
            tracing::info!(repository = %rerun.repository, count, "previews scheduled again");
            self.wake.previews.notify_one();
        }
        Ok(count > 0)
    }
}
