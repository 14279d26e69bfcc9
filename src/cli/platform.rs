//! Finds out what targets offer, for plans on this machine: from the service if one is named, from a file, or from the
//! service's last answer. A note says what is unknown, and violations that depend on it are warnings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::client::ServiceEndpoint;
use super::error::CliError;
use super::output::note_line;
use super::settings::write_private;
use super::times::TimeFormatter;
use crate::config;
use crate::model::facts::Facts;
use crate::model::fleet::FleetPlace;
use crate::model::id::{Namespace, RepoName, TargetName};
use crate::model::kubernetes::KubernetesVersion;
use crate::model::platform::Platform;
use crate::model::snapshot::ClusterSnapshot;
use crate::model::target::{Clusters, Target};
use crate::model::violation::{Severity, Violation};
use crate::pipeline::{Input, plan};
use crate::support::clock::Clock;

/// The longest wait for a service: a check on this machine must stay quick.
const PATIENCE: Duration = Duration::from_secs(3);
/// The age from which a file is called old.
const OLD: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// Clusters that offer different things: what each of them refuses is wrong everywhere.
const RICH: [&str; 3] = [
    r#"{"cloud": {"provider": "gcp", "gcp": {"project": "p-project", "region": "europe-west3", "network": "n"},
        "database": "cloudsql", "redis": "memorystore"},
        "secrets": {"vault": {"operator": true}}}"#,
    r#"{"ingress": {"kind": "kubernetes"}, "secrets": {"delivery": "external-secrets"},
        "cloud": {"provider": "gcp", "gcp": {"project": "p-project", "region": "europe-west3"},
        "database": "cloudsql", "redis": "in-cluster"}}"#,
    r#"{"ingress": {"kind": "gateway"},
        "monitoring": {"http": "istio"}, "cloud": {"redis": "in-cluster"}}"#,
];

/// The known offers of the targets.
#[derive(Debug, Clone)]
pub(super) struct KnownTargets {
    snapshot: Option<ClusterSnapshot>,
    from: Origin,
}

/// The source of what is known of the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Service,
    /// An earlier answer of the service, and the reason why it gives none now.
    Cache(String),
    File(PathBuf),
    /// Nothing is known, for this reason.
    Unknown(String),
}

impl KnownTargets {
    /// Makes the value for unknown targets, with the reason.
    pub(super) fn unknown(why: &str) -> Self {
        Self { snapshot: None, from: Origin::Unknown(why.to_owned()) }
    }

    /// Reads a file of `the-deployer platform export`.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let text = std::fs::read_to_string(path).map_err(CliError::file("read", path))?;
        let snapshot = serde_json::from_str(&text).map_err(|error| {
            CliError::usage(format!("{} does not say what targets offer: {error}", path.display()))
                .hint("make it with `the-deployer platform export`, of the service's own version")
        })?;
        Ok(Self { snapshot: Some(snapshot), from: Origin::File(path.to_owned()) })
    }

    /// Asks the service about the targets of a repository. If it does not answer, its last answer counts, as one that
    /// may have changed since: see [`judge`].
    pub(super) async fn fetch(server: &ServiceEndpoint, repository: &RepoName) -> Self {
        let cache = cache(server.url(), repository);
        let query = [("repository", repository.to_string())];
        let request = server.get::<ClusterSnapshot>("/api/v1/platform", &query);
        let why = match tokio::time::timeout(PATIENCE, request).await {
            Ok(Ok(mut snapshot)) => {
                snapshot.taken_at = Some(Clock::system().now());
                if let (Some(path), Ok(bytes)) = (&cache, serde_json::to_vec(&snapshot)) {
                    // If it cannot be stored, the next command asks again.
                    let _cannot_be_kept = write_private(path, &bytes);
                }
                return Self { snapshot: Some(snapshot), from: Origin::Service };
            }
            // Targets that the caller may not see any more are not shown from the cache either.
            Ok(Err(error)) if error.is_refusal() => {
                if let Some(path) = &cache {
                    let _is_not_there = std::fs::remove_file(path);
                }
                return Self::unknown(&error.to_string());
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("{} did not answer within {PATIENCE:?}", server.url()),
        };
        let cached = cache.and_then(|path| std::fs::read(path).ok());
        match cached.and_then(|bytes| serde_json::from_slice::<ClusterSnapshot>(&bytes).ok()) {
            Some(snapshot) => {
                // New targets may exist since.
                let snapshot = Some(ClusterSnapshot { complete: false, ..snapshot });
                Self { snapshot, from: Origin::Cache(why) }
            }
            None => Self::unknown(&why),
        }
    }

    /// Returns the clusters to plan with for that target; `None` if its offers are unknown.
    pub(super) fn clusters_for(&self, target: &TargetName) -> Option<Clusters> {
        self.snapshot.as_ref()?.clusters_for(target)
    }

    /// Returns the places of a fleet's clusters, for a plan on each; a single `None` where the target is no fleet, as far
    /// as that is known.
    pub(super) fn places_of(&self, target: &TargetName) -> Vec<Option<FleetPlace>> {
        let places = self.snapshot.as_ref().map(|snapshot| snapshot.fleet_places(target));
        let places: Vec<_> = places.unwrap_or_default().into_iter().map(Some).collect();
        if places.is_empty() { vec![None] } else { places }
    }

    /// Judges a target by `find`, which returns the violations on given clusters. If the target's offers are unknown or
    /// uncertain, a violation is an error only if every cluster refuses the same.
    pub(super) fn judge(
        &self,
        target: &TargetName,
        find: impl Fn(Clusters) -> Vec<Violation>,
    ) -> Vec<Violation> {
        let is_sure = match self.from {
            Origin::Service | Origin::File(_) => true,
            Origin::Cache(_) | Origin::Unknown(_) => false,
        };
        let clusters = match self.clusters_for(target) {
            Some(clusters) if is_sure => return find(clusters),
            remembered => remembered.unwrap_or_else(Clusters::any),
        };
        let violations = find(clusters);
        if violations.iter().all(|violation| violation.severity == Severity::Warning) {
            return violations;
        }
        let rich = RICH.iter().filter_map(|text| serde_json::from_str::<Platform>(text).ok());
        let rich = rich.map(|platform| Clusters::Any(Box::new(platform)));
        let versions = KubernetesVersion::all_known().map(|version| of_version(target, version));
        let worlds = rich.chain(versions).chain([Clusters::any(), open(target)]);
        let of_others: Vec<_> = worlds.map(&find).collect();
        violations
            .into_iter()
            .map(|violation| downgrade_unless_certain(violation, &of_others))
            .collect()
    }

    /// Returns a note for people on the origin of the answer; empty if it is current.
    pub(super) fn note(&self, targets: &[TargetName]) -> String {
        let times = TimeFormatter::system();
        let of = |snapshot: &ClusterSnapshot| times.maybe_ago(snapshot.taken_at);
        let is_old = |snapshot: &ClusterSnapshot| {
            snapshot.taken_at.is_some_and(|at| times.now.duration_since(at) > OLD)
        };
        let text = match (&self.from, &self.snapshot) {
            (Origin::Unknown(why), _) => format!(
                "what the targets offer is unknown ({why}), so violations that depend on it are \
                 warnings: see --server and --platform"
            ),
            (Origin::Cache(why), Some(snapshot)) => format!(
                "{why}: the plan uses what the targets offered when the service answered last \
                 ({}), and violations that depend on it are warnings",
                of(snapshot)
            ),
            (Origin::File(path), Some(snapshot)) if is_old(snapshot) => {
                format!("{} is of {}", path.display(), of(snapshot))
            }
            (Origin::Cache(_) | Origin::File(_) | Origin::Service, _) => {
                let invisible = targets.iter().filter(|target| self.clusters_for(target).is_none());
                let invisible: Vec<_> = invisible.map(ToString::to_string).collect();
                if invisible.is_empty() {
                    return String::new();
                }
                format!("what {} offers is unknown: you may not see it", invisible.join(", "))
            }
        };
        note_line(text)
    }

    /// Returns the same for programs.
    pub(super) fn as_json(&self) -> serde_json::Value {
        let from = match &self.from {
            Origin::Service => "service",
            Origin::Cache(_) => "cache",
            Origin::File(_) => "file",
            Origin::Unknown(_) => "unknown",
        };
        let taken_at = self.snapshot.as_ref().and_then(|snapshot| snapshot.taken_at);
        serde_json::json!({"from": from, "taken_at": taken_at})
    }
}

