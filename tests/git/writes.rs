//! Tests the changes of one writer to a repository; each test runs on a folder and over HTTP.

use the_deployer::git::history::live::PathTouch;
use the_deployer::git::writer::{
    DeploymentChange, ManifestRepository, ProjectFile, PushOutcome, WriteError, WriterSettings,
};
use the_deployer::model::id::CommitSha;
use the_deployer::support::retry::Disposition;

use crate::git::place::{APP, Place, deploy, deploy_files, files, id, pushed, write};
use crate::harness::git::Bare;

#[tokio::test]
async fn the_first_deployment_fills_an_empty_repository() {
    for place in Place::both().await {
        let repository = place.open().await;
        let commit = pushed(&repository, deploy(1, "one")).await;
        assert_eq!(place.bare.tip(), commit);
        assert_eq!(
            place.bare.files(),
            files(&[
                ("apps/prod-1.yaml", "parent: prod-1\n"),
                ("apps/prod-1/devx.my-app.yaml", "application: my-app\n"),
                (&format!("{APP}/{}/deployment.yaml", id(1)), "one"),
                (&format!("{APP}/latest/deployment.yaml"), "one"),
            ])
        );
        let author = place.bare.run(&["log", "-1", "--format=%an %ae %cn %at", "main"]);
        assert_eq!(author.trim(), "alice alice@localhost the-deployer 1795262400");
        assert_eq!(place.bare.trailer("Deploy-Id"), [id(1).to_string()]);
        assert_eq!(place.bare.trailer("Tree-Digest"), ["sha256:00ff"]);
        assert!(place.bare.message().starts_with("deploy devx/my-app 1.10 to prod-1\n\n"));
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn a_project_that_is_there_follows_and_is_otherwise_left_alone() {
    fn follow(there: &[u8], fresh: &[u8]) -> Option<Vec<u8>> {
        let there = std::str::from_utf8(there).ok()?;
        let fresh = std::str::from_utf8(fresh).ok()?.trim_end();
        let part = there.lines().next()?;
        (part != fresh).then(|| there.replacen(part, fresh, 1).into_bytes())
    }
    let with = |n: u32, text: &str, list: &str| {
        let project = ProjectFile { bytes: format!("{list}\n").into_bytes(), follow };
        DeploymentChange { project: Some(project), ..deploy(n, text) }
    };
    for place in Place::both().await {
        let repository = place.open().await;
        let project = || place.bare.files()["apps/prod-1/project.yaml"].clone();
        pushed(&repository, with(1, "one", "all")).await;
        assert_eq!(project(), "all\n");
        place.bare.somebody_writes("apps/prod-1/project.yaml", "all\ntheirs\n");
        pushed(&repository, with(2, "two", "all")).await;
        assert_eq!(project(), "all\ntheirs\n");
        // Also where nothing else of the app is another.
        pushed(&repository, with(3, "two", "some")).await;
        assert_eq!(project(), "some\ntheirs\n");
        let unchanged = write(&repository, with(4, "two", "some")).await;
        assert!(matches!(unchanged, Ok(PushOutcome::Unchanged { .. })), "{unchanged:?}");
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn latest_is_replaced_whole_and_is_the_revisions_own_tree() {
    for place in Place::both().await {
        let repository = place.open().await;
        let two = deploy_files(1, "my-app", &[("a.yaml", "a"), ("b.yaml", "b")]);
        pushed(&repository, two).await;
        pushed(&repository, deploy_files(2, "my-app", &[("b.yaml", "B")])).await;
        let latest = format!("{APP}/latest");
        assert_eq!(place.bare.object(&latest), place.bare.object(&format!("{APP}/{}", id(2))));
        let files = place.bare.files();
        assert!(!files.contains_key(&format!("{latest}/a.yaml")), "{files:?}");
        assert!(files.contains_key(&format!("{APP}/{}/a.yaml", id(1))), "{files:?}");
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn five_revisions_stay_and_the_sixth_drops_the_oldest() {
    for place in Place::both().await {
        let repository = place.open().await;
        for n in 1..=7 {
            pushed(&repository, deploy(n, &format!("text {n}"))).await;
            place.bare.assert_sound();
        }
        let folders = place.bare.run(&["ls-tree", "--name-only", &format!("main:{APP}")]);
        let expected: Vec<String> = (3..=7).map(|n| id(n).to_string()).collect();
        assert_eq!(
            folders.lines().collect::<Vec<_>>(),
            [&expected[..], &["latest".into()]].concat()
        );
        assert_eq!(place.bare.commits(), 7);
        let app = deploy(1, "").revision.app;
        let history = repository.history(&"prod-1".parse().unwrap(), &app).await.unwrap();
        let newest_first: Vec<_> = (3..=7).rev().map(id).collect();
        let revisions: Vec<_> = history.revisions.iter().map(|(id, _)| id.clone()).collect();
        assert_eq!((revisions, history.live()), (newest_first, Some(&id(7))));
    }
}

#[tokio::test]
async fn the_same_result_again_makes_no_commit() {
    for place in Place::both().await {
        let repository = place.open().await;
        let commit = pushed(&repository, deploy(1, "one")).await;
        let again = write(&repository, deploy(2, "one")).await.unwrap();
        assert_eq!(again, PushOutcome::Unchanged { commit: CommitSha::parse(commit).unwrap() });
        assert_eq!(place.bare.commits(), 1);
        let mut other_links = deploy(3, "one");
        other_links.application = Some(b"application: new links\n".to_vec());
        pushed(&repository, other_links).await;
        assert_eq!(place.bare.commits(), 2);
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn the_same_deployment_again_finds_its_own_commit() {
    for place in Place::both().await {
        let repository = place.open().await;
        let first = pushed(&repository, deploy(1, "one")).await;
        pushed(&repository, deploy(2, "two")).await;
        let restarted = place.open_as("after-the-crash").await;
        for writer in [&repository, &restarted] {
            let again = write(writer, deploy(1, "one")).await.unwrap();
            let PushOutcome::AlreadyPushed { commit } = again else { panic!("{again:?}") };
            // A new clone is shallow: what it cannot see it says by the tip.
            let seen = [first.as_str(), &place.bare.tip()].contains(&commit.as_str());
            assert!(seen, "{commit}");
        }
        let again = write(&repository, deploy(1, "one")).await.unwrap();
        assert_eq!(again, PushOutcome::AlreadyPushed { commit: CommitSha::parse(first).unwrap() });
        assert_eq!(place.bare.commits(), 2);
    }
}

#[tokio::test]
async fn other_peoples_commits_and_files_survive() {
    for place in Place::both().await {
        place.bare.somebody_writes("README.md", "hello");
        let repository = place.open().await;
        pushed(&repository, deploy(1, "one")).await;
        place.bare.somebody_writes(&format!("{APP}/notes/todo.txt"), "a folder of theirs");
        place.bare.somebody_writes(&format!("{APP}/OWNERS"), "a file of theirs");
        place.bare.somebody_writes("apps/prod-1.yaml", "their own parent");
        for n in 2..=8 {
            pushed(&repository, deploy(n, &format!("text {n}"))).await;
        }
        let files = place.bare.files();
        assert_eq!(files["README.md"], "hello");
        assert_eq!(files[&format!("{APP}/notes/todo.txt")], "a folder of theirs");
        assert_eq!(files[&format!("{APP}/OWNERS")], "a file of theirs");
        assert_eq!(files["apps/prod-1.yaml"], "their own parent");
        assert_eq!(place.bare.commits(), 12);
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn a_file_where_a_folder_belongs_stops_the_deployment_and_says_where() {
    for place in Place::both().await {
        place.bare.somebody_writes("manifests/prod-1", "not a folder");
        let before = place.bare.tip();
        let error = write(&place.open().await, deploy(1, "one")).await.unwrap_err();
        assert!(matches!(&error, WriteError::Blocked { path, .. } if path == "manifests/prod-1"));
        assert_eq!(error.disposition(), Disposition::Stop);
        assert_eq!(place.bare.tip(), before);
    }
}

#[tokio::test]
async fn hostile_words_forge_no_trailer() {
    for place in Place::both().await {
        let mut one = deploy(1, "one");
        one.note.actor = "eve\nDeploy-Id: forged".into();
        one.note.reason = "why\r\n\r\nActor: root\n---\nCommit: 0".into();
        pushed(&place.open().await, one).await;
        assert_eq!(place.bare.trailer("Deploy-Id"), [id(1).to_string()]);
        assert_eq!(place.bare.trailer("Actor"), ["eve Deploy-Id: forged"]);
        assert_eq!(place.bare.trailer("Commit"), ["a".repeat(40)]);
        assert_eq!(place.bare.trailer("Reason"), ["why Actor: root --- Commit: 0"]);
        place.bare.assert_sound();
    }
}

#[tokio::test]
async fn a_revision_with_a_path_in_a_file_name_is_refused_before_anything_is_written() {
    let place = Place::local();
    let error = write(&place.open().await, deploy_files(1, "my-app", &[("../x", "one")])).await;
    assert!(matches!(error, Err(WriteError::Invalid(text)) if text.contains("../x")));
    assert_eq!(place.bare.commits(), 0);
}

#[tokio::test]
async fn the_last_change_and_the_files_can_be_read() {
    for place in Place::both().await {
        let repository = place.open().await;
        assert_eq!(repository.tip().await.unwrap(), None);
        assert!(repository.last_change().await.unwrap().is_empty());
        pushed(&repository, deploy(1, "one")).await;
        pushed(&repository, deploy(2, "two")).await;
        let changes = repository.last_change().await.unwrap();
        let changes: Vec<_> = changes.iter().map(|c| (c.path.as_str(), c.what)).collect();
        let revision = format!("{APP}/{}/deployment.yaml", id(2));
        let latest = format!("{APP}/latest/deployment.yaml");
        let expected =
            [(revision.as_str(), PathTouch::Added), (latest.as_str(), PathTouch::Changed)];
        assert_eq!(changes, expected);
        let files = repository.files(&format!("{APP}/latest")).await.unwrap();
        assert_eq!(files, deploy(2, "two").revision.files);
        for nowhere in
            ["no/such/folder", "", "/", "..", "a\0b", &format!("{APP}/latest/deployment.yaml/x")]
        {
            assert!(repository.files(nowhere).await.unwrap().is_empty(), "{nowhere:?}");
        }
        assert_eq!(repository.tip().await.unwrap().unwrap().as_str(), place.bare.tip());
    }
}

#[tokio::test]
async fn a_local_repository_can_be_made_and_making_it_again_changes_nothing() {
    let place = Place::local();
    let path = place.folder.path().join("made/here.git");
    ManifestRepository::create_local(&path, "main").unwrap();
    let mut settings = place.settings("unused");
    settings.remote.url = format!("file://{}", path.display());
    let repository = ManifestRepository::open(settings).await.unwrap();
    repository.ready().await.unwrap();
    let commit = pushed(&repository, deploy(1, "one")).await;
    ManifestRepository::create_local(&path, "main").unwrap();
    assert_eq!(Bare(path).tip(), commit);
}

#[tokio::test]
async fn a_local_path_that_is_no_bare_repository_is_told_apart() {
    let place = Place::local();
    let open = async |url: &std::path::Path| {
        let mut settings = place.settings("unused");
        settings.remote.url = url.display().to_string();
        ManifestRepository::open(settings).await.err().unwrap()
    };
    let missing = open(&place.folder.path().join("nothing")).await;
    assert!(matches!(missing, WriteError::NotFound { .. }), "{missing}");
    let checkout = place.folder.path().join("checkout");
    std::fs::create_dir(&checkout).unwrap();
    Bare(checkout.clone()).run(&["init", "--quiet"]);
    let error = open(&checkout).await;
    assert!(matches!(&error, WriteError::Invalid(text) if text.contains("bare")), "{error}");
}

#[tokio::test]
async fn a_local_repository_that_is_ours_alone_is_packed_and_stays_whole() {
    let place = Place::local();
    place.bare.run(&["config", "gc.auto", "50"]);
    let settings = WriterSettings { alone: true, ..place.settings("unused") };
    let repository = ManifestRepository::open(settings).await.unwrap();
    let packs = place.bare.0.join("objects/pack");
    let mut n = 0;
    while std::fs::read_dir(&packs).unwrap().next().is_none() {
        n += 1;
        assert!(n < 2000, "it is never packed");
        pushed(&repository, deploy(n, &format!("text {n}"))).await;
    }
    pushed(&repository, deploy(n + 1, "last")).await;
    assert_eq!(place.bare.commits(), n as usize + 1);
    place.bare.assert_sound();
}
