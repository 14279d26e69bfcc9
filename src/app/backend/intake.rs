//! What comes in from the forge is stored, or is a hint.

use crate::app::backend::Backend;
use crate::controller::inbox::Received;
use crate::model::event::{
    CheckRerun, DeploymentRequest, Event, NamedRepository, PullRequest, Push, Refusal,
};
use crate::model::id::DeliveryId;
use crate::server::ports::{self, Accepted, Delivery, Fault, Noted};
use crate::store;

impl ports::Inbox for Backend {
    async fn accept(
        &self,
        delivery: DeliveryId,
        request: DeploymentRequest,
    ) -> Result<Accepted, Fault> {
        match self
            .inbox
            .receive(&delivery, &Event::Deployment(request))
            .await
            .map_err(Fault::new)?
        {
            Received::New(id) => Ok(Accepted::New(id)),
            Received::Known(id) => Ok(Accepted::Duplicate(id)),
            Received::Nothing => Err(Fault::new("a deployment was not taken for one")),
        }
    }

    async fn recognize(&self, named: &NamedRepository) {
        let NamedRepository { name, identity } = named;
        let now = self.world.clock.now();
        if let Err(error) = self.store.recognize_repository(*identity, name, now).await {
            tracing::warn!(repository = %name, %error, "a repository's name could not be noted");
        }
    }
}

impl ports::Intake for Backend {
    fn refused(&self, refusal: &Refusal) {
        self.intake.refused(refusal);
    }

    fn count(&self, delivery: Delivery) {
        self.intake.count(delivery);
    }
}

impl ports::Pushes for Backend {
    fn pushed(&self, push: &Push) -> bool {
        self.world.templates.pushed(push)
    }
}

impl ports::PullRequests for Backend {
    async fn note(&self, request: PullRequest) -> Result<Noted, Fault> {
        Ok(match self.previews.note(&request).await.map_err(Fault::new)? {
            store::Noted::New => Noted::New,
            store::Noted::Known => Noted::Known,
            store::Noted::Forgotten => Noted::Forgotten,
            store::Noted::Full => Noted::Full,
        })
    }

    async fn make_again(&self, rerun: CheckRerun) -> Result<bool, Fault> {
        self.previews.make_again(&rerun).await.map_err(Fault::new)
    }
}
