//! Where service repositories are, as callers are told.

/// Where service repositories are, as far as callers need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeHost {
    /// Bare repositories in a folder of ours: deployments are asked for here.
    Local,
    /// GitHub: deployments are asked for there.
    GitHub {
        /// The API's address, without a slash at its end.
        api_url: String,
        /// Where people look at it.
        web_url: String,
        /// What people log in with from a terminal, if that was set up.
        client_id: Option<String>,
    },
}
