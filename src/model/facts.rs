//! What the rules must know of the world, gathered before they run.

use crate::model::target::Clusters;

/// A dated picture of the world. Rules are pure functions of a WAML and this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// When it was gathered.
    pub taken_at: jiff::Timestamp,
    /// The clusters of the configuration.
    pub clusters: Clusters,
}
