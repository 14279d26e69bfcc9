//! The identity of a person at the code host, and their permissions there.

/// A person with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name that they have there.
    pub login: String,
}

/// The permission of a person on a repository; each includes the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepoPermission {
    /// Only what everybody may do.
    Nothing,
    /// Read it as one of its collaborators; that everybody may read a public repository does not count.
    Read,
    /// Push to it.
    Push,
}

/// The reason why a person's identity or permission is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The forge does not know the token.
    #[error("the token is wrong, expired or revoked")]
    InvalidToken,
    /// The forge knows it, and does not answer to it: a sentence with what to do.
    #[error("{0}")]
    Forbidden(String),
    /// The owner of the token has used up a rate limit of the code host.
    #[error("the code host asks the token's owner to wait for {} s", .0.as_secs())]
    RateLimited(std::time::Duration),
    /// The forge does not answer now: why.
    #[error("the code host cannot be reached now ({0})")]
    Unavailable(String),
}
