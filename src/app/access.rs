//! Credentials for git repositories: the sources of their tokens and ssh keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use secrecy::SecretString;

use crate::config::access::GitAccess;
use crate::config::secret::{self, SecretError, SecretSource};
use crate::forge::Forge;
use crate::forge::error::ForgeError;
use crate::forge::github::auth::TokenSource;
use crate::forge::github::client::{Credentials, GitHubClient};
use crate::forge::github::permission::AccessLevel;
use crate::git::transport::ssh;
use crate::git::transport::token::{TokenAnswer, TokenDemand, TokenError, Tokens};
use crate::model::id::RepoName;
use crate::support::credential::Credential;
use crate::support::retry::Disposition;
use crate::support::sync::lock;

/// Returns the source of a repository's tokens, for reads or writes. `forge` is the code host of
/// the same settings.
pub(super) fn tokens(access: &GitAccess, level: AccessLevel, forge: &Forge) -> Tokens {
    let verb = match level {
        AccessLevel::Read => "read",
        AccessLevel::Write => "write",
    };
    match access {
        GitAccess::Anybody => {
            Tokens::new(&format!("give it a token that may {verb} there (`token`)"), |_| {
                std::future::ready(Ok(None))
            })
        }
        GitAccess::App(repository) => match forge {
            Forge::GitHub(github) => of_app(github, repository, level),
            // The settings allow an App only with GitHub.
            Forge::Local(_) => Tokens::none(),
        },
        GitAccess::Token(Credential { secret, file: None }) => Tokens::fixed(
            secret.clone(),
            &format!(
                "put a token that may {verb} there into the variable of its `token`, and start again"
            ),
        ),
        GitAccess::Token(Credential { secret, file: Some(file) }) => {
            let help = format!("put a token that may {verb} there into {}", file.display());
            of_file(file, secret, &help)
        }
        GitAccess::Ssh { key: Credential { secret, file: None }, .. } => Tokens::fixed(
            secret.clone(),
            &format!("add the public half of its `ssh.key` there as a key that may {verb}"),
        ),
        GitAccess::Ssh { key: Credential { secret, file: Some(file) }, .. } => {
            let file_name = file.display();
            let help = format!("add the public half of {file_name} there as a key that may {verb}");
            of_file(file, secret, &help)
        }
    }
}

/// Returns the ssh settings of a repository; `None` where its address is not an ssh one. The key
/// comes from [`tokens`].
pub(super) fn ssh(access: &GitAccess) -> Option<ssh::SshAccess> {
    match access {
        GitAccess::Ssh { key: _, access } => Some(access.clone()),
        GitAccess::Anybody | GitAccess::Token(_) | GitAccess::App(_) => None,
    }
}

fn of_file(file: &Path, last: &SecretString, help: &str) -> Tokens {
    let token_file = TokenFile { file: file.to_owned(), last: Mutex::new(last.clone()) };
    Tokens::new(help, move |ask| std::future::ready(token_file.answer(&ask)))
}

/// Returns a source of the App's tokens, which the client caches while they are valid.
fn of_app(github: &GitHubClient, repository: &RepoName, level: AccessLevel) -> Tokens {
    let help = format!(
        "add {repository} to the GitHub App's installation, with the permission `contents: {}`",
        match level {
            AccessLevel::Read => "read",
            AccessLevel::Write => "write",
        }
    );
    let (github, repository) = (github.clone(), repository.clone());
    Tokens::new(&help, move |ask| {
        let (github, repository) = (github.clone(), repository.clone());
        async move {
            if let TokenDemand::InsteadOf(token) = &ask {
                github.git_token_refused(&repository, level, token).await;
            }
            let token = Box::pin(github.git_token(&repository, level)).await;
            token.map(Some).map_err(|error| token_error(&error))
        }
    })
}

fn token_error(error: &ForgeError) -> TokenError {
    TokenError { why: error.to_string(), next: error.disposition() }
}

/// Returns the credentials for the code host's API; those of a file are read for each request.
pub(super) fn of_forge(token: &Credential) -> Credentials {
    let Credential { secret, file } = token.clone();
    let Some(file) = file else { return Credentials::Token(secret) };
    let token_file = TokenFile { file, last: Mutex::new(secret) };
    Credentials::Tokens(TokenSource::new(move || token_file.read_or_last()))
}

/// A token in a file that an external program rewrites now and then: read for each exchange, so
/// that a new one counts at once.
struct TokenFile {
    file: PathBuf,
    last: Mutex<SecretString>,
}

impl TokenFile {
    /// Returns the token in the file. While the file cannot be read, as in the middle of a
    /// replacement, the last token is used, unless the host has refused it.
    fn answer(&self, ask: &TokenDemand) -> TokenAnswer {
        match (self.read(), ask) {
            (Ok(token), TokenDemand::Any | TokenDemand::InsteadOf(_)) => Ok(Some(token)),
            (Err(error), TokenDemand::Any) => Ok(Some(self.last_because(&error))),
            (Err(error), TokenDemand::InsteadOf(_)) => {
                let next = Disposition::Retry { after: None };
                Err(TokenError { why: error.to_string(), next })
            }
        }
    }

    fn read_or_last(&self) -> SecretString {
        self.read().unwrap_or_else(|error| self.last_because(&error))
    }

    fn last_because(&self, error: &SecretError) -> SecretString {
        tracing::warn!(%error, "token file cannot be read, the last token is used");
        lock(&self.last).clone()
    }

    /// Reads the file: a few bytes of a local disk or memory, so blocking is fine.
    fn read(&self) -> Result<SecretString, SecretError> {
        let secret = secret::read(&SecretSource::File(self.file.clone()), &BTreeMap::new())?.secret;
        *lock(&self.last) = secret.clone();
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn a_file_is_read_for_each_exchange_and_its_last_token_outlives_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let token_file = TokenFile { file: file.clone(), last: Mutex::new("first".into()) };
        let answer = |ask| token_file.answer(&ask).map(|t| t.unwrap().expose_secret().to_owned());
        assert_eq!(answer(TokenDemand::Any).unwrap(), "first", "there is no file yet");
        std::fs::write(&file, "second\n").unwrap();
        assert_eq!(answer(TokenDemand::Any).unwrap(), "second");
        assert_eq!(answer(TokenDemand::InsteadOf("first".into())).unwrap(), "second");
        std::fs::write(&file, "").unwrap();
        assert_eq!(answer(TokenDemand::Any).unwrap(), "second");
        assert_eq!(token_file.read_or_last().expose_secret(), "second");
        let error = answer(TokenDemand::InsteadOf("second".into())).unwrap_err();
        assert!(error.to_string().contains("token is empty"), "{error}");
        assert_eq!(error.next, Disposition::Retry { after: None });
    }
}
