//! The builds of an app: its image as its WAML names it, what the registry has of it, and where each is live.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;

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

/// Whose builds are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildsQuery {
    /// The app.
    pub app: AppKey,
    /// The target whose section of the WAML names the image; any, where none is named.
    pub target: Option<TargetName>,
    /// The page of the list.
    pub page: BuildsPage,
}

/// Builds of the app of a WAML, which may never have been deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildsOfWaml {
    /// The service's repository.
    pub repository: RepoName,
    /// The text of the WAML.
    pub waml: String,
    /// The target whose section names the image; the first of the WAML, where none is named.
    pub target: Option<TargetName>,
    /// The page of the list.
    pub page: BuildsPage,
}

/// The image of an app, found before a registry or a manifest repository is asked about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppImage {
    /// The app of the WAML that names the image.
    pub app: AppKey,
    /// The target whose section of the WAML names the image.
    pub target: TargetName,
    /// The targets of the WAML, where the app may be live.
    pub targets: Vec<TargetName>,
    /// The release that the WAML is of.
    pub release: Release,
    /// The image without a tag: `ghcr.io/acme/shop`.
    pub image: String,
}

impl AppImage {
    /// Returns whether the image's name is that of the repository, or lies below it: `ghcr.io/acme/shop/worker` of
    /// `acme/shop`.
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
    /// At most so many; at least 1.
    pub limit: u32,
    /// After so many of the newest.
    pub after: u32,
}

/// Builds of an app's image, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builds {
    /// The image, without a tag.
    pub image: String,
    /// The builds: of the first page the newest, and beyond the limit those that are live; of others the next ones.
    pub builds: Vec<Build>,
    /// The `after` of the next page, if there is one.
    pub next: Option<u32>,
    /// How many tags the registry lists.
    pub tags: usize,
    /// Whether all of them were looked at; if not, newer ones may be missing.
    pub complete: bool,
    /// Where it could not be found out what is live, and why, for people.
    pub unknown: Vec<(TargetName, String)>,
    /// What else could not be found out, for people.
    pub notes: Vec<String>,
}

/// One build, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The tag.
    pub tag: String,
    /// `sha256:…`
    pub digest: Option<String>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// The commit that it was made of, as the image says.
    pub commit: Option<String>,
    /// The targets where it is live.
    pub live: Vec<TargetName>,
}

