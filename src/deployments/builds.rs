//! Lists the builds of an app: the image that its WAML names, its tags in the registry, and the
//! targets where each is live.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;

use crate::deployments::app_files::WamlText;
use crate::deployments::{BackendError, Deployments};
use crate::git::layout;
use crate::lookups::image::ImageReference;
use crate::lookups::registry::BuildsRange;
use crate::lookups::{FactUnavailable, registry};
use crate::model::deployment::Deployment;
use crate::model::id::{AppKey, CommitSha, RepoName, TargetName};
use crate::model::release::Release;
use crate::pipeline::preview::live;
use crate::pipeline::{Input, fact_requests};
use crate::store::Filter;
use crate::support::retry::Disposition;
use crate::waml::Waml;

/// A query for the builds of a deployed app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildsQuery {
    /// The app.
    pub app: AppKey,
    /// The target whose section of the WAML names the image; `None` means any.
    pub target: Option<TargetName>,
    /// The page of the list.
    pub page: BuildsPage,
}

/// A query for the builds of the app of a WAML, which may never have been deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildsOfWaml {
    /// The service's repository.
    pub repository: RepoName,
    /// The text of the WAML.
    pub waml: String,
    /// The target whose section names the image; `None` means the first of the WAML.
    pub target: Option<TargetName>,
    /// The page of the list.
    pub page: BuildsPage,
}

/// The image of an app, resolved before any registry or manifest repository is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppImage {
    /// The app of the WAML that names the image.
    pub app: AppKey,
    /// The target whose section of the WAML names the image.
    pub target: TargetName,
    /// The targets of the WAML, where the app may be live.
    pub targets: Vec<TargetName>,
    /// The release that has the WAML.
    pub release: Release,
    /// The image without a tag: `ghcr.io/acme/shop`.
    pub image: String,
}

impl AppImage {
    /// Returns true if the image's name is that of the repository, or lies below it:
    /// `ghcr.io/acme/shop/worker` of `acme/shop`.
    pub fn is_named_like_its_repository(&self) -> bool {
        let repository = self.release.repository.as_str().to_ascii_lowercase();
        let name = self.image.split_once('/').map_or("", |(_, name)| name);
        let below = name.strip_prefix(&repository);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// One page of a list of builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildsPage {
    /// The most builds on the page; at least 1.
    pub limit: u32,
    /// The number of newest builds to skip.
    pub after: u32,
}

/// Builds of an app's image, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builds {
    /// The image, without a tag.
    pub image: String,
    /// The builds. The first page has the newest and, beyond the limit, those that are live; later
    /// pages have the next ones.
    pub builds: Vec<Build>,
    /// The `after` of the next page, if there is one.
    pub next: Option<u32>,
    /// The number of tags in the registry.
    pub tags: usize,
    /// True if all tags were looked at; if not, newer builds may be missing.
    pub complete: bool,
    /// The targets whose live build is unknown, each with the reason, for people.
    pub unknown: Vec<(TargetName, String)>,
    /// Further notes about missing data, for people.
    pub notes: Vec<String>,
}

/// One build and the targets where it is live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The tag.
    pub tag: String,
    /// The digest, `sha256:…`.
    pub digest: Option<String>,
    /// The time at which it was created.
    pub created: Option<Timestamp>,
    /// The commit that it was built from, as the image's labels name it.
    pub commit: Option<String>,
    /// The targets where it is live.
    pub live: Vec<TargetName>,
}

/// The reason why there is no list of builds.
#[derive(Debug, thiserror::Error)]
pub enum BuildListError {
    /// The app was never deployed, so its image is unknown.
    #[error("{0}")]
    Unknown(String),
    /// The record of the app names no image, or none that may be looked up.
    #[error("{0}")]
    NoImage(String),
    /// The registry or the code host does not answer; the text is for the caller too.
    #[error("{0}")]
    Unavailable(String),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// The time for the whole lookup: the server answers within nine seconds, and what is not known by
/// then is left out.
const PATIENCE: Duration = Duration::from_secs(6);
/// The further time for live tags that are not among the newest.
const LIVE_PATIENCE: Duration = Duration::from_secs(2);
/// The most targets that are looked at: a WAML of 256 KiB has room for thousands, and no reader
/// wants more in a line.
const MAX_TARGETS: usize = 40;
/// The number of targets that are looked at at the same time.
const AT_ONCE: usize = 8;

type Live = BTreeMap<String, Vec<TargetName>>;
type Unknown = Vec<(TargetName, String)>;

impl Deployments {
    /// Returns the target of the app's newest deployment, whose WAML names the image.
    pub(crate) async fn find_image_target(
        &self,
        query: &BuildsQuery,
    ) -> Result<TargetName, BuildListError> {
        Ok(newest(self, query).await?.request.target)
    }

