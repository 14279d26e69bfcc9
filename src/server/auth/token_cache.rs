//! Caches GitHub's answers about tokens for a short while under a keyed hash: never the token itself. Pure; times are
//! arguments.
//!
//! While GitHub cannot be called, an answer from a little earlier still counts, so that people can work in an outage; a
//! token that GitHub rejects is forgotten at once.

use std::collections::BTreeMap;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;

use crate::model::id::{RepoName, TeamName};
use crate::model::person::{IdentityError, Person, RepoPermission};

/// The age up to which an answer counts without a new call: a right that is revoked at GitHub lasts here so long.
pub(super) const FRESH: SignedDuration = SignedDuration::from_secs(60);
/// The same for a refusal, which is shorter: people who just got a right try again.
pub(super) const FRESH_NO: SignedDuration = SignedDuration::from_secs(10);
/// The age up to which an answer counts while GitHub cannot be called.
const STALE: SignedDuration = SignedDuration::from_mins(15);
/// The number of answers, of some hundred bytes each.
const MAX: usize = 20_000;
/// The number of tokens that GitHub told to wait.
const MAX_WAITING: usize = 10_000;

/// A stand-in for a token in memory: its HMAC-SHA256 under a key of this process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokenFingerprint([u8; 32]);

/// The key of fingerprints, made anew with each process.
#[derive(Clone)]
pub struct FingerprintKey([u8; 32]);

/// A question about the owner of a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TokenQuestion {
    Who,
    On(RepoName),
    /// The question whether the owner, under that login, is in the team.
    In(TeamName, String),
}

/// GitHub's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenReply {
    /// The owner; `None` if GitHub does not know the token.
    Is(Option<Person>),
    May(RepoPermission),
    IsMember(bool),
    /// The token cannot show it, for this reason.
    Hidden(String),
}

/// Answers by token and question, and the tokens that must wait.
#[derive(Debug, Default)]
pub(super) struct TokenCache {
    answers: BTreeMap<(TokenFingerprint, TokenQuestion), (TokenReply, Timestamp)>,
    waiting: BTreeMap<TokenFingerprint, Timestamp>,
}

/// The result of a lookup in the cache.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// A fresh answer.
    Fresh(TokenReply),
    /// An older answer, which counts only while GitHub cannot be called.
    Stale(TokenReply),
    Miss,
}

impl TokenReply {
    /// Returns whether the answer grants something; a refusal is cached for a shorter time.
    pub(super) fn is_yes(&self) -> bool {
        match self {
            Self::Is(person) => person.is_some(),
            Self::May(level) => *level > RepoPermission::Nothing,
            Self::IsMember(is) => *is,
            Self::Hidden(_) => false,
        }
    }
}

impl FingerprintKey {
    /// Makes a key of these random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    pub(super) fn fingerprint(&self, token: &str) -> TokenFingerprint {
        let mut hash =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length will do");
        hash.update(token.as_bytes());
        TokenFingerprint(hash.finalize().into_bytes().into())
    }
}

impl std::fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FingerprintKey")
    }
}

impl TokenCache {
    pub(super) fn look_up(
        &self,
        token: &TokenFingerprint,
        question: &TokenQuestion,
        now: Timestamp,
    ) -> Lookup {
        let Some((reply, noted_at)) = self.answers.get(&(token.clone(), question.clone())) else {
            return Lookup::Miss;
        };
        let age = now.duration_since(*noted_at);
        match reply.clone() {
            reply if age < if reply.is_yes() { FRESH } else { FRESH_NO } => Lookup::Fresh(reply),
            reply if age < STALE && reply.is_yes() => Lookup::Stale(reply),
            _ => Lookup::Miss,
        }
    }

    /// Returns how long GitHub may not be called with that token.
    pub(super) fn wait(&self, token: &TokenFingerprint, now: Timestamp) -> Option<Duration> {
        let remaining = self.waiting.get(token)?.duration_since(now);
        remaining.try_into().ok().filter(|remaining: &Duration| !remaining.is_zero())
    }

    /// Stores an answer; of an error it stores what it says about the token.
    pub(super) fn note(
        &mut self,
        token: &TokenFingerprint,
        question: TokenQuestion,
        reply: &Result<TokenReply, IdentityError>,
        now: Timestamp,
    ) {
        match reply {
            Ok(answer) => self.keep(token, question, answer.clone(), now),
            Err(IdentityError::InvalidToken) => {
                // No answer about the token counts any more.
                self.answers.retain(|(fingerprint, _), _| fingerprint != token);
                self.keep(token, TokenQuestion::Who, TokenReply::Is(None), now);
            }
            Err(IdentityError::RateLimited(wait)) => {
                if self.waiting.len() >= MAX_WAITING {
                    self.waiting.retain(|_, end| *end > now);
                }
                let wait = SignedDuration::try_from(*wait).unwrap_or(SignedDuration::from_mins(1));
                if self.waiting.len() < MAX_WAITING {
                    self.waiting.insert(token.clone(), now.checked_add(wait).unwrap_or(now));
                }
            }
            // Hidden teams count as a refusal, and are looked up again as soon.
            Err(IdentityError::Forbidden(why)) if matches!(question, TokenQuestion::In(..)) => {
                self.keep(token, question, TokenReply::Hidden(why.clone()), now);
            }
            Err(IdentityError::Forbidden(_) | IdentityError::Unavailable(_)) => {}
        }
    }

