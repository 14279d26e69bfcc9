//! The acts that a page offers: those that its reader may do now. Whoever has not signed in is offered to sign in.

use std::collections::BTreeSet;

use crate::deployments::CodeHost;
use crate::deployments::app_state::AppNow;
use crate::deployments::rollouts::RolloutView;
use crate::model::app_instance::AppInstance;
use crate::model::callers::Scope;
use crate::model::deployment::{Deployment, State};
use crate::model::id::{LockId, TargetName};
use crate::model::lock::{Lock, LockScope};
use crate::model::rollback::Hold;
use crate::rollout::plan::{Gate, RolloutStep};
use crate::server::auth::{Caller, Resource};
use crate::server::call::AuthenticatedRequest;
use crate::server::pages::acts::links::{ActLink, ActLinks, app_path};
use crate::server::pages::acts::rollouts::RolloutActWord;
use crate::server::routes::locks::required_right;
use crate::server::routes::rollouts::possible_acts;
use crate::store::DeploymentPlace;
use crate::support::percent::encode_segment;

/// The most locks that are judged for a page: each may take a question to GitHub.
const MAX_REMOVABLE: usize = 100;

/// Returns the acts on an app of a target. What stops it may be of a fleet that has the cluster, or of a cluster of the
/// fleet: it ends where it was placed, for readers who may act there.
pub(crate) async fn acts_on_app(
    call: &AuthenticatedRequest,
    instance: &AppInstance,
    now: &AppNow,
) -> ActLinks {
    let AppInstance { target, app } = instance;
    let path = app_path(instance);
    let Some(actor) = call.actor() else { return ActLinks::after_sign_in(&path) };
    if !may_deploy(call, actor, &instance.into()).await {
        return ActLinks::default();
    }
    let on_app = |act: &str, text: &'static str| ActLink::new(format!("{path}/{act}"), text);
    let may_act_on = async |other: &TargetName| {
        let resource = || Resource::App(other.clone(), app.clone());
        other == target || may_deploy(call, actor, &resource()).await
    };
    let mut links = vec![on_app("rollback", "Roll back")];
    match &now.hold {
        None => links.push(on_app("hold", "Hold")),
        Some(Hold { target: held, .. }) => {
            // The newest hold is shown; the target may have one of its own beside it.
            let own_holds = call.deployments().holds(Some(target)).await.unwrap_or_default();
            if own_holds.iter().any(|hold| hold.app == *app) {
                links.push(on_app("release", "Release"));
            } else if may_act_on(held).await {
                let held = AppInstance { target: held.clone(), app: app.clone() };
                links.push(ActLink::new(format!("{}/release", app_path(&held)), "Release"));
            }
        }
    }
    // With GitHub, people create deployments there, with a token of their own; others see what would change.
    let may_create =
        call.deployments().code_host == CodeHost::Local || actor.github_token().is_some();
    links.insert(0, on_app("deploy", if may_create { "Deploy" } else { "Plan" }));
    for (id, lock) in &now.locks {
        if let LockScope::App(locked, _) = &lock.scope
            && may_act_on(locked).await
        {
            links.push(ActLink::new(format!("/locks/{id}/remove"), "Unlock"));
        }
    }
    let [target_part, name] = [target.as_str(), &app.to_string()].map(encode_segment);
    links.push(ActLink::new(format!("/locks/new?target={target_part}&app={name}"), "Lock"));
    ActLinks { links, sign_in: None }
}

/// Returns the acts on a deployment; its parts are those of a fleet, or of all apps.
pub(crate) async fn acts_on_deployment(
    call: &AuthenticatedRequest,
    deployment: &Deployment,
    parts: &[Deployment],
) -> ActLinks {
    let part_states = parts.iter().map(|part| part.state);
    if !can_be_cancelled(deployment.state, deployment.all_apps, part_states) {
        return ActLinks::default();
    }
    let path = format!("/deployments/{}", deployment.id);
    let Some(actor) = call.actor() else { return ActLinks::after_sign_in(&path) };
    if !may_deploy(call, actor, &actor.resource_of(deployment)).await {
        return ActLinks::default();
    }
    ActLinks { links: vec![ActLink::new(format!("{path}/cancel"), "Cancel")], sign_in: None }
}

