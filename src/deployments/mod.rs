//! Use cases: what people and events ask of deployments, over the store, the code host, the manifest
//! repositories and the pipeline.
//!
//! ```text
//! routes ───┐                       ┌─ store
//! loops  ───┴─► Deployments ────────┼─ forge, git, facts, templates
//!               one file a use case └─ pipeline (pure)
//! operator ───► Ledger ─── store
//! ```
//!
//! The use cases know neither HTTP nor the loops, which call them by name. Read `core.rs` first, for
//! [`Deployments`] and its parts; then [`accept`], `attempt.rs` and [`outcome`] for the way of a
//! deployment, [`rollback`] and [`removal`] for acts of people, [`dry_run`] and [`preview`] for what only plans, and
//! [`apps`], [`history`], [`builds`] and [`insights`] for what only reads.

mod core; // the struct that has the use cases
mod fault; // the error of a backend that does not work
pub mod accept; // an event becomes a deployment
pub mod create; // a caller requests a deployment from this service
mod attempt; // one attempt: fetch, plan, write
pub(crate) mod fleets; // the same over all clusters of a fleet
pub(crate) mod expected; // what a pushed deployment should bring about in its cluster
pub mod outcome; // results and errors of the steps of an attempt
pub mod stages; // how long each stage took, and its log lines
pub mod cpu_pool; // the limit on computations at the same time
pub mod app_files; // the WAMLs of a repository, and the one that a request is for
pub(crate) mod planning; // what deployments, previews and dry runs share
pub mod rollback; // a former revision made live again, holds
pub mod removal; // removes an app from a target
pub mod rollouts; // one release over many targets
pub mod ledger; // what needs only the database: locks, owners, audit log
pub mod locks; // locks and cancellations
pub(crate) mod secrets; // acts of people on secrets, for the audit log
pub mod dry_run; // what a deployment would do
pub mod preview; // what a pull request would change
pub mod import_edit; // a manual edit, as a change of the WAML
pub mod violation_sources; // the lines of the WAML that violations are about
pub mod records; // records of deployments
pub mod apps; // lists of apps
pub mod overview; // every app on every target
pub mod app_state; // one app on one target
pub(crate) mod watched_cluster; // a cluster that the service watches
pub mod container_log; // logs of an app's containers
pub mod log_exchange; // logs that callers read through a cluster's agent
pub mod agent_inbox; // reports of a cluster's agent, on their way to the loop that follows it
mod agent_reports; // from the route to the inbox of a cluster
pub mod live_state; // one app in its cluster: workloads, pods, logs
pub mod history; // an app's revisions
pub mod insights; // how long deployments take, and how they end
pub mod insight_series; // the same over time, for plots
pub mod builds; // images that could be deployed
pub mod facts; // lookups for the rules
pub mod templates; // the templates in use
pub mod signals; // signals between use cases and loops, beside the store
pub mod checks; // all readiness checks
pub mod health; // the cached checks of database, disk and manifest repositories

pub use crate::deployments::core::{CodeHost, Deployments};
pub(crate) use crate::deployments::core::{ServedRepository, WamlFile};
pub use crate::deployments::fault::AUDIT;
pub use crate::deployments::fault::BackendError;
