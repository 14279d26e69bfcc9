//! Recovers deployments without an answer, repository by repository, round after round.

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;

use crate::controller::sweep::{
    HINT_PAUSE, IngestResult, LONGEST_RUN_MICROS, MAX_REFUSED, Progress, Scope, SweepKind, Sweeps,
    decide,
};
use crate::deployments::outcome::DeployError;
use crate::forge::github::webhook::listed_deployment::{self, ListedDeployment};
use crate::model::event::{NamedRepository, WebhookEvent};
use crate::model::id::{DeliveryId, RepoName};
use crate::store::{StoreError, Sweeping};
use crate::support::clock::Stopwatch;
use crate::support::sync::lock;

/// The newest deployments of a repository that are looked at: one page, one request.
const PAGE_LIMIT: u32 = 30;
/// The most repositories of an App installation that are listed.
const INSTALLATION_LIMIT: u32 = 5000;
/// The page size of GitHub's lists.
const PAGE: u64 = 100;
/// The fewest requests that a run for hints may spend.
const HINTS_SPEND: u64 = 10;
/// The seconds for which the list of an installation's repositories is used.
const INSTALLATION_TTL: i64 = 3600;

const NAME: &str = SweepKind::Deployments.as_str();

/// The requests that a run may still spend.
struct RequestAllowance<'r> {
    requests: u64,
    stopwatch: Stopwatch,
    stop: &'r CancellationToken,
}

/// The result of a look at a repository.
enum SweepResult {
    /// All of it was processed.
    Complete,
    /// The requests or the time of the run ran out.
    Partial,
    /// The code host cannot be asked now.
    Deferred(DeployError),
}

impl RequestAllowance<'_> {
    fn pay(&mut self, requests: u64) -> bool {
        let is_late = self.stopwatch.micros() > LONGEST_RUN_MICROS;
        if is_late || self.stop.is_cancelled() || self.requests == 0 {
            return false;
        }
        self.requests = self.requests.saturating_sub(requests);
        true
    }
}

impl Sweeps {
    pub(super) async fn deployments(
        &self,
        run: &Sweeping,
        scope: Scope,
        stop: &CancellationToken,
    ) -> Result<Progress, StoreError> {
        let mut progress = Progress::new(run);
        let requests = self.allowance(scope);
        let mut allowance = RequestAllowance { requests, stopwatch: self.clock.stopwatch(), stop };
        let mut hints = self.deployments.hints.take().into_iter();
        while let Some(repository) = hints.next() {
            match self.sweep_repository(&repository, run, &mut allowance, &mut progress).await? {
                SweepResult::Complete => {}
                SweepResult::Partial => self.deployments.hints.put_back(repository),
                SweepResult::Deferred(problem) => {
                    std::iter::once(repository)
                        .chain(hints)
                        .for_each(|repository| self.deployments.hints.put_back(repository));
                    return Ok(progress.stopped(problem));
                }
            }
        }
        if scope == Scope::Hints {
            return Ok(progress);
        }
        let repositories = self.repositories(&mut allowance).await?;
        let remaining = decide::remaining_repositories(&repositories, run.position.as_deref());
        progress.waiting = remaining.len();
        for repository in remaining {
            match self.sweep_repository(repository, run, &mut allowance, &mut progress).await? {
                SweepResult::Complete => {
                    progress.position = Some(repository.to_string());
                    progress.waiting -= 1;
                }
                SweepResult::Partial => return Ok(progress),
                SweepResult::Deferred(problem) => return Ok(progress.stopped(problem)),
            }
        }
        progress.position = None;
        Ok(progress)
    }

    /// Returns what the run may spend. Hints get a little more than their share of time, so that
    /// the author of a mistake sees it soon; they come from outside, so it is little.
    fn allowance(&self, scope: Scope) -> u64 {
        let (budget, now) = (self.deployments.forge.budget(), self.clock.now());
        match scope {
            Scope::Round => decide::allowance(budget, self.settings.every, now),
            Scope::Hints => match decide::allowance(budget, HINT_PAUSE, now) {
                0 => 0,
                share => share.clamp(HINTS_SPEND, 2 * HINTS_SPEND),
            },
        }
    }

    /// Sweeps one repository, newest deployment first: the older ones of a lane are superseded at
    /// once.
    async fn sweep_repository(
        &self,
        repository: &RepoName,
        run: &Sweeping,
        allowance: &mut RequestAllowance<'_>,
        progress: &mut Progress,
    ) -> Result<SweepResult, StoreError> {
        if !allowance.pay(1) {
            return Ok(SweepResult::Partial);
        }
        let forge = &self.deployments.forge;
        let deployments = match forge.recent_deployments(repository, PAGE_LIMIT).await {
            Ok(deployments) => deployments,
            Err(error) => return Ok(self.defer_or_skip(repository, error.into())),
        };
        lock(&self.troubled).remove(repository);
        let parse = |entry| listed_deployment::read(repository, entry, &self.settings.rules).ok();
        let deployments: Vec<ListedDeployment> = deployments.iter().filter_map(parse).collect();
        let mut lost = self.find_lost(deployments, run).await?;
        let is_request = |event: &WebhookEvent| {
            matches!(event, WebhookEvent::Deployment(_) | WebhookEvent::Rollout(_))
        };
        if lost.iter().any(|deployment| is_request(&deployment.event)) {
            if !allowance.pay(1) {
                return Ok(SweepResult::Partial);
            }
            match forge.named_repository(repository, self.clock.now()).await {
                Ok(named_repository) => identify(&mut lost, named_repository.as_ref()),
                Err(error) => return Ok(self.defer_or_skip(repository, error.into())),
            }
        }
        for deployment in lost {
            // One request for the statuses, and one for a status of this service.
            if !allowance.pay(2) || progress.refused >= MAX_REFUSED {
                return Ok(SweepResult::Partial);
            }
            if let Some(problem) = self.recover(&deployment, progress).await? {
                return Ok(SweepResult::Deferred(problem));
            }
        }
        Ok(SweepResult::Complete)
    }

