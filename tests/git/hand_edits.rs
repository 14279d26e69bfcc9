//! Tests manual edits in an app's `latest`: they are noticed before they are overwritten, reported, and replaced or
//! left alone. Other people's files always stay.

use the_deployer::git::writer::{
    DeploymentChange, DriftPolicy, ManifestRepository, PushOutcome, WriteError,
};
use the_deployer::model::hand_edit::{EditedFile, HandEdit, HandEditKind, HandEdits};
use the_deployer::model::id::CommitSha;
use the_deployer::support::retry::Disposition;

use crate::git::place::{APP, Place, deploy, deploy_files, id, pushed, write};

/// Writes under a policy; what became of it, and what was noticed.
async fn tried(
    repository: &ManifestRepository,
    one: DeploymentChange,
    policy: HandEdits,
) -> (Result<PushOutcome, WriteError>, Option<HandEdit>) {
    let watch = DriftPolicy::new(policy);
    let written = write(repository, DeploymentChange { hand_edits: watch.clone(), ..one }).await;
    (written, watch.read_hand_edit())
}

fn changed(name: &str, how: HandEditKind) -> EditedFile {
    EditedFile { name: name.to_owned(), how }
}

const OLD: &str = "kind: Deployment\nspec:\n  replicas: 3\n";
const BY_HAND: &str = "kind: Deployment\nspec:\n  replicas: 9\n";
const NEW: &str = "kind: Deployment\nspec:\n  replicas: 4\n";

/// An app whose number of replicas somebody has changed, and one commit of somebody else's after it.
async fn edited(place: &Place) -> (ManifestRepository, String) {
    let repository = place.open().await;
    pushed(&repository, deploy(1, "kind: Deployment\n")).await;
    pushed(&repository, deploy(2, OLD)).await;
    place.bare.somebody_writes(&format!("{APP}/latest/deployment.yaml"), BY_HAND);
    let by_hand = place.bare.tip();
    place.bare.somebody_writes("notes.md", "theirs");
    (repository, by_hand)
}

#[tokio::test]
async fn an_edit_is_replaced_and_the_commit_and_the_record_say_what_it_was() {
    for place in Place::both().await {
        let (repository, by_hand) = edited(&place).await;
        let (written, found) = tried(&repository, deploy(3, NEW), HandEdits::Replace).await;
        assert!(matches!(written, Ok(PushOutcome::Pushed { .. })), "{written:?}");
        let found = found.unwrap();
        assert!(found.replaced);
        assert_eq!(found.base, Some(id(2)));
        assert_eq!(found.files, [changed("deployment.yaml", HandEditKind::Changed)]);
        assert!(found.diff.contains("-  replicas: 3\n+  replicas: 9\n"), "{}", found.diff);
        let app = deploy(3, "").revision.app;
        let again = repository.replaced_edit(&"prod-1".parse().unwrap(), &app, &id(3)).await;
        assert_eq!(again.unwrap().as_ref(), Some(&found), "as a process finds out after a crash");
        let by = found.commit.unwrap();
        assert_eq!((by.id, &*by.author), (CommitSha::parse(by_hand.clone()).unwrap(), "Somebody"));
        let said = format!("deployment.yaml (changed), in {} by Somebody", &by_hand[..12]);
        assert_eq!(place.bare.trailer("Replaced-Edit"), [said]);
        let files = place.bare.files();
        assert_eq!(files[&format!("{APP}/latest/deployment.yaml")], NEW);
        assert_eq!(files["notes.md"], "theirs");
        place.bare.assert_sound();

        let (_, found) = tried(&repository, deploy(4, OLD), HandEdits::Replace).await;
        assert_eq!(found, None, "it is over");
        assert_eq!(place.bare.trailer("Replaced-Edit"), [""; 0]);
        let none = repository.replaced_edit(&"prod-1".parse().unwrap(), &app, &id(4)).await;
        assert_eq!(none.unwrap(), None);
    }
}

