//! Lists what is deployed where, from the store, with the WAML of each deployment.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};

use crate::app::code_host::forge;
use crate::app::start_error::{StartError, cannot_use};
use crate::config::settings::Settings;
use crate::deployments::planning::fetch_extra_files;
use crate::forge::error::ForgeError;
use crate::model::deployment::Deployment;
use crate::model::id::{AppKey, TargetName};
use crate::model::release::Release;
use crate::model::removal::RemovalEnd;
use crate::store::{Filter, Store};
use crate::support::clock::Clock;
use crate::waml::Waml;
use crate::waml::app_files::path_of;
use crate::waml::extra_files::ExtraFiles;

/// The newest deployment of an app to a target that succeeded.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// The app.
    pub app: AppKey,
    /// The target.
    pub target: TargetName,
    /// The release.
    pub release: Release,
    /// The bytes of its WAML, or the reason why they cannot be read any more.
    pub waml: Result<Vec<u8>, String>,
    /// The files that it names for the target.
    pub extra_files: ExtraFiles,
}

/// The most deployments that are read, the newest first; a company has thousands of apps.
const MAX: usize = 20_000;
const PAGE: u32 = 500;
/// The number of files that are fetched at the same time: a code host limits a client that sends
/// more.
const AT_ONCE: usize = 8;

/// Returns everything that is deployed. Reads the database of the settings and the code host; a
/// running service is not disturbed.
///
/// # Errors
/// When the database or the code host cannot be used at all.
pub async fn list_deployed(
    settings: &Settings,
    clock: &Clock,
) -> Result<Vec<Deployed>, StartError> {
    crate::support::http::install_tls_provider();
    let store = Store::open(&settings.storage.url).await.map_err(cannot_use("the database"))?;
    let newest = newest(&store).await;
    store.close().await;
    let forge = forge(settings, clock).map_err(cannot_use("the forge"))?;
    let requests = stream::iter(newest?).map(|(app, deployment)| {
        let forge = &forge;
        async move {
            let Release { repository, app: name, commit, .. } = &deployment.request.release;
            let settings = &settings.waml;
            let target = deployment.request.target;
            let read = async {
                let path = path_of(&settings.path, name.as_ref());
                let bytes = forge.file(repository, commit, &path, settings.max_bytes).await?;
                let waml = Waml::parse(&path, &bytes).ok();
                let paths = waml.map(|waml| waml.extra_paths_of(&target)).unwrap_or_default();
                let commit = (repository, commit);
                Ok((bytes, fetch_extra_files(forge, &path, paths, commit).await?))
            };
            let read = read.await.map_err(|error: ForgeError| error.to_string());
            let (waml, extra_files) = match read {
                Ok((bytes, files)) => (Ok(bytes), files),
                Err(why) => (Err(why), ExtraFiles::default()),
            };
            Deployed { app, target, waml, extra_files, release: deployment.request.release.clone() }
        }
    });
    Ok(requests.buffered(AT_ONCE).collect().await)
}

/// Returns true if the app was removed from the target after that deployment; ids are in the order
/// of time.
async fn was_removed(
    store: &Store,
    app: &AppKey,
    deployment: &Deployment,
) -> Result<bool, StartError> {
    let removals = store.removals(&deployment.request.target, app).await;
    let removals = removals.map_err(cannot_use("the database"))?;
    let has_commit = |end: &RemovalEnd| end.commit.is_some();
    Ok(removals.iter().any(|removal| {
        removal.id > deployment.id && removal.ended.as_ref().is_some_and(has_commit)
    }))
}

/// Returns, for each app and target, the newest deployment that is still there.
async fn newest(store: &Store) -> Result<Vec<(AppKey, Deployment)>, StartError> {
    let filter = Filter { pushed: true, ..Filter::default() };
    let (mut places, mut deployments, mut count) = (BTreeSet::new(), Vec::new(), 0);
    let mut before = None;
    loop {
        let page = store.deployments(&filter, before.as_ref(), PAGE).await;
        let page = page.map_err(cannot_use("the database"))?;
        count += page.deployments.len();
        for deployment in page.deployments {
            let Some(app) = deployment.app.clone() else { continue };
            let is_newest = places.insert((app.clone(), deployment.request.target.clone()));
            if is_newest && !was_removed(store, &app, &deployment).await? {
                deployments.push((app, deployment));
            }
        }
        before = page.next;
        if before.is_none() || count >= MAX {
            deployments.sort_by(|(a, deployment), (b, other)| {
                (a, &deployment.request.target).cmp(&(b, &other.request.target))
            });
            return Ok(deployments);
        }
    }
}
