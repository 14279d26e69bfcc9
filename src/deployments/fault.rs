//! The error of a use case whose backend does not work, and the log target of acts.

/// The log target of acts that people do on purpose.
pub const AUDIT: &str = "the_deployer::audit";

/// A part behind a use case does not work now. The text is for the log; callers are asked to try
/// again.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BackendError(Box<dyn std::error::Error + Send + Sync>);

impl BackendError {
    /// Wraps a cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}
