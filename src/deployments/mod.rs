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

mod core; // the struct that has them
mod fault; // what does not work now
pub mod accept; // an event becomes a deployment
pub mod create; // somebody asks us for a deployment
mod attempt; // one attempt: fetch, plan, write
pub mod outcome; // what the steps of an attempt come to
pub mod stages; // how long each stage took, and its log lines
pub mod planning_pool; // places for what is computed
mod planning; // what deployments, previews and dry runs share
pub mod rollback; // a former revision made live again, holds
pub mod removal; // an app is taken off a target
pub mod ledger; // what is decided with the database alone
pub mod locks; // what people stop
pub mod dry_run; // what a deployment would do
pub mod preview; // what a pull request would change
pub mod records; // what happened
pub mod apps; // what is where
pub mod app_state; // one app
pub mod history; // an app's revisions
pub mod builds; // what could be deployed
pub mod facts; // the deployments, asked, with an index over the manifest repositories
pub mod templates; // the templates in use
pub mod signals; // what use cases and loops tell one another without the store
pub mod checks; // how the program is
pub mod health; // whether what it writes to takes writes, as it was a moment ago

pub use crate::deployments::core::{CodeHost, Deployments};
pub(crate) use crate::deployments::core::{ServedRepository, WamlFile};
pub use crate::deployments::fault::AUDIT;
pub use crate::deployments::fault::BackendError;
