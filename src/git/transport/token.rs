//! The source of tokens for a repository: it is asked before each exchange with its host, and once more after the host
//! did not accept a token.
//!
//! The module knows neither files nor Apps: the caller that opens a repository passes a source. A source caches a good
//! token, so that asking is cheap.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};

pub use crate::git::error::TokenError;

/// The kind of token that is asked for.
#[derive(Debug, Clone)]
pub enum TokenDemand {
    /// Any token; a cached one will do.
    Any,
    /// Another than this, which the host answered with 401.
    InsteadOf(SecretString),
}

/// A token, or `None`: access is anonymous, or there is no other token.
pub type TokenAnswer = Result<Option<SecretString>, TokenError>;

type Asking = Pin<Box<dyn Future<Output = TokenAnswer> + Send>>;

/// A source of tokens. Clones share it.
#[derive(Clone)]
pub struct Tokens {
    ask: Arc<dyn Fn(TokenDemand) -> Asking + Send + Sync>,
    help: Arc<str>,
}

impl Tokens {
    /// Builds a source from a function; `help` is the way out for a person when the host does not accept a token.
    pub fn new<F>(help: &str, ask: impl Fn(TokenDemand) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = TokenAnswer> + Send + 'static,
    {
        Self { ask: Arc::new(move |request| Box::pin(ask(request))), help: help.into() }
    }

    /// Returns a source without tokens, for anonymous access.
    pub fn none() -> Self {
        Self::new("give it a token", |_| std::future::ready(Ok(None)))
    }

    /// Always the same.
    pub fn fixed(token: SecretString, help: &str) -> Self {
        Self::new(help, move |ask| {
            std::future::ready(Ok(matches!(ask, TokenDemand::Any).then(|| token.clone())))
        })
    }

    pub(in crate::git) async fn any(&self) -> TokenAnswer {
        (self.ask)(TokenDemand::Any).await
    }

    /// Returns another token than the refused one; `None` where the source has no other one: the same would be refused
    /// again.
    pub(in crate::git) async fn request_another(&self, refused: &SecretString) -> TokenAnswer {
        let new_token = (self.ask)(TokenDemand::InsteadOf(refused.clone())).await?;
        Ok(new_token.filter(|new_token| new_token.expose_secret() != refused.expose_secret()))
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
