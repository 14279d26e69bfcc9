//! What does not work now, and the name of the log of what people do.

/// Under this name everything that somebody does on purpose is in the log.
pub const AUDIT: &str = "the_deployer::audit";

/// Something behind a use case does not work now. Its text is for the log; callers are told to
/// come again.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BackendError(Box<dyn std::error::Error + Send + Sync>);

impl BackendError {
    /// A fault for that cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}
