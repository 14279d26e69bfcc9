//! Clusters, and the repositories that their manifests are pushed to.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

use crate::config::file::{self, argocd};
use crate::config::resolve::Resolver;
use crate::config::resolve::access::App;
use crate::config::settings::{GitAccess, Manifests};
use crate::git::writer::{CommitIdentity, PushBudget, PushBy};
use crate::model::id::{Namespace, TargetName, is_rfc1123_label};
use crate::model::kubernetes::KubernetesVersion;
use crate::model::namespaces;
use crate::model::platform::{Platform, Problem};
use crate::model::ssh::SshAddress;
use crate::model::target::{ArgoCd, Clusters, Target};
use crate::support::globs::Globs;

/// The longest name that DNS takes.
const DOMAIN_BYTES: usize = 253;

impl Resolver<'_> {
    pub(super) fn clusters(
        &mut self,
        clusters: Vec<file::Cluster>,
        platform: Option<&Json>,
    ) -> Clusters {
        if clusters.is_empty() {
            return Clusters::Any(Box::new(self.platform("platform", platform, None)));
        }
        let mut known = BTreeMap::new();
        let mut servers = Vec::new();
        for (n, cluster) in clusters.into_iter().enumerate() {
            let path = format!("clusters[{n}]");
            let is_written = cluster.server.is_some();
            let Some(target) = self.cluster(&path, cluster, platform) else { continue };
            if known.contains_key(&target.name) {
                let message = format!("there is a cluster called {} already", target.name);
                self.report.wrong(&format!("{path}.name"), message, "give it another name");
                continue;
            }
            let object = target.name.object_name();
            let alike = |other: &&TargetName| other.object_name() == object;
            if let Some(other) = known.keys().find(alike) {
                let message = format!(
                    "{other} and {} would both be called {object} in Kubernetes",
                    target.name
                );
                let help = "give it a name that differs in more than case, `_` and `-`";
                self.report.wrong(&format!("{path}.name"), message, help);
                continue;
            }
            servers.push((n, is_written, target.clone()));
            known.insert(target.name.clone(), target);
        }
        self.clusters_apart(&servers);
        Clusters::Known(known)
    }

    /// Two targets of one API server would manage the same objects, each with the other's undone at once.
    fn clusters_apart(&mut self, all: &[(usize, bool, Target)]) {
        for (later, (n, is_written, target)) in all.iter().enumerate() {
            let before = all.iter().take(later);
            let mut same = before.filter(|(_, _, one)| is_same_server(&one.server, &target.server));
            let Some((_, first_is_written, first)) =
                same.find(|(_, _, one)| !are_apart(one, target))
            else {
                continue;
            };
            let (name, other, server) = (&target.name, &first.name, &target.server);
            if *is_written || *first_is_written {
                let message = format!(
                    "{name} and {other} are one cluster, {server}: the same app on both would be the same objects"
                );
                let help = "give each the address of its own cluster; or keep their apps apart, with \
                            `policies.namespaces.allow` of each that no namespace is in twice";
                self.report.wrong(&format!("clusters[{n}].server"), message, help);
            } else {
                let message = format!(
                    "{name} and {other} have no `server`: if one Argo CD serves both, the same app on both would be \
                     the same objects"
                );
                let help = "write `server` for those that Argo CD does not run in; all is well if each has an \
                            Argo CD of its own";
                self.report.doubtful(&format!("clusters[{n}].name"), message, help);
            }
        }
    }

    fn cluster(
        &mut self,
        path: &str,
        cluster: file::Cluster,
        platform: Option<&Json>,
    ) -> Option<Target> {
        let file::Cluster {
            name,
            environment,
            domain,
            server,
            version,
            labels,
            platform: own,
            policies,
            argocd,
            lookups: _,
        } = cluster;
        let legal = domain.len() <= DOMAIN_BYTES && domain.split('.').all(is_rfc1123_label);
        if !legal {
            let message = "this is not a domain";
            let help = "write it like prod.example.com: lower-case letters, digits, `-` and `.`";
            self.report.wrong(&format!("{path}.domain"), message, help);
        }
        let server = server.unwrap_or_else(|| Target::IN_CLUSTER.to_owned());
        self.without_credentials(&format!("{path}.server"), &server);
        let name = TargetName::parse(name).ok()?;
        Some(Target {
            name,
            domain,
            environment,
            server,
            version: version
                .and_then(|text| self.kubernetes_version(&format!("{path}.version"), &text)),
            labels: labels.unwrap_or_default(),
            platform: self.platform(&format!("{path}.platform"), platform, own.as_ref()),
            policies: self.policies(&format!("{path}.policies"), policies),
            argocd: argocd_of(argocd.unwrap_or_default())?,
        })
    }

    /// The version of Kubernetes that a cluster has.
    fn kubernetes_version(&mut self, path: &str, text: &str) -> Option<KubernetesVersion> {
        let (oldest, newest) = (KubernetesVersion::OLDEST, KubernetesVersion::NEWEST);
        let Some(version) = KubernetesVersion::parse(text) else {
            let help = format!("write it like \"{newest}\"; {oldest} to {newest} are known");
            self.report.wrong(path, "this is not a version of Kubernetes", &help);
            return None;
        };
        if !version.is_known() {
            let message = format!(
                "the fields of Kubernetes {version} are not known: those of {oldest} to {newest} are"
            );
            let nearest = version.nearest_known();
            let what = if version < oldest { "the cluster" } else { "the-deployer" };
            let help = format!("upgrade {what}; until then write \"{nearest}\", the nearest");
            self.report.wrong(path, message, &help);
        }
        Some(version)
    }

    /// A cluster's own platform laid over that of all; what neither says has its default.
    fn platform(&mut self, path: &str, all: Option<&Json>, own: Option<&Json>) -> Platform {
        let mut merged = Json::Object(serde_json::Map::new());
        for layer in [all, own].into_iter().flatten() {
            lay_over(&mut merged, layer);
        }
        let platform: Platform = serde_json::from_value(merged).unwrap_or_else(|error| {
            self.report.wrong(path, format!("this cannot be read: {error}"), "see `config schema`");
            Platform::default()
        });
        for Problem { key, message, help } in platform.problems() {
            self.report.wrong(&format!("{path}.{key}"), message, help);
        }
        platform
    }

    pub(super) fn manifests(
        &mut self,
        repositories: Vec<file::manifests::ManifestRepository>,
        clusters: &Clusters,
        folder: &Path,
        app: &App,
    ) -> Vec<Manifests> {
        if repositories.is_empty() {
            return vec![embedded(folder)];
        }
        let mut all: Vec<Manifests> = Vec::new();
        for (n, repository) in repositories.into_iter().enumerate() {
            let path = format!("manifests.repositories[{n}]");
            if all.iter().any(|one| one.name == repository.name) {
                let message = format!("there is a repository called {} already", repository.name);
                self.report.wrong(&format!("{path}.name"), message, "give it another name");
            }
            let one = self.repository(&path, repository, folder, app);
            all.push(one);
        }
        if !self.report.is_broken("manifests") {
            self.every_cluster_has_one(clusters, &all);
        }
        all
    }

    fn repository(
        &mut self,
        path: &str,
        repository: file::manifests::ManifestRepository,
        folder: &Path,
        app: &App,
    ) -> Manifests {
        let file::manifests::ManifestRepository {
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
        let signing = signing.and_then(|it| self.signing(&format!("{path}.signing"), it, home));
        Manifests {
            targets: self.targets(&format!("{path}.targets"), targets),
            clone_dir: folder.join("clones").join(format!("{name}.git")),
            identity: identity_of(identity.unwrap_or_default()),
            embedded: false,
            signing,
            budget: budget_of(push_budget, &url),
            push: push_by(push),
            name,
            url,
            branch,
            access,
        }
    }

    pub(super) fn branch(&mut self, path: &str, branch: &str) {
        if !git2::Reference::is_valid_name(&format!("refs/heads/{branch}")) {
            self.report.wrong(path, "this is not a branch's name", "write it like main");
        }
    }

    /// An address that we can speak to; `unusable` says what cannot be done with another one.
    pub(super) fn remote(&mut self, path: &str, url: &str, unusable: &str) {
        self.without_credentials(path, url);
        if SshAddress::is_meant(url) {
            if let Err(why) = SshAddress::parse(url) {
                self.report.wrong(path, unusable, &why);
            }
            return;
        }
        let known = ["https://", "http://", "file://"];
        let other = url.contains("://") && !known.iter().any(|scheme| url.starts_with(scheme));
        if url.is_empty() || other {
            let help = "write https://HOST/PATH.git with a token under `token`, git@HOST:PATH.git \
                        with a key under `ssh`, or a path";
            self.report.wrong(path, unusable, help);
        }
    }

    fn targets(&mut self, path: &str, globs: Option<Vec<String>>) -> Globs {
        let Some(globs) = globs else { return Globs::default() };
        if globs.is_empty() {
            let message = "this repository is for no target";
            self.report.wrong(path, message, "write [\"*\"], or leave it out");
        }
        self.check_globs(path, &globs);
        // What it would have matched is not known: no cluster is said to have no repository.
        Globs::parse(&globs).unwrap_or_else(|error| {
            self.bad_globs(path, &globs, &error);
            Globs::default()
        })
    }

    fn every_cluster_has_one(&mut self, clusters: &Clusters, all: &[Manifests]) {
        let homeless = |name: &&TargetName| !all.iter().any(|m| m.targets.is_match(name.as_str()));
        let names: Vec<_> = clusters.names().into_iter().filter(homeless).cloned().collect();
        for name in names {
            let message = format!("no repository is for the cluster {name}");
            let help = "add its name, or a glob that matches it, to the `targets` of one";
            self.report.wrong("manifests.repositories", message, help);
        }
    }
}

