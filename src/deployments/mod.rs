//! USE CASES: what people and events ask of deployments, over the store, the code host, the manifest
//! repositories and the pipeline.
//!
//! ```text
//! routes ───┐                       ┌─ store
//! loops  ───┴─► Deployments ────────┼─ forge, git, facts, templates
//!               one file a use case └─ pipeline (pure)
//! operator ───► Ledger ─── store
//! ```
//!
//! Knows neither HTTP nor the loops: they call it by name.

pub mod accept; // an event becomes a deployment
pub mod create; // somebody asks us for a deployment
mod attempt; // one attempt: fetch, plan, write
pub mod outcome; // what the steps of an attempt come to
pub mod stages; // how long each stage took, and its log lines
pub mod planning; // places for what is computed
pub mod problem; // errors of adapters become problems
pub mod rollback; // a former revision made live again, holds
pub mod removal; // an app is taken off a target
pub mod ledger; // what is decided with the database alone
pub mod locks; // what people stop
pub mod dry_run; // what a deployment would do
pub mod preview; // what a pull request would change
pub mod recovery; // what the code host knows of lost events
pub mod records; // what happened
pub mod apps; // what is where
pub mod app_state; // one app
pub mod history; // an app's revisions
pub mod builds; // what could be deployed
pub mod facts; // the deployments, asked, with an index over the manifest repositories
pub mod templates; // the templates in use
pub mod tell; // everybody is told
pub mod hints; // what comes in beside deployments
pub mod checks; // how the program is
pub mod health; // whether what it writes to takes writes
pub mod limits; // what people are told while the code host limits us
pub mod readiness; // answers that are kept for a moment
pub mod wake; // signals without data between use cases and loops

use std::sync::Arc;

use crate::clock::Clock;
use crate::config::waml::WamlSettings;
use crate::deployments::create::CodeHost;
use crate::deployments::facts::Gatherer;
use crate::deployments::health::Health;
use crate::deployments::hints::Hints;
use crate::deployments::ledger::Ledger;
use crate::deployments::limits::ForgeHour;
use crate::deployments::planning::Planners;
use crate::deployments::readiness::Readiness;
use crate::deployments::tell::argocd::Hooks;
use crate::deployments::tell::slack::Line;
use crate::deployments::templates::InUse;
use crate::deployments::wake::Wake;
use crate::forge::Forge;
use crate::forge::github::webhook::rules::PreviewRules;
use crate::git::writer::ManifestRepository;
use crate::model::target::Clusters;
use crate::notify::webhook::Receiver;
use crate::pipeline::application::Source;
use crate::store::Store;
use crate::support::globs::Globs;

/// Under this name everything that somebody does on purpose is in the log.
pub const AUDIT: &str = "the_deployer::audit";

/// Something behind a use case does not work now. Its text is for the log; callers are told to
/// come again.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Fault(Box<dyn std::error::Error + Send + Sync>);

impl Fault {
    /// A fault for that cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

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
