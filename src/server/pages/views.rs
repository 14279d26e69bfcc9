//! From a request to a page: reads what the page shows, as far as the caller may see it, and renders it. Open pages are
//! rendered the same way whenever something has changed.

use std::time::Duration;

use futures::future::{try_join, try_join3};

use crate::api::rollouts::RolloutSummary;
use crate::deployments::Deployments;
use crate::deployments::app_state::AppNow;
use crate::deployments::insight_series::InsightSeries;
use crate::deployments::live_state::{ClusterAppState, LiveStateError};
use crate::deployments::overview::OverviewEntry;
use crate::model::app_instance::AppInstance;
use crate::model::callers::Scope;
use crate::model::canary::CanarySample;
use crate::model::deployment::State;
use crate::model::id::{DeployId, RolloutId, TargetName};
use crate::model::lock::{LockFilter, Window};
use crate::model::target::{Clusters, Target};
use crate::model::window::{self, Opening};
use crate::server::auth::Resource;
use crate::server::call::{AuthenticatedRequest, bad, no_deployment, unavailable};
use crate::server::pages::acts::offers;
use crate::server::pages::app::{self, AppStory, CreatedAtGitHub};
use crate::server::pages::deployment::{self, DeploymentStory, DeploymentSurroundings};
use crate::server::pages::document::{CodeHostLinks, LivePage, RenderedPage};
use crate::server::pages::grid::{self, GridQuery, GridSnapshot};
use crate::server::pages::insights::{self, InsightsChoice};
use crate::server::pages::list::{self, ListQuery};
use crate::server::pages::system::{self, SystemStory};
use crate::server::pages::{audit, fault, locks, rollouts, timeline};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::{query, routes};
use crate::store::Filter;

/// The number of an app's newest deployments on its page.
const RECENT: u32 = 20;
/// The number of messages that were given up on the page of the service.
const MAX_LETTERS: u32 = 50;
/// The longest wait of a page for a cluster.
const PODS_WAIT: Duration = Duration::from_secs(3);

/// An app in its cluster, or the reason why that is not known.
type LiveState = Result<ClusterAppState, LiveStateError>;

/// The parameters of an address.
type Pairs = [(String, String)];

/// Renders the grid of apps on targets.
pub(super) async fn grid(
    call: &AuthenticatedRequest,
    pairs: &Pairs,
) -> Result<RenderedPage, Problem> {
    let query = GridQuery::read(pairs).map_err(bad)?;
    let deployments = call.deployments();
    let overview = deployments.overview(None).await;
    let mut overview = overview.map_err(|detail| Problem::new(ProblemKind::Unavailable, detail))?;
    let resource = |entry: &OverviewEntry| entry.resource(&call.caller);
    overview.entries = call.filter_visible(overview.entries, resource).await?;
    let snapshot = GridSnapshot::new(overview);
    let page = grid::page(&snapshot, query, deployments.notices(None), deployments.clock.now());
    page.map(RenderedPage::new).map_err(fault)
}

/// Renders the newest deployments, filtered as in the API's list.
pub(super) async fn deployments(
    call: &AuthenticatedRequest,
    mut pairs: Vec<(String, String)>,
) -> Result<RenderedPage, Problem> {
    // A form sends its empty fields, too.
    pairs.retain(|(_, value)| !value.is_empty());
    let query::DeploymentsQuery { filter, before, limit } = query::read(&pairs).map_err(bad)?;
    let page = call.deployments().store.deployments(&filter, before.as_ref(), limit).await;
    let page = page.map_err(|error| unavailable(&error))?;
    let deployments = call
        .filter_visible(page.deployments, |deployment| call.caller.resource_of(deployment))
        .await?;
    let older = page.next.map(|next| query::from(&pairs, &next));
    let live = before.is_none().then(|| live("/live/deployments", &pairs));
    let query = ListQuery { pairs, older, live };
    let page = list::page(deployments, query, call.deployments().notices(None));
    page.map(RenderedPage::new).map_err(fault)
}

