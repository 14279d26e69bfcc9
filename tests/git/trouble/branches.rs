//! A branch that is not where it was: not there yet, gone, renamed, or with another history.

use the_deployer::git::writer::WriteError;
use the_deployer::support::retry::Disposition;

use crate::git::place::deploy;
use crate::git::trouble::place::{Place, deployed, on_each, refused, text};

#[tokio::test]
async fn the_first_deployment_makes_the_branch_of_an_empty_repository() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        repository.ready().await.unwrap();
        assert_eq!(repository.tip().await.unwrap(), None);
        deployed(&repository, 1).await;
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}

/// A branch of that name with one app in it would be all that Argo CD sees: it would take every
/// other app away.
#[tokio::test]
async fn a_branch_that_was_renamed_is_not_begun_anew() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        place.bare.run(&["branch", "--move", "main", "trunk"]);
        for repository in [&repository, &place.open_as("new").await] {
            let error = refused(repository, deploy(2, &text(2))).await;
            assert!(matches!(error, WriteError::NoBranch { .. }), "{error}");
            assert_eq!(error.disposition(), Disposition::Stop);
            let said = error.to_string();
            assert!(said.contains("no branch main") && said.contains("it has trunk"), "{said}");
        }
        let branches = place.bare.run(&["branch", "--format=%(refname:short)"]);
        assert_eq!(branches.trim(), "trunk");
        place.bare.run(&["branch", "--move", "trunk", "main"]);
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_history_that_was_rewritten_is_built_on_and_nothing_comes_back() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        place.bare.somebody_writes("keep", "kept");
        deployed(&repository, 1).await;
        place.bare.somebody_writes("secret", "oops");
        deployed(&repository, 2).await;
        // Somebody takes the last two commits out, and writes another one in their place.
        place.bare.run(&["update-ref", "refs/heads/main", "main~2"]);
        place.bare.somebody_writes("theirs", "new");
        deployed(&repository, 3).await;
        place.holds(&[1, 3]);
        // A history that has nothing in common with the one before.
        let tree = place.bare.object("");
        let root = place.bare.run(&["commit-tree", "-m", "all anew", tree.trim()]);
        place.bare.run(&["update-ref", "refs/heads/main", root.trim()]);
        deployed(&repository, 4).await;
        place.holds(&[4]);
        let files = place.bare.files();
        assert!(files.keys().all(|path| path != "secret"), "{files:?}");
        assert_eq!((files["keep"].as_str(), files["theirs"].as_str()), ("kept", "new"));
    })
    .await;
}
