//! Traffic: several versions of an app live at once, over the clusters of a fleet. Pure.
//!
//! ```text
//! placements ─placement─▶ pods of each version on each cluster ─plan─▶ steps: Del ─▶ distribute ─▶ scale
//! weights    ─weights───▶ shares of 100 on one cluster
//! ```
//!
//! This knows neither manifests nor the WAML: the pipeline fills its values in, renders what they say, and shows the
//! steps.

pub mod placement; // which clusters a version is on
pub mod plan; // from the live versions to those that should be
pub mod weights; // shares of requests

#[cfg(test)]
mod tests;
