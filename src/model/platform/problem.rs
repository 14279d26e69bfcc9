//! The faults that the parts of a platform find in their configuration.

/// A part of the configuration that cannot be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformProblem {
    /// The key below `platform`: `cloud.gcp.region`.
    pub key: String,
    /// The fault, in one sentence without a full stop.
    pub message: String,
    /// The way out.
    pub help: &'static str,
}
