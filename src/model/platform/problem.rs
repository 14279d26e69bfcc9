//! What the parts of a platform tell of what their configuration says and what does not go together.

/// Something that the configuration says and that cannot be so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformProblem {
    /// The key below `platform`: `cloud.gcp.region`.
    pub key: String,
    /// What is wrong with it, in one sentence without a full stop.
    pub message: String,
    /// What to do.
    pub help: &'static str,
}
