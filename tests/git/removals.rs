//! Taking an app away, and changes that were decided on after a look; on a folder and over HTTP.

use the_deployer::git::history::app_files::Footprint;
use the_deployer::git::layout::RepoPath;
use the_deployer::git::writer::{
    CommitMessage, ConditionalEdit, Edit, ManifestRepository, PushOutcome, RemovalNote, WriteError,
};
use the_deployer::model::id::AppKey;
use the_deployer::support::lease::Lease;

use crate::git::place::{APP, Place, deploy, deploy_files, files, id, noon, pushed};
use crate::harness::git_host::Behaviour;

fn app() -> AppKey {
    deploy(1, "").revision.app
}

async fn look(repository: &ManifestRepository) -> Footprint {
    repository.footprint(&"prod-1".parse().unwrap(), &app()).await.unwrap()
}

/// Removal `n` of what was seen.
fn removal(n: u32, seen: &Footprint) -> ConditionalEdit {
    let note = RemovalNote {
        id: id(n),
        app: app(),
        target: "prod-1".parse().unwrap(),
        actor: "alice".into(),
        reason: "moved\nRemoval-Id: forged".into(),
        digest: "sha256:00ff".into(),
    };
    ConditionalEdit {
        seen: seen.seen.clone(),
        edits: seen.seen.iter().map(|(path, _)| (path.clone(), Edit::Gone)).collect(),
        message: CommitMessage::of_removal(&note),
    }
}

async fn amend(
    repository: &ManifestRepository,
    one: ConditionalEdit,
) -> Result<PushOutcome, WriteError> {
    repository.amend(one, noon(), &Lease::without_end()).await
}

#[tokio::test]
async fn an_app_goes_whole_in_one_commit_and_nothing_else_goes() {
    for place in Place::both().await {
        place.bare.somebody_writes("README.md", "theirs");
        let repository = place.open().await;
        pushed(&repository, deploy_files(1, "other", &[("a.yaml", "a")])).await;
        for n in 2..=4 {
            pushed(&repository, deploy(n, &format!("text {n}"))).await;
        }
        let seen = look(&repository).await;
        assert_eq!(seen.paths.len(), 5, "the Application, three revisions and latest: {seen:?}");
        assert_eq!(seen.latest, deploy(4, "text 4").revision.files);
        let PushOutcome::Pushed { commit } = amend(&repository, removal(9, &seen)).await.unwrap()
        else {
            panic!("it was there")
        };
        assert_eq!(place.bare.tip(), commit.as_str());
        let other = format!("manifests/prod-1/devx/other/{}/a.yaml", id(1));
        assert_eq!(
            place.bare.files(),
            files(&[
                ("README.md", "theirs"),
                ("apps/prod-1.yaml", "parent: prod-1\n"),
                ("apps/prod-1/devx.other.yaml", "application: other\n"),
                (&other, "a"),
                ("manifests/prod-1/devx/other/latest/a.yaml", "a"),
            ])
        );
        assert_eq!(place.bare.message().lines().next(), Some("remove devx/my-app from prod-1"));
        assert_eq!(place.bare.trailer("Removal-Id"), [id(9).to_string()]);
        assert_eq!(place.bare.trailer("Reason"), ["moved Removal-Id: forged"]);
        assert_eq!(place.bare.trailer("Actor"), ["alice"]);
        assert_eq!(place.bare.trailer("Tree-Digest"), ["sha256:00ff"]);
        assert_eq!(repository.commit_of(&id(9)).await.unwrap(), Some(commit));
        assert!(look(&repository).await.is_empty());
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn folders_that_are_left_empty_vanish() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy(1, "one")).await;
        let seen = look(&repository).await;
        let _pushed = amend(&repository, removal(9, &seen)).await.unwrap();
        assert_eq!(place.bare.files(), files(&[("apps/prod-1.yaml", "parent: prod-1\n")]));
        assert_eq!(
            place.bare.run(&["ls-tree", "-rt", "--name-only", "main"]),
            "apps\napps/prod-1.yaml\n"
        );
        place.bare.assert_sound();
        pushed(&repository, deploy(2, "again")).await;
        assert_eq!(place.bare.files()[&format!("{APP}/latest/deployment.yaml")], "again");
    }
}

#[tokio::test]
async fn the_same_removal_again_finds_its_own_commit_and_another_finds_nothing() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy(1, "one")).await;
        let seen = look(&repository).await;
        let PushOutcome::Pushed { commit } = amend(&repository, removal(8, &seen)).await.unwrap()
        else {
            panic!("it was there")
        };
        let again = amend(&repository, removal(8, &seen)).await.unwrap();
        assert_eq!(again, PushOutcome::AlreadyPushed { commit: commit.clone() });
        let other = amend(&repository, removal(9, &seen)).await.unwrap();
        assert_eq!(other, PushOutcome::Unchanged { commit });
        assert_eq!(place.bare.commits(), 2);
    }
}

