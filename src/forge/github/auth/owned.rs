//! A person's or a machine's token, which its owner may replace while we run.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

/// Where the token is: asked for each request, so that a new one counts at once.
#[derive(Clone)]
pub struct TokenSource(Arc<dyn Fn() -> SecretString + Send + Sync>);

impl TokenSource {
    /// What that says, which must be quick.
    pub fn new(now: impl Fn() -> SecretString + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Always the same.
    pub fn fixed(token: SecretString) -> Self {
        Self::new(move || token.clone())
    }

    pub(in crate::forge::github) fn now(&self) -> SecretString {
        (self.0)()
    }

    /// Whether there is another one by now.
    pub(super) fn is_other_than(&self, token: &SecretString) -> bool {
        self.now().expose_secret() != token.expose_secret()
    }
}

/// Shows no token.
impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSource")
    }
}