    /// Returns the image of an app that was deployed.
    pub(crate) async fn find_image(&self, query: &BuildsQuery) -> Result<AppImage, BuildListError> {
        let newest = newest(self, query).await?;
        let input = Input {
            waml: fetch_waml(self, &newest).await?,
            target: newest.request.target.clone(),
            fleet: self.fleet_places(&newest.request.target).into_iter().next().flatten(),
            release: newest.request.release.clone(),
            templates: self.templates.now(),
        };
        image_of(self, input)
    }

    /// Returns the image of the app of a WAML.
    pub(crate) async fn find_image_of_waml(
        &self,
        request: BuildsOfWaml,
    ) -> Result<AppImage, BuildListError> {
        let BuildsOfWaml { repository, waml, target, page: _ } = request;
        let busy_error = || {
            BuildListError::Unavailable(
                "the service computes too many plans at once: ask again in a moment".to_owned(),
            )
        };
        let cpu_pool = self.cpu_pool.for_dry_run().ok_or_else(busy_error)?;
        let deployments = self.clone();
        let text = WamlText { app: None, path: self.waml_path(None), bytes: waml.into_bytes() };
        let result = cpu_pool.run_blocking(move || deployments.parse(&text)).await;
        let result = result.map_err(|problem| BuildListError::Unavailable(problem.message))?;
        let unreadable = |_| {
            BuildListError::NoImage("the WAML cannot be read: `bart validate` shows why".to_owned())
        };
        let waml = Arc::new(result.map_err(unreadable)?);
        let first = || waml.targets().into_iter().next().cloned();
        let target = target.or_else(first).ok_or_else(|| {
            BuildListError::NoImage(format!(
                "the WAML of {} has no target under `deploy`",
                waml.app
            ))
        })?;
        let commit = CommitSha::parse("0".repeat(40)).expect("forty digits are a commit id");
        let release = Release { repository, app: None, commit, tag: live::no_tag() };
        let fleet = self.fleet_places(&target).into_iter().next().flatten();
        let templates = self.templates.now();
        image_of(self, Input { waml, target, fleet, release, templates })
    }

