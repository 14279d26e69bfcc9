//! An app's history for people: revisions, their files, what a commit changed, and what it says.

use std::collections::BTreeSet;

use the_deployer::git::history::revisions::LatestChange;
use the_deployer::git::writer::ManifestRepository;
use the_deployer::model::id::{AppKey, CommitSha, TargetName};
use the_deployer::model::live_history::AppFolders;
use the_deployer::model::revision::ManifestFile;

use crate::git::place::{APP, Place, deploy, deploy_files, id, pushed};

fn app() -> (TargetName, AppKey) {
    let app = AppKey { namespace: "devx".parse().unwrap(), slug: "my-app".parse().unwrap() };
    (TargetName::parse("prod-1").unwrap(), app)
}

async fn revisions(repository: &ManifestRepository) -> AppFolders {
    let (target, app) = app();
    repository.revisions(&target, &app).await.unwrap()
}

async fn around(repository: &ManifestRepository, commit: &str) -> Option<LatestChange> {
    let (target, app) = app();
    let commit = CommitSha::parse(commit).unwrap();
    repository.read_latest_change(&commit, &target, &app).await.unwrap()
}

fn texts(files: &[ManifestFile]) -> Vec<(&str, &str)> {
    files.iter().map(|f| (f.name.as_str(), std::str::from_utf8(&f.bytes).unwrap())).collect()
}

#[tokio::test]
async fn revisions_are_listed_with_their_trees_and_the_live_one() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy(1, "one")).await;
        assert_eq!(revisions(&repository).await.live(), Some(&id(1)));
        for (n, text) in [(2, "two"), (3, "one")] {
            pushed(&repository, deploy(n, text)).await;
        }
        let found = revisions(&repository).await;
        let ids: Vec<_> = found.revisions.iter().map(|(id, _)| id.clone()).collect();
        assert_eq!(ids, [id(3), id(2), id(1)]);
        for (id, tree) in &found.revisions {
            assert_eq!(tree.0, place.bare.object(&format!("{APP}/{id}")));
        }
        assert_eq!(found.revisions[0].1, found.revisions[2].1, "equal files are one tree");
        assert_eq!(found.live(), Some(&id(3)), "the newest of equals");
    }
}

#[tokio::test]
async fn an_edit_by_hand_is_no_revision_and_an_app_that_is_not_there_has_none() {
    let place = Place::local();
    let repository = place.open().await;
    assert_eq!(revisions(&repository).await, AppFolders::default(), "there is no branch yet");
    pushed(&repository, deploy(1, "one")).await;
    place.bare.somebody_writes(&format!("{APP}/latest/deployment.yaml"), "by hand");
    let found = revisions(&repository).await;
    assert_eq!((found.live(), found.latest.is_some(), found.revisions.len()), (None, true, 1));
    let (target, app) = app();
    let other = TargetName::parse("prod-2").unwrap();
    assert_eq!(repository.revisions(&other, &app).await.unwrap(), AppFolders::default());
    assert_eq!(repository.files_of(&target, &app, Some(&id(2))).await.unwrap(), None);
    let latest = repository.files_of(&target, &app, None).await.unwrap().unwrap();
    assert_eq!(texts(&latest), [("deployment.yaml", "by hand")]);
    let kept = repository.files_of(&target, &app, Some(&id(1))).await.unwrap().unwrap();
    assert_eq!(texts(&kept), [("deployment.yaml", "one")]);
}

#[tokio::test]
async fn what_a_commit_changed_is_told_by_the_files_around_it() {
    for place in Place::both().await {
        let repository = place.open().await;
        let first = pushed(&repository, deploy_files(1, "my-app", &[("a.yaml", "a")])).await;
        pushed(&repository, deploy_files(2, "other", &[("a.yaml", "x")])).await;
        let more = [("a.yaml", "A"), ("b.yaml", "b")];
        let second = pushed(&repository, deploy_files(3, "my-app", &more)).await;
        let born = around(&repository, &first).await.unwrap();
        assert_eq!((texts(&born.before), texts(&born.after)), (vec![], vec![("a.yaml", "a")]));
        let changed = around(&repository, &second).await.unwrap();
        assert_eq!(texts(&changed.before), [("a.yaml", "a")]);
        assert_eq!(texts(&changed.after), more);
        assert_eq!(around(&repository, &"0".repeat(40)).await, None, "there is no such commit");
    }
}

#[tokio::test]
async fn a_clone_that_does_not_go_back_so_far_says_that_it_cannot_tell() {
    let place = Place::http().await;
    let repository = place.open().await;
    let first = pushed(&repository, deploy(1, "one")).await;
    let second = pushed(&repository, deploy(2, "two")).await;
    let fresh = place.open_as("another").await;
    fresh.tip().await.unwrap();
    assert_eq!(around(&fresh, &first).await, None);
    assert_eq!(around(&fresh, &second).await, None, "its parent is not there");
    let said = fresh.read_messages([id(1), id(2)].into()).await.unwrap();
    assert_eq!(said.into_keys().collect::<Vec<_>>(), [id(2)]);
}

#[tokio::test]
async fn what_commits_say_is_read_back() {
    for place in Place::both().await {
        let repository = place.open().await;
        assert_eq!(repository.read_messages(BTreeSet::new()).await.unwrap().len(), 0);
        pushed(&repository, deploy(1, "one")).await;
        pushed(&repository, deploy(2, "two")).await;
        let said = repository.read_messages([id(1), id(7)].into()).await.unwrap();
        assert_eq!(said.keys().cloned().collect::<Vec<_>>(), [id(1)]);
        let found = &said[&id(1)];
        assert_eq!(found.at.as_second(), 1_795_262_400);
        assert_eq!(found.said.tag.as_ref().unwrap().as_str(), "1.10");
        assert_eq!(found.said.actor.as_deref(), Some("alice"));
        assert!(found.said.commit.is_some() && found.said.repository.is_some());
    }
}