/// Returns the facts of clusters, without lookups.
pub(super) fn facts(clusters: Clusters) -> Facts {
    Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, clusters)
}

/// Returns the violations on one target. If its offers are unknown, violations on only some clusters are warnings.
pub(super) fn judge(input: &Input, known_targets: &KnownTargets) -> Vec<Violation> {
    known_targets.judge(input.cluster(), |clusters| match plan(input, &facts(clusters)) {
        Ok(rendered) => rendered.warnings,
        Err(rejection) => rejection.violations,
    })
}

/// Makes a target of that version of Kubernetes, with nothing else known.
fn of_version(name: &TargetName, version: KubernetesVersion) -> Clusters {
    let target = Target { version: Some(version), ..Target::unconfigured(name.clone()) };
    Clusters::from_targets([target])
}

/// Makes a target whose operators allow every namespace that apps can have.
fn open(name: &TargetName) -> Clusters {
    let mut target = Target::unconfigured(name.clone());
    let denied = target.denied_namespaces().into_iter().map(|namespace| namespace.glob);
    target.policies.namespaces.allow = Some(denied.chain(["*".to_owned()]).collect());
    // Argo CD may run anywhere.
    if let Ok(elsewhere) = Namespace::parse("x-argo-cd-is-elsewhere") {
        target.argocd.namespace = elsewhere;
    }
    Clusters::from_targets([target])
}

/// Turns the violation into a warning unless every cluster refuses the same.
fn downgrade_unless_certain(violation: Violation, others: &[Vec<Violation>]) -> Violation {
    let is_same = |other: &Violation| {
        (&other.rule, &other.path, &other.position, other.severity)
            == (&violation.rule, &violation.path, &violation.position, violation.severity)
    };
    let is_certain = others.iter().all(|violations| violations.iter().any(is_same));
    if violation.severity == Severity::Warning || is_certain {
        return violation;
    }
    Violation { severity: Severity::Warning, ..violation }
}

/// Returns the path of the service's cached answer, one for each repository: a token may see other targets of another.
fn cache(server: &str, repository: &RepoName) -> Option<PathBuf> {
    let environment = config::environment();
    let folder = |name: &str| {
        let text = environment.get(name).filter(|text| !text.is_empty())?;
        Some(PathBuf::from(text)).filter(|path| path.is_absolute())
    };
    let folder = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    let name = hex::encode(Sha256::digest(format!("{server}\n{repository}")));
    Some(folder.join("bart").join(format!("platform-{}.json", name.get(..16)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clusters_that_offer_more_can_be_read() {
        for text in RICH {
            serde_json::from_str::<Platform>(text)
                .unwrap_or_else(|error| panic!("{error}: {text}"));
        }
    }
}
