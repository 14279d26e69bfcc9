//! The paths of a manifest repository, and the number of revisions that an app keeps. Pure.
//!
//! Every path is built here and only here, from identifiers that cannot hold a slash or `..`.

use std::collections::HashSet;

use crate::model::id::{AppKey, DeployId, Namespace, Slug, TargetName};
use crate::model::revision::{ManifestFile, Revision};

/// The number of revisions that an app keeps on a target: enough to walk back over a bad day.
pub const REVISIONS_KEPT: usize = 5;
/// The folder that Argo CD syncs.
pub const LATEST: &str = "latest";
/// The most files of one revision; a template has a dozen.
const FILES_LIMIT: usize = 500;

/// A path within the repository: its folders and its last name, none with a slash in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepoPath(Vec<String>);

impl RepoPath {
    /// Reads a path such as `apps/README.md`.
    ///
    /// # Errors
    /// A sentence, if it is no path that every file system can hold.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
        if parts.iter().all(|part| is_file_name(part)) {
            return Ok(Self(parts));
        }
        Err(format!("{text:?} is not a path within a manifest repository"))
    }

    /// Returns the names from the root on.
    pub fn parts(&self) -> &[String] {
        &self.0
    }

    /// Returns the path of an entry of this folder.
    #[must_use]
    pub fn join(&self, name: impl Into<String>) -> Self {
        let mut parts = self.0.clone();
        parts.push(name.into());
        Self(parts)
    }
}

impl std::fmt::Display for RepoPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

/// Returns `manifests`: a folder for each target.
pub fn targets_folder() -> RepoPath {
    RepoPath(vec!["manifests".to_owned()])
}

/// Returns `apps/<cluster>`: the Applications of a target's apps.
pub fn applications_folder(target: &TargetName) -> RepoPath {
    RepoPath(vec!["apps".to_owned(), target.to_string()])
}

/// Returns the app whose Application is in a file of that name; `None` where it is none's.
pub fn app_of_application(file: &str) -> Option<AppKey> {
    let (namespace, slug) = file.strip_suffix(".yaml")?.split_once('.')?;
    let (namespace, slug) = (Namespace::parse(namespace).ok()?, Slug::parse(slug).ok()?);
    Some(AppKey { namespace, slug })
}

/// Returns `manifests/<cluster>`: everything of a target.
pub fn target_folder(target: &TargetName) -> RepoPath {
    targets_folder().join(target.as_str())
}

/// Returns `manifests/<cluster>/<namespace>`: the apps of a namespace on a target.
pub fn namespace_folder(target: &TargetName, namespace: &Namespace) -> RepoPath {
    target_folder(target).join(namespace.as_str())
}

/// Returns `manifests/<cluster>/<namespace>/<app>`: an app's history on a target.
pub fn app_folder(target: &TargetName, app: &AppKey) -> RepoPath {
    namespace_folder(target, &app.namespace).join(app.slug.as_str())
}

/// Returns `manifests/<cluster>/<namespace>/<app>/<deploy id>`.
pub fn revision_folder(target: &TargetName, app: &AppKey, id: &DeployId) -> RepoPath {
    app_folder(target, app).join(id.as_str())
}

/// Returns `manifests/<cluster>/<namespace>/<app>/latest`.
pub fn latest_folder(target: &TargetName, app: &AppKey) -> RepoPath {
    app_folder(target, app).join(LATEST)
}

/// Returns `apps/<cluster>/<namespace>.<app>.yaml`: the app's Argo CD Application.
pub fn application_file(target: &TargetName, app: &AppKey) -> RepoPath {
    applications_folder(target).join(format!("{}.{}.yaml", app.namespace, app.slug))
}

/// Returns `apps/<cluster>/project.yaml`: the AppProject that bounds the cluster's apps. No app's file has that name:
/// theirs have a dot between namespace and slug.
pub fn project_file(target: &TargetName) -> RepoPath {
    applications_folder(target).join("project.yaml")
}

/// Returns `apps/<cluster>.yaml`: the cluster's app of apps.
pub fn parent_file(target: &TargetName) -> RepoPath {
    RepoPath(vec!["apps".to_owned(), format!("{target}.yaml")])
}

/// Returns the revisions that go when `written` joins `present` (its folder may hold it already).
///
/// The newest [`REVISIONS_KEPT`] stay, the one just written among them whatever its time; so does
/// `live`, the one that `latest` equals, however old it is.
pub fn revisions_to_prune(
    present: &[DeployId],
    written: &DeployId,
    live: &DeployId,
) -> Vec<DeployId> {
    let mut other_revisions: Vec<&DeployId> = present.iter().filter(|id| *id != written).collect();
    other_revisions.sort_unstable();
    other_revisions.dedup();
    let too_many = other_revisions.len().saturating_sub(REVISIONS_KEPT - 1);
    other_revisions.into_iter().take(too_many).filter(|id| *id != live).cloned().collect()
}

