//! Who somebody is at the forge, and what they may there.

/// A person with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name that they have there.
    pub login: String,
}

/// What a person may on a repository; each more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepoPermission {
    /// Nothing that not everybody may.
    Nothing,
    /// Read it, as one of those whom it is for: that everybody may read a public one is not meant.
    Read,
    /// Push to it.
    Push,
}

/// Why it is not known who somebody is, or what they may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The forge does not know the token.
    #[error("the token is wrong, expired or revoked")]
    InvalidToken,
    /// The forge knows it, and does not answer to it: a sentence with what to do.
    #[error("{0}")]
    Forbidden(String),
    /// Whoever has the token asked the forge too often.
    #[error("the code host asks the token's owner to wait for {} s", .0.as_secs())]
    RateLimited(std::time::Duration),
    /// The forge does not answer now: why.
    #[error("the code host cannot be reached now ({0})")]
    Unavailable(String),
}
