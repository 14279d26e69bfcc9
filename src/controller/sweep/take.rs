//! One lost event is taken in, or it turns out that it needs nothing.

use crate::controller::sweep::decide::{self, Standing};
use crate::controller::sweep::{Parts, Progress};
use crate::deployments::accept::Acceptance;
use crate::deployments::outcome::Problem;
use crate::model::event::{Event, Refusal};
use crate::model::id::{DeliveryId, RepoName};
use crate::store::StoreError;

/// What became of it.
pub(super) enum Taken {
    /// It needs no second look; the word for why.
    Settled(&'static str),
    /// The forge cannot be asked now.
    NotNow(Problem),
}

impl Parts {
    /// Takes an event in as a webhook would, if nobody has answered it meanwhile.
    pub(super) async fn take(
        &self,
        delivery: &DeliveryId,
        event: &Event,
        progress: &mut Progress,
    ) -> Result<Taken, StoreError> {
        match event {
            Event::Deployment(request) => {
                let repository = &request.release.repository;
                match self.still_open(repository, request.forge_id).await {
                    Ok(()) => self.receive(delivery, event, progress).await,
                    Err(taken) => Ok(taken),
                }
            }
            Event::Refused(refusal) => Ok(self.refuse(refusal, progress).await),
            Event::Push(push) => {
                self.deployments.notice_push(push);
                self.receive(delivery, event, progress).await
            }
            // What is stored of it already is known by the forge's own time.
            Event::PullRequest(_) => self.receive(delivery, event, progress).await,
            // Whoever pressed the button sees that nothing came of it.
            Event::Ping | Event::Rerun(_) | Event::Ignored { .. } => Ok(Taken::Settled("not_ours")),
        }
    }

    async fn receive(
        &self,
        delivery: &DeliveryId,
        event: &Event,
        progress: &mut Progress,
    ) -> Result<Taken, StoreError> {
        Ok(Taken::Settled(match self.deployments.receive(delivery, event).await? {
            Some(Acceptance::New(deployment)) => {
                progress.healed += 1;
                tracing::info!(%deployment, %delivery, "its event was lost, and is taken in now");
                "healed"
            }
            Some(Acceptance::Duplicate(_)) => "known",
            None => "handed_on",
        }))
    }

    async fn refuse(&self, refusal: &Refusal, progress: &mut Progress) -> Taken {
        let Refusal { repository, forge_id, field, .. } = refusal;
        if let Err(taken) = self.still_open(repository, *forge_id).await {
            return taken;
        }
        match self.deployments.show_refusal(refusal).await {
            Ok(()) => {
                progress.refused += 1;
                tracing::info!(%repository, forge_id, field, "the forge shows why it is refused");
                Taken::Settled("refused")
            }
            Err(problem) => self.not_told(repository, problem),
        }
    }

    /// Nothing, or why it must not be taken in.
    async fn still_open(&self, repository: &RepoName, forge_id: i64) -> Result<(), Taken> {
        match self.deployments.deployment_statuses(repository, forge_id).await {
            Ok(statuses) => match decide::standing(&statuses, &self.settings.our_address) {
                Standing::Open => Ok(()),
                Standing::Told => Err(Taken::Settled("told")),
                Standing::Closed => Err(Taken::Settled("closed")),
            },
            Err(problem) => Err(self.not_told(repository, problem)),
        }
    }

    fn not_told(&self, repository: &RepoName, problem: Problem) -> Taken {
        if super::may_pass(&problem) {
            return Taken::NotNow(problem);
        }
        self.troubled(repository, &problem);
        Taken::Settled("not_for_us")
    }

    /// Logs what is wrong with a repository, once while it is.
    pub(super) fn troubled(&self, repository: &RepoName, problem: &Problem) {
        let mut troubled = super::lock(&self.troubled);
        if troubled.len() < super::MOST_TROUBLED && troubled.insert(repository.clone()) {
            let reason = &problem.message;
            tracing::warn!(%repository, reason, "lost events cannot be looked for there");
        }
    }
}
