//! The cloud that a cluster runs in: rights, databases, caches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cloud that a cluster runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cloud {
    /// Whose cloud it is.
    pub provider: Provider,
}

/// Whose cloud it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// None that we make anything in.
    #[default]
    None,
    /// Google's, through Config Connector.
    Gcp,
    /// Amazon's.
    Aws,
}
