//! A branch that is gone, renamed or rewritten, and a clone that was being replaced.

use std::fs;

use the_deployer::git::writer::WriteError;
use the_deployer::support::retry::Disposition;

use crate::git::place::{Place, deploy, deploy_files, pushed, write};

#[tokio::test]
async fn a_repository_that_was_emptied_is_not_begun_anew_by_itself() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy_files(1, "keep", &[("a.yaml", "a")])).await;
        let tip = place.bare.tip();
        place.bare.run(&["update-ref", "-d", "refs/heads/main"]);
        for _ in 0..2 {
            let error = write(&repository, deploy(2, "two")).await.unwrap_err();
            assert!(matches!(error, WriteError::Emptied { .. }), "{error}");
            assert_eq!(error.disposition(), Disposition::Stop);
            assert_eq!(place.bare.commits(), 0);
        }
        let seen = place.folder.path().join("clone.seen");
        if place.host.is_some() {
            // Also another process, and with another clone.
            fs::remove_dir_all(place.folder.path().join("clone")).unwrap();
            let error = write(&place.open().await, deploy(2, "two")).await.unwrap_err();
            assert!(error.to_string().contains(seen.to_str().unwrap()), "{error}");
        }
        // It is pushed again from a copy; or somebody says that it is to be begun anew.
        place.bare.run(&["update-ref", "refs/heads/main", &tip]);
        pushed(&repository, deploy(3, "three")).await;
        assert_eq!(place.bare.commits(), 2);
        place.bare.run(&["update-ref", "-d", "refs/heads/main"]);
        let _only_of_a_server = fs::remove_file(&seen);
        pushed(&place.open().await, deploy(4, "four")).await;
        assert_eq!(place.bare.commits(), 1);
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn a_branch_that_is_called_otherwise_now_is_not_begun_beside_it() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy(1, "one")).await;
        place.bare.run(&["branch", "-m", "main", "trunk"]);
        let error = write(&repository, deploy(2, "two")).await.unwrap_err();
        assert!(matches!(error, WriteError::NoBranch { .. }), "{error}");
        assert!(error.to_string().contains("trunk"), "{error}");
    }
}

#[tokio::test]
async fn a_history_that_was_rewritten_and_pruned_is_looked_at_again() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    pushed(&repository, deploy(2, "two")).await;
    // The same files under another commit, and nothing left of ours.
    let tree = place.bare.object("");
    let new = place.bare.run(&["commit-tree", "-m", "squashed", &tree]);
    place.bare.run(&["update-ref", "refs/heads/main", new.trim()]);
    place.bare.run(&["reflog", "expire", "--expire=now", "--all"]);
    place.bare.run(&["gc", "--quiet", "--prune=now"]);
    pushed(&repository, deploy(3, "three")).await;
    assert_eq!(place.bare.commits(), 2);
    place.bare.assert_sound();
}

#[tokio::test]
async fn a_process_that_died_while_it_replaced_a_clone_leaves_it_to_the_next() {
    let place = Place::http().await;
    pushed(&place.open().await, deploy(1, "one")).await;
    let clone = place.folder.path().join("clone");
    fs::rename(&clone, place.folder.path().join("clone.old")).unwrap();
    place.host().requests();
    pushed(&place.open().await, deploy(2, "two")).await;
    assert_eq!(place.host().requests().len(), 1, "nothing is fetched");
    assert!(clone.exists() && !place.folder.path().join("clone.old").exists());
}

/// A service that goes on without its folder says what is gone, and what must not be done.
#[tokio::test]
async fn a_local_repository_whose_folder_was_deleted_says_so() {
    let place = Place::local();
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    fs::remove_dir_all(&place.bare.0).unwrap();
    let written = write(&repository, deploy(2, "two")).await.unwrap_err();
    let read = repository.files("manifests").await.unwrap_err();
    for error in [written, read] {
        assert!(matches!(error, WriteError::NotFound { .. }), "{error}");
        assert!(error.to_string().contains("Put it back from a backup"), "{error}");
    }
}
