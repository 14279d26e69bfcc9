//! The tokens that the configuration names: those of the API, known by their hashes, and those of the agents of clusters,
//! which are read again while the service runs, so that a new one needs no restart.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};

use crate::model::callers::{AgentToken, ApiToken};
use crate::model::id::TargetName;
use crate::support::credential::Credential;
use crate::support::sync::lock;

/// The time for which a token is taken as it was read: wrong tokens in a flood do not cause a read each.
const READ_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// The tokens of all agents.
#[derive(Debug)]
pub(super) struct AgentTokens {
    agents: BTreeMap<TargetName, AgentCredential>,
}

/// The token of one agent.
#[derive(Debug)]
struct AgentCredential {
    credential: Credential,
    last: Mutex<TokenReading>,
    /// The turn to read it: the others wait for that.
    turn: tokio::sync::Mutex<()>,
}

/// A token as it was read.
#[derive(Debug, Clone, Copy)]
struct TokenReading {
    at: Timestamp,
    /// The SHA-256 of its text; `None` where it cannot be used.
    sha256: Option<[u8; 32]>,
}

/// The judgment of a token that came with a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgentIdentity {
    /// It is the token of the cluster's agent.
    Matches,
    /// It is the token of the agent of that cluster.
    OtherCluster(TargetName),
    /// It is no agent's.
    Unknown,
    /// The token of the cluster's agent cannot be read at present, so nobody can have it.
    Unreadable,
}

impl AgentTokens {
    pub(super) fn new(tokens: Vec<AgentToken>) -> Self {
        let agent = |AgentToken { cluster, credential }| {
            let sha256 = Some(Sha256::digest(credential.secret.expose_secret()).into());
            let last = Mutex::new(TokenReading { at: Timestamp::MIN, sha256 });
            (cluster, AgentCredential { credential, last, turn: tokio::sync::Mutex::default() })
        };
        Self { agents: tokens.into_iter().map(agent).collect() }
    }

    /// Judges a token. A token that is also an API token, or that of another agent, is no agent's: the configuration
    /// would have been refused with it.
    pub(super) async fn identify(
        &self,
        cluster: &TargetName,
        text: &str,
        api_tokens: &[ApiToken],
        now: Timestamp,
    ) -> AgentIdentity {
        let sha256: [u8; 32] = Sha256::digest(text).into();
        let (mut is_its, mut is_unreadable, mut other) = (false, false, None);
        // All are compared, so that the time reveals nothing.
        for (name, agent) in &self.agents {
            // The file of another cluster is of no interest, and may be out of reach.
            let token =
                if name == cluster { agent.read(name, now).await } else { agent.last().sha256 };
            let is_match = token.is_some_and(|token| digests_equal(&token, &sha256));
            if name == cluster {
                (is_its, is_unreadable) = (is_match, token.is_none());
            } else if is_match {
                other = Some(name.clone());
            }
        }
        match other {
            _ if is_unreadable => AgentIdentity::Unreadable,
            Some(_) if is_its => AgentIdentity::Unknown,
            None if is_its && holder(api_tokens, text).is_some() => AgentIdentity::Unknown,
            None if is_its => AgentIdentity::Matches,
            Some(other) => AgentIdentity::OtherCluster(other),
            None => AgentIdentity::Unknown,
        }
    }
}

impl AgentCredential {
    /// Returns the digest of the token; `None` while it cannot be used.
    async fn read(&self, cluster: &TargetName, now: Timestamp) -> Option<[u8; 32]> {
        if let Some(last) = self.fresh(now) {
            return last.sha256;
        }
        let _turn = self.turn.lock().await;
        if let Some(last) = self.fresh(now) {
            return last.sha256;
        }
        let sha256 = match self.usable_text().await {
            Ok(sha256) => Some(sha256),
            Err(reason) => {
                tracing::warn!(%cluster, reason, "agent's token cannot be used, its reports wait");
                None
            }
        };
        let before = std::mem::replace(&mut *lock(&self.last), TokenReading { at: now, sha256 });
        if sha256.is_some() && before.sha256 != sha256 {
            tracing::info!(%cluster, "agent's token has changed");
        }
        sha256
    }

    fn last(&self) -> TokenReading {
        *lock(&self.last)
    }

