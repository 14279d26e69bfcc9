//! What sweeps ask of the forge.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::app::outside::World;
use crate::app::problem;
use crate::config::settings::Settings;
use crate::controller::inbox::Inbox;
use crate::controller::outside::Problem;
use crate::controller::sweep::host::Host;
use crate::controller::sweep::{self, Hints, Sweeps};
use crate::forge::delivery::{Budget, DeliveryContent, HookDelivery};
use crate::forge::{Forge, ListedStatus, Status};
use crate::model::deployment::ForgeState;
use crate::model::event::{NamedRepository, Push, Refusal};
use crate::model::id::RepoName;
use crate::telemetry;

/// GitHub's API is seconds behind its events at most, as a rule.
const HINT_DELAY: Duration = Duration::from_secs(5);

/// What looks for lost events, if the forge can have some and the operator wants it.
pub(super) fn of(
    settings: &Settings,
    instance: &str,
    world: &World,
    inbox: Inbox,
    registry: &telemetry::Metrics,
    hints: &Hints,
) -> Option<Sweeps<World>> {
    let every = settings.webhook.sweep?;
    let kinds = match &world.forge {
        Forge::Local(_) => return None,
        forge if forge.knows_deliveries() => {
            vec![sweep::Kind::Deliveries, sweep::Kind::Deployments]
        }
        Forge::GitHub(_) => vec![sweep::Kind::Deployments],
    };
    let (store, clock) = (world.store.clone(), world.clock.clone());
    let settings = sweep::Settings {
        name: instance.to_owned(),
        kinds,
        every,
        rules: settings.webhook.rules.clone(),
        our_address: settings.server.external_url.clone(),
        hint_delay: HINT_DELAY,
    };
    let metrics = registry.register(sweep::metrics::Metrics::new);
    Some(Sweeps::new(store, clock, inbox, world.clone(), settings, metrics, hints.clone()))
}

impl Host for World {
    async fn failed_deliveries(
        &self,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<HookDelivery>, Problem> {
        let failed = self.forge.failed_deliveries(since, most).await;
        failed.map_err(|error| problem::of_forge(&error))
    }

    async fn delivery(&self, id: i64) -> Result<DeliveryContent, Problem> {
        self.forge.delivery(id).await.map_err(|error| problem::of_forge(&error))
    }

    async fn repositories(&self, most: u32) -> Result<Vec<RepoName>, Problem> {
        let installed = self.forge.installed_repositories(most).await;
        installed.map_err(|error| problem::of_forge(&error))
    }

    async fn deployments(&self, repository: &RepoName, most: u32) -> Result<Vec<Value>, Problem> {
        let recent = self.forge.recent_deployments(repository, most).await;
        recent.map_err(|error| problem::of_forge(&error))
    }

    async fn repository(&self, repository: &RepoName) -> Result<Option<NamedRepository>, Problem> {
        let named = self.forge.named_repository(repository, self.clock.now()).await;
        named.map_err(|error| problem::of_forge(&error))
    }

    async fn statuses(
        &self,
        repository: &RepoName,
        forge_id: i64,
    ) -> Result<Vec<ListedStatus>, Problem> {
        let statuses = self.forge.statuses(repository, forge_id).await;
        statuses.map_err(|error| problem::of_forge(&error))
    }

    async fn refuse(&self, refusal: &Refusal) -> Result<(), Problem> {
        let Refusal { repository, forge_id, field, problem } = refusal;
        let status = Status {
            state: ForgeState::Error,
            description: format!("{field}: {problem}"),
            // There is no page about it; but the next sweep knows by this that we have answered.
            log_url: Some(self.external_url.clone()),
            environment_url: None,
        };
        let told = self.forge.report(repository, *forge_id, &status).await;
        told.map_err(|error| problem::of_forge(&error))
    }

    fn pushed(&self, push: &Push) {
        self.templates.pushed(push);
    }

    fn budget(&self) -> Option<Budget> {
        self.forge.budget()
    }
}
