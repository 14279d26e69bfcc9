//! What the server asks of the program, answered by the inbox, the store and the world.

use std::time::Duration;

use crate::app::intake::Intake;
use crate::app::outside::World;
use crate::app::readiness;
use crate::app::removal;
use crate::controller::inbox::{Inbox, Received};
use crate::controller::previews::Previews;
use crate::facts::NotKnown;
use crate::model::deployment::Deployment;
use crate::model::event::{DeploymentRequest, Event, PullRequest, Push, Refusal};
use crate::model::id::{DeliveryId, DeployId};
use crate::model::placed::Listed;
use crate::model::removal::RemovalRequest;
use crate::server::ports::{
    self, Accepted, AppsPage, AppsQuery, Check, Delivery, Fault, Gone, NotRemoved, Noted, Page,
    Query, StatusRecord,
};
use crate::store::{self, Filter, Store, Told};
use crate::telemetry;

/// How long one readiness check may take; probes ask every few seconds.
const LONGEST_CHECK: Duration = Duration::from_secs(5);

/// The server's side of the program.
pub(crate) struct Backend {
    pub(crate) inbox: Inbox,
    pub(crate) previews: Previews<World>,
    pub(crate) store: Store,
    pub(crate) world: World,
    pub(crate) registry: telemetry::Metrics,
    pub(crate) intake: Intake,
}

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
}

impl ports::Records for Backend {
    async fn deployments(&self, query: &Query) -> Result<Page, Fault> {
        let filter = Filter {
            state: query.state,
            target: query.target.clone(),
            repository: query.repository.clone(),
            app: None,
        };
        let page = self.store.deployments(&filter, query.before.as_ref(), query.limit).await;
        let page = page.map_err(Fault::new)?;
        Ok(Page { deployments: page.deployments, next: page.next })
    }

    async fn deployment(
        &self,
        id: &DeployId,
    ) -> Result<Option<(Deployment, Vec<StatusRecord>)>, Fault> {
        let Some(found) = self.store.deployment(id).await.map_err(Fault::new)? else {
            return Ok(None);
        };
        let statuses = self.store.statuses(id).await.map_err(Fault::new)?;
        Ok(Some((found, statuses.into_iter().map(status).collect())))
    }
}

impl ports::Apps for Backend {
    async fn apps(&self, query: &AppsQuery) -> Result<AppsPage, String> {
        let AppsQuery { target, after, limit } = query;
        let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
        // One more tells whether there is another page.
        let found = self.world.facts.apps(target.as_ref(), after.as_ref(), limit + 1).await;
        let Listed { mut apps, missing } = found.map_err(|NotKnown(why)| why)?;
        let more = apps.len() > limit;
        apps.truncate(limit);
        let next = apps.last().filter(|_| more).map(|last| last.spot.clone());
        Ok(AppsPage { apps, next, missing })
    }
}

impl ports::Acts for Backend {
    async fn remove(&self, request: RemovalRequest) -> Result<Gone, NotRemoved> {
        let (world, store) = (self.world.clone(), self.store.clone());
        // On its own: a caller who stops waiting must not leave it half recorded.
        let removing = tokio::spawn(async move { removal::remove(&world, &store, request).await });
        removing.await.unwrap_or_else(|fault| Err(Fault::new(fault).into()))
    }
}

impl ports::Condition for Backend {
    async fn checks(&self) -> Vec<Check> {
        let database =
            check("database", async { self.store.ready().await.map_err(|e| e.to_string()) });
        let repositories = self.world.manifests.iter().map(|one| {
            let repository = one.repository.clone();
            let ask = async move { repository.ready().await.map_err(|e| e.to_string()) };
            let ready = one.readiness.or(self.world.clock.clone(), ask);
            check(format!("manifest repository {}", one.name), ready)
        });
        let (database, repositories) =
            tokio::join!(database, futures::future::join_all(repositories));
        let templates = self.world.templates.check();
        std::iter::once(database).chain(repositories).chain([templates]).collect()
    }

    fn metrics(&self) -> String {
        self.world.templates.measure();
        self.registry.encode()
    }
}

async fn check(name: impl Into<String>, ready: impl Future<Output = readiness::Answer>) -> Check {
    let waiting_for = match tokio::time::timeout(LONGEST_CHECK, ready).await {
        Ok(answer) => answer.err(),
        Err(_elapsed) => Some(format!("no answer within {} s", LONGEST_CHECK.as_secs())),
    };
    Check { name: name.into(), waiting_for, note: None }
}

fn status(told: Told) -> StatusRecord {
    let Told { status, at, sent_at, parked, skipped, .. } = told;
    let description = status.description().to_owned();
    StatusRecord { state: status.state, description, at, sent_at, parked, skipped }
}
