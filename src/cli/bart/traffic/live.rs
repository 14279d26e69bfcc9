//! What is live of an app on each cluster of a target: its versions, and how routes share requests between them.

use serde_json::{Value as Json, json};

use crate::api::apps::AppDetail;
use crate::api::revisions::RevisionDetail;
use crate::api::service::TargetList;
use crate::cli::client::ServiceEndpoint;
use crate::cli::error::CliError;
use crate::manifests::parse::shares::{RouteShares, read_shares};
use crate::manifests::parse::versions::{LiveVersionManifest, read_versions};
use crate::model::id::{AppKey, TargetName};
use crate::model::revision::ManifestFile;

/// What is live on one cluster.
pub(super) struct LiveTraffic {
    /// The deploy id of the revision.
    pub(super) revision: String,
    /// Its image tag.
    pub(super) tag: Option<String>,
    /// The app's repository.
    pub(super) repository: Option<String>,
    /// The app by the name of its file, where the repository has several.
    pub(super) app_name: Option<String>,
    /// Its versions.
    pub(super) versions: Vec<LiveVersionManifest>,
    /// Its routes.
    pub(super) routes: Vec<RouteShares>,
}

impl LiveTraffic {
    /// Writes it as data, for a cluster.
    pub(super) fn data(&self, app: &AppKey, cluster: &TargetName) -> Json {
        let Self { revision, versions, routes, .. } = self;
        json!({
            "app": app.to_string(), "target": cluster, "revision": revision,
            "versions": versions.iter().map(|one| json!({
                "version": one.version, "image": one.image, "replicas": one.replicas,
            })).collect::<Vec<_>>(),
            "routes": routes.iter().map(|one| json!({
                "route": one.route,
                "shares": one.shares.iter().map(|(service, weight)| json!({
                    "version": version_of(service, versions), "service": service, "weight": weight,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    }
}

/// Lists the clusters of a target: those of a fleet, or the target itself.
pub(super) async fn clusters_of(server: &ServiceEndpoint, target: &TargetName) -> Vec<TargetName> {
    let list: Result<TargetList, CliError> = server.get("/api/v1/targets", &[]).await;
    let targets = list.map(|list| list.targets).unwrap_or_default();
    let summary = targets.into_iter().find(|one| one.name == target.as_str());
    let clusters = summary.map(|summary| summary.clusters).unwrap_or_default();
    let clusters: Vec<TargetName> =
        clusters.into_iter().filter_map(|name| TargetName::parse(name).ok()).collect();
    if clusters.is_empty() { vec![target.clone()] } else { clusters }
}

/// Reads the versions and routes that are live on a cluster; `None` where nothing is.
pub(super) async fn read_live(
    server: &ServiceEndpoint,
    cluster: &TargetName,
    app: &AppKey,
) -> Result<Option<LiveTraffic>, CliError> {
    let address = format!("/api/v1/apps/{cluster}/{app}");
    let status: Option<AppDetail> = server.find(&address).await?;
    let Some(AppDetail { repository, live: Some(live), .. }) = status else { return Ok(None) };
    let revision: RevisionDetail =
        server.get(&format!("{address}/revisions/{}", live.revision), &[]).await?;
    let files = revision
        .files
        .into_iter()
        .filter_map(|file| Some(ManifestFile { name: file.name, bytes: file.text?.into_bytes() }));
    let files: Vec<ManifestFile> = files.collect();
    Ok(Some(LiveTraffic {
        revision: live.revision,
        app_name: live.app_name,
        tag: live.tag,
        repository,
        versions: read_versions(&files),
        routes: read_shares(&files),
    }))
}

/// Finds the version of a Service, which is called as its Deployment.
pub(super) fn version_of<'v>(
    service: &str,
    versions: &'v [LiveVersionManifest],
) -> Option<&'v str> {
    let version = versions.iter().find(|one| one.name == service);
    version.map(|one| one.version.as_str())
}