/// Returns whether a deployment can be cancelled: while its push has not begun. One of all apps is cancelled with those of
/// them that wait.
pub(super) fn can_be_cancelled(
    state: State,
    is_of_all_apps: bool,
    mut part_states: impl Iterator<Item = State>,
) -> bool {
    state.is_before_push() && (!is_of_all_apps || part_states.any(State::is_before_push))
}

/// Returns the acts on a rollout.
pub(crate) async fn acts_on_rollout(
    call: &AuthenticatedRequest,
    rollout: &RolloutView,
) -> ActLinks {
    let record = &rollout.record;
    let path = format!("/rollouts/{}", record.id);
    let acts = possible_acts(record);
    if acts.is_empty() {
        return ActLinks::default();
    }
    let Some(actor) = call.actor() else { return ActLinks::after_sign_in(&path) };
    let mut is_for_all = true;
    for target in &record.targets {
        let place = DeploymentPlace {
            target: target.target.clone(),
            repository: record.release.repository.clone(),
            app: Some(record.app.clone()),
        };
        let resource = actor.resource_of_place(&place);
        is_for_all = is_for_all && may_deploy(call, actor, &resource).await;
    }
    let may_approve = match record.step() {
        Some(RolloutStep::Gate { gate: Gate::Approval { team: Some(team) }, .. }) => {
            let repository = &record.release.repository;
            call.shared.state.auth.require_member(actor, team, repository).await.is_ok()
        }
        _ => is_for_all,
    };
    let link = |(word, _): (&'static str, &'static str)| {
        let act = RolloutActWord::parse(word)?;
        let is_allowed = if act == RolloutActWord::Approve { may_approve } else { is_for_all };
        is_allowed.then(|| ActLink::new(format!("{path}/{word}"), act.title()))
    };
    ActLinks { links: acts.into_iter().filter_map(link).collect(), sign_in: None }
}

/// The acts on locks that a page offers.
#[derive(Default)]
pub(crate) struct LockOffers {
    /// To lock everything, or to sign in.
    pub(crate) acts: ActLinks,
    /// The choice of a target to lock; `None` where the reader may lock none.
    pub(crate) targets: Option<TargetChoice>,
    /// The locks that the reader may remove.
    pub(crate) removable: BTreeSet<LockId>,
}

/// The targets that a reader may lock.
pub(crate) enum TargetChoice {
    /// One of these.
    OneOf(Vec<String>),
    /// Any name will do.
    Any,
}

/// Returns the acts on locks.
pub(crate) async fn acts_on_locks(
    call: &AuthenticatedRequest,
    locks: &[(LockId, Lock)],
) -> LockOffers {
    let Some(actor) = call.actor() else {
        return LockOffers { acts: ActLinks::after_sign_in("/locks"), ..LockOffers::default() };
    };
    let may = async |scope: &LockScope| {
        let (right, resource) = required_right(scope);
        call.shared.state.auth.authorize(actor, right, &resource).await.is_ok()
    };
    let may_lock_all = may(&LockScope::Everything).await;
    let deployments = call.deployments();
    let mut names: Vec<TargetName> = deployments.clusters.names().into_iter().cloned().collect();
    let takes_any = names.is_empty();
    names.extend(deployments.fleets.names().cloned());
    let mut targets = Vec::new();
    for name in names {
        if may_lock_all || may(&LockScope::Target(name.clone())).await {
            targets.push(name.to_string());
        }
    }
    let targets = if takes_any {
        may_lock_all.then_some(TargetChoice::Any)
    } else {
        (!targets.is_empty()).then_some(TargetChoice::OneOf(targets))
    };
    let mut removable = BTreeSet::new();
    for (id, lock) in locks.iter().take(MAX_REMOVABLE) {
        if may(&lock.scope).await {
            removable.insert(id.clone());
        }
    }
    let lock_all = may_lock_all.then(|| ActLink::new("/locks/new".to_owned(), "Lock everything"));
    let acts = ActLinks { links: lock_all.into_iter().collect(), sign_in: None };
    LockOffers { acts, targets, removable }
}

/// Returns whether an act is offered. One that cannot be judged now is not: its own page says why.
async fn may_deploy(call: &AuthenticatedRequest, actor: &Caller, resource: &Resource) -> bool {
    call.shared.state.auth.authorize(actor, Scope::Deploy, resource).await.is_ok()
}
