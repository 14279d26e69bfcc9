//! The one struct that has the use cases, and what it works with.

use std::sync::Arc;

use crate::config::waml::WamlSettings;
use crate::deployments::code_host::CodeHost;
use crate::deployments::facts::Gatherer;
use crate::deployments::health::Health;
use crate::deployments::hints::Hints;
use crate::deployments::ledger::Ledger;
use crate::deployments::limits::ForgeHour;
use crate::deployments::planners::Planners;
use crate::deployments::readiness::Readiness;
use crate::deployments::tell::argocd::hooks::Hooks;
use crate::deployments::tell::slack::line::Line;
use crate::deployments::templates::InUse;
use crate::deployments::wake::Wake;
use crate::forge::Forge;
use crate::forge::github::webhook::rules::PreviewRules;
use crate::git::writer::ManifestRepository;
use crate::manifests::argocd::application::Source;
use crate::model::target::Clusters;
use crate::notify::webhook::Receiver;
use crate::store::Store;
use crate::support::clock::Clock;
use crate::support::globs::Globs;

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
    pub(crate) manifests: Arc<[Manifests]>,
    pub(crate) clusters: Clusters,
    pub(crate) facts: Gatherer,
    pub(crate) receivers: Arc<[Receiver]>,
    pub(crate) argocd: Hooks,
    pub(crate) slack: Option<Line>,
    pub(crate) waml: WamlSettings,
    pub(crate) previews: PreviewRules,
    pub(crate) forge_url: Option<String>,
    pub(crate) external_url: String,
    pub(crate) planners: Planners,
    pub(crate) health: Arc<Health>,
}

/// One manifest repository, and whose manifests it has.
pub(crate) struct Manifests {
    pub(crate) name: String,
    pub(crate) repository: ManifestRepository,
    pub(crate) readiness: Readiness,
    pub(crate) targets: Globs,
    pub(crate) source: Source,
}
