//! Where the token for a repository comes from: asked before each exchange with its host, and once
//! more after the host did not accept what was given.
//!
//! Knows neither files nor Apps: whoever opens a repository hands in a source. A source keeps what
//! is good, so that asking is cheap.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};

pub use crate::git::error::NoToken;

/// What is wanted of a source.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A token to come in with; one that was handed out before will do.
    Any,
    /// Another than this, which the host answered with 401.
    InsteadOf(SecretString),
}

/// A token, or `None`: we come as anybody, or there is no other one.
pub type TokenAnswer = Result<Option<SecretString>, NoToken>;

type Asking = Pin<Box<dyn Future<Output = TokenAnswer> + Send>>;

/// A source of tokens. Clones share it.
#[derive(Clone)]
pub struct Tokens {
    ask: Arc<dyn Fn(Ask) -> Asking + Send + Sync>,
    help: Arc<str>,
}

impl Tokens {
    /// A source that is asked; `help` is what a person can do about a token that the host does not
    /// accept.
    pub fn new<F>(help: &str, ask: impl Fn(Ask) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = TokenAnswer> + Send + 'static,
    {
        Self { ask: Arc::new(move |what| Box::pin(ask(what))), help: help.into() }
    }

    /// No token: we come as anybody.
    pub fn none() -> Self {
        Self::new("give it a token", |_| std::future::ready(Ok(None)))
    }

    /// Always the same.
    pub fn fixed(token: SecretString, help: &str) -> Self {
        Self::new(help, move |ask| {
            std::future::ready(Ok(matches!(ask, Ask::Any).then(|| token.clone())))
        })
    }

    pub(in crate::git) async fn any(&self) -> TokenAnswer {
        (self.ask)(Ask::Any).await
    }

    /// `None` where the source has no other one: the same would be refused again.
    pub(in crate::git) async fn instead_of(&self, refused: &SecretString) -> TokenAnswer {
        let other = (self.ask)(Ask::InsteadOf(refused.clone())).await?;
        Ok(other.filter(|other| other.expose_secret() != refused.expose_secret()))
    }

    pub(in crate::git) fn help(&self) -> &str {
        &self.help
    }
}

/// Shows no token.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("help", &self.help).finish_non_exhaustive()
    }
}
