//! Making a former revision live again; on a folder and over HTTP.

use the_deployer::git::layout;
use the_deployer::git::writer::{
    DriftPolicy, ManifestRepository, PushOutcome, Restore, RollbackNote, WriteError,
};
use the_deployer::model::hand_edit::HandEdits;
use the_deployer::model::id::AppKey;
use the_deployer::model::live_history::AppFolders;
use the_deployer::model::rollback::TreeId;
use the_deployer::support::lease::Lease;

use crate::git::place::{APP, Place, deploy, id, noon, pushed};
use crate::harness::git_host::Behaviour;

fn app() -> AppKey {
    deploy(1, "").revision.app
}

async fn kept(repository: &ManifestRepository) -> AppFolders {
    repository.read_history_beside(&"prod-1".parse().unwrap(), &app()).await.unwrap()
}

/// Rollback `n` to revision `to`, which had that tree.
fn back(n: u32, to: u32, tree: &TreeId, watch: DriftPolicy) -> Restore {
    let note = RollbackNote {
        id: id(n),
        app: app(),
        target: "prod-1".parse().unwrap(),
        to: id(to),
        from: None,
        tag: "1.9".parse().unwrap(),
        repository: "acme/my-app".parse().unwrap(),
        repository_number: Some(7),
        app_name: None,
        commit: "a".repeat(40).parse().unwrap(),
        actor: "alice".into(),
        reason: "broken\nRollback-Id: forged".into(),
        fleet: None,
    };
    Restore::new(&note, tree.clone(), watch)
}

fn replace() -> DriftPolicy {
    DriftPolicy::new(HandEdits::Replace)
}

fn tree_of(kept: &AppFolders, n: u32) -> TreeId {
    kept.revisions.iter().find(|(one, _)| *one == id(n)).unwrap().1.clone()
}

async fn roll_back(
    repository: &ManifestRepository,
    one: Restore,
) -> Result<PushOutcome, WriteError> {
    repository.roll_back(one, noon(), &Lease::without_end()).await
}