#[tokio::test]
async fn an_edit_stops_a_deployment_that_is_to_stop_and_nothing_is_done() {
    for place in Place::both().await {
        let (repository, by_hand) = edited(&place).await;
        let tip = place.bare.tip();
        let (written, found) = tried(&repository, deploy(3, NEW), HandEdits::Stop).await;
        let error = written.unwrap_err();
        assert_eq!(error.disposition(), Disposition::Stop);
        let said = error.to_string();
        let latest = format!("{APP}/latest");
        for part in
            [&*latest, "deployment.yaml (changed)", &by_hand[..12], "by Somebody", "deploy again"]
        {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert_eq!(place.bare.tip(), tip);
        let found = found.unwrap();
        assert!(!found.replaced && found.diff.contains("+  replicas: 9"), "{found:?}");

        // Another app is none of its business, and what the edit says may be deployed at last.
        let other = deploy_files(4, "other", &[("a.yaml", "a")]);
        let (written, found) = tried(&repository, other, HandEdits::Stop).await;
        assert!(written.is_ok() && found.is_none(), "{written:?}");
        let (written, found) = tried(&repository, deploy(5, BY_HAND), HandEdits::Stop).await;
        assert!(written.is_ok() && found.is_none(), "{written:?}");
        assert_eq!(place.bare.files()[&format!("{latest}/deployment.yaml")], BY_HAND);
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn an_edit_is_not_said_to_be_replaced_by_a_push_that_failed() {
    let place = Place::http().await;
    let (repository, _) = edited(&place).await;
    // Our clone gets to know the edit by that.
    pushed(&repository, deploy_files(9, "other", &[("a.yaml", "a")])).await;
    let tip = place.bare.tip();
    place.bare.hook("pre-receive", "echo 'not today' >&2; exit 1");
    for policy in [HandEdits::Replace, HandEdits::Stop] {
        let (written, found) = tried(&repository, deploy(3, NEW), policy).await;
        let found = found.unwrap();
        let failed = matches!(written, Err(WriteError::Refused { .. }));
        assert_eq!(failed, policy == HandEdits::Replace, "{written:?}");
        assert_eq!((found.replaced, found.push_failed), (false, failed));
        assert_eq!(place.bare.tip(), tip);
    }
    std::fs::remove_file(place.bare.0.join("hooks/pre-receive")).unwrap();
    let (written, found) = tried(&repository, deploy(3, NEW), HandEdits::Replace).await;
    assert!(matches!(written, Ok(PushOutcome::Pushed { .. })), "{written:?}");
    let found = found.unwrap();
    assert_eq!((found.replaced, found.push_failed), (true, false));
}

#[tokio::test]
async fn a_reverted_edit_stops_nothing_any_more() {
    for place in Place::both().await {
        let (repository, _) = edited(&place).await;
        place.bare.somebody_writes(&format!("{APP}/latest/deployment.yaml"), OLD);
        let (written, found) = tried(&repository, deploy(3, NEW), HandEdits::Stop).await;
        assert!(matches!(written, Ok(PushOutcome::Pushed { .. })), "{written:?}");
        assert_eq!(found, None);
    }
}

#[tokio::test]
async fn an_edit_that_comes_while_we_push_is_noticed_too() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy(1, OLD)).await;
        // Our clone knows nothing of it: the push is refused, and the change applied once more.
        place.bare.somebody_writes(&format!("{APP}/latest/deployment.yaml"), BY_HAND);
        let (written, found) = tried(&repository, deploy(2, NEW), HandEdits::Stop).await;
        assert!(matches!(written, Err(WriteError::HandEdited { .. })), "{written:?}");
        assert!(found.is_some());
        assert_eq!(place.bare.files()[&format!("{APP}/latest/deployment.yaml")], BY_HAND);
    }
}

#[tokio::test]
async fn files_that_were_added_and_removed_are_told_and_secrets_are_not_shown() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy_files(1, "my-app", &[("a.yaml", "a\n"), ("b.yaml", "b\n")]))
            .await;
        let secret = "kind: Secret\nstringData: {password: hunter2}\n";
        place.bare.somebody_writes(&format!("{APP}/latest/secret.yaml"), secret);
        place.bare.somebody_writes(&format!("{APP}/latest/deep/c.yaml"), "c\n");
        place.bare.somebody_puts("120000", &format!("{APP}/latest/a.yaml"), "/etc/passwd");
        let new = deploy_files(2, "my-app", &[("a.yaml", "A\n")]);
        let (written, found) = tried(&repository, new, HandEdits::Replace).await;
        assert!(written.is_ok(), "{written:?}");
        let found = found.unwrap();
        assert_eq!(
            found.files,
            [
                changed("a.yaml", HandEditKind::Changed),
                changed("deep/c.yaml", HandEditKind::Added),
                changed("secret.yaml", HandEditKind::Added),
            ]
        );
        assert!(!found.diff.contains("hunter2"), "{}", found.diff);
        assert!(!place.bare.message().contains("hunter2"));
        assert!(found.diff.contains("a symbolic link") && found.diff.contains("a Secret"));
        assert_eq!(
            place.bare.files().keys().filter(|path| path.contains("/latest/")).count(),
            1,
            "latest is replaced whole"
        );
    }
}

#[tokio::test]
async fn a_rollback_by_hand_is_no_edit() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy(1, OLD)).await;
        pushed(&repository, deploy(2, NEW)).await;
        place.bare.somebody_writes(&format!("{APP}/latest/deployment.yaml"), OLD);
        let (written, found) = tried(&repository, deploy(3, BY_HAND), HandEdits::Stop).await;
        assert!(matches!(written, Ok(PushOutcome::Pushed { .. })), "{written:?}");
        assert_eq!(found, None);
    }
}

#[tokio::test]
async fn files_beside_ours_in_an_apps_folder_always_stay() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy(1, OLD)).await;
        let theirs = [
            format!("{APP}/README.md"),
            format!("{APP}/patches/x.yaml"),
            "manifests/prod-1/devx/notes.md".to_owned(),
            "apps/prod-1/theirs.yaml".to_owned(),
        ];
        for path in &theirs {
            place.bare.somebody_writes(path, "theirs");
        }
        for n in 2..=8 {
            let text = format!("kind: Deployment\nn: {n}\n");
            let (written, found) = tried(&repository, deploy(n, &text), HandEdits::Stop).await;
            assert!(written.is_ok() && found.is_none(), "{written:?}");
        }
        let files = place.bare.files();
        assert!(theirs.iter().all(|path| files[path] == "theirs"), "{files:?}");
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn who_edited_is_not_guessed_where_our_clone_does_not_go_back_so_far() {
    let place = Place::http().await;
    pushed(&place.open_as("first").await, deploy(1, OLD)).await;
    place.bare.somebody_writes(&format!("{APP}/latest/deployment.yaml"), BY_HAND);
    place.bare.somebody_writes("notes.md", "theirs");
    // A new clone begins at the tip, which is not the commit that edited.
    let repository = place.open_as("second").await;
    let (written, found) = tried(&repository, deploy(2, NEW), HandEdits::Replace).await;
    assert!(written.is_ok(), "{written:?}");
    let found = found.unwrap();
    assert_eq!(found.commit, None);
    assert_eq!(found.files, [changed("deployment.yaml", HandEditKind::Changed)]);
}
