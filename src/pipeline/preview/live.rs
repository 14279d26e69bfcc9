//! The live release of an app on a target, with which a preview is rendered.

use crate::manifests::files;
use crate::model::deployment::Deployment;
use crate::model::id::ImageTag;
use crate::model::release::Release;
use crate::model::revision::ManifestFile;

/// The label that every object carries.
const VERSION: &str = "app.kubernetes.io/version";
/// The tag without a live release: then nothing is compared either.
const NO_TAG: &str = "preview";

/// Finds the release to render with, and the live tag: of the newest deployment that left the live revision, else of
/// the newest that succeeded; else of the label, which has a tag's first 63 characters.
///
/// `succeeded` is newest first. `ours` is the release of the head, for the unknown parts.
pub fn release(
    live: &[ManifestFile],
    succeeded: &[Deployment],
    default_release: &Release,
) -> (Release, Option<ImageTag>) {
    if live.is_empty() {
        return (default_release.clone(), None);
    }
    let digest = files::digest_of(live);
    let has_digest =
        |deployment: &&Deployment| deployment.pushed.as_ref().map(|p| &p.digest) == digest.as_ref();
    if let Some(deployment) = succeeded.iter().find(has_digest).or_else(|| succeeded.first()) {
        let Release { repository: _, app, commit, tag } = deployment.request.release.clone();
        let repository = default_release.repository.clone();
        let release = Release { repository, app, commit, tag: tag.clone() };
        return (release, Some(tag));
    }
    let tag = files::read_back(live).and_then(|files| {
        let (_, object) = files.into_iter().next()?;
        let version = object.json.get("metadata")?.get("labels")?.get(VERSION)?;
        ImageTag::parse(version.as_str()?).ok()
    });
    let release = tag
        .clone()
        .map_or_else(|| default_release.clone(), |tag| Release { tag, ..default_release.clone() });
    (release, tag)
}

/// Makes the tag of a release of which there is none yet.
pub fn no_tag() -> ImageTag {
    ImageTag::parse(NO_TAG).expect("a word is a tag")
}
