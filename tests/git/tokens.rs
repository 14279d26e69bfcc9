//! As whom we come to a git host: asked before each exchange, and anew after a token was refused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use the_deployer::git::clone::tracked_branch::{FollowError, TrackedBranch};
use the_deployer::git::transport::token::{TokenDemand, TokenError, Tokens};
use the_deployer::git::writer::{ManifestRepository, PushBy, WriteError, WriterSettings};
use the_deployer::support::retry::Disposition;

use crate::git::follow;
use crate::git::place::{Place, deploy, pushed, write};
use crate::harness::git_host::TOKEN;

const HELP: &str = "let the App write there";

/// A source that hands out its tokens one after the other, and remembers what it was asked.
#[derive(Clone)]
struct Issuer(Arc<Mutex<Issued>>);

struct Issued {
    tokens: Vec<&'static str>,
    asked: Vec<String>,
}

impl Issuer {
    fn of(tokens: &[&'static str]) -> Self {
        let tokens = tokens.iter().rev().copied().collect();
        Self(Arc::new(Mutex::new(Issued { tokens, asked: Vec::new() })))
    }

    fn source(&self) -> Tokens {
        let this = self.clone();
        Tokens::new(HELP, move |ask| std::future::ready(Ok(Some(this.answer(ask)))))
    }

    /// A kept token is good until it is refused; the last one is all there is.
    fn answer(&self, ask: TokenDemand) -> SecretString {
        let mut issued = self.0.lock().unwrap();
        if let TokenDemand::InsteadOf(refused) = ask {
            let refused = refused.expose_secret().to_owned();
            if issued.tokens.last() == Some(&refused.as_str()) && issued.tokens.len() > 1 {
                issued.tokens.pop();
            }
            issued.asked.push(format!("instead of {refused}"));
        } else {
            issued.asked.push("any".to_owned());
        }
        issued.tokens.last().copied().unwrap().into()
    }

    /// What it was asked since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }
}

async fn open(place: &Place, tokens: Tokens) -> ManifestRepository {
    let mut settings = place.settings("clone");
    settings.remote.tokens = tokens;
    ManifestRepository::open(settings).await.unwrap()
}

#[tokio::test]
async fn a_token_that_expires_in_the_middle_is_asked_for_anew_once_and_the_push_lands() {
    for push in [PushBy::Direct, PushBy::Libgit2] {
        let place = Place::http().await;
        let issuer = Issuer::of(&[TOKEN, "second-t0ken"]);
        let mut settings = WriterSettings { push, ..place.settings("clone") };
        settings.remote.tokens = issuer.source();
        let repository = ManifestRepository::open(settings).await.unwrap();
        pushed(&repository, deploy(1, "one")).await;
        place.host().requests();
        issuer.asked();
        // With libgit2, between the two requests of a push.
        let before = usize::from(push == PushBy::Libgit2);
        place.host().accept_after(before, "second-t0ken");
        pushed(&repository, deploy(2, "two")).await;
        assert_eq!(place.host().requests().len(), before + 2, "one exchange came twice");
        let asked = issuer.asked();
        assert_eq!(asked.iter().filter(|ask| *ask == "any").count(), before + 1, "{asked:?}");
        assert_eq!(asked[before + 1], format!("instead of {TOKEN}"), "{asked:?}");
        assert_eq!(place.bare.commits(), 2);
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn a_token_that_stays_wrong_is_one_clear_error() {
    let place = Place::http().await;
    let issuer = Issuer::of(&["wr0ng-1", "wr0ng-2"]);
    let repository = open(&place, issuer.source()).await;
    let error = write(&repository, deploy(1, "one")).await.unwrap_err();
    let said = format!(
        "{} does not accept the service's token (HTTP 401): {HELP}",
        place.host().url("m.git")
    );
    assert_eq!(error.to_string(), said);
    assert_eq!(error.disposition(), Disposition::Stop);
    assert!(!format!("{error:?}").contains("wr0ng"), "{error:?}");
    assert_eq!(issuer.asked(), ["any", "instead of wr0ng-1"]);
    assert_eq!(place.host().requests().len(), 2, "each token was tried once");
    // The source has no other one: nothing is tried twice.
    repository.ready().await.unwrap_err();
    assert_eq!(place.host().requests().len(), 1);
}

#[tokio::test]
async fn who_issues_no_token_is_waited_for_or_not_as_it_says() {
    let place = Place::http().await;
    let soon = Disposition::Retry { after: Some(Duration::from_secs(30)) };
    for next in [soon, Disposition::Stop] {
        let why = "the App is not installed on acme/manifests: install it there";
        let none = move |_| std::future::ready(Err(TokenError { why: why.to_owned(), next }));
        let repository = open(&place, Tokens::new(HELP, none)).await;
        let error = write(&repository, deploy(1, "one")).await.unwrap_err();
        assert!(matches!(error, WriteError::NoToken { .. }), "{error}");
        let said = format!("there is no token for {}: {why}", place.host().url("m.git"));
        assert_eq!((error.to_string(), error.disposition()), (said, next));
    }
    assert_eq!(place.host().requests(), [""; 0], "nobody comes without a token");
}

#[tokio::test]
async fn who_never_answers_is_not_waited_for_for_ever() {
    let place = Place::http().await;
    let tokens = Tokens::new(HELP, |_| std::future::pending());
    let silence = Duration::from_millis(50);
    let mut settings = place.settings("c");
    (settings.remote.tokens, settings.remote.silence) = (tokens, silence);
    let repository = ManifestRepository::open(settings).await.unwrap();
    let error = write(&repository, deploy(1, "one")).await.unwrap_err();
    assert!(error.to_string().contains("its issuer did not answer for 0.05 s"), "{error}");
    assert_eq!(error.disposition(), Disposition::Retry { after: None });
}

#[tokio::test]
async fn a_followed_branch_asks_for_its_token_too() {
    let place = Place::http().await;
    place.bare.somebody_writes("x/a", "one");
    let issuer = Issuer::of(&[TOKEN, "second-t0ken"]);
    let settings = the_deployer::git::clone::tracked_branch::RemoteSettings {
        tokens: issuer.source(),
        ..follow::settings(&place, "followed")
    };
    let followed = TrackedBranch::open(settings).await.unwrap();
    followed.fetch_tip().await.unwrap();
    place.bare.somebody_writes("x/a", "two");
    place.host().accept_after(1, "second-t0ken");
    assert_eq!(followed.fetch_tip().await.unwrap().as_str(), place.bare.tip());
    place.host().accept("third-t0ken");
    let error = followed.fetch_tip().await.unwrap_err();
    assert!(
        matches!(&error, FollowError::Remote(WriteError::Unauthorized { status: 401, .. })),
        "{error}"
    );
    assert!(error.to_string().ends_with(HELP), "{error}");
}
