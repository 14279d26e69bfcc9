//! Trouble that meets several deployments in one push: each has its own answer.

use std::fs;

use futures::future::join_all;
use the_deployer::git::writer::{DeploymentChange, ManifestRepository, PushOutcome, WriteError};

use crate::git::place::{deploy_files, write};
use crate::git::trouble::place::{Place, Trouble, deployed, on_each, until};

/// The apps that wait while the first one is pushed; their deployments are 11, 12 and so on.
const WAITING: [&str; 4] = ["a", "b", "bad", "c"];

fn of_app(n: u32, slug: &str) -> DeploymentChange {
    deploy_files(n, slug, &[("deployment.yaml", &format!("{slug} {n}"))])
}

/// Pushes deployment 1, and while a hook holds it up, hands in the others and lets `meanwhile`
/// happen. Their answers, in order.
async fn behind_a_push(
    place: &Place,
    repository: &ManifestRepository,
    hook: &str,
    meanwhile: impl Fn(&Place),
) -> Vec<Result<PushOutcome, WriteError>> {
    place.hook("pre-receive", &format!("while [ ! -e go ]; do sleep 0.02; done\n{hook}"));
    let first = tokio::spawn({
        let repository = repository.clone();
        async move { deployed(&repository, 1).await }
    });
    place.tried().await;
    let waiting = (11..).zip(WAITING).map(|(n, slug)| write(repository, of_app(n, slug)));
    let open = async {
        until("all wait", || repository.counts().waiting > WAITING.len()).await;
        meanwhile(place);
        fs::write(place.bare.0.join("go"), "").unwrap();
    };
    let (answers, ()) = tokio::join!(join_all(waiting), open);
    first.await.unwrap();
    answers
}

#[tokio::test]
async fn all_of_a_push_whose_answer_is_lost_count() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        let lost = |place: &Place| place.behave(Trouble::AnswerLost);
        let answers = behind_a_push(place, &repository, "", lost).await;
        for answer in answers {
            assert!(matches!(answer, Ok(PushOutcome::Pushed { .. })), "{answer:?}");
        }
        assert_eq!(place.tries(), 1, "they went together");
        place.holds(&[1, 11, 12, 13, 14]);
    })
    .await;
}

#[tokio::test]
async fn none_of_a_push_that_is_cut_is_lost_when_it_is_tried_again() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        let cut = |place: &Place| place.behave(Trouble::CutInPush);
        let answers = behind_a_push(place, &repository, "", cut).await;
        for answer in answers {
            assert!(matches!(answer, Err(WriteError::Unreachable { .. })), "{answer:?}");
        }
        place.holds(&[1]);
        place.behave(Trouble::None);
        for (n, slug) in (11..).zip(WAITING) {
            let again = write(&repository, of_app(n, slug)).await;
            assert!(matches!(again, Ok(PushOutcome::Pushed { .. })), "{again:?}");
        }
        place.holds(&[1, 11, 12, 13, 14]);
    })
    .await;
}

#[tokio::test]
async fn a_race_that_is_lost_is_run_again_for_all_of_them() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        let hook = "if [ -e seen ] && [ ! -e moved ]; then touch moved; old=$(git rev-parse main); \
            unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES; \
            git update-ref refs/heads/main $(git commit-tree -p $old -m theirs $old^{tree}); fi; \
            touch seen";
        for answer in behind_a_push(place, &repository, hook, |_| {}).await {
            assert!(matches!(answer, Ok(PushOutcome::Pushed { .. })), "{answer:?}");
        }
        assert_eq!(place.tries(), 2, "lost once, and together again");
        place.holds(&[1, 11, 12, 13, 14]);
        assert_eq!(place.bare.commits(), 6);
    })
    .await;
}

#[tokio::test]
async fn one_that_a_hook_refuses_stops_no_other() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        let hook = "read -r old new name; if git ls-tree -r $new | grep -q devx/bad/; \
            then echo 'a secret was found in devx/bad' >&2; exit 1; fi";
        let answers = behind_a_push(place, &repository, hook, |_| {}).await;
        for (answer, slug) in answers.into_iter().zip(WAITING) {
            match answer {
                Ok(PushOutcome::Pushed { .. }) => assert_ne!(slug, "bad"),
                Err(error @ WriteError::Refused { .. }) => {
                    assert_eq!(slug, "bad");
                    assert!(error.to_string().contains("a secret was found"), "{error}");
                }
                other => panic!("{slug}: {other:?}"),
            }
        }
        place.holds(&[1, 11, 12, 14]);
        assert_eq!(place.bare.files()["manifests/prod-1/devx/c/latest/deployment.yaml"], "c 14");
    })
    .await;
}
