//! Checks the namespace, the object names and the routes that a former revision takes when it is
//! live again. They may belong to another app by now, or be reserved. The rules of a deployment
//! check the same, and do not run for a rollback.

use crate::deployments::Deployments;
use crate::deployments::attempt::{object_claims, route_claims, routes_of};
use crate::deployments::outcome::{DeployError, route_taken};
use crate::deployments::rollback::data::refusal_error;
use crate::git::layout;
use crate::lookups::FactUnavailable;
use crate::manifests::parse;
use crate::model::claim::{Claims, ObjectClaim};
use crate::model::deployment::Deployment;
use crate::model::facts::LiveObject;
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::model::revision::ManifestFile;
use crate::model::rollback::Rollback;
use crate::model::route::{Route, RouteClaim};

impl Deployments {
    /// Returns the claims of a rollback, unless the revision is not allowed any more or another app
    /// is in its way.
    pub(crate) async fn restore_claims(
        &self,
        deployment: &Deployment,
        rollback: &Rollback,
    ) -> Result<Claims, DeployError> {
        // Without an app, the attempt fails with that reason.
        let Some(app) = &deployment.app else { return Ok(Claims::default()) };
        let request = &deployment.request;
        revision_claims(self, (&request.target, app), &rollback.to, &request.release.repository)
            .await
    }
}

/// Returns the claims of a revision of an app of that repository.
pub(super) async fn revision_claims(
    deployments: &Deployments,
    (target, app): (&TargetName, &AppKey),
    to: &DeployId,
    repository: &RepoName,
) -> Result<Claims, DeployError> {
    let folder = layout::revision_folder(target, app, to).to_string();
    let files = deployments.manifests_of(target)?.repository.files(&folder).await?;
    check_reserved_names(deployments, target, app, &files)?;
    let objects = free_objects(deployments, target, app, &files).await?;
    let routes = free_routes(deployments, target, app, &files, repository).await?;
    Ok(Claims { routes, objects })
}

/// Refuses names that the target gives to no app: a namespace, or a name of Kubernetes' or the
/// platform's. The revision may have been live before they were reserved.
pub(super) fn check_reserved_names(
    deployments: &Deployments,
    target: &TargetName,
    app: &AppKey,
    files: &[ManifestFile],
) -> Result<(), DeployError> {
    let Some(cluster) = deployments.clusters.find(target) else { return Ok(()) };
    let refusal = cluster.refuse_namespace(app.namespace.as_str());
    if let Some(refusal) = refusal.filter(|refusal| !refusal.by_name_alone) {
        return Err(refusal_error(&format!("{}; {}", refusal.message, refusal.help)));
    }
    let (revision, _) = parse::live_app(files);
    let conflict = revision.objects.iter().find_map(|LiveObject { kind, name, .. }| {
        let owner = cluster.owner_of_object(&app.namespace, kind, name)?;
        Some(format!("it would make the {kind} `{name}`, {owner}"))
    });
    conflict.map_or(Ok(()), |message| Err(refusal_error(&message)))
}

/// Returns the revision's objects, unless another app of the namespace has one of them by now.
async fn free_objects(
    deployments: &Deployments,
    target: &TargetName,
    app: &AppKey,
    files: &[ManifestFile],
) -> Result<Vec<ObjectClaim>, DeployError> {
    let result = deployments.facts.namespace(target, app).await;
    let namespace = result.map_err(|FactUnavailable(why)| {
        // A repository that cannot be read cannot be written to either.
        DeployError::retry(format!("the objects of other apps cannot be read: {why}"))
    })?;
    let (revision, unreadable) = parse::live_app(files);
    for file in unreadable {
        tracing::warn!(%app, %target, file, "file of a revision cannot be read, its names are not checked");
    }
    let own_objects = namespace.apps.get(&app.slug).map_or(&[][..], |own_objects| own_objects);
    // The rollback does not change the objects that both have already.
    let is_live = |object: &LiveObject| {
        own_objects
            .iter()
            .any(|own_object| *own_object.name == *object.name && *own_object.kind == *object.kind)
    };
    let mut new_objects = revision.names().filter(|object| !is_live(object));
    let conflict =
        new_objects.find_map(|object| Some((object, namespace.owner_of(&app.slug, object)?)));
    if let Some((object, other)) = conflict {
        return Err(refusal_error(&format!(
            "{object} already belongs to `{}/{other}`",
            app.namespace
        )));
    }
    let live = revision.names().filter(|object| is_live(object)).cloned();
    Ok(object_claims(files, &live.collect::<Vec<_>>()))
}

/// Returns the revision's routes, unless another app's is in the way of one by now.
async fn free_routes(
    deployments: &Deployments,
    target: &TargetName,
    app: &AppKey,
    files: &[ManifestFile],
    repository: &RepoName,
) -> Result<Vec<RouteClaim>, DeployError> {
    let routes = routes_of(app, files);
    let mut hosts: Vec<String> = routes.iter().map(|route| route.host.clone()).collect();
    hosts.dedup();
    if hosts.is_empty() {
        return Ok(Vec::new());
    }
    let result = deployments.facts.routes(target, app, &hosts).await;
    let (others, live) = result.map_err(|FactUnavailable(why)| {
        DeployError::retry(format!("the hosts of other apps cannot be read: {why}"))
    })?;
    let claims = route_claims(routes, &live);
    let is_in_the_way =
        |route: &&Route| claims.iter().any(|claim| claim.is_refused_beside(route, repository));
    match others.iter().find(is_in_the_way) {
        None => Ok(claims),
        Some(route) => Err(refusal_error(&route_taken(route))),
    }
}