    /// Returns the newest builds of an image. Only the visible targets are searched for what is
    /// live: neither a tag nor a note reveals another.
    pub(crate) async fn list_builds(
        &self,
        app_image: &AppImage,
        visible: &[TargetName],
        page: BuildsPage,
    ) -> Result<Builds, BuildListError> {
        let image = ImageReference::parse(&app_image.image);
        let image = image
            .ok_or_else(|| BuildListError::NoImage(format!("{} is no image", app_image.image)))?;
        let [skip, limit] =
            [page.after, page.limit].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let (listing, (live, unknown, mut notes)) = tokio::join!(
            self.facts.builds(&image, BuildsRange { skip, limit }, PATIENCE),
            live_tags(self, app_image, visible),
        );
        let listing = listing.map_err(|FactUnavailable(why)| BuildListError::Unavailable(why))?;
        let mut builds = listing.builds;
        if skip == 0 {
            let is_unlisted = |tag: &&String| !builds.iter().any(|build| build.tag == **tag);
            let missing: Vec<String> = live.keys().filter(is_unlisted).cloned().collect();
            let mut live_builds = self.facts.builds_of(&image, &missing, LIVE_PATIENCE).await;
            // A live build is in the list, even if the registry does not have it.
            for tag in missing {
                if !live_builds.iter().any(|build| build.tag == tag) {
                    notes.push(format!(
                        "{tag} is live, and the registry does not have it any more, or did not answer"
                    ));
                    live_builds.push(registry::ImageBuild {
                        tag,
                        digest: None,
                        created: None,
                        commit: None,
                    });
                }
            }
            builds.extend(live_builds);
            builds.sort_by_key(|build| std::cmp::Reverse(build.created));
        }
        let builds = builds.into_iter().map(|build| Build {
            live: live.get(&build.tag).cloned().unwrap_or_default(),
            tag: build.tag,
            digest: build.digest,
            created: build.created,
            commit: build.commit,
        });
        Ok(Builds {
            image: app_image.image.clone(),
            builds: builds.collect(),
            next: listing.next.and_then(|next| u32::try_from(next).ok()),
            tags: listing.tags,
            complete: listing.complete,
            unknown,
            notes: listing.notes.into_iter().chain(notes).collect(),
        })
    }
}

fn image_of(deployments: &Deployments, input: Input) -> Result<AppImage, BuildListError> {
    let ImageReference { host, name, reference: _ } = image(deployments, &input)?;
    Ok(AppImage {
        app: input.waml.app.clone(),
        targets: input.waml.targets().into_iter().take(MAX_TARGETS).cloned().collect(),
        target: input.target,
        release: input.release,
        image: format!("{host}/{name}"),
    })
}

/// Returns the app's newest deployment: its repository and commit have the WAML that names the
/// image.
async fn newest(
    deployments: &Deployments,
    query: &BuildsQuery,
) -> Result<Deployment, BuildListError> {
    let BuildsQuery { app, target, page: _ } = query;
    let filter = Filter { target: target.clone(), app: Some(app.clone()), ..Filter::default() };
    let page = deployments.store.deployments(&filter, None, 1).await.map_err(BackendError::new)?;
    page.deployments.into_iter().next().ok_or_else(|| {
        let place = target.as_ref().map_or(String::new(), |target| format!(" to {target}"));
        BuildListError::Unknown(format!(
            "{app} was never deployed{place}: its first deployment tells the service its image"
        ))
    })
}

async fn fetch_waml(
    deployments: &Deployments,
    newest: &Deployment,
) -> Result<Arc<Waml>, BuildListError> {
    let text =
        deployments.read_release_waml(&newest.request.release).await.map_err(
            |error| match error.disposition() {
                Disposition::Doubt | Disposition::Stop => {
                    BuildListError::NoImage(error.to_string())
                }
                Disposition::Retry { .. } => BuildListError::Unavailable(error.to_string()),
            },
        )?;
    let waml = deployments.parse(&text).map_err(|_| {
        no_image(newest, "it is not valid, so its image is unknown: `bart validate` shows why")
    })?;
    Ok(Arc::new(waml))
}

/// Returns the image that the target's section names.
fn image(deployments: &Deployments, input: &Input) -> Result<ImageReference, BuildListError> {
    let image_name = fact_requests::collect_questions(input, &deployments.clusters)
        .map(|questions| questions.image);
    let image = image_name.as_deref().and_then(ImageReference::parse);
    let app = &input.waml.app;
    let image = image.ok_or_else(|| {
        let place = &input.target;
        BuildListError::NoImage(format!(
            "the WAML of {app} names no image that can be read for {place}"
        ))
    })?;
    if !deployments.facts.may_ask(&image) {
        let host = &image.host;
        return Err(BuildListError::NoImage(format!(
            "the image of {app} is at {host}, which is not under `registries` in the service's configuration"
        )));
    }
    Ok(image)
}

fn no_image(newest: &Deployment, why: &str) -> BuildListError {
    let Release { repository, commit, .. } = &newest.request.release;
    BuildListError::NoImage(format!("the WAML of {repository} at {}: {why}", commit.short()))
}

/// Returns the visible targets where each tag is live, the targets that cannot be read with the
/// reasons, and notes on what else is missing.
async fn live_tags(
    deployments: &Deployments,
    image: &AppImage,
    visible: &[TargetName],
) -> (Live, Unknown, Vec<String>) {
    let AppImage { app, release, .. } = image;
    let lookups: Vec<_> = visible
        .iter()
        .map(|target| {
            Box::pin(
                async move { (live_tag(deployments, app, target, release).await, target.clone()) },
            )
        })
        .collect();
    let mut answers = futures::stream::iter(lookups).buffered(AT_ONCE);
    let (mut live, mut unknown, mut notes) = (Live::new(), Unknown::new(), Vec::new());
    let collection = async {
        while let Some((answer, target)) = answers.next().await {
            match answer {
                Ok(Some(tag)) => live.entry(tag).or_default().push(target),
                Ok(None) => {}
                Err(why) => unknown.push((target, why)),
            }
        }
    };
    if tokio::time::timeout(PATIENCE, collection).await.is_err() {
        let late =
            "the manifest repositories did not answer in time, so a build's targets may be missing";
        notes.push(late.to_owned());
    }
    (live, unknown, notes)
}

async fn live_tag(
    deployments: &Deployments,
    app: &AppKey,
    target: &TargetName,
    release: &Release,
) -> Result<Option<String>, String> {
    let folder = layout::latest_folder(target, app).to_string();
    let manifests = deployments.manifests_of(target).map_err(|problem| problem.message)?;
    let files = manifests.repository.files(&folder).await.map_err(|error| error.to_string())?;
    if files.is_empty() {
        return Ok(None);
    }
    let succeeded =
        deployments.recent_successes(app, target).await.map_err(|error| error.to_string())?;
    let (_, tag) = live::release(&files, &succeeded, release);
    Ok(tag.map(String::from))
}
