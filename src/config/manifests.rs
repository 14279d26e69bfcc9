//! The manifest repositories.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::access::{GitAccess, RepositoryApp, RepositoryAuth};
use crate::config::credential::Secret;
use crate::config::resolver::Resolver;
use crate::config::signing::Signing;
use crate::config::ssh::Ssh;
use crate::git::signing::SigningKey;
use crate::git::writer::{self, CommitIdentity, PushBy};
use crate::model::id::TargetName;
use crate::model::target::Clusters;
use crate::support::globs::Globs;

/// The manifest repositories.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Manifests {
    /// The repositories; each target uses the first whose globs match it. Default: a local one in the storage folder.
    pub(super) repositories: Option<Vec<ManifestRepository>>,
}

/// A manifest repository.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestRepository {
    /// Its name in logs; also the name of its clone.
    #[schemars(extend("format" = "slug"))]
    name: String,
    /// An http or https address without credentials, `git@HOST:PATH` or `ssh://USER@HOST:PORT/PATH`,
    /// or a path.
    url: String,
    /// The branch that Argo CD follows. Default: `main`.
    #[serde(default)]
    branch: Option<String>,
    /// The targets whose manifests it has, as globs. Default: all.
    #[serde(default)]
    targets: Option<Vec<String>>,
    /// A token that may push. A file is read for each exchange, so that it may be renewed.
    #[serde(default)]
    token: Option<Secret>,
    /// The authentication without a token. Default: `app` if `forge.github.app` is set and the repository is on its
    /// host; otherwise `none`.
    #[serde(default)]
    auth: Option<RepositoryAuth>,
    /// The ssh credentials; only for an ssh `url`, which needs them.
    #[serde(default)]
    ssh: Option<Ssh>,
    /// The committer.
    #[serde(default)]
    identity: Option<Identity>,
    /// The key that signs commits. Default: commits are not signed.
    #[serde(default)]
    pub(super) signing: Option<Signing>,
    /// The push budget of the repository. Default: on github.com GitHub's advice, 3 at once and 6 a
    /// minute; elsewhere 100 at once and 1,200 a minute.
    #[serde(default)]
    push_budget: Option<PushBudget>,
    /// The client that pushes. Default: `direct`.
    #[serde(default)]
    push: Option<PushBy>,
}

/// A limit on the pushes to a repository. Changes that wait go into one push, with a commit for each deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PushBudget {
    /// The largest number of pushes in any minute.
    #[schemars(range(min = 1, max = 100_000))]
    per_minute: u32,
    /// The largest number of pushes that follow one another without a pause. Default: half of a minute's.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    burst: Option<u32>,
}

/// The committer of the commits. Their author is the actor.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Identity {
    /// The name. Default: `the-deployer`.
    #[schemars(extend("format" = "line"))]
    name: Option<String>,
    /// The e-mail address. Default: `the-deployer@localhost`.
    #[schemars(extend("format" = "email"))]
    email: Option<String>,
}

/// A manifest repository.
#[derive(Debug, Clone)]
pub struct ManifestRepositorySettings {
    /// Its name.
    pub name: String,
    /// An http or https address without credentials, ssh's, or a path.
    pub url: String,
    /// The branch that Argo CD follows.
    pub branch: String,
    /// The targets whose manifests it has.
    pub targets: Globs,
    /// The credentials, which must be allowed to push.
    pub access: GitAccess,
    /// The committer: name and e-mail address.
    pub identity: CommitIdentity,
    /// The key that signs commits, if they are signed.
    pub signing: Option<SigningKey>,
    /// The folder of its clone, if it needs one.
    pub clone_dir: PathBuf,
    /// True for the local repository that the service makes itself if it is missing.
    pub embedded: bool,
    /// The push budget.
    pub budget: writer::PushAllowance,
    /// The client that pushes.
    pub push: PushBy,
}