/// Renders one deployment.
pub(super) async fn deployment(
    call: &AuthenticatedRequest,
    id: &DeployId,
    pairs: &Pairs,
) -> Result<RenderedPage, Problem> {
    let story = call.deployments().log(id).await.map_err(|error| unavailable(&error))?;
    let story = DeploymentStory::new(story.ok_or_else(|| no_deployment(id))?, call.deployments());
    call.authorize(Scope::Read, call.caller.resource_of(&story.deployment)).await?;
    let deployments = call.deployments();
    let record = &story.deployment;
    let target = record.request.target.clone();
    let instance =
        record.app.clone().map(|app| AppInstance { target: record.request.target.clone(), app });
    let is_in_cluster = matches!(record.state, State::Syncing | State::Progressing);
    let pods = match instance.filter(|_| is_in_cluster) {
        Some(instance) => live_state(call, &instance).await,
        None => None,
    };
    let entries = timeline::lines(&story);
    let surroundings = DeploymentSurroundings {
        acts: offers::acts_on_deployment(call, record, &story.parts).await,
        sources: deployments.violation_sources(record).await,
        changes: deployments.changes(record).await,
        pods,
        canary: canary_samples(call, &record.id).await?,
        entries: entries.into_iter().map(|entry| (entry.at, entry.text)).collect(),
        is_paused: is_paused(pairs),
        notices: deployments.notices(Some(&target)),
    };
    let page = deployment::page(story, surroundings);
    page.map(RenderedPage::new).map_err(fault)
}

/// Renders an app on a target.
pub(super) async fn app(
    call: &AuthenticatedRequest,
    instance: &AppInstance,
    pairs: &Pairs,
) -> Result<RenderedPage, Problem> {
    call.authorize(Scope::Read, instance).await?;
    let deployments = call.deployments();
    let compared = compared_revisions(pairs).map_err(bad)?;
    let AppInstance { target, app } = instance;
    let now = Box::pin(deployments.find_app(instance)).await?.ok_or_else(|| {
        let detail = format!("there is no {app} on {target}, and no deployment of it");
        Problem::new(ProblemKind::NotFound, detail)
    })?;
    let history = deployments.find_history(instance).await?.unwrap_or_default();
    let filter =
        Filter { target: Some(target.clone()), app: Some(app.clone()), ..Filter::default() };
    let recent = deployments.store.deployments(&filter, None, RECENT).await;
    let recent = recent.map_err(|error| unavailable(&error))?.deployments;
    let clusters = deployments.fleets.clusters_of(target);
    let clusters: Vec<TargetName> = clusters.into_iter().flatten().cloned().collect();
    let comparison = match compared.filter(|_| clusters.is_empty()) {
        Some((from, to)) => Some(deployments.compare_revisions(instance, from, to).await?),
        None => None,
    };
    let created = created_deployment(call, instance, &now, pairs).await?;
    let canary = match recent.first().filter(|newest| may_have_canary(newest.state)) {
        Some(newest) => canary_samples(call, &newest.id).await?,
        None => Vec::new(),
    };
    let (opening, closed_clusters) = read_opening(deployments, target);
    let acts = offers::acts_on_app(call, instance, &now).await;
    let story = AppStory {
        instance: instance.clone(),
        clusters,
        now,
        history,
        pods: live_state(call, instance).await,
        canary,
        recent,
        comparison,
        opening,
        closed_clusters,
        places: CodeHostLinks::from(deployments),
        live: (!is_paused(pairs)).then(|| live(&format!("/live/apps/{instance}"), pairs)),
        acts,
        created,
        notices: deployments.notices(Some(target)),
    };
    app::page(story).map(RenderedPage::new).map_err(fault)
}

/// Finds whether a target takes deployments now, and the clusters of a fleet that take none: the fleet takes some while
/// all of them do.
fn read_opening(deployments: &Deployments, target: &TargetName) -> (Opening, Vec<TargetName>) {
    let clusters = deployments.clusters_of(target);
    let clusters = clusters.iter().filter_map(|cluster| deployments.clusters.find(cluster));
    let clusters: Vec<Target> = clusters.collect();
    let now = deployments.clock.now();
    let windows: Vec<&[Window]> =
        clusters.iter().map(|cluster| &*cluster.policies.windows).collect();
    // The configuration refuses windows that cannot be read.
    let opening = window::of_all_written(&windows, now).unwrap_or(Opening::Open);
    if opening == Opening::Open || !deployments.fleets.is_fleet(target) {
        return (opening, Vec::new());
    }
    let is_closed = |cluster: &&Target| {
        let opening = window::at_written(&cluster.policies.windows, now);
        opening.is_ok_and(|opening| opening != Opening::Open)
    };
    let closed = clusters.iter().filter(is_closed).map(|cluster| cluster.name.clone()).collect();
    (opening, closed)
}

