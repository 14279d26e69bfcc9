//! Tests that locks of a killed git stop nobody, and that those of a living one are respected.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use the_deployer::git::writer::{ManifestRepository, WriteError};
use the_deployer::support::retry::Disposition;

use crate::git::place::{Place, deploy, pushed, write};

/// A lock that was made so long ago.
fn leave_lock(path: &Path, ago: Duration) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    let now = file.metadata().unwrap().modified().unwrap();
    file.set_modified(now - ago).unwrap();
}

fn branch_lock(place: &Place) -> PathBuf {
    place.bare.0.join("refs/heads/main.lock")
}

#[tokio::test]
async fn where_we_write_alone_a_lock_that_is_left_behind_holds_up_one_write_for_a_second() {
    let place = Place::local();
    let mut settings = place.settings("clone");
    settings.alone = true;
    let repository = ManifestRepository::open(settings).await.unwrap();
    leave_lock(&branch_lock(&place), Duration::ZERO);
    pushed(&repository, deploy(1, "one")).await;
    assert!(!branch_lock(&place).exists());
    leave_lock(&branch_lock(&place), Duration::from_mins(1));
    pushed(&repository, deploy(2, "two")).await;
    assert_eq!(place.bare.commits(), 2);
    place.bare.assert_sound();
}

#[tokio::test]
async fn among_others_a_young_lock_is_respected_and_an_old_one_removed() {
    let place = Place::local();
    let repository = place.open().await;
    leave_lock(&branch_lock(&place), Duration::from_mins(9));
    let error = write(&repository, deploy(1, "one")).await.unwrap_err();
    assert!(matches!(error, WriteError::Unreachable { .. }), "{error}");
    assert_eq!(error.disposition(), Disposition::Retry { after: None });
    assert!(error.to_string().contains("another git holds"), "{error}");
    assert!(branch_lock(&place).exists());
    assert_eq!(place.bare.commits(), 0);
    leave_lock(&branch_lock(&place), Duration::from_mins(11));
    pushed(&repository, deploy(1, "one")).await;
    place.bare.assert_sound();
}

#[tokio::test]
async fn other_locks_of_a_repository_do_not_concern_a_write() {
    let place = Place::local();
    let repository = place.open().await;
    for name in ["packed-refs.lock", "HEAD.lock", "config.lock", "gc.pid"] {
        leave_lock(&place.bare.0.join(name), Duration::ZERO);
    }
    pushed(&repository, deploy(1, "one")).await;
    pushed(&repository, deploy(2, "two")).await;
    assert_eq!(place.bare.commits(), 2);
}

#[tokio::test]
async fn a_clone_with_locks_of_a_killed_process_is_used_on() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    drop(repository);
    for name in ["refs/remotes/origin/tip.lock", "shallow.lock"] {
        leave_lock(&place.folder.path().join("clone").join(name), Duration::ZERO);
    }
    let repository = place.open().await;
    place.bare.somebody_writes("README.md", "theirs");
    place.host().requests();
    pushed(&repository, deploy(2, "two")).await;
    let requests = place.host().requests();
    let fetched = requests.iter().filter(|line| line.contains("POST /m.git/git-upload-pack"));
    assert_eq!(fetched.count(), 1, "only what is new is fetched: {requests:?}");
    assert_eq!(place.bare.commits(), 3);
    place.bare.assert_sound();
}