#[tokio::test]
async fn what_was_changed_since_the_look_stays() {
    for place in Place::both().await {
        let (repository, other) = (place.open().await, place.open_as("other").await);
        pushed(&repository, deploy(1, "one")).await;
        let seen = look(&repository).await;
        pushed(&other, deploy(2, "two")).await;
        let tip = place.bare.tip();
        let error = amend(&repository, removal(9, &seen)).await.unwrap_err();
        assert!(matches!(&error, WriteError::Moved { path, .. } if path == APP), "{error}");
        assert_eq!(place.bare.tip(), tip);
        let seen = look(&repository).await;
        place.bare.somebody_writes("apps/prod-1/devx.my-app.yaml", "edited");
        let error = amend(&repository, removal(9, &seen)).await.unwrap_err();
        assert!(error.to_string().contains("was changed in the meantime"), "{error}");
        assert_eq!(place.bare.files()["apps/prod-1/devx.my-app.yaml"], "edited");
    }
}

#[tokio::test]
async fn a_removal_that_lost_the_race_is_applied_on_the_new_tip() {
    for place in Place::both().await {
        let (repository, other) = (place.open().await, place.open_as("other").await);
        pushed(&repository, deploy(1, "one")).await;
        let seen = look(&repository).await;
        pushed(&other, deploy_files(2, "other", &[("a.yaml", "a")])).await;
        place.bare.somebody_writes("notes.txt", "theirs");
        let written = amend(&repository, removal(9, &seen)).await.unwrap();
        assert!(matches!(written, PushOutcome::Pushed { .. }), "{written:?}");
        let paths: Vec<String> = place.bare.files().into_keys().collect();
        assert!(paths.iter().all(|path| !path.contains("my-app")), "{paths:?}");
        assert!(paths.iter().any(|path| path == "notes.txt"), "{paths:?}");
        assert!(paths.iter().any(|path| path == "apps/prod-1/devx.other.yaml"), "{paths:?}");
        assert_eq!(place.bare.commits(), 4);
        place.bare.assert_sound();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_removal_and_many_deployments_at_once_all_arrive() {
    for place in Place::both().await {
        let (repository, other) = (place.open().await, place.open_as("other").await);
        pushed(&repository, deploy(1, "one")).await;
        let seen = look(&repository).await;
        let deploying = tokio::spawn(async move {
            for n in 2..=8 {
                pushed(&other, deploy_files(n, "other", &[("a.yaml", &n.to_string())])).await;
            }
        });
        let written = amend(&repository, removal(9, &seen)).await.unwrap();
        assert!(matches!(written, PushOutcome::Pushed { .. }), "{written:?}");
        deploying.await.unwrap();
        assert_eq!(place.bare.commits(), 9);
        assert!(look(&repository).await.is_empty());
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_counts_if_the_branch_has_it() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    let seen = look(&repository).await;
    place.host().behave(Behaviour::CutAfterPush);
    let written = amend(&repository, removal(9, &seen)).await;
    place.host().behave(Behaviour::Good);
    let written = match written {
        Ok(written) => written,
        Err(_) => amend(&repository, removal(9, &seen)).await.unwrap(),
    };
    let commit = place.bare.tip().parse().unwrap();
    assert!(
        written == PushOutcome::Pushed { commit }
            || matches!(written, PushOutcome::AlreadyPushed { .. }),
        "{written:?}"
    );
    assert_eq!(place.bare.commits(), 2);
}

#[tokio::test]
async fn what_is_not_ours_is_named() {
    for place in Place::both().await {
        let repository = place.open().await;
        pushed(&repository, deploy(1, "one")).await;
        assert!(look(&repository).await.others.is_empty());
        let theirs = [
            format!("{APP}/OWNERS"),
            format!("{APP}/latest/deep/x.yaml"),
            format!("{APP}/notes/todo.txt"),
        ];
        for path in &theirs {
            place.bare.somebody_writes(path, "theirs");
        }
        let folder = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
        let expected = [theirs[0].clone(), folder(&theirs[1]), folder(&theirs[2])];
        assert_eq!(look(&repository).await.others, expected);
    }
}

#[tokio::test]
async fn a_file_never_takes_the_place_of_a_folder_or_of_what_was_not_seen() {
    let place = Place::local();
    let repository = place.open().await;
    place.bare.somebody_writes("docs/a.md", "theirs");
    place.bare.somebody_writes("b.md", "theirs");
    let paths = ["docs", "b.md", "c.md"].map(|path| RepoPath::parse(path).unwrap());
    let (_, found) = repository.read_paths(paths.to_vec()).await.unwrap();
    assert_eq!(found[1].bytes.as_deref(), Some(&b"theirs"[..]));
    assert!(found[0].bytes.is_none() && found[0].seen.is_something());
    assert!(!found[2].seen.is_something());
    let write = |n: usize| ConditionalEdit {
        seen: found.iter().map(|one| (one.path.clone(), one.seen)).collect(),
        edits: vec![(found[n].path.clone(), Edit::File(b"ours".to_vec()))],
        message: CommitMessage::of_preparation(1, 0),
    };
    for (n, path) in [(0, "docs"), (2, "b.md")] {
        if n == 2 {
            place.bare.somebody_writes("b.md", "theirs, later");
        }
        let error = amend(&repository, write(n)).await.unwrap_err();
        assert!(matches!(&error, WriteError::Moved { path: at, .. } if at == path), "{error}");
    }
    assert_eq!(place.bare.files()["docs/a.md"], "theirs");
    assert!(!place.bare.files().contains_key("c.md"));
}
