//! The server looks at a push and says no: told apart, told to people, and not tried for ever.

use the_deployer::git::transport::push_rejection::RefusalKind;
use the_deployer::git::writer::WriteError;
use the_deployer::support::retry::Disposition;

use crate::git::place::deploy;
use crate::git::trouble::place::{Place, RETRY, Trouble, deployed, on_each, refused, text};

/// What servers print, which rule that is, and what to do.
const REFUSALS: [(&str, RefusalKind, &str); 6] = [
    (
        "error: GH006: Protected branch update failed for refs/heads/main.",
        RefusalKind::Protected,
        "let this service's account bypass the rule",
    ),
    (
        "error: GH013: Repository rule violations found for refs/heads/main.",
        RefusalKind::Protected,
        "let this service's account bypass the rule",
    ),
    (
        "GitLab: You are not allowed to push code to protected branches on this project.",
        RefusalKind::Protected,
        "let this service's account bypass the rule",
    ),
    ("every commit needs a ticket", RefusalKind::Hook, "ask who runs that hook"),
    ("your quota of 1 GiB is used up", RefusalKind::Quota, "make room on the server"),
    ("error: GH001: Large files detected.", RefusalKind::Quota, "make room on the server"),
];

#[tokio::test]
async fn a_refusal_is_told_apart_with_its_words_and_a_way_out() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        for (words, kind, help) in REFUSALS {
            place.hook("pre-receive", &format!("echo \"{words}\" >&2; exit 1"));
            let error = refused(&repository, deploy(2, &text(2))).await;
            let WriteError::Refused { refusal, branch, .. } = &error else { panic!("{error}") };
            assert_eq!((refusal.kind, branch.as_str()), (kind, "main"), "{error}");
            assert_eq!(error.disposition(), Disposition::Stop, "{error}");
            let said = error.to_string();
            assert!(said.contains(words) && said.contains(help), "{said}");
            assert_eq!(place.tries(), 1, "one try, and no more");
        }
        place.without_hook("pre-receive");
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_branch_that_one_hook_protects_is_a_refusal_too() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        place.hook("update", "echo 'main is frozen until Monday' >&2; exit 1");
        let error = refused(&repository, deploy(1, &text(1))).await;
        assert!(matches!(error, WriteError::Refused { .. }), "{error}");
        assert!(error.to_string().contains("main is frozen until Monday"), "{error}");
        assert_eq!((place.tries(), error.disposition()), (1, Disposition::Stop));
        place.without_hook("update");
        deployed(&repository, 1).await;
        place.holds(&[1]);
    })
    .await;
}

#[tokio::test]
async fn a_push_that_is_too_large_for_the_server_is_for_a_person() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        place.bare.run(&["config", "receive.maxInputSize", "10"]);
        let error = refused(&repository, deploy(2, &text(2))).await;
        let WriteError::Refused { refusal, .. } = &error else { panic!("{error}") };
        assert_eq!(refusal.kind, RefusalKind::Quota, "{error}");
        assert_eq!(error.disposition(), Disposition::Stop);
        assert!(error.to_string().contains("pack exceeds maximum allowed size"), "{error}");
        place.bare.run(&["config", "--unset", "receive.maxInputSize"]);
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}

/// A full disk passes when somebody makes room: nobody forbade anything.
#[tokio::test]
async fn a_server_that_fails_at_storing_is_tried_again() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        place.hook(
            "pre-receive",
            "echo 'error: unable to write file: No space left on device' >&2; exit 1",
        );
        let error = refused(&repository, deploy(2, &text(2))).await;
        assert_eq!(error.disposition(), RETRY, "{error}");
        assert!(error.to_string().contains("look at the server's disk"), "{error}");
        place.without_hook("pre-receive");
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}

#[tokio::test]
async fn who_may_only_read_is_told_whom_to_ask() {
    on_each(async |place: &mut Place| {
        let repository = place.open().await;
        deployed(&repository, 1).await;
        place.behave(Trouble::ReadOnly);
        let error = refused(&repository, deploy(2, &text(2))).await;
        match &error {
            // A host may say so, too, while it is not itself.
            WriteError::Unauthorized { status: 403, .. } => {
                assert_eq!(error.disposition(), Disposition::Doubt, "{error}");
            }
            WriteError::KeyRefused { said, .. } => {
                assert!(said.contains("read only"), "{error}");
                assert_eq!(error.disposition(), Disposition::Stop, "{error}");
            }
            other => panic!("{other}"),
        }
        assert!(repository.ready().await.is_err(), "it is seen before anything is deployed");
        place.behave(Trouble::None);
        repository.ready().await.unwrap();
        deployed(&repository, 2).await;
        place.holds(&[1, 2]);
    })
    .await;
}
