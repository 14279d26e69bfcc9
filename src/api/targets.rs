//! Targets: the clusters that can be deployed to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::target::Environment;

/// The targets of the service.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TargetList {
    /// The configured clusters that the caller's token is for, by name.
    pub targets: Vec<TargetSummary>,
    /// Whether any other name is a target as well: no cluster is configured.
    pub any: bool,
    /// Whether these are all; if not, the token is not for the others.
    pub complete: bool,
}

/// A cluster.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetOverview")]
pub struct TargetSummary {
    /// Its name, as in `deploy` of the WAML.
    pub name: String,
    /// `production` or `development`.
    // A text: a newer service may know more of them.
    #[serde(default)]
    #[schemars(!default, with = "Environment")]
    pub environment: String,
}
