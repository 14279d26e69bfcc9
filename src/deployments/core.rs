//! The struct that has the use cases, and the parts that they work with.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::deployments::cpu_pool::CpuPool;
use crate::deployments::facts::FactCollector;
use crate::deployments::health::{CachedCheck, Health};
use crate::deployments::ledger::Ledger;
use crate::deployments::rollouts::gate_clients::RolloutGates;
use crate::deployments::rollouts::metrics::RolloutProgressMetrics;
use crate::deployments::signals::{ForgeHour, SweepHints, Wake};
use crate::deployments::templates::InUse;
use crate::deployments::watched_cluster::WatchedCluster;
use crate::forge::Forge;
use crate::forge::github::webhook::environments::Environments;
use crate::forge::github::webhook::rules::PreviewRules;
use crate::git::writer::ManifestRepository;
use crate::manifests::argocd::application::Source;
use crate::model::fleets::Fleets;
use crate::model::id::TargetName;
use crate::model::target::Clusters;
use crate::store::Store;
use crate::support::clock::Clock;
use crate::support::globs::Globs;
use crate::waml::yaml::Budget;

/// All use cases, with the configured parts that they work with. Clones share them.
#[derive(Clone)]
pub struct Deployments {
    pub(crate) store: Store,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Clock,
    /// Wakes the loops.
    pub(crate) wake: Arc<Wake>,
    pub(crate) forge: Forge,
    /// The code host, as callers see it.
    pub(crate) code_host: CodeHost,
    /// The time until which the code host's hourly quota is used up.
    pub(crate) forge_hour: Arc<ForgeHour>,
    /// The repositories that the sweep looks at soon.
    pub(crate) hints: SweepHints,
    pub(crate) templates: InUse,
    pub(crate) manifests: Arc<[ServedRepository]>,
    pub(crate) clusters: Clusters,
    /// The fleets of these clusters.
    pub(crate) fleets: Arc<Fleets>,
    pub(crate) facts: FactCollector,
    pub(crate) waml: WamlFile,
    pub(crate) previews: PreviewRules,
    /// The targets that events may deploy to.
    pub(crate) environments: Environments,
    pub(crate) forge_url: Option<String>,
    pub(crate) external_url: String,
    pub(crate) cpu_pool: CpuPool,
    pub(crate) health: Arc<Health>,
    /// The metrics of rollouts.
    pub(crate) rollout_metrics: RolloutProgressMetrics,
    /// The gates of rollouts.
    pub(crate) gates: Arc<RolloutGates>,
    /// The clusters that the service watches.
    pub(crate) watches: Arc<BTreeMap<TargetName, WatchedCluster>>,
}

/// The file in which each service repository describes its app.
#[derive(Debug, Clone)]
pub(crate) struct WamlFile {
    /// Its path in the repository.
    pub(crate) path: String,
    /// The limits on its size.
    pub(crate) budget: Budget,
}

/// The place of the service repositories, as far as callers need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeHost {
    /// Bare repositories in a folder of the service: callers request deployments from this service.
    Local,
    /// GitHub: callers create deployments there.
    GitHub {
        /// The API's address, without a slash at its end.
        api_url: String,
        /// The address that people open in a browser.
        web_url: String,
        /// The OAuth client id for logins from a terminal, if it is configured.
        client_id: Option<String>,
    },
}

/// A manifest repository, with the targets whose manifests it has.
pub(crate) struct ServedRepository {
    pub(crate) name: String,
    pub(crate) repository: ManifestRepository,
    pub(crate) readiness: CachedCheck,
    pub(crate) targets: Globs,
    pub(crate) source: Source,
}

impl Deployments {
    /// Checks that deployments to a target end when its cluster runs them, and not when they are pushed: where it is a
    /// fleet, when one of its clusters is watched.
    pub(crate) fn is_watched(&self, target: &TargetName) -> bool {
        self.clusters_of(target).iter().any(|cluster| self.watches.contains_key(cluster))
    }
}
