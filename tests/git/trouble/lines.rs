//! The way to the server: slow, cut in the middle, or cut after a push that landed.

use std::fs;
use std::time::Duration;

use the_deployer::git::writer::{ManifestRepository, WriteError};

use crate::git::place::{deploy, id};
use crate::git::trouble::place::{
    Host, Place, RETRY, Trouble, deployed, on_each, refused, text, tried_again,
};

/// Until somebody puts a file `go` into the repository.
const WAITS: &str = "while [ ! -e go ]; do sleep 0.02; done";

#[tokio::test]
async fn a_server_that_is_slow_is_left_and_its_late_push_is_found() {
    on_each(async |place: &mut Place| {
        let mut settings = place.settings("clone");
        settings.remote.silence = Duration::from_millis(2_500);
        let repository = ManifestRepository::open(settings).await.unwrap();
        deployed(&repository, 1).await;
        place.hook("pre-receive", WAITS);
        let error = refused(&repository, deploy(2, &text(2))).await;
        assert!(error.to_string().contains("said nothing for 2.5 s"), "{error}");
        assert_eq!(error.disposition(), RETRY);
        fs::write(place.bare.0.join("go"), "").unwrap();
        // Either the late push is in, and found; or our leaving ended it, and this one is.
        let commit = tried_again(&repository, 2).await;
        assert_eq!(place.bare.tip(), commit);
        deployed(&repository, 3).await;
        place.holds(&[1, 2, 3]);
    })
    .await;
}

#[tokio::test]
async fn a_fetch_that_is_cut_is_begun_again() {
    on_each(async |place: &mut Place| {
        place.bare.somebody_writes("README.md", "hello");
        let repository = place.open().await;
        place.behave(Trouble::CutInFetch);
        let error = refused(&repository, deploy(1, &text(1))).await;
        assert!(matches!(error, WriteError::Unreachable { .. }), "{error}");
        assert_eq!(error.disposition(), RETRY, "{error}");
        place.behave(Trouble::None);
        deployed(&repository, 1).await;
        place.holds(&[1]);
        assert_eq!(place.bare.commits(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_counts_if_the_branch_has_it() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        place.behave(Trouble::AnswerLost);
        let commit = deployed(&repository, 2).await;
        assert_eq!(place.bare.tip(), commit);
        place.behave(Trouble::None);
        deployed(&repository, 3).await;
        place.holds(&[1, 2, 3]);
    })
    .await;
}

#[tokio::test]
async fn a_push_that_is_cut_in_the_middle_is_done_by_the_next_try() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        place.behave(Trouble::CutInPush);
        let error = refused(&repository, deploy(2, &text(2))).await;
        assert!(matches!(error, WriteError::Unreachable { .. }), "{error}");
        assert_eq!(error.disposition(), RETRY);
        place.holds(&[1]);
        place.behave(Trouble::None);
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}

/// The answer is lost, and then there is nobody to ask whether it landed.
#[tokio::test]
async fn a_push_that_landed_unseen_is_found_by_the_next_try() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        place.behave(Trouble::AnswerLost);
        // After the push the server has the branch, and shows nobody the repository any more. The
        // server may still be at the end of the push before, which is not meant.
        let ours = id(2);
        let hook = "read -r old new name; if git log -1 --format=%B $new | grep -q";
        place.hook("post-receive", &format!("{hook} {ours}; then mv ../m.git ../gone.git; fi"));
        let error = refused(&repository, deploy(2, &text(2))).await;
        assert_eq!(error.disposition(), RETRY, "{error}");
        fs::rename(place.bare.0.with_file_name("gone.git"), &place.bare.0).unwrap();
        place.without_hook("post-receive");
        place.behave(Trouble::None);
        let commit = tried_again(&repository, 2).await;
        assert_eq!(place.bare.tip(), commit);
        deployed(&repository, 3).await;
        place.holds(&[1, 2, 3]);
    })
    .await;
}

#[tokio::test]
async fn a_push_that_is_cut_while_the_server_looks_at_it_is_done_once() {
    on_each(async |place: &mut Place| {
        let Host::Ssh(host) = &place.host else { return };
        let repository = place.open().await;
        deployed(&repository, 1).await;
        place.hook("pre-receive", WAITS);
        let push = tokio::spawn({
            let repository = repository.clone();
            async move { refused(&repository, deploy(2, &text(2))).await }
        });
        place.tried().await;
        host.cut();
        let error = push.await.unwrap();
        assert_eq!(error.disposition(), RETRY, "{error}");
        fs::write(place.bare.0.join("go"), "").unwrap();
        tried_again(&repository, 2).await;
        deployed(&repository, 3).await;
        place.holds(&[1, 2, 3]);
    })
    .await;
}
