//! The token that every request to an API server carries.
//!
//! Not the client library's own: that one sends the newline at the end of a token's file, and fails.

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

/// A plugin that prints tokens which have expired already is not run for each request.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// A source of tokens. Clones share what was read.
#[derive(Clone)]
pub(super) enum BearerToken {
    /// From the configuration: the text of a variable, or a file that is read anew.
    Credential(Credential),
    /// From a program.
    Plugin(Arc<PluginToken>),
}

/// What a program printed last.
pub(super) struct PluginToken {
    plugin: ExecPlugin,
    clock: Clock,
    last: Mutex<Option<PluginAnswer>>,
}

struct PluginAnswer {
    token: SecretString,
    expires: Option<Timestamp>,
    at: Timestamp,
}

impl BearerToken {
    /// A token that the kubeconfig itself has, with whatever stands around it.
    pub(super) fn inline(token: &SecretString) -> Self {
        let secret = SecretString::from(token.expose_secret().trim());
        Self::Credential(Credential { secret, file: None })
    }

    /// A program that printed a token already.
    pub(super) fn plugin(
        plugin: ExecPlugin,
        token: SecretString,
        expires: Option<Timestamp>,
        clock: Clock,
    ) -> Self {
        let last = Mutex::new(Some(PluginAnswer { token, expires, at: clock.now() }));
        Self::Plugin(Arc::new(PluginToken { plugin, clock, last }))
    }

    /// The header's value now.
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
    /// One run at a time: all others wait for its token.
    async fn text(&self) -> Result<SecretString, ConnectError> {
        let mut last = self.last.lock().await;
        let now = self.clock.now();
        if let Some(answer) = last.as_ref().filter(|answer| answer.is_fresh(now)) {
            return Ok(answer.token.clone());
        }
        let found = self.plugin.run().await?;
        let token = found.token.ok_or_else(|| {
            ConnectError::Token(
                "the credential plugin printed a token before, and none now".to_owned(),
            )
        })?;
        *last = Some(PluginAnswer { token: token.clone(), expires: found.expires, at: now });
        Ok(token)
    }
}

impl PluginAnswer {
    /// Without an expiry it serves until it is refused: then the whole connection is made anew.
    fn is_fresh(&self, now: Timestamp) -> bool {
        let Some(expires) = self.expires else { return true };
        let age = now.duration_since(self.at);
        saturating_add(now, EARLY) < expires || (age >= SignedDuration::ZERO && age < PAUSE)
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
        let said = odd.header().await.unwrap_err().to_string();
        assert!(said.contains("characters that no token has") && !said.contains("a\nb"), "{said}");
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
        let at = |token: &PluginToken| token.last.try_lock().unwrap().as_ref().unwrap().at;
        let ran = at(plugin);
        clock.advance(Duration::from_secs(9));
        assert_eq!((header(&token).await.as_str(), at(plugin)), ("Bearer new", ran), "expired");
        clock.advance(Duration::from_secs(1));
        assert_eq!((header(&token).await.as_str(), at(plugin) > ran), ("Bearer new", true));
    }
}
