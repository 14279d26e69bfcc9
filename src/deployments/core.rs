//! The one struct that has the use cases, and what it works with.

use std::sync::Arc;

use crate::deployments::facts::FactCollector;
use crate::deployments::health::{CachedCheck, Health};
use crate::deployments::ledger::Ledger;
use crate::deployments::planning_pool::PlanningPool;
use crate::deployments::signals::{ForgeHour, Hints, Wake};
use crate::deployments::templates::InUse;
use crate::forge::Forge;
use crate::forge::github::webhook::rules::PreviewRules;
use crate::git::writer::ManifestRepository;
use crate::manifests::argocd::application::Source;
use crate::model::target::Clusters;
use crate::store::Store;
use crate::support::clock::Clock;
use crate::support::globs::Globs;
use crate::waml::yaml::Budget;

/// All use cases, and what they work with, as configured. Clones share it.
#[derive(Clone)]
pub struct Deployments {
    pub(crate) store: Store,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Clock,
    /// Tells the loops that there may be something to do.
    pub(crate) wake: Arc<Wake>,
    pub(crate) forge: Forge,
    /// Which code host, as callers are told.
    pub(crate) code_host: CodeHost,
    /// Until when the code host's hour is used up.
    pub(crate) forge_hour: Arc<ForgeHour>,
    /// Where lost events are looked for soon.
    pub(crate) hints: Hints,
    pub(crate) templates: InUse,
    pub(crate) manifests: Arc<[ServedRepository]>,
    pub(crate) clusters: Clusters,
    pub(crate) facts: FactCollector,
    pub(crate) waml: WamlFile,
    pub(crate) previews: PreviewRules,
    pub(crate) forge_url: Option<String>,
    pub(crate) external_url: String,
    pub(crate) planning: PlanningPool,
    pub(crate) health: Arc<Health>,
}

/// The file that each service repository describes itself in.
#[derive(Debug, Clone)]
pub(crate) struct WamlFile {
    /// Its path in the repository.
    pub(crate) path: String,
    /// How large it may be.
    pub(crate) budget: Budget,
}

/// Where service repositories are, as far as callers need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeHost {
    /// Bare repositories in a folder of ours: deployments are asked for here.
    Local,
    /// GitHub: deployments are asked for there.
    GitHub {
        /// The API's address, without a slash at its end.
        api_url: String,
        /// Where people look at it.
        web_url: String,
        /// What people log in with from a terminal, if that was set up.
        client_id: Option<String>,
    },
}

/// One manifest repository, and whose manifests it has.
pub(crate) struct ServedRepository {
    pub(crate) name: String,
    pub(crate) repository: ManifestRepository,
    pub(crate) readiness: CachedCheck,
    pub(crate) targets: Globs,
    pub(crate) source: Source,
}
