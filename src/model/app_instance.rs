//! An app on one target, and the state that the manifest repository has of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::model::id::{AppKey, DeployId, Namespace, RepoName, Slug, TargetName};

/// An app on a target. Written `target/namespace/slug`; ordered by these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppInstance {
    /// The target.
    pub target: TargetName,
    /// The app.
    pub app: AppKey,
}

/// The state of an app on a target in the manifest repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceState {
    /// The app and its target.
    pub instance: AppInstance,
    /// The newest revision whose files `latest` has; `None` after a manual edit, or without a `latest`.
    pub live: Option<DeployId>,
    /// The hosts that it is reached at.
    pub hosts: BTreeSet<String>,
    /// The owning team's e-mail address, as its Application says.
    pub owner: Option<String>,
    /// The service's repository, as its Application says.
    pub repository: Option<RepoName>,
}

/// Manifest repositories of which not everything is known, by name, and why.
pub type UnreadableRepositories = BTreeMap<String, String>;

/// Apps, in the order of their spots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppListing {
    /// The apps.
    pub apps: Vec<InstanceState>,
    /// The parts that could not be read; there may be more apps.
    pub missing: UnreadableRepositories,
}

impl AppInstance {
    /// Reads `target/namespace/slug`.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, slug) = text.rsplit_once('/')?;
        let (target, namespace) = rest.split_once('/')?;
        let namespace = Namespace::parse(namespace).ok()?;
        let app = AppKey { namespace, slug: Slug::parse(slug).ok()? };
        Some(Self { target: TargetName::parse(target).ok()?, app })
    }
}

impl fmt::Display for AppInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.target, self.app)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_is_read_as_it_was_written() {
        let instance = AppInstance::parse("prod-1.eu/devx/shop").unwrap();
        assert_eq!(instance.to_string(), "prod-1.eu/devx/shop");
        for text in ["", "a", "a/b", "a/b/c/d", "A_/b/c", "a//c", "../b/c"] {
            assert_eq!(AppInstance::parse(text), None, "{text}");
        }
    }
}