/// Checks that the files can be a folder in git, on any file system of those who clone it.
///
/// # Errors
/// A sentence with the first name that cannot be used.
pub fn check_files(revision: &Revision) -> Result<(), String> {
    let Revision { id, files, .. } = revision;
    if files.is_empty() || files.len() > FILES_LIMIT {
        return Err(format!(
            "revision {id} has {} files; it must have 1 to {FILES_LIMIT}",
            files.len()
        ));
    }
    if let Some(file) = files.iter().find(|file| !is_file_name(&file.name)) {
        return Err(format!("revision {id} has a file {:?}, which is not a plain name", file.name));
    }
    let mut names = HashSet::new();
    let mut lower = files.iter().map(|file| file.name.to_lowercase());
    match lower.find(|name| !names.insert(name.clone())) {
        Some(name) => Err(format!("revision {id} has the file {name} twice")),
        None => Ok(()),
    }
}

/// Letters, digits, `.`, `_` and `-`, not beginning with a dot: so never `..`, `.git` or a path.
fn is_file_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=ManifestFile::LONGEST_NAME).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::revision::Digest;

    fn id(n: u32) -> DeployId {
        DeployId::parse(format!("20261121-{n:09}-abcdef")).unwrap()
    }

    fn ids(numbers: &[u32]) -> Vec<DeployId> {
        numbers.iter().copied().map(id).collect()
    }

    #[test]
    fn the_paths_are_the_layouts() {
        let target = TargetName::parse("prod-cluster-1").unwrap();
        let app = AppKey { namespace: "devx".parse().unwrap(), slug: "my-app".parse().unwrap() };
        let text = |path: RepoPath| path.to_string();
        assert_eq!(text(application_file(&target, &app)), "apps/prod-cluster-1/devx.my-app.yaml");
        assert_eq!(text(parent_file(&target)), "apps/prod-cluster-1.yaml");
        assert_eq!(text(project_file(&target)), "apps/prod-cluster-1/project.yaml");
        assert_eq!(
            text(latest_folder(&target, &app)),
            "manifests/prod-cluster-1/devx/my-app/latest"
        );
        let revision = text(revision_folder(&target, &app, &id(7)));
        assert_eq!(revision, "manifests/prod-cluster-1/devx/my-app/20261121-000000007-abcdef");
    }

    #[test]
    fn a_path_is_read_if_it_can_be_one() {
        for text in ["README.md", "apps/prod.eu/devx.my-app.yaml"] {
            assert_eq!(RepoPath::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "/", "a/", "/a", "a//b", "../a", "a/.git/b", "a\\b", "a\nb"] {
            assert!(RepoPath::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_sixth_revision_drops_the_oldest() {
        assert!(revisions_to_prune(&ids(&[1, 2, 3, 4]), &id(5), &id(5)).is_empty());
        assert_eq!(revisions_to_prune(&ids(&[3, 1, 2, 5, 4]), &id(6), &id(6)), ids(&[1]));
        assert_eq!(
            revisions_to_prune(&ids(&[1, 2, 3, 4, 5, 6, 7]), &id(8), &id(8)),
            ids(&[1, 2, 3])
        );
    }

    #[test]
    fn the_one_just_written_stays_even_if_it_is_the_oldest() {
        assert_eq!(revisions_to_prune(&ids(&[2, 3, 4, 5, 6]), &id(1), &id(1)), ids(&[2]));
        assert_eq!(revisions_to_prune(&ids(&[1, 2, 3, 4, 5, 6]), &id(1), &id(1)), ids(&[2]));
    }

    #[test]
    fn the_live_revision_stays_however_old() {
        assert_eq!(revisions_to_prune(&ids(&[1, 2, 3, 4, 5, 6]), &id(7), &id(1)), ids(&[2]));
    }

    #[test]
    fn names_that_are_no_plain_files_are_refused() {
        let revision_of = |names: &[&str]| Revision {
            id: id(1),
            app: AppKey { namespace: "a".parse().unwrap(), slug: "b".parse().unwrap() },
            target: "c".parse().unwrap(),
            files: names
                .iter()
                .map(|name| ManifestFile { name: (*name).to_owned(), bytes: Vec::new() })
                .collect(),
            digest: Digest(String::new()),
        };
        for name in ["", ".", "..", ".git", "a/b", "a\\b", "a\0", "a\n", "ä", &"a".repeat(201)] {
            assert!(check_files(&revision_of(&[name])).is_err(), "{name:?}");
        }
        assert!(check_files(&revision_of(&[])).is_err());
        assert!(check_files(&revision_of(&["a.yaml", "A.yaml"])).is_err());
        assert!(check_files(&revision_of(&["deployment.yaml", "service.yaml"])).is_ok());
    }
}
