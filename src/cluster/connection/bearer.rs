//! Adds a token to every request to an API server.
//!
//! The client library's own code for it sends the newline at the end of a token's file, and fails.

use std::sync::Arc;

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Mutex;

use crate::cluster::connection::error::ConnectError;
use crate::cluster::connection::exec_plugin::ExecPlugin;
use crate::support::clock::Clock;
use crate::support::credential::Credential;
use crate::support::time::saturating_add;

/// A token is replaced so long before it expires: no request under way is refused for it.
const EARLY: SignedDuration = SignedDuration::from_secs(60);

/// A plugin that fails, or prints tokens which have expired already, is not run for each request.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// A source of tokens. Clones share what was read.
#[derive(Clone)]
pub(super) enum BearerToken {
    /// The text of a variable, or a file that is read anew.
    Credential(Credential),
    /// A program that prints tokens.
    Plugin(Arc<PluginToken>),
}

/// A program and its last answer.
pub(super) struct PluginToken {
    plugin: ExecPlugin,
    clock: Clock,
    last: Mutex<PluginAnswer>,
}

/// An answer of a program, or its failure, which all requests share for some seconds.
#[derive(Clone)]
struct PluginAnswer {
    token: Result<SecretString, ConnectError>,
    expires: Option<Timestamp>,
    at: Timestamp,
}

impl BearerToken {
    /// Takes a token of the kubeconfig itself, without the whitespace around it.
    pub(super) fn inline(token: &SecretString) -> Self {
        let secret = SecretString::from(token.expose_secret().trim());
        Self::Credential(Credential { secret, file: None })
    }

    /// Takes a program that printed a token already.
    pub(super) fn plugin(
        plugin: ExecPlugin,
        token: SecretString,
        expires: Option<Timestamp>,
        clock: Clock,
    ) -> Self {
        let last = Mutex::new(PluginAnswer { token: Ok(token), expires, at: clock.now() });
        Self::Plugin(Arc::new(PluginToken { plugin, clock, last }))
    }

    /// Returns the value of the header for a request now.
    pub(super) async fn header(&self) -> Result<HeaderValue, ConnectError> {
        let text = match self {
            Self::Credential(credential) => credential.text().await.map_err(ConnectError::Token)?,
            Self::Plugin(plugin) => plugin.text().await?,
        };
        let header = HeaderValue::try_from(format!("Bearer {}", text.expose_secret().trim()));
        let mut header = header.map_err(|_invalid| {
            ConnectError::Token("the token has characters that no token has".to_owned())
        })?;
        header.set_sensitive(true);
        Ok(header)
    }
}

impl PluginToken {
    /// Returns the token. One run serves all requests that wait, and so does its failure.
    async fn text(&self) -> Result<SecretString, ConnectError> {
        let mut last = self.last.lock().await;
        let now = self.clock.now();
        if !last.is_fresh(now) {
            let (token, expires) = match self.run().await {
                Ok((token, expires)) => (Ok(token), expires),
                // The program runs a minute before it must.
                Err(_) if last.is_valid(now) => (last.token.clone(), last.expires),
                Err(error) => (Err(error), Some(now)),
            };
            *last = PluginAnswer { token, expires, at: now };
        }
        last.token.clone()
    }

    async fn run(&self) -> Result<(SecretString, Option<Timestamp>), ConnectError> {
        let credential = self.plugin.run().await?;
        let token = credential.token.ok_or_else(|| {
            ConnectError::Token(
                "the credential plugin printed a token before, and none now".to_owned(),
            )
        })?;
        Ok((token, credential.expires))
    }
}

impl PluginAnswer {
    /// Returns true if the program need not run again. Without an expiry that is so until the token is refused: then
    /// the whole connection is made anew.
    fn is_fresh(&self, now: Timestamp) -> bool {
        let Some(expires) = self.expires else { return true };
        let age = now.duration_since(self.at);
        saturating_add(now, EARLY) < expires || (age >= SignedDuration::ZERO && age < PAUSE)
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.token.is_ok() && self.expires.is_none_or(|expires| now < expires)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::config::ExecConfig;

    use super::*;

    async fn header(token: &BearerToken) -> String {
        token.header().await.unwrap().to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn whitespace_around_a_token_is_no_part_of_it_and_a_file_is_read_anew() {
        let inline = BearerToken::inline(&"  t0ken\n".into());
        assert_eq!(header(&inline).await, "Bearer t0ken");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let file = Credential { secret: "old".into(), file: Some(path.clone()) };
        let file = BearerToken::Credential(file);
        for text in ["one\n", "two"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(header(&file).await, format!("Bearer {}", text.trim()));
        }
        let odd = BearerToken::inline(&"a\nb".into());
        let reason = odd.header().await.unwrap_err().to_string();
        let is_told = reason.contains("characters that no token has");
        assert!(is_told && !reason.contains("a\nb"), "{reason}");
    }

    #[tokio::test]
    async fn a_program_is_run_again_shortly_before_its_token_expires() {
        let start: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let clock = Clock::manual(start);
        let script =
            r#"echo '{"status": {"token": "new", "expirationTimestamp": "2026-11-21T09:00:00Z"}}'"#;
        let config = ExecConfig {
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            ..ExecConfig::default()
        };
        let plugin = ExecPlugin::new(config, None).unwrap();
        let expires = Some("2026-11-21T10:10:00Z".parse().unwrap());
        let token = BearerToken::plugin(plugin, "first".into(), expires, clock.clone());
        assert_eq!(header(&token).await, "Bearer first");
        clock.advance(Duration::from_secs(539));
        assert_eq!(header(&token).await, "Bearer first");
        clock.advance(Duration::from_secs(1));
        assert_eq!(header(&token).await, "Bearer new");
        let BearerToken::Plugin(plugin) = &token else { panic!("a plugin") };
        let at = |token: &PluginToken| token.last.try_lock().unwrap().at;
        let ran = at(plugin);
        clock.advance(Duration::from_secs(9));
        assert_eq!((header(&token).await.as_str(), at(plugin)), ("Bearer new", ran), "expired");
        clock.advance(Duration::from_secs(1));
        assert_eq!((header(&token).await.as_str(), at(plugin) > ran), ("Bearer new", true));
    }

    #[tokio::test]
    async fn a_program_that_fails_is_run_once_for_all_and_its_last_token_serves_to_its_end() {
        let (folder, start) = (tempfile::tempdir().unwrap(), Timestamp::UNIX_EPOCH);
        let (clock, runs) = (Clock::manual(start), folder.path().join("runs"));
        let config = ExecConfig {
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), format!("echo run >> {}; exit 7", runs.display())]),
            ..ExecConfig::default()
        };
        let count = || std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
        let plugin = ExecPlugin::new(config, None).unwrap();
        let expires = Some(saturating_add(start, SignedDuration::from_secs(600)));
        let token = BearerToken::plugin(plugin, "first".into(), expires, clock.clone());
        clock.advance(Duration::from_secs(541));
        assert_eq!((header(&token).await.as_str(), count()), ("Bearer first", 1));
        assert_eq!((header(&token).await.as_str(), count()), ("Bearer first", 1));
        clock.advance(Duration::from_mins(1));
        for header in futures::future::join_all((0..9).map(|_| token.header())).await {
            let reason = header.unwrap_err().to_string();
            assert!(reason.contains("fails with exit status: 7"), "{reason}");
        }
        assert_eq!(count(), 2);
        clock.advance(Duration::from_secs(10));
        assert!(token.header().await.is_err());
        assert_eq!(count(), 3);
    }
}
