//! What GitHub said of tokens, kept for a short while under a keyed hash: never the token itself.
//! Pure; times come in.
//!
//! While GitHub cannot be asked, what it said a little earlier is still believed, so that people can
//! go on in an outage; a token that it rejects is forgotten at once.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;

use crate::model::person::NotKnown;

/// For so long nobody is asked again: what is taken from somebody at GitHub is theirs here so long.
const FRESH: SignedDuration = SignedDuration::from_secs(60);
/// A no is asked again sooner: whoever was just let in tries again.
const FRESH_NO: SignedDuration = SignedDuration::from_secs(10);
/// While GitHub cannot be asked.
const STALE: SignedDuration = SignedDuration::from_mins(15);
/// Answers; some hundred bytes each.
const MOST: usize = 20_000;

/// A token, for who cannot have it: its HMAC-SHA256 under a key of this process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Print([u8; 32]);

/// A key that is made anew with each process.
#[derive(Clone)]
pub struct PrintKey([u8; 32]);

/// Answers by token and question.
#[derive(Debug)]
pub(super) struct Kept<Q, A> {
    answers: BTreeMap<(Print, Q), (A, Timestamp)>,
}

/// What is known without asking.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<A> {
    /// It was just said.
    Fresh(A),
    /// It was said a little earlier: believed where nobody can be asked.
    Stale(A),
    /// Nothing.
    Nothing,
}

/// Whether an answer is a yes; a no is kept for a shorter time.
pub(super) trait Answer: Clone {
    fn is_yes(&self) -> bool;
}

impl PrintKey {
    /// The key of these random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    pub(super) fn print(&self, token: &str) -> Print {
        let mut hash =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length will do");
        hash.update(token.as_bytes());
        Print(hash.finalize().into_bytes().into())
    }
}

impl std::fmt::Debug for PrintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrintKey")
    }
}

impl<Q: Ord + Clone, A: Answer> Kept<Q, A> {
    pub(super) fn new() -> Self {
        Self { answers: BTreeMap::new() }
    }

    pub(super) fn known(&self, token: &Print, question: &Q, now: Timestamp) -> Known<A> {
        let Some((answer, at)) = self.answers.get(&(token.clone(), question.clone())) else {
            return Known::Nothing;
        };
        let age = now.duration_since(*at);
        let fresh = if answer.is_yes() { FRESH } else { FRESH_NO };
        match answer.clone() {
            answer if age < fresh => Known::Fresh(answer),
            answer if age < STALE && answer.is_yes() => Known::Stale(answer),
            _ => Known::Nothing,
        }
    }

    pub(super) fn keep(&mut self, token: &Print, question: Q, answer: A, now: Timestamp) {
        if self.answers.len() >= MOST {
            self.answers.retain(|_, (_, at)| now.duration_since(*at) < FRESH);
        }
        if self.answers.len() >= MOST {
            // Who comes with so many tokens in a minute has them asked about again.
            self.answers.clear();
        }
        self.answers.insert((token.clone(), question), (answer, now));
    }

    /// Nothing of a token is believed any more.
    pub(super) fn forget(&mut self, token: &Print) {
        self.answers.retain(|(print, _), _| print != token);
    }
}

/// The answer that counts: what was said now; or a little earlier, where nobody can be asked.
pub(super) fn decide<A>(said: Result<A, NotKnown>, before: Option<A>) -> Result<A, NotKnown> {
    match (said, before) {
        (Err(NotKnown::Down(_) | NotKnown::Wait(_)), Some(before)) => Ok(before),
        (said, _) => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Answer for bool {
        fn is_yes(&self) -> bool {
            *self
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn kept() -> (Kept<&'static str, bool>, Print) {
        (Kept::new(), PrintKey::new([7; 32]).print("ghp_x"))
    }

    #[test]
    fn an_answer_is_fresh_then_stale_then_gone_and_a_no_is_gone_soon() {
        let (mut kept, token) = kept();
        kept.keep(&token, "push", true, at(0));
        kept.keep(&token, "team", false, at(0));
        assert_eq!(kept.known(&token, &"push", at(59)), Known::Fresh(true));
        assert_eq!(kept.known(&token, &"push", at(60)), Known::Stale(true));
        assert_eq!(kept.known(&token, &"push", at(900)), Known::Nothing);
        assert_eq!(kept.known(&token, &"team", at(9)), Known::Fresh(false));
        assert_eq!(kept.known(&token, &"team", at(10)), Known::Nothing);
        assert_eq!(kept.known(&token, &"other", at(0)), Known::Nothing);
    }

    #[test]
    fn what_is_known_of_one_token_says_nothing_of_another_and_can_be_forgotten() {
        let (mut kept, token) = kept();
        let other = PrintKey::new([7; 32]).print("ghp_y");
        kept.keep(&token, "push", true, at(0));
        kept.keep(&other, "push", true, at(0));
        kept.forget(&token);
        assert_eq!(kept.known(&token, &"push", at(1)), Known::Nothing);
        assert_eq!(kept.known(&other, &"push", at(1)), Known::Fresh(true));
    }

    #[test]
    fn a_print_depends_on_the_process_and_shows_nothing_of_the_token() {
        let print = PrintKey::new([1; 32]).print("ghp_secret");
        assert_ne!(print, PrintKey::new([2; 32]).print("ghp_secret"));
        assert_eq!(print, PrintKey::new([1; 32]).print("ghp_secret"));
        assert!(!format!("{print:?} {:?}", PrintKey::new([1; 32])).contains("secret"));
    }

    #[test]
    fn however_many_tokens_come_no_more_than_so_many_answers_are_kept() {
        let (mut kept, _) = kept();
        let key = PrintKey::new([7; 32]);
        for n in 0..=MOST {
            kept.keep(&key.print(&n.to_string()), "push", true, at(0));
        }
        assert!(kept.answers.len() <= MOST);
    }

    #[test]
    fn an_outage_believes_what_was_said_before_and_a_rejection_does_not() {
        let down = || Err(NotKnown::Down("no route".to_owned()));
        assert_eq!(decide(down(), Some(true)), Ok(true));
        assert!(decide(down(), None::<bool>).is_err());
        assert_eq!(decide(Err(NotKnown::Rejected), Some(true)), Err(NotKnown::Rejected));
        assert_eq!(decide(Ok(false), Some(true)), Ok(false));
    }
}