/// Whether two addresses are the same to Argo CD.
fn is_same_server(one: &str, other: &str) -> bool {
    let normal = |url: &str| {
        let url = url.trim_end_matches('/').to_ascii_lowercase();
        url.strip_suffix(":443").map_or(url.clone(), str::to_owned)
    };
    normal(one) == normal(other)
}

/// Whether no namespace can have apps of both.
fn are_apart(one: &Target, other: &Target) -> bool {
    let [ours, theirs] = [one, other].map(|target| target.policies.namespaces.allow.as_deref());
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return false };
    ours.iter().all(|ours| theirs.iter().all(|theirs| namespaces::are_disjoint(ours, theirs)))
}

/// `None` where the namespace is no name; its form has been told.
fn argocd_of(argocd: argocd::ArgoCd) -> Option<ArgoCd> {
    // Its webhook is no part of how manifests are made.
    let argocd::ArgoCd { namespace, project, webhook: _ } = argocd;
    let default = ArgoCd::default().namespace;
    let namespace = namespace.map_or(Ok(default), Namespace::parse).ok()?;
    Some(ArgoCd { namespace, project })
}

/// Maps are merged deep; anything else is replaced.
fn lay_over(base: &mut Json, layer: &Json) {
    match (base, layer) {
        (Json::Object(base), Json::Object(layer)) => {
            for (key, value) in layer {
                lay_over(base.entry(key.as_str()).or_insert(Json::Null), value);
            }
        }
        (base, layer) => *base = layer.clone(),
    }
}

