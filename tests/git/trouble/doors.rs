//! As whom we come, and whether there is anything to come to.

use std::fs;
use std::sync::{Arc, Mutex};

use the_deployer::git::transport::token::{TokenDemand, Tokens};
use the_deployer::git::writer::{ManifestRepository, PushBy, WriteError};
use the_deployer::support::retry::Disposition;

use crate::git::place::deploy;
use crate::git::trouble::place::{HELP, Host, Place, RETRY, deployed, on_each, refused, text};
use crate::harness::git_host::TOKEN;
use crate::harness::sshd::Behaviour;

#[tokio::test]
async fn who_is_not_let_in_is_told_so_and_the_secret_is_never_shown() {
    on_each(async |place: &mut Place| {
        deployed(&place.open().await, 1).await;
        match &place.host {
            Host::Http(host) => host.accept("another-t0ken"),
            Host::Ssh(host) => host.refuse_the_key(),
        }
        // In a folder of its own, so that no connection is open yet.
        let repository = place.open_as("late").await;
        for error in
            [refused(&repository, deploy(2, &text(2))).await, repository.ready().await.unwrap_err()]
        {
            assert!(
                matches!(
                    error,
                    WriteError::Unauthorized { status: 401, .. } | WriteError::KeyRefused { .. }
                ),
                "{error}"
            );
            assert_eq!(error.disposition(), Disposition::Stop);
            let said = format!("{error} {error:?}");
            assert!(said.contains(HELP), "{said}");
            assert!(!said.contains("t0ken") && !said.contains("PRIVATE"), "{said}");
        }
        match &place.host {
            Host::Http(host) => host.accept(TOKEN),
            Host::Ssh(host) => host.accept_the_key(),
        }
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_token_that_has_expired_is_asked_for_anew_once() {
    on_each(async |place: &mut Place| {
        let Host::Http(_) = &place.host else { return };
        let given = Arc::new(Mutex::new(Vec::new()));
        let source = {
            let given = Arc::clone(&given);
            Tokens::new(HELP, move |ask| {
                let token = match ask {
                    TokenDemand::Any => "expired",
                    TokenDemand::InsteadOf(_) => TOKEN,
                };
                given.lock().unwrap().push(token);
                std::future::ready(Ok(Some(token.into())))
            })
        };
        let mut settings = place.settings("clone");
        settings.remote.tokens = source;
        let repository = ManifestRepository::open(settings).await.unwrap();
        deployed(&repository, 1).await;
        deployed(&repository, 2).await;
        // Two for each exchange, and no third.
        let given = given.lock().unwrap();
        assert!(given.chunks(2).all(|pair| pair == ["expired", TOKEN]), "{given:?}");
        place.holds(&[1, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_key_that_is_replaced_counts_at_once() {
    on_each(async |place: &mut Place| {
        let Host::Ssh(host) = &place.host else { return };
        let key = Arc::new(Mutex::new(host.other_key()));
        let source = {
            let key = Arc::clone(&key);
            Tokens::new(HELP, move |_| std::future::ready(Ok(Some(key.lock().unwrap().clone()))))
        };
        let mut settings = place.settings("clone");
        settings.remote.tokens = source;
        let repository = ManifestRepository::open(settings).await.unwrap();
        let error = refused(&repository, deploy(1, &text(1))).await;
        assert!(matches!(error, WriteError::KeyRefused { .. }), "{error}");
        *key.lock().unwrap() = host.key();
        deployed(&repository, 1).await;
        // A connection that was made with the former key is not used with another one.
        *key.lock().unwrap() = host.other_key();
        refused(&repository, deploy(2, &text(2))).await;
        *key.lock().unwrap() = host.key();
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_repository_that_is_gone_is_for_a_person_and_the_deployment_waits() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        let aside = place.bare.0.with_extension("aside");
        fs::rename(&place.bare.0, &aside).unwrap();
        let error = refused(&repository, deploy(2, &text(2))).await;
        assert!(matches!(error, WriteError::NotFound { .. }), "{error}");
        assert_eq!(error.disposition(), Disposition::Stop);
        assert!(error.to_string().contains("create it, correct its address"), "{error}");
        assert!(repository.ready().await.is_err());
        fs::rename(&aside, &place.bare.0).unwrap();
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}

#[tokio::test]
async fn words_that_nobody_knows_may_pass_and_are_told() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        let Host::Ssh(host) = &place.host else { return };
        // libgit2 has its own word for a server's error.
        let direct = place.settings("clone").push == PushBy::Direct;
        let complaints = [Behaviour::Suspended, Behaviour::Complains];
        for behaviour in complaints.into_iter().take(if direct { 2 } else { 1 }) {
            host.behave(behaviour);
            let error = refused(&repository, deploy(2, &text(2))).await;
            assert_eq!(error.disposition(), RETRY, "{error}");
            let said = error.to_string();
            assert!(said.contains("cannot be reached: "), "{said}");
            assert!(said.ends_with("closed for today"), "{said}");
        }
        host.behave(Behaviour::Good);
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}
