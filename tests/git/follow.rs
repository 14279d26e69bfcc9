//! A branch that is followed: from a folder and over HTTP, against the real git.

use std::fs;

use the_deployer::git::clone::tracked_branch::{FollowError, RemoteSettings, TrackedBranch};
use the_deployer::git::error::WriteError;
use the_deployer::git::snapshot::{Content, Snapshot, SnapshotEntry, SnapshotLimits};
use the_deployer::git::transport::token::Tokens;
use the_deployer::model::id::CommitSha;

use crate::git::place::Place;
use crate::harness::git_host::{Behaviour, TOKEN};

const LIMITS: SnapshotLimits = SnapshotLimits { files: 3, bytes: 100, depth: 2 };

pub(super) fn settings(place: &Place, clone: &str) -> RemoteSettings {
    let tokens = Tokens::fixed(TOKEN.into(), "give it one that may read");
    let clone_dir = place.folder.path().join(clone);
    RemoteSettings { clone_dir, tokens, ..place.settings(clone).remote }
}

async fn open(place: &Place) -> TrackedBranch {
    TrackedBranch::open(settings(place, "followed")).await.unwrap()
}

async fn texts(
    followed: &TrackedBranch,
    commit: &CommitSha,
    folder: &str,
) -> Vec<(String, String)> {
    let entries = followed.folder(commit, folder, LIMITS).await.unwrap();
    let text = |SnapshotEntry { path, content }| {
        let Content::File(bytes) = content else { panic!("{path} is no file") };
        (path, String::from_utf8(bytes).unwrap())
    };
    entries.into_iter().map(text).collect()
}

fn file(path: &str, text: &str) -> (String, String) {
    (path.to_owned(), text.to_owned())
}

#[tokio::test]
async fn a_folder_is_read_at_a_commit_and_later_commits_are_others() {
    for place in Place::both().await {
        place.bare.somebody_writes("x/a", "one");
        place.bare.somebody_writes("x/b/c", "deep");
        place.bare.somebody_writes("x/b/c2/d", "too deep to be looked at");
        place.bare.somebody_writes("x/.hidden", "left out");
        place.bare.somebody_writes("y", "elsewhere");
        let followed = open(&place).await;
        let first = followed.fetch_tip().await.unwrap();
        assert_eq!(first.as_str(), place.bare.tip());
        place.bare.somebody_writes("x/a", "two");
        let second = followed.fetch_tip().await.unwrap();
        let then = [file("a", "one"), file("b/c", "deep")];
        assert_eq!(texts(&followed, &first, "x").await, then);
        assert_eq!(texts(&followed, &second, "x").await[0], file("a", "two"));
        assert_eq!(texts(&followed, &second, "nowhere").await, []);
    }
}

#[tokio::test]
async fn a_branch_that_was_moved_back_is_followed_back() {
    for place in Place::both().await {
        place.bare.somebody_writes("x/a", "one");
        let before = place.bare.tip();
        let followed = open(&place).await;
        place.bare.somebody_writes("x/a", "two");
        followed.fetch_tip().await.unwrap();
        place.bare.run(&["update-ref", "refs/heads/main", &before]);
        assert_eq!(followed.fetch_tip().await.unwrap().as_str(), before);
    }
}

#[tokio::test]
async fn what_was_judged_good_is_there_after_a_restart_without_the_host() {
    let place = Place::http().await;
    place.bare.somebody_writes("x/a", "good");
    let followed = open(&place).await;
    let good = followed.fetch_tip().await.unwrap();
    followed.record_accepted(&good).await.unwrap();
    place.bare.somebody_writes("x/a", "bad");
    followed.fetch_tip().await.unwrap();
    drop(followed);
    place.host().behave(Behaviour::Status(502, None));
    let followed = open(&place).await;
    assert!(matches!(
        followed.fetch_tip().await,
        Err(FollowError::Remote(WriteError::Unreachable { .. }))
    ));
    assert_eq!(followed.accepted_commit().await.unwrap(), Some(good.clone()));
    assert_eq!(texts(&followed, &good, "x").await, [file("a", "good")]);
}

