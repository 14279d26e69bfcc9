//! The routes and names of a former revision, which may be another app's by now.

use crate::app::outside::{World, route_claims, routes_of};
use crate::app::problem;
use crate::controller::outcome;
use crate::controller::outside::{Problem, Remedy};
use crate::facts::NotKnown;
use crate::git::layout;
use crate::model::deployment::Deployment;
use crate::model::facts::LiveObject;
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::model::revision::ManifestFile;
use crate::model::rollback::Rollback;
use crate::model::route::{Route, RouteClaim};
use crate::pipeline::reading;

/// What the rollback makes live again, unless another app would be in its way.
pub(in crate::app) async fn of_revision(
    world: &World,
    deployment: &Deployment,
    rollback: &Rollback,
) -> Result<Vec<RouteClaim>, Problem> {
    // Without an app, the job says so.
    let Some(app) = &deployment.app else { return Ok(Vec::new()) };
    let request = &deployment.request;
    free_routes(world, &request.target, app, &rollback.to, &request.release.repository).await
}

/// Whether another app of the namespace has one of the revision's objects by now.
async fn free_names(
    world: &World,
    target: &TargetName,
    app: &AppKey,
    files: &[ManifestFile],
) -> Result<(), Problem> {
    let found = world.facts.namespace(target, app).await;
    let namespace = found.map_err(|NotKnown(why)| Problem {
        remedy: Remedy::Retry { after: None },
        message: format!("it is not known whether other apps have its objects by now: {why}"),
    })?;
    let (revision, _) = reading::live_app(files);
    let own = namespace.0.get(&app.slug);
    // What both have already, the rollback does not change.
    let is_live = |object: &LiveObject| {
        own.is_some_and(|own| {
            own.iter().any(|one| *one.name == *object.name && *one.kind == *object.kind)
        })
    };
    let new = revision.objects.iter().filter(|object| !is_live(object));
    let taken =
        new.into_iter().find_map(|object| Some((object, namespace.owner_of(&app.slug, object)?)));
    taken.map_or(Ok(()), |(object, other)| {
        let message = format!("not rolled back: {object} is `{}/{other}`'s by now", app.namespace);
        Err(Problem { remedy: Remedy::Reject, message })
    })
}

/// The routes of a revision, each of them free for the app of that repository, as its objects' names are.
pub(super) async fn free_routes(
    world: &World,
    target: &TargetName,
    app: &AppKey,
    to: &DeployId,
    repository: &RepoName,
) -> Result<Vec<RouteClaim>, Problem> {
    let folder = layout::revision_folder(target, app, to).to_string();
    let files = world.manifests_of(target)?.repository.files(&folder).await;
    let files = files.map_err(|error| problem::of_write(&error))?;
    free_names(world, target, app, &files).await?;
    let routes = routes_of(app, &files);
    let mut hosts: Vec<String> = routes.iter().map(|route| route.host.clone()).collect();
    hosts.dedup();
    if hosts.is_empty() {
        return Ok(Vec::new());
    }
    // What cannot be read cannot be written to either.
    let found = world.facts.routes(target, app, &hosts).await;
    let (others, live) = found.map_err(|NotKnown(why)| Problem {
        remedy: Remedy::Retry { after: None },
        message: format!("it is not known whether other apps have its hosts by now: {why}"),
    })?;
    let claims = route_claims(routes, &live);
    let is_in_the_way =
        |one: &&Route| claims.iter().any(|claim| claim.is_refused_beside(one, repository));
    match others.iter().find(is_in_the_way) {
        None => Ok(claims),
        Some(route) => Err(Problem {
            remedy: Remedy::Reject,
            message: format!("not rolled back: {}", outcome::route_taken(route)),
        }),
    }
}
