//! An event becomes a deployment, durably, before its sender is answered; and what else events tell: names of
//! repositories, moved branches, pull requests.

use crate::deployments::{BackendError, Deployments};
use crate::model::audit::{AuditRecord, Principal};
use crate::model::event::{
    BranchPush, CheckRerun, DeploymentRequest, NamedRepository, PullRequest, WebhookEvent,
};
use crate::model::id::{AppKey, DeliveryId, DeployId};
use crate::model::release::Release;
use crate::store::{
    Accepted as Stored, NewRollback, Noted, PendingAnswer, RollbackTurn, StoreError,
};

/// What became of a deployment that was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// It is stored now.
    New(DeployId),
    /// It was stored before, as this deployment.
    Duplicate(DeployId),
}

/// Who asks us for a deployment, of which app, and what of the answer is kept once it has its id.
type DirectRequest<'a> =
    (AuditContext<'a>, &'a (dyn Fn(&DeployId) -> Option<PendingAnswer> + Sync));

/// What the audit log is told of a deployment beside the request.
#[derive(Debug, Clone, Copy)]
pub struct AuditContext<'a> {
    /// Who asks.
    pub by: &'a Principal,
    /// The app that the WAML of the commit is of; `None` where it cannot be read.
    pub app: Option<&'a AppKey>,
}

/// How often a new id is drawn: they have a millisecond and 24 random bits.
const DRAWS: usize = 3;

impl Deployments {
    /// Takes an event in. When this returns, nothing of it can be lost.
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
            // The loop of previews looks for itself.
            WebhookEvent::PullRequest(request) => {
                let noted = self.store.note_pull_request(request, self.clock.now()).await?;
                tracing::debug!(%delivery, ?noted, "pull request noted");
                Ok(None)
            }
            WebhookEvent::Ignored { reason, .. } => {
                tracing::debug!(%delivery, reason, "event ignored");
                Ok(None)
            }
            WebhookEvent::Deployment(request) => self.accept(delivery, request).await.map(Some),
        }
    }

    /// Stores a request durably; a second one of the same delivery or deployment changes nothing.
    pub(crate) async fn accept(
        &self,
        delivery: &DeliveryId,
        request: &DeploymentRequest,
    ) -> Result<Acceptance, StoreError> {
        self.record(delivery, request, None).await
    }

    /// Takes in a deployment that somebody asks us for, with an entry in the audit log and what is
    /// answered to its id. When this returns, nothing of it can be lost.
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
        by: Option<DirectRequest<'_>>,
    ) -> Result<Acceptance, StoreError> {
        let mut draw = 1;
        let (id, stored) = loop {
            let (id, now) = (DeployId::of(self.clock.draw()), self.clock.now());
            let stored = match by {
                None => self.store.accept(delivery, request, &id, now).await,
                Some((act, answer)) => {
                    let (entry, kept) = (self.deploy_entry(request, &id, act), answer(&id));
                    let act = Some((&entry, kept.as_ref()));
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
            Stored::Duplicate(first) => {
                tracing::info!(deployment = %first, %delivery, "event seen before, nothing to do");
                Ok(Acceptance::Duplicate(first))
            }
        }
    }

    /// Takes a rollback in. When this returns, nothing of it can be lost.
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

    /// Returns the entry of the audit log for a deployment that somebody asked us for.
    fn deploy_entry(
        &self,
        request: &DeploymentRequest,
        deployment: &DeployId,
        AuditContext { by, app }: AuditContext<'_>,
    ) -> AuditRecord {
        let DeploymentRequest { release, target, description, git_ref, .. } = request;
        let Release { repository, commit, tag } = release;
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
    /// Takes note of the name that a repository has. A hint, as every event gives it: one that is lost costs
    /// the time until the next.
    pub(crate) async fn recognize_repository(&self, named: &NamedRepository) {
        let NamedRepository { name, identity } = named;
        let now = self.clock.now();
        if let Err(error) = self.store.recognize_repository(*identity, name, now).await {
            tracing::warn!(repository = %name, %error, "a repository's name could not be noted");
        }
    }

    /// Returns whether somebody follows the branch that has moved; then it is looked at soon. The event
    /// itself is not needed any more: one that is lost costs the time until the next look.
    pub(crate) fn notice_push(&self, push: &BranchPush) -> bool {
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
    pub(crate) async fn repeat_previews(&self, rerun: &CheckRerun) -> Result<bool, BackendError> {
        let found = self.store.repeat_previews(rerun, self.clock.now()).await;
        let found = found.map_err(BackendError::new)?;
        if found > 0 {
            tracing::info!(repository = %rerun.repository, found, "previews are made again");
            self.wake.previews.notify_one();
        }
        Ok(found > 0)
    }
}
