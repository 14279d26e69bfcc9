//! Signed commits, and what somebody edits while we push, on every way to a server.

use crate::git::place::{APP, deploy, pushed, write};
use crate::git::trouble::place::{Trouble, on_each};
use crate::harness::is_missing;
use secrecy::SecretString;
use the_deployer::git::signing::SigningKey;
use the_deployer::git::signing::key::SigningPrivateKey;
use the_deployer::git::writer::{
    DeploymentChange, DriftPolicy, ManifestRepository, PushOutcome, WriteError, WriterSettings,
};
use the_deployer::model::hand_edit::HandEdits;

const KEY: &str = include_str!("../../../src/git/signing/tests/open");
const PUBLIC: &str = include_str!("../../../src/git/signing/tests/open.pub");

#[tokio::test]
async fn an_edit_that_our_clone_has_not_seen_stops_a_deployment() {
    on_each(async |place| {
        let repository = place.open().await;
        pushed(&repository, deploy(1, "one")).await;
        let latest = format!("{APP}/latest/deployment.yaml");
        place.bare.somebody_writes(&latest, "by hand");
        let stop =
            DeploymentChange { hand_edits: DriftPolicy::new(HandEdits::Stop), ..deploy(2, "two") };
        let watch = stop.hand_edits.clone();
        let error = write(&repository, stop).await.unwrap_err();
        assert!(matches!(error, WriteError::HandEdited { .. }), "{error}");
        assert_eq!(place.bare.files()[&latest], "by hand");
        assert_eq!(watch.read_hand_edit().unwrap().commit.unwrap().author, "Somebody");
        place.holds(&[1]);

        // One that replaces it, and whose answer is lost, still tells what it replaced.
        place.behave(Trouble::AnswerLost);
        let replace = DeploymentChange { hand_edits: DriftPolicy::default(), ..deploy(3, "three") };
        let watch = replace.hand_edits.clone();
        let mut written = write(&repository, replace.clone()).await;
        place.behave(Trouble::None);
        if written.is_err() {
            written = write(&repository, replace).await;
        }
        let written = written.unwrap();
        assert!(!matches!(written, PushOutcome::Unchanged { .. }), "{written:?}");
        assert!(watch.read_hand_edit().is_some_and(|found| found.diff.contains("-one\n")));
        place.holds(&[1, 3]);
    })
    .await;
}

#[tokio::test]
async fn a_signed_commit_is_good_on_the_server() {
    if is_missing("ssh-keygen", "tests of signatures") {
        return;
    }
    on_each(async |place| {
        let key = SigningPrivateKey::ssh(&SecretString::from(KEY), None).unwrap();
        let signing = Some(SigningKey { key, home: place.folder.path().join("gnupg") });
        let settings = WriterSettings { signing, ..place.settings("clone") };
        let repository = ManifestRepository::open(settings).await.unwrap();
        pushed(&repository, deploy(1, "one")).await;
        pushed(&repository, deploy(2, "two")).await;
        let signers = place.folder.path().join("signers");
        std::fs::write(&signers, format!("deployer@example.com {PUBLIC}")).unwrap();
        let option = format!("gpg.ssh.allowedSignersFile={}", signers.display());
        place.bare.run(&["-c", &option, "verify-commit", "main", "main~1"]);
        place.holds(&[1, 2]);
    })
    .await;
}
