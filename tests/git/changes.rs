//! Tests which changes of a commit are read, as git itself says it; or that they are not known here.

use the_deployer::git::history::live::{CommitChange, PathTouch};
use the_deployer::git::writer::ManifestRepository;
use the_deployer::model::id::CommitSha;

use crate::git::place::{Place, deploy, deploy_files, pushed};
use crate::harness::git::Bare;

async fn change_of(repository: &ManifestRepository, commit: &str) -> Option<CommitChange> {
    repository.change_of(&CommitSha::parse(commit).unwrap()).await.unwrap()
}

/// That it is what git says, path by path, and against which commit.
fn assert_as_git_says(change: &CommitChange, bare: &Bare, commit: &str) {
    let arguments = ["diff-tree", "-r", "--root", "--no-commit-id", "--name-status", commit];
    let letter = |what| match what {
        PathTouch::Added => "A",
        PathTouch::Changed => "M",
        PathTouch::Removed => "D",
    };
    let lines = change.paths.iter().map(|one| format!("{}\t{}\n", letter(one.what), one.path));
    assert_eq!(lines.collect::<String>(), bare.run(&arguments));
    let parent = bare.run(&["log", "-1", "--format=%P", commit]);
    assert_eq!(change.before.as_ref().map_or("", CommitSha::as_str), parent.trim());
}

#[tokio::test]
async fn every_commit_says_exactly_what_it_changed() {
    for place in Place::both().await {
        let repository = place.open().await;
        let first = pushed(&repository, deploy(1, "1")).await;
        let more = [("deployment.yaml", "1"), ("service.yaml", "1")];
        let second = pushed(&repository, deploy_files(2, "my-app", &more)).await;
        let third = pushed(&repository, deploy(3, "2")).await;
        place.bare.somebody_writes("README.md", "theirs");
        repository.tip().await.unwrap();
        let theirs = place.bare.tip();
        for commit in [&first, &second, &third, &theirs] {
            let change = change_of(&repository, commit).await.unwrap();
            assert_as_git_says(&change, &place.bare, commit);
        }
        assert_eq!(change_of(&repository, &"12".repeat(20)).await, None);
        let blob = place.bare.object("README.md");
        assert_eq!(change_of(&repository, &blob).await, None, "that is no commit");
    }
}

/// At the edge of a shallow clone git says that a commit has no parent; it is not all new.
#[tokio::test]
async fn a_commit_whose_parent_is_not_here_is_not_taken_for_the_first() {
    let place = Place::http().await;
    let writer = place.open().await;
    pushed(&writer, deploy(1, "1")).await;
    let second = pushed(&writer, deploy(2, "2")).await;
    assert!(change_of(&writer, &second).await.is_some());
    let other = place.open_as("other").await;
    other.tip().await.unwrap();
    assert_eq!(change_of(&other, &second).await, None);
    let third = pushed(&other, deploy(3, "3")).await;
    let change = change_of(&other, &third).await.unwrap();
    assert_as_git_says(&change, &place.bare, &third);
}

#[tokio::test]
async fn one_that_changed_very_much_is_not_listed() {
    let place = Place::local();
    let repository = place.open().await;
    let file = |n| format!("M 644 inline big/{}/{n}\ndata 1\nx\n", n % 100);
    let files: String = (0..10_001).map(file).collect();
    let head = "commit refs/heads/main\ncommitter a <a@example.com> 1 +0000\ndata 1\nx\n";
    place.bare.import(&format!("{head}{files}\n"));
    assert_eq!(change_of(&repository, &place.bare.tip()).await, None);
}
