//! Others are faster than we are.

use crate::git::place::{deploy_files, write};
use crate::git::trouble::place::{Place, deployed, on_each};
use the_deployer::git::writer::{ManifestRepository, PushOutcome, WriteError};

#[tokio::test]
async fn somebody_pushes_in_between_and_their_work_stays() {
    on_each(async |place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        place.bare.somebody_writes("theirs", "one");
        place.bare.somebody_writes("manifests/prod-1/devx/README", "two");
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
        let files = place.bare.files();
        assert_eq!(files["theirs"], "one");
        assert_eq!(files["manifests/prod-1/devx/README"], "two");
        assert_eq!(place.bare.commits(), 4);
    })
    .await;
}

/// Another writer gets in while our push is looked at by a hook: after the server compared the
/// branch with what we know, and before it locks it.
#[tokio::test]
async fn a_race_that_is_lost_at_the_servers_lock_is_run_again() {
    for name in ["pre-receive", "update"] {
        on_each(async |place: &mut Place| {
            let repository = place.open().await;
            deployed(&repository, 1).await;
            let script = format!(
                "rm hooks/{name}; old=$(git rev-parse main); \
                unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES; \
                git update-ref refs/heads/main $(git commit-tree -p $old -m theirs $old^{{tree}})"
            );
            place.hook(name, &script);
            deployed(&repository, 2).await;
            assert_eq!(place.tries(), 1, "the hook went with its first run");
            place.holds(&[1, 2]);
            assert!(place.bare.run(&["log", "--format=%s", "main"]).contains("theirs"));
            assert_eq!(place.bare.commits(), 3);
        })
        .await;
    }
}

#[tokio::test]
async fn a_lock_that_another_git_holds_is_waited_for() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        // Held at the first push, and let go at the second.
        place.hook(
            "pre-receive",
            "if [ -e seen ]; then rm -f refs/heads/main.lock; else touch seen refs/heads/main.lock; fi",
        );
        deployed(&repository, 2).await;
        assert_eq!(place.tries(), 2);
        place.holds(&[1, 2]);
    })
    .await;
}

/// Writes like the controller does: what may pass is tried again.
async fn write_all(repository: ManifestRepository, slug: &'static str, numbers: [u32; 6]) {
    for n in numbers {
        let one = || deploy_files(n, slug, &[("a.yaml", &n.to_string())]);
        loop {
            match write(&repository, one()).await {
                Ok(PushOutcome::Pushed { .. }) => break,
                Err(WriteError::LostRaces { .. }) => {}
                other => panic!("{slug} {n}: {other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_race_and_every_deployment_is_there_once() {
    on_each(async |place: &mut Place| {
        let (a, b) = (place.open_as("a").await, place.open_as("b").await);
        let first = tokio::spawn(write_all(a, "a", [1, 3, 5, 7, 9, 11]));
        let second = tokio::spawn(write_all(b, "b", [2, 4, 6, 8, 10, 12]));
        first.await.unwrap();
        second.await.unwrap();
        assert_eq!(place.bare.commits(), 12);
        let files = place.bare.files();
        assert_eq!(files["manifests/prod-1/devx/a/latest/a.yaml"], "11");
        assert_eq!(files["manifests/prod-1/devx/b/latest/a.yaml"], "12");
        place.bare.assert_sound();
    })
    .await;
}