#[tokio::test]
async fn a_damaged_clone_is_made_again_and_a_folder_of_others_is_left_alone() {
    for place in Place::both().await {
        place.bare.somebody_writes("x/a", "one");
        let followed = open(&place).await;
        followed.fetch_tip().await.unwrap();
        let clone = place.folder.path().join("followed");
        fs::remove_dir_all(clone.join("objects")).unwrap();
        fs::create_dir_all(clone.join("objects")).unwrap();
        place.bare.somebody_writes("x/a", "two");
        let tip = followed.fetch_tip().await.unwrap();
        assert_eq!(texts(&followed, &tip, "x").await, [file("a", "two")]);

        let theirs = place.folder.path().join("theirs");
        fs::create_dir_all(&theirs).unwrap();
        fs::write(theirs.join("letter"), "mine").unwrap();
        TrackedBranch::open(settings(&place, "theirs")).await.unwrap();
        let aside = place.folder.path().join("theirs.aside-1/letter");
        assert_eq!(fs::read_to_string(aside).unwrap(), "mine");
    }
}

#[tokio::test]
async fn links_and_submodules_are_told_apart_and_too_much_is_refused() {
    let place = Place::local();
    place.bare.somebody_puts("120000", "x/link", "/etc/passwd");
    let followed = open(&place).await;
    let tip = followed.fetch_tip().await.unwrap();
    let entries = followed.folder(&tip, "x", LIMITS).await.unwrap();
    assert_eq!(entries, [SnapshotEntry { path: "link".to_owned(), content: Content::Link }]);
    place.bare.somebody_writes("x/large", &"x".repeat(101));
    let tip = followed.fetch_tip().await.unwrap();
    let error = followed.folder(&tip, "x", LIMITS).await.unwrap_err().to_string();
    assert!(error.contains("has too much in x: at most 3 files of 100 bytes each"), "{error}");
    for n in 0..4 {
        place.bare.somebody_writes(&format!("y/{n}"), "");
    }
    let tip = followed.fetch_tip().await.unwrap();
    assert!(followed.folder(&tip, "y", LIMITS).await.is_err());
}

#[tokio::test]
async fn what_cannot_be_followed_says_what_to_do() {
    let place = Place::http().await;
    let said = async |change: &dyn Fn(&mut RemoteSettings)| {
        let mut settings = settings(&place, "followed");
        change(&mut settings);
        match TrackedBranch::open(settings).await {
            Ok(followed) => followed.fetch_tip().await.unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    };
    assert!(said(&|_| ()).await.contains("has no branch main: push it, or name another one"));
    let wrong =
        said(&|s| s.tokens = Tokens::fixed("wr0ng".into(), "give it one that may read")).await;
    assert!(wrong.contains("HTTP 401") && wrong.contains("may read"), "{wrong}");
    assert!(said(&|s| s.url += "x").await.contains("there is no repository at"));
    assert!(said(&|s| s.branch = "a..b".to_owned()).await.contains("is not a branch name"));
    let nowhere = said(&|s| s.url = "/nowhere/t.git".to_owned()).await;
    assert!(nowhere.contains("there is no repository at /nowhere/t.git"), "{nowhere}");
}

#[test]
fn a_repository_of_this_machine_is_read_at_any_revision() {
    let place = Place::local();
    place.bare.somebody_writes("x/a", "one");
    place.bare.somebody_writes("x/a", "two");
    let at = |revision| {
        let snapshot = Snapshot::open(&place.bare.0, revision).unwrap();
        snapshot.folder("x", LIMITS).unwrap().remove(0).content
    };
    assert_eq!(at("main"), Content::File(b"two".to_vec()));
    assert_eq!(at("main~1"), Content::File(b"one".to_vec()));
    assert_eq!(Snapshot::open(&place.bare.0, "main").unwrap().commit().as_str(), place.bare.tip());
    let Err(error) = Snapshot::open(&place.bare.0, "nowhere") else { panic!() };
    assert!(error.contains("has no commit \"nowhere\""), "{error}");
    let Err(error) = Snapshot::open(place.folder.path(), "main") else { panic!() };
    assert!(error.contains("is no git repository"), "{error}");
}
