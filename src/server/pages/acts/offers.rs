//! The acts that a page offers: those that its reader may do now. Whoever has not signed in is offered to sign in.

use crate::deployments::CodeHost;
use crate::deployments::rollouts::RolloutView;
use crate::model::app_instance::AppInstance;
use crate::model::callers::Scope;
use crate::model::deployment::Deployment;
use crate::model::lock::{LockFilter, LockScope};
use crate::rollout::plan::{Gate, RolloutStep};
use crate::server::auth::{Caller, Resource};
use crate::server::call::AuthenticatedRequest;
use crate::server::pages::acts::links::{ActLink, ActLinks};
use crate::server::pages::acts::rollouts::RolloutActWord;
use crate::server::routes::rollouts::possible_acts;
use crate::store::DeploymentPlace;
use crate::support::percent::encode_segment;

/// Returns the acts on an app of a target.
pub(crate) async fn acts_on_app(call: &AuthenticatedRequest, instance: &AppInstance) -> ActLinks {
    let AppInstance { target, app } = instance;
    let [target_part, namespace, slug, name] =
        [target.as_str(), app.namespace.as_str(), app.slug.as_str(), &app.to_string()]
            .map(encode_segment);
    let path = format!("/apps/{target_part}/{namespace}/{slug}");
    let Some(actor) = call.actor() else { return ActLinks::after_sign_in(&path) };
    if !may_deploy(call, actor, &instance.into()).await {
        return ActLinks::default();
    }
    let on_app = |act: &str, text: &'static str| ActLink::new(format!("{path}/{act}"), text);
    let holds = call.deployments().holds(Some(target)).await.unwrap_or_default();
    let is_held = holds.iter().any(|hold| hold.app == *app);
    let mut links = vec![
        on_app("rollback", "Roll back"),
        if is_held { on_app("release", "Release") } else { on_app("hold", "Hold") },
    ];
    // With GitHub, people create deployments there.
    if call.deployments().code_host == CodeHost::Local {
        links.insert(0, on_app("deploy", "Deploy"));
    }
    let filter = LockFilter { target: Some(target.clone()), owner: None, app: Some(app.clone()) };
    let locks = call.deployments().ledger.locks(&filter).await.unwrap_or_default();
    let own = locks.iter().filter(
        |(_, lock)| matches!(&lock.scope, LockScope::App(on, of) if on == target && of == app),
    );
    links.extend(own.map(|(id, _)| ActLink::new(format!("/locks/{id}/remove"), "Unlock")));
    links.push(ActLink::new(format!("/locks/new?target={target_part}&app={name}"), "Lock"));
    ActLinks { links, sign_in: None }
}

/// Returns the acts on a deployment.
pub(crate) async fn acts_on_deployment(
    call: &AuthenticatedRequest,
    deployment: &Deployment,
) -> ActLinks {
    if deployment.state.is_final() {
        return ActLinks::default();
    }
    let path = format!("/deployments/{}", deployment.id);
    let Some(actor) = call.actor() else { return ActLinks::after_sign_in(&path) };
    if !may_deploy(call, actor, &actor.resource_of(deployment)).await {
        return ActLinks::default();
    }
    ActLinks { links: vec![ActLink::new(format!("{path}/cancel"), "Cancel")], sign_in: None }
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
            call.shared.state.auth.require_member(actor, team).await.is_ok()
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

/// Returns whether an act is offered. One that cannot be judged now is not: its own page says why.
async fn may_deploy(call: &AuthenticatedRequest, actor: &Caller, resource: &Resource) -> bool {
    call.shared.state.auth.authorize(actor, Scope::Deploy, resource).await.is_ok()
}