/// Renders the list of rollouts.
pub(super) async fn rollouts(
    call: &AuthenticatedRequest,
    mut pairs: Vec<(String, String)>,
) -> Result<RenderedPage, Problem> {
    pairs.retain(|(_, value)| !value.is_empty());
    let (filter, before, limit) = routes::rollouts::read_query(&pairs).map_err(bad)?;
    let page = call.deployments().rollouts(&filter, before.as_ref(), limit).await;
    let page = page.map_err(|error| routes::rollouts::unavailable(&error))?;
    let rollouts = routes::rollouts::filter_visible(call, page.rollouts).await?;
    let rollouts: Vec<_> = rollouts.iter().map(RolloutSummary::from).collect();
    let older = page.next.map(|next| query::with_cursor(&pairs, next.as_str()));
    let live = before.is_none().then(|| live("/live/rollouts", &pairs));
    let page = rollouts::list(&rollouts, &pairs, older, live, call.deployments().notices(None));
    page.map(RenderedPage::new).map_err(fault)
}

/// Renders one rollout.
pub(super) async fn rollout(
    call: &AuthenticatedRequest,
    id: &RolloutId,
    pairs: &Pairs,
) -> Result<RenderedPage, Problem> {
    let rollout = routes::rollouts::load(call, id).await?;
    routes::rollouts::authorize(call, Scope::Read, &rollout).await?;
    let goes_on = !rollout.record.state.status().is_end() && !is_paused(pairs);
    let live = goes_on.then(|| live(&format!("/live/rollouts/{id}"), pairs));
    let acts = offers::acts_on_rollout(call, &rollout).await;
    let detail = routes::rollouts::read_detail(call, rollout).await?;
    let page = rollouts::page(detail, live, call.deployments().notices(None), acts);
    page.map(RenderedPage::new).map_err(fault)
}

/// Renders the insights of a window.
pub(super) async fn insights(
    call: &AuthenticatedRequest,
    mut pairs: Vec<(String, String)>,
) -> Result<RenderedPage, Problem> {
    pairs.retain(|(_, value)| !value.is_empty());
    let query = routes::insights::read(&pairs).map_err(bad)?;
    let text = |name: &str| {
        let pair = pairs.iter().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.clone())
    };
    let choice = InsightsChoice {
        window: text("window").unwrap_or_else(|| "6h".to_owned()),
        target: text("target").unwrap_or_default(),
        app: text("app").unwrap_or_default(),
    };
    let _place = routes::insights::open_read(call)?;
    let deployments = call.deployments();
    let now = deployments.clock.now();
    let series = match routes::insights::visible_scope(call, query, now).await? {
        Ok(scope) => deployments.insight_series(scope).await,
        Err(since) => Ok(InsightSeries::empty(since, now)),
    };
    let series = series.map_err(|error| unavailable(&error))?;
    insights::page(&series, choice, deployments.notices(None)).map(RenderedPage::new).map_err(fault)
}

/// Renders locks, holds and windows.
pub(super) async fn locks(call: &AuthenticatedRequest) -> Result<RenderedPage, Problem> {
    let deployments = call.deployments();
    let locks = routes::locks::visible_locks(call, &LockFilter::default()).await?;
    let holds = routes::rollbacks::visible_holds(call, None).await?;
    let targets = match &deployments.clusters {
        Clusters::Any(_) => Vec::new(),
        Clusters::Known(targets) => targets.values().collect(),
    };
    let rights = call.caller.rights();
    let windows = targets.into_iter().filter(|target| {
        !target.policies.windows.is_empty()
            && rights.is_none_or(|rights| rights.reach_target(&target.name))
    });
    let windows: Vec<_> =
        windows.map(|target| (target.name.clone(), target.policies.windows.clone())).collect();
    let offers = offers::acts_on_locks(call, &locks).await;
    let (now, notices) = (deployments.clock.now(), deployments.notices(None));
    let page = locks::page(locks, holds, &windows, offers, now, notices);
    page.map(RenderedPage::new).map_err(fault)
}

/// Renders the audit log, for administrators.
pub(super) async fn audit(
    call: &AuthenticatedRequest,
    mut pairs: Vec<(String, String)>,
) -> Result<RenderedPage, Problem> {
    pairs.retain(|(_, value)| !value.is_empty());
    let records = routes::audit::search(call, &pairs).await?;
    let older = records.next.map(|next| query::from(&pairs, &next));
    audit::page(records.entries, &pairs, older).map(RenderedPage::new).map_err(fault)
}

