//! Reasons why a cluster cannot be reached. No text has a secret in it: pages and probes show them.

use std::path::Path;

/// The reason where a server answers 401.
pub(in crate::cluster) const UNAUTHORIZED: &str = "the server does not know our credentials (401)";

/// The reason why there is no client of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig {file} {problem}")]
    Kubeconfig {
        /// The file.
        file: String,
        /// The problem: `cannot be read: …`.
        problem: String,
    },
    /// The credential plugin of the kubeconfig gives no credential.
    #[error("the credential plugin `{command}` {problem}")]
    Plugin {
        /// The program, without its arguments.
        command: String,
        /// The problem: `fails with exit status: 1`.
        problem: String,
    },
    /// There is no token.
    #[error("{0}")]
    Token(String),
    /// The address, a certificate or a key cannot be used.
    #[error("the connection cannot be made: {0}")]
    Settings(String),
}

impl ConnectError {
    pub(super) fn kubeconfig(file: &Path, problem: impl Into<String>) -> Self {
        Self::Kubeconfig { file: file.display().to_string(), problem: problem.into() }
    }

    pub(super) fn plugin(command: &str, problem: impl Into<String>) -> Self {
        Self::Plugin { command: command.to_owned(), problem: problem.into() }
    }
}