#[tokio::test]
async fn latest_is_the_same_object_again_and_nothing_else_changes() {
    for place in Place::both().await {
        let repository = place.open().await;
        for n in 1..=3 {
            pushed(&repository, deploy(n, &format!("text {n}"))).await;
        }
        place.bare.somebody_writes("README.md", "theirs");
        let seen = kept(&repository).await;
        assert_eq!(seen.live(), Some(&id(3)));
        let before = place.bare.files();
        let done = roll_back(&repository, back(9, 1, &tree_of(&seen, 1), replace())).await.unwrap();
        let PushOutcome::Pushed { commit } = done else { panic!("{done:?}") };
        assert_eq!(place.bare.tip(), commit.as_str());
        let latest = format!("{APP}/latest");
        assert_eq!(place.bare.object(&latest), place.bare.object(&format!("{APP}/{}", id(1))));
        assert_eq!(place.bare.trailer("Rollback-Id"), [id(9).to_string()], "and none is forged");
        let others = |files: &crate::harness::git::Files| {
            let kept = files.iter().filter(|(path, _)| !path.starts_with(&latest));
            kept.map(|(path, text)| (path.clone(), text.clone())).collect::<Vec<_>>()
        };
        assert_eq!(others(&place.bare.files()), others(&before));
        assert_eq!(kept(&repository).await.live(), Some(&id(1)));
        assert_eq!(repository.commit_of(&id(9)).await.unwrap(), Some(commit));
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn a_second_try_makes_no_second_commit() {
    for place in Place::both().await {
        let repository = place.open().await;
        for n in 1..=2 {
            pushed(&repository, deploy(n, &format!("text {n}"))).await;
        }
        let seen = kept(&repository).await;
        let one = back(9, 1, &tree_of(&seen, 1), replace());
        let PushOutcome::Pushed { commit } = roll_back(&repository, one.clone()).await.unwrap()
        else {
            panic!("it was not live")
        };
        let again = roll_back(&repository, one).await.unwrap();
        assert_eq!(again, PushOutcome::AlreadyPushed { commit });
        let other = roll_back(&repository, back(10, 1, &tree_of(&seen, 1), replace())).await;
        assert!(matches!(other, Ok(PushOutcome::Unchanged { .. })), "{other:?}");
        assert_eq!(place.bare.commits(), 3);
    }
}

#[tokio::test]
async fn a_revision_that_is_gone_or_was_tampered_with_is_not_made_live() {
    for place in Place::both().await {
        let repository = place.open().await;
        for n in 1..=7 {
            pushed(&repository, deploy(n, &format!("text {n}"))).await;
        }
        let seen = kept(&repository).await;
        assert_eq!(seen.revisions.len(), 5);
        let gone = roll_back(&repository, back(20, 1, &tree_of(&seen, 3), replace())).await;
        assert!(matches!(gone, Err(WriteError::Moved { .. })), "{gone:?}");
        let tree = tree_of(&seen, 4);
        place.bare.somebody_writes(&format!("{APP}/{}/deployment.yaml", id(4)), "not as deployed");
        let tampered = roll_back(&repository, back(21, 4, &tree, replace())).await;
        let Err(WriteError::Moved { path, .. }) = tampered else { panic!("{tampered:?}") };
        assert!(path.contains(&id(4).to_string()), "{path}");
        assert_eq!(kept(&repository).await.live(), Some(&id(7)));
    }
}

#[tokio::test]
async fn what_was_edited_by_hand_is_told_or_stops_it() {
    let place = Place::local();
    let repository = place.open().await;
    for n in 1..=2 {
        pushed(&repository, deploy(n, &format!("text {n}"))).await;
    }
    place.bare.somebody_writes(&format!("{APP}/latest/deployment.yaml"), "by hand");
    let seen = kept(&repository).await;
    assert_eq!(seen.live(), None);
    let stop = DriftPolicy::new(HandEdits::Stop);
    let stopped = roll_back(&repository, back(9, 2, &tree_of(&seen, 2), stop)).await;
    assert!(matches!(stopped, Err(WriteError::HandEdited { .. })), "{stopped:?}");
    let watch = replace();
    let done = roll_back(&repository, back(9, 2, &tree_of(&seen, 2), watch.clone())).await;
    assert!(matches!(done, Ok(PushOutcome::Pushed { .. })), "{done:?}");
    assert!(watch.read_hand_edit().unwrap().replaced);
    assert_eq!(place.bare.trailer("Replaced-Edit").len(), 1);
}

#[tokio::test]
async fn somebody_elses_commit_in_between_is_kept() {
    let place = Place::http().await;
    let repository = place.open().await;
    for n in 1..=2 {
        pushed(&repository, deploy(n, &format!("text {n}"))).await;
    }
    let seen = kept(&repository).await;
    place.bare.somebody_writes("README.md", "theirs");
    let done = roll_back(&repository, back(9, 1, &tree_of(&seen, 1), replace())).await;
    assert!(matches!(done, Ok(PushOutcome::Pushed { .. })), "{done:?}");
    assert!(place.bare.files().contains_key("README.md"));
    place.host().behave(Behaviour::default());
}

#[tokio::test]
async fn what_was_judged_by_another_latest_is_void() {
    let place = Place::local();
    let repository = place.open().await;
    for n in 1..=3 {
        pushed(&repository, deploy(n, &format!("text {n}"))).await;
    }
    let seen = kept(&repository).await;
    let one = back(9, 1, &tree_of(&seen, 1), replace());
    let over = |n: u32| one.clone().expecting_latest(Some(tree_of(&seen, n)));
    let void = roll_back(&repository, over(2)).await;
    let Err(WriteError::Moved { path, .. }) = void else { panic!("{void:?}") };
    assert!(path.ends_with("/latest"), "{path}");
    // That there was none is a judgement, too.
    let void = roll_back(&repository, one.clone().expecting_latest(None)).await;
    assert!(matches!(void, Err(WriteError::Moved { .. })), "{void:?}");
    assert_eq!(kept(&repository).await.live(), Some(&id(3)));
    let done = roll_back(&repository, over(3)).await;
    assert!(matches!(done, Ok(PushOutcome::Pushed { .. })), "{done:?}");
}

#[tokio::test]
async fn the_application_is_written_with_it_if_it_is_what_was_seen() {
    for place in Place::both().await {
        let repository = place.open().await;
        for n in 1..=2 {
            pushed(&repository, deploy(n, &format!("text {n}"))).await;
        }
        let seen = kept(&repository).await;
        let file = layout::application_file(&"prod-1".parse().unwrap(), &app());
        let look = async || {
            let (_, found) = repository.read_paths(vec![file.clone()]).await.unwrap();
            found[0].seen
        };
        let before = look().await;
        place.bare.somebody_writes(&file.to_string(), "theirs\n");
        let one = back(9, 1, &tree_of(&seen, 1), replace());
        let with = |seen| one.clone().with_application(Some((seen, b"ours\n".to_vec())));
        let void = roll_back(&repository, with(before)).await;
        let Err(WriteError::Moved { path, .. }) = void else { panic!("{void:?}") };
        assert_eq!(path, file.to_string());
        assert_eq!(kept(&repository).await.live(), Some(&id(2)));
        let done = roll_back(&repository, with(look().await)).await;
        assert!(matches!(done, Ok(PushOutcome::Pushed { .. })), "{done:?}");
        assert_eq!(place.bare.files()[&file.to_string()], "ours\n");
        assert_eq!(kept(&repository).await.live(), Some(&id(1)));
        place.bare.assert_sound();
    }
}