    /// Returns the last reading, unless it is too old.
    fn fresh(&self, now: Timestamp) -> Option<TokenReading> {
        let last = self.last();
        let age = now.duration_since(last.at);
        (SignedDuration::ZERO..READ_INTERVAL).contains(&age).then_some(last)
    }

    async fn usable_text(&self) -> Result<[u8; 32], String> {
        let text = self.credential.text().await?;
        let text = text.expose_secret();
        let shortest = AgentToken::MIN_CHARACTERS;
        if text.chars().count() < shortest {
            return Err(format!("it has less than {shortest} characters"));
        }
        Ok(Sha256::digest(text).into())
    }
}

/// Compares with every token, whichever matches, so that the time reveals nothing.
pub(super) fn holder<'t>(tokens: &'t [ApiToken], text: &str) -> Option<&'t ApiToken> {
    let hash: [u8; 32] = Sha256::digest(text).into();
    tokens.iter().fold(
        None,
        |holder, token| {
            if digests_equal(&token.sha256, &hash) { Some(token) } else { holder }
        },
    )
}

/// Compares every byte, whatever the first ones are.
fn digests_equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const FIRST: &str = "the-first-token-0123456789";
    const SECOND: &str = "the-second-token-0123456789";
    const OTHER: &str = "of-another-agent-0123456789";
    const API: &str = "of-the-api-0123456789";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn token(cluster: &str, text: &str, file: Option<std::path::PathBuf>) -> AgentToken {
        let cluster = TargetName::parse(cluster).unwrap();
        AgentToken { cluster, credential: Credential { secret: text.into(), file } }
    }

    #[tokio::test]
    async fn a_token_that_is_changed_in_its_file_counts_within_a_second_and_the_old_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, format!("{FIRST}\n")).unwrap();
        let tokens =
            AgentTokens::new(vec![token("a", FIRST, Some(file.clone())), token("b", OTHER, None)]);
        let api = [ApiToken {
            name: "ci".to_owned(),
            sha256: Sha256::digest(API).into(),
            rights: Arc::default(),
        }];
        let (a, b) = (TargetName::parse("a").unwrap(), TargetName::parse("b").unwrap());
        let identify = async |text: &str, second| tokens.identify(&a, text, &api, at(second)).await;
        assert_eq!(identify(FIRST, 0).await, AgentIdentity::Matches);
        assert_eq!(identify(OTHER, 0).await, AgentIdentity::OtherCluster(b.clone()));
        assert_eq!(identify("", 0).await, AgentIdentity::Unknown);
        assert_eq!(identify(API, 0).await, AgentIdentity::Unknown);
        std::fs::write(&file, SECOND).unwrap();
        assert_eq!(identify(SECOND, 1).await, AgentIdentity::Matches);
        assert_eq!(identify(FIRST, 1).await, AgentIdentity::Unknown);
        // Whatever is wrong with the file, nobody gets in, also where the clock goes back.
        for wrong in ["", "short", "two\nlines-0123456789012345"] {
            std::fs::write(&file, wrong).unwrap();
            assert_eq!(identify(wrong, 0).await, AgentIdentity::Unreadable, "{wrong:?}");
            std::fs::write(&file, SECOND).unwrap();
            assert_eq!(identify(SECOND, 1).await, AgentIdentity::Matches);
        }
        for (shared, second) in [(OTHER, 5), (API, 6)] {
            std::fs::write(&file, shared).unwrap();
            assert_eq!(identify(shared, second).await, AgentIdentity::Unknown, "{shared}");
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(identify(SECOND, 7).await, AgentIdentity::Unreadable);
        let of_b = tokens.identify(&b, OTHER, &api, at(7)).await;
        assert_eq!(of_b, AgentIdentity::Matches, "another one is not concerned");
    }

    #[test]
    fn a_tokens_holder_is_found_by_its_hash() {
        let token = |name: &str, text: &str| ApiToken {
            name: name.to_owned(),
            sha256: Sha256::digest(text).into(),
            rights: Arc::default(),
        };
        let tokens = [token("ci", "one"), token("bart", "two")];
        let holder = |text: &str| holder(&tokens, text).map(|token| token.name.as_str());
        assert_eq!(holder("two"), Some("bart"));
        assert_eq!(holder("three"), None);
        assert_eq!(holder(""), None);
    }
}