    fn keep(
        &mut self,
        token: &TokenFingerprint,
        question: TokenQuestion,
        reply: TokenReply,
        now: Timestamp,
    ) {
        if self.answers.len() >= MAX {
            self.answers.retain(|_, (_, noted_at)| now.duration_since(*noted_at) < FRESH);
        }
        if self.answers.len() >= MAX {
            // A caller with so many tokens in a minute has them looked up again.
            self.answers.clear();
        }
        self.answers.insert((token.clone(), question), (reply, now));
    }
}

/// Returns the answer that counts: the new one, or a cached one while GitHub cannot be called.
pub(super) fn decide<A>(
    reply: Result<A, IdentityError>,
    earlier_reply: Option<A>,
) -> Result<A, IdentityError> {
    match (reply, earlier_reply) {
        (
            Err(IdentityError::Unavailable(_) | IdentityError::RateLimited(_)),
            Some(earlier_reply),
        ) => Ok(earlier_reply),
        (reply, _) => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn make_cache() -> (TokenCache, TokenFingerprint) {
        (TokenCache::default(), FingerprintKey::new([7; 32]).fingerprint("ghp_x"))
    }

    fn on(name: &str) -> TokenQuestion {
        TokenQuestion::On(RepoName::parse(name).unwrap())
    }

    const YES: TokenReply = TokenReply::May(RepoPermission::Push);
    const NO: TokenReply = TokenReply::May(RepoPermission::Nothing);

    #[test]
    fn an_answer_is_fresh_then_stale_then_gone_and_a_no_is_gone_soon() {
        let (mut cache, token) = make_cache();
        cache.note(&token, on("acme/web"), &Ok(YES), at(0));
        cache.note(&token, on("acme/pay"), &Ok(NO), at(0));
        assert_eq!(cache.look_up(&token, &on("acme/web"), at(59)), Lookup::Fresh(YES));
        assert_eq!(cache.look_up(&token, &on("acme/web"), at(60)), Lookup::Stale(YES));
        assert_eq!(cache.look_up(&token, &on("acme/web"), at(900)), Lookup::Miss);
        assert_eq!(cache.look_up(&token, &on("acme/pay"), at(9)), Lookup::Fresh(NO));
        assert_eq!(cache.look_up(&token, &on("acme/pay"), at(10)), Lookup::Miss);
        assert_eq!(cache.look_up(&token, &on("acme/other"), at(0)), Lookup::Miss);
    }

    #[test]
    fn what_is_known_of_one_token_says_nothing_of_another_and_can_be_forgotten() {
        let (mut cache, token) = make_cache();
        let other_token = FingerprintKey::new([7; 32]).fingerprint("ghp_y");
        cache.note(&token, on("acme/web"), &Ok(YES), at(0));
        cache.note(&other_token, on("acme/web"), &Ok(YES), at(0));
        cache.note(&token, on("acme/pay"), &Err(IdentityError::InvalidToken), at(1));
        assert_eq!(cache.look_up(&token, &on("acme/web"), at(1)), Lookup::Miss);
        assert_eq!(
            cache.look_up(&token, &TokenQuestion::Who, at(1)),
            Lookup::Fresh(TokenReply::Is(None))
        );
        assert_eq!(cache.look_up(&other_token, &on("acme/web"), at(1)), Lookup::Fresh(YES));
    }

    #[test]
    fn a_fingerprint_depends_on_the_process_and_shows_nothing_of_the_token() {
        let print = FingerprintKey::new([1; 32]).fingerprint("ghp_secret");
        assert_ne!(print, FingerprintKey::new([2; 32]).fingerprint("ghp_secret"));
        assert_eq!(print, FingerprintKey::new([1; 32]).fingerprint("ghp_secret"));
        assert!(!format!("{print:?} {:?}", FingerprintKey::new([1; 32])).contains("secret"));
    }

    #[test]
    fn however_many_tokens_come_no_more_than_so_many_answers_are_kept() {
        let (mut cache, _) = make_cache();
        let key = FingerprintKey::new([7; 32]);
        for n in 0..=MAX {
            cache.note(&key.fingerprint(&n.to_string()), TokenQuestion::Who, &Ok(YES), at(0));
        }
        assert!(cache.answers.len() <= MAX);
    }

    #[test]
    fn an_outage_believes_what_was_said_before_and_a_rejection_does_not() {
        let down = || Err(IdentityError::Unavailable("no route".to_owned()));
        assert_eq!(decide(down(), Some(true)), Ok(true));
        assert!(decide(down(), None::<bool>).is_err());
        assert_eq!(
            decide(Err(IdentityError::InvalidToken), Some(true)),
            Err(IdentityError::InvalidToken)
        );
        assert_eq!(decide(Ok(false), Some(true)), Ok(false));
    }
}