/// Why there is no list of builds.
#[derive(Debug, thiserror::Error)]
pub enum NoBuilds {
    /// The app was never deployed, so nobody knows its image.
    #[error("{0}")]
    Unknown(String),
    /// What is known of the app names no image that may be asked for.
    #[error("{0}")]
    NoImage(String),
    /// The registry or the code host does not say; for the caller too.
    #[error("{0}")]
    FactUnavailable(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// The server answers within nine seconds; what is not known by then is left out.
const PATIENCE: Duration = Duration::from_secs(6);
/// What is live and not among the newest is asked for after that.
const LIVE_PATIENCE: Duration = Duration::from_secs(2);
/// A WAML of 256 KiB has room for thousands of targets; nobody reads more of them in one line.
const MOST_TARGETS: usize = 40;
/// How many targets are looked at at once.
const AT_ONCE: usize = 8;

type Live = BTreeMap<String, Vec<TargetName>>;
type Unknown = Vec<(TargetName, String)>;

impl Deployments {
    /// The target of the app's newest deployment, whose WAML names the image.
    pub(crate) async fn built_for(&self, query: &BuildsQuery) -> Result<TargetName, NoBuilds> {
        Ok(newest(self, query).await?.request.target)
    }

    /// The image of an app that was deployed.
    pub(crate) async fn find_image(&self, query: &BuildsQuery) -> Result<AppImage, NoBuilds> {
        let newest = newest(self, query).await?;
        let input = Input {
            waml: waml(self, &newest).await?,
            target: newest.request.target.clone(),
            release: newest.request.release.clone(),
            templates: self.templates.now(),
        };
        image_of(self, input)
    }

    /// The image of the app of a WAML.
    pub(crate) async fn find_image_of_waml(
        &self,
        request: BuildsOfWaml,
    ) -> Result<AppImage, NoBuilds> {
        let BuildsOfWaml { repository, waml, target, page: _ } = request;
        let busy =
            || NoBuilds::FactUnavailable("too much is planned at once; come again".to_owned());
        let planning = self.planning.for_dry_run().ok_or_else(busy)?;
        let this = self.clone();
        let read = planning.run_blocking(move || this.parse(waml.as_bytes())).await;
        let read = read.map_err(|problem| NoBuilds::FactUnavailable(problem.message))?;
        let unread = |_| NoBuilds::NoImage("the WAML cannot be read: `bart validate`".to_owned());
        let waml = Arc::new(read.map_err(unread)?);
        let first = || waml.targets().into_iter().next().cloned();
        let target = target.or_else(first).ok_or_else(|| {
            NoBuilds::NoImage(format!("the WAML of {} has no target under `deploy`", waml.app))
        })?;
        let commit = CommitSha::parse("0".repeat(40)).expect("forty digits are a commit id");
        let release = Release { repository, commit, tag: live::no_tag() };
        image_of(self, Input { waml, target, release, templates: self.templates.now() })
    }

    /// The newest builds of an image. What is live is looked up on the visible targets alone: neither a tag nor a
    /// note tells of another.
    pub(crate) async fn list_builds(
        &self,
        of: &AppImage,
        visible: &[TargetName],
        page: BuildsPage,
    ) -> Result<Builds, NoBuilds> {
        let image = ImageReference::parse(&of.image);
        let image = image.ok_or_else(|| NoBuilds::NoImage(format!("{} is no image", of.image)))?;
        let [skip, limit] =
            [page.after, page.limit].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let (found, (live, unknown, mut notes)) = tokio::join!(
            self.facts.builds(&image, BuildsRange { skip, limit }, PATIENCE),
            live_tags(self, of, visible),
        );
        let found = found.map_err(|FactUnavailable(why)| NoBuilds::FactUnavailable(why))?;
        let mut builds = found.builds;
        if skip == 0 {
            let shown = |tag: &&String| !builds.iter().any(|one| one.tag == **tag);
            let missing: Vec<String> = live.keys().filter(shown).cloned().collect();
            let mut looked_up = self.facts.builds_of(&image, &missing, LIVE_PATIENCE).await;
            // What is live is in the list, whatever the registry says of it.
            for tag in missing {
                if !looked_up.iter().any(|one| one.tag == tag) {
                    notes.push(format!(
                        "{tag} is live, and the registry does not have it any more, or did not answer"
                    ));
                    looked_up.push(registry::ImageBuild {
                        tag,
                        digest: None,
                        created: None,
                        commit: None,
                    });
                }
            }
            builds.extend(looked_up);
            builds.sort_by_key(|one| std::cmp::Reverse(one.created));
        }
        let builds = builds.into_iter().map(|one| Build {
            live: live.get(&one.tag).cloned().unwrap_or_default(),
            tag: one.tag,
            digest: one.digest,
            created: one.created,
            commit: one.commit,
        });
        Ok(Builds {
            image: of.image.clone(),
            builds: builds.collect(),
            next: found.next.and_then(|next| u32::try_from(next).ok()),
            tags: found.tags,
            complete: found.complete,
            unknown,
            notes: found.notes.into_iter().chain(notes).collect(),
        })
    }
}

fn image_of(deployments: &Deployments, input: Input) -> Result<AppImage, NoBuilds> {
    let ImageReference { host, name, reference: _ } = image(deployments, &input)?;
    Ok(AppImage {
        app: input.waml.app.clone(),
        targets: input.waml.targets().into_iter().take(MOST_TARGETS).cloned().collect(),
        target: input.target,
        release: input.release,
        image: format!("{host}/{name}"),
    })
}

/// The app's newest deployment: its repository and commit have the WAML that names the image.
async fn newest(deployments: &Deployments, query: &BuildsQuery) -> Result<Deployment, NoBuilds> {
    let BuildsQuery { app, target, page: _ } = query;
    let filter = Filter { target: target.clone(), app: Some(app.clone()), ..Filter::default() };
    let page = deployments.store.deployments(&filter, None, 1).await.map_err(BackendError::new)?;
    page.deployments.into_iter().next().ok_or_else(|| {
        let place = target.as_ref().map_or(String::new(), |target| format!(" to {target}"));
        NoBuilds::Unknown(format!(
            "{app} was never deployed{place}: its image is known from its WAML once it was"
        ))
    })
}

async fn waml(deployments: &Deployments, newest: &Deployment) -> Result<Arc<Waml>, NoBuilds> {
    let Release { repository, commit, tag: _ } = &newest.request.release;
    let bytes = deployments.read_waml(repository, commit).await.map_err(|error| {
        match error.disposition() {
            Disposition::Doubt | Disposition::Stop => NoBuilds::NoImage(error.to_string()),
            Disposition::Retry { .. } => NoBuilds::FactUnavailable(error.to_string()),
        }
    })?;
    let waml = deployments.parse(&bytes).map_err(|_| no_image(newest, "it cannot be read"))?;
    Ok(Arc::new(waml))
}

/// Returns where the image is, as the target's section names it.
fn image(deployments: &Deployments, input: &Input) -> Result<ImageReference, NoBuilds> {
    let named = fact_requests::collect_questions(input, &deployments.clusters)
        .map(|questions| questions.image);
    let image = named.as_deref().and_then(ImageReference::parse);
    let app = &input.waml.app;
    let image = image.ok_or_else(|| {
        let place = &input.target;
        NoBuilds::NoImage(format!("the WAML of {app} names no image that can be read for {place}"))
    })?;
    if !deployments.facts.may_ask(&image) {
        let host = &image.host;
        return Err(NoBuilds::NoImage(format!(
            "the image of {app} is at {host}, which is not under `registries` in the service's configuration"
        )));
    }
    Ok(image)
}

fn no_image(newest: &Deployment, why: &str) -> NoBuilds {
    let Release { repository, commit, .. } = &newest.request.release;
    NoBuilds::NoImage(format!("of the WAML of {repository} at {}: {why}", commit.short()))
}

/// The visible targets where each tag is live, those where nobody can tell and why, and what else could not be
/// found out.
async fn live_tags(
    deployments: &Deployments,
    image: &AppImage,
    visible: &[TargetName],
) -> (Live, Unknown, Vec<String>) {
    let AppImage { app, release, .. } = image;
    let asking: Vec<_> = visible
        .iter()
        .map(|target| {
            Box::pin(
                async move { (live_tag(deployments, app, target, release).await, target.clone()) },
            )
        })
        .collect();
    let mut answers = futures::stream::iter(asking).buffered(AT_ONCE);
    let (mut live, mut unknown, mut notes) = (Live::new(), Unknown::new(), Vec::new());
    let all = async {
        while let Some((answer, target)) = answers.next().await {
            match answer {
                Ok(Some(tag)) => live.entry(tag).or_default().push(target),
                Ok(None) => {}
                Err(why) => unknown.push((target, why)),
            }
        }
    };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        notes.push("the manifest repositories did not say in time what is live".to_owned());
    }
    (live, unknown, notes)
}

async fn live_tag(
    deployments: &Deployments,
    app: &AppKey,
    target: &TargetName,
    ours: &Release,
) -> Result<Option<String>, String> {
    let folder = layout::latest_folder(target, app).to_string();
    let manifests = deployments.manifests_of(target).map_err(|problem| problem.message)?;
    let files = manifests.repository.files(&folder).await.map_err(|error| error.to_string())?;
    if files.is_empty() {
        return Ok(None);
    }
    let succeeded = deployments.succeeded(app, target).await.map_err(|error| error.to_string())?;
    let (_, tag) = live::release(&files, &succeeded, ours);
    Ok(tag.map(String::from))
}