impl Resolver<'_> {
    pub(super) fn manifests(
        &mut self,
        repositories: Vec<ManifestRepository>,
        clusters: &Clusters,
        folder: &Path,
        app: &RepositoryApp,
    ) -> Vec<ManifestRepositorySettings> {
        if repositories.is_empty() {
            return vec![embedded(folder)];
        }
        let mut settings: Vec<ManifestRepositorySettings> = Vec::new();
        for (n, repository) in repositories.into_iter().enumerate() {
            let path = format!("manifests.repositories[{n}]");
            if settings.iter().any(|earlier| earlier.name == repository.name) {
                let message = format!("there is a repository called {} already", repository.name);
                self.report.error(&format!("{path}.name"), message, "give it another name");
            }
            let repository = self.repository(&path, repository, folder, app);
            settings.push(repository);
        }
        if !self.report.is_broken("manifests") {
            self.every_cluster_has_one(clusters, &settings);
        }
        settings
    }

    fn repository(
        &mut self,
        path: &str,
        repository: ManifestRepository,
        folder: &Path,
        app: &RepositoryApp,
    ) -> ManifestRepositorySettings {
        let ManifestRepository {
            name,
            url,
            branch,
            targets,
            token,
            auth,
            ssh,
            identity,
            signing,
            push_budget,
            push,
        } = repository;
        let unusable = "manifests cannot be pushed to such an address";
        self.remote(&format!("{path}.url"), &url, unusable);
        let branch = branch.unwrap_or_else(|| "main".to_owned());
        self.branch(&format!("{path}.branch"), &branch);
        let keys = folder.join("ssh").join(format!("manifests-{name}"));
        let access = self.access(path, &url, (token, auth, ssh), app, keys);
        let home = folder.join("gnupg").join(&name);
        let signing =
            signing.and_then(|signing| self.signing(&format!("{path}.signing"), signing, home));
        ManifestRepositorySettings {
            targets: self.targets(&format!("{path}.targets"), targets),
            clone_dir: folder.join("clones").join(format!("{name}.git")),
            identity: identity_of(identity.unwrap_or_default()),
            embedded: false,
            signing,
            budget: budget_of(push_budget, &url),
            push: push.unwrap_or_default(),
            name,
            url,
            branch,
            access,
        }
    }

    fn targets(&mut self, path: &str, globs: Option<Vec<String>>) -> Globs {
        let Some(globs) = globs else { return Globs::default() };
        if globs.is_empty() {
            let message = "this repository is for no target";
            self.report.error(path, message, "write [\"*\"], or leave it out");
        }
        // After a mistake it matches all targets, so that no cluster seems to have no repository.
        self.parse_globs(path, &globs)
    }

    fn every_cluster_has_one(
        &mut self,
        clusters: &Clusters,
        repositories: &[ManifestRepositorySettings],
    ) {
        let homeless =
            |name: &&TargetName| !repositories.iter().any(|m| m.targets.is_match(name.as_str()));
        let names: Vec<_> = clusters.names().into_iter().filter(homeless).cloned().collect();
        for name in names {
            let message = format!("no repository is for the cluster {name}");
            let help = "add its name, or a glob that matches it, to the `targets` of one";
            self.report.error("manifests.repositories", message, help);
        }
    }
}

/// Returns the repository that is used when none is configured.
fn embedded(folder: &Path) -> ManifestRepositorySettings {
    let path = folder.join("manifests.git");
    ManifestRepositorySettings {
        name: "manifests".to_owned(),
        url: path.display().to_string(),
        branch: "main".to_owned(),
        targets: Globs::default(),
        access: GitAccess::Anybody,
        identity: identity_of(Identity::default()),
        signing: None,
        clone_dir: path,
        embedded: true,
        budget: writer::PushAllowance::GENEROUS,
        push: PushBy::Direct,
    }
}

/// Reads the budget; by default half of a minute's pushes may go at once.
fn budget_of(budget: Option<PushBudget>, url: &str) -> writer::PushAllowance {
    let Some(PushBudget { per_minute, burst }) = budget else {
        return writer::PushAllowance::of_address(url);
    };
    writer::PushAllowance { per_minute, burst: burst.unwrap_or(per_minute.div_ceil(2)) }
}

fn identity_of(identity: Identity) -> CommitIdentity {
    let Identity { name, email } = identity;
    CommitIdentity {
        name: name.unwrap_or_else(|| "the-deployer".to_owned()),
        email: email.unwrap_or_else(|| "the-deployer@localhost".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{WHOLE, loaded, refused};

    #[test]
    fn a_target_goes_to_the_first_repository_that_matches_it() {
        let settings = loaded(WHOLE).settings;
        let name = |target: &str| {
            settings
                .manifests_of(&TargetName::parse(target).unwrap())
                .map(|repository| repository.name.as_str())
        };
        assert_eq!((name("prod-1"), name("dev")), (Some("production"), Some("rest")));
    }

    #[test]
    fn every_cluster_needs_a_repository_for_its_manifests() {
        let lines = refused(
            "manifests: {repositories: [{name: a, url: /srv/a.git, targets: [dev]}]}\nclusters:\n\
             - {name: dev, environment: development, domain: dev.example.com}\n\
             - {name: prod, environment: production, domain: prod.example.com, server: 'https://10.0.0.1'}\n",
        );
        assert!(
            lines.starts_with("config.yaml:1:13: no repository is for the cluster prod"),
            "{lines}"
        );
        assert_eq!(lines.lines().count(), 1, "{lines}");
    }
}