    /// Tries later if the problem may pass; otherwise logs it and counts the repository as swept.
    fn defer_or_skip(&self, repository: &RepoName, problem: DeployError) -> SweepResult {
        if problem.remedy.may_pass() {
            return SweepResult::Deferred(problem);
        }
        self.log_problem(repository, &problem);
        SweepResult::Complete
    }

    /// Returns the deployments that may be lost, as far as the store knows.
    async fn find_lost(
        &self,
        mut deployments: Vec<ListedDeployment>,
        run: &Sweeping,
    ) -> Result<Vec<ListedDeployment>, StoreError> {
        let now = self.clock.now();
        deployments.retain(|deployment| decide::may_be_lost(deployment, run.since, now));
        let numbers: Vec<_> = deployments.iter().map(|deployment| deployment.forge_id).collect();
        // All of them are of one repository, under its present name, also where a former one was requested.
        let Some(ListedDeployment { repository, .. }) = deployments.first() else {
            return Ok(deployments);
        };
        let stored = self.store.find_stored_deployments(repository, &numbers).await?;
        deployments.retain(|deployment| !stored.contains(&deployment.forge_id));
        let items: Vec<_> =
            deployments.iter().map(|deployment| deployment.forge_id.to_string()).collect();
        let settled_items = self.store.settled_items(NAME, &items).await?;
        deployments.retain(|deployment| !settled_items.contains(&deployment.forge_id.to_string()));
        Ok(deployments)
    }

    async fn recover(
        &self,
        deployment: &ListedDeployment,
        progress: &mut Progress,
    ) -> Result<Option<DeployError>, StoreError> {
        let number = deployment.forge_id.to_string();
        let delivery = DeliveryId::parse(format!("sweep-{number}"));
        let delivery = delivery.expect("digits and a word are a delivery's id");
        match self.ingest(&delivery, &deployment.event, progress).await? {
            IngestResult::Settled(outcome) => {
                self.store.settle_swept(NAME, &number, outcome, self.clock.now()).await?;
                Ok(None)
            }
            IngestResult::Deferred(problem) => Ok(Some(problem)),
        }
    }

    /// Returns all repositories that may deploy: those that have deployed before, and those that
    /// the code host lists.
    async fn repositories(
        &self,
        allowance: &mut RequestAllowance<'_>,
    ) -> Result<BTreeSet<RepoName>, StoreError> {
        let mut repositories = BTreeSet::from_iter(self.store.repositories().await?);
        repositories.extend(self.installed(allowance).await);
        let is_allowed = |name: &RepoName| self.settings.rules.repositories.allow(name);
        // A repository under a retired name has another one at the host.
        repositories.retain(|repository| !repository.is_retired() && is_allowed(repository));
        Ok(repositories)
    }

    async fn installed(&self, allowance: &mut RequestAllowance<'_>) -> Vec<RepoName> {
        let now = self.clock.now();
        let cached = lock(&self.installed).clone();
        let cached = match cached {
            Some((at, list)) if now.duration_since(at).as_secs() < INSTALLATION_TTL => return list,
            Some((_, list)) => list,
            None => Vec::new(),
        };
        if !allowance.pay(1) {
            return cached;
        }
        match self.deployments.forge.installed_repositories(INSTALLATION_LIMIT).await {
            Ok(list) => {
                allowance.requests = allowance.requests.saturating_sub(list.len() as u64 / PAGE);
                *lock(&self.installed) = Some((now, list.clone()));
                list
            }
            Err(error) => {
                let reason = error.to_string();
                tracing::warn!(
                    reason,
                    "code host does not list its repositories, only those that have deployed before are swept"
                );
                cached
            }
        }
    }
}

/// Adds to listed deployments what an event says of their repository: without its number, a renamed
/// repository would be a stranger to its own apps. Deployments under a name that the repository
/// does not have are left for the next run: it was renamed between two requests.
fn identify(lost: &mut Vec<ListedDeployment>, named_repository: Option<&NamedRepository>) {
    let Some(NamedRepository { name, identity }) = named_repository else { return };
    lost.retain(|deployment| name.is_same(&deployment.repository));
    for deployment in lost {
        match &mut deployment.event {
            WebhookEvent::Deployment(request) => request.identity = Some(*identity),
            WebhookEvent::Rollout(trigger) => trigger.identity = Some(*identity),
            _ => {}
        }
    }
}