/// Renders the state of the service, for callers who may see everything.
pub(super) async fn system(call: &AuthenticatedRequest) -> Result<RenderedPage, Problem> {
    call.authorize(Scope::Read, Resource::Everywhere).await?;
    let deployments = call.deployments();
    let (store, now) = (&deployments.store, deployments.clock.now());
    let checks = deployments.checks_without_clusters().await;
    let sights = deployments.cluster_sights();
    let queues = try_join3(store.depth(), store.waiting(), store.dead_letters(MAX_LETTERS));
    let (depth, backlog, letters) = queues.await.map_err(|error| unavailable(&error))?;
    let replicas = try_join(store.replicas(), store.cluster_holders(now));
    let (replicas, holders) = replicas.await.map_err(|error| unavailable(&error))?;
    let templates = deployments.templates.list_names();
    let data =
        SystemStory { checks, sights, depth, backlog, letters, replicas, holders, templates };
    system::page(data).map(RenderedPage::new).map_err(fault)
}

/// Asks the cluster for the app, for a moment; `None` where nothing watches it.
async fn live_state(call: &AuthenticatedRequest, instance: &AppInstance) -> Option<LiveState> {
    let deployments = call.deployments();
    if !deployments.is_watched(&instance.target) {
        return None;
    }
    let state = tokio::time::timeout(PODS_WAIT, deployments.live_state(instance)).await;
    let late = |_elapsed| {
        let text = "the cluster does not answer in time; load the page again to ask it again";
        Err(LiveStateError::Unavailable(text.to_owned()))
    };
    Some(state.unwrap_or_else(late))
}

/// Reads how far the canaries of a deployment were.
async fn canary_samples(
    call: &AuthenticatedRequest,
    id: &DeployId,
) -> Result<Vec<CanarySample>, Problem> {
    let samples = call.deployments().store.canary_samples(id).await;
    samples.map_err(|error| unavailable(&error))
}

/// Returns true if an app's page shows the canary of a deployment in this state: one that goes on, or was taken back.
fn may_have_canary(state: State) -> bool {
    match state {
        State::Syncing | State::Progressing | State::Failed => true,
        State::Queued
        | State::Running
        | State::Pushing
        | State::Succeeded
        | State::Superseded
        | State::Cancelled => false,
    }
}

/// Returns true if the reader has stopped the changes of the page.
fn is_paused(pairs: &Pairs) -> bool {
    pairs.iter().any(|(name, value)| name == "refresh" && value == "off")
}

/// Reads the two revisions that are to be compared.
fn compared_revisions(pairs: &Pairs) -> Result<Option<(DeployId, DeployId)>, String> {
    let read = |name: &str| {
        let pair = pairs.iter().find(|(key, _)| key == name);
        let id = pair.map(|(_, value)| DeployId::parse(value.clone())).transpose();
        id.map_err(|error| format!("{name}: {error}"))
    };
    Ok(read("from")?.zip(read("to")?))
}

/// Returns the deployment that was created at GitHub as the address says, with its id if its event has arrived.
async fn created_deployment(
    call: &AuthenticatedRequest,
    instance: &AppInstance,
    now: &AppNow,
    pairs: &Pairs,
) -> Result<Option<CreatedAtGitHub>, Problem> {
    let Some((_, number)) = pairs.iter().find(|(name, _)| name == "created") else {
        return Ok(None);
    };
    let number = number.parse().ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| bad("created: this is not a number of GitHub's"))?;
    let repository = now.state.as_ref().and_then(|state| state.repository.clone());
    let repository = repository
        .or_else(|| now.last.as_ref().map(|last| last.request.release.repository.clone()));
    let Some(repository) = repository else { return Ok(None) };
    let filter = Filter {
        target: Some(instance.target.clone()),
        repository: Some(repository),
        forge_id: Some(number),
        ..Filter::default()
    };
    let page = call.deployments().store.deployments(&filter, None, 1).await;
    let arrived = page.map_err(|error| unavailable(&error))?.deployments.into_iter().next();
    let own = arrived.filter(|one| one.app.as_ref().is_none_or(|app| *app == instance.app));
    Ok(Some(CreatedAtGitHub { number, id: own.map(|deployment| deployment.id) }))
}

/// Returns the stream of a page with these parameters.
fn live(path: &str, pairs: &Pairs) -> LivePage {
    let parameters = query::write(pairs);
    let mark = if parameters.is_empty() { "" } else { "?" };
    LivePage { stream: format!("{path}{mark}{parameters}"), version: String::new() }
}