/// The repository that is made when none is configured.
fn embedded(folder: &Path) -> Manifests {
    let path = folder.join("manifests.git");
    Manifests {
        name: "manifests".to_owned(),
        url: path.display().to_string(),
        branch: "main".to_owned(),
        targets: Globs::default(),
        access: GitAccess::Anybody,
        identity: identity_of(file::Identity::default()),
        signing: None,
        clone_dir: path,
        embedded: true,
        budget: PushBudget::GENEROUS,
        push: PushBy::Direct,
    }
}

/// Half of a minute's pushes may go at once, unless it says how many.
fn budget_of(budget: Option<file::manifests::PushBudget>, url: &str) -> PushBudget {
    let Some(file::manifests::PushBudget { per_minute, burst }) = budget else {
        return PushBudget::of_address(url);
    };
    PushBudget { per_minute, burst: burst.unwrap_or(per_minute.div_ceil(2)) }
}

fn push_by(by: Option<file::manifests::PushBy>) -> PushBy {
    match by {
        None | Some(file::manifests::PushBy::Direct) => PushBy::Direct,
        Some(file::manifests::PushBy::Libgit2) => PushBy::Libgit2,
    }
}

fn identity_of(identity: file::Identity) -> CommitIdentity {
    let file::Identity { name, email } = identity;
    CommitIdentity {
        name: name.unwrap_or_else(|| "the-deployer".to_owned()),
        email: email.unwrap_or_else(|| "the-deployer@localhost".to_owned()),
    }
}
