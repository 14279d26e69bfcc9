//! Commits that are signed, checked by git itself as anybody would check them; and who is named.

use std::path::Path;
use std::process::Command;

use secrecy::SecretString;
use tempfile::TempDir;
use the_deployer::git::layout::RepoPath;
use the_deployer::git::signing::SigningKey;
use the_deployer::git::signing::key::SigningPrivateKey;
use the_deployer::git::writer::{
    CommitMessage, ConditionalEdit, DeploymentChange, Edit, ManifestRepository, Note, PushOutcome,
    RemovalNote, WriteError, WriterSettings,
};
use the_deployer::support::lease::Lease;

use crate::git::place::{Place, deploy, id, noon, pushed};
use crate::harness::folder;
use crate::harness::git::{Bare, git};
use crate::harness::is_missing;

const SSH: &str = include_str!("../../src/git/signing/tests/open");
const SSH_PUBLIC: &str = include_str!("../../src/git/signing/tests/open.pub");
const PGP: &str = include_str!("../../src/git/signing/tests/open.asc");
const PGP_PUBLIC: &str = include_str!("../../src/git/signing/tests/open.pub.asc");
const PGP_EXPIRED: &str = include_str!("../../src/git/signing/tests/expired.asc");

fn ssh() -> SigningPrivateKey {
    SigningPrivateKey::ssh(&SecretString::from(SSH), None).unwrap()
}

fn openpgp(text: &str) -> SigningPrivateKey {
    SigningPrivateKey::openpgp(&SecretString::from(text), None).unwrap()
}

fn settings(place: &Place, key: SigningPrivateKey) -> WriterSettings {
    let home = place.folder.path().join("gnupg");
    WriterSettings { signing: Some(SigningKey { key, home }), ..place.settings("clone") }
}

async fn open(place: &Place, key: SigningPrivateKey) -> ManifestRepository {
    ManifestRepository::open(settings(place, key)).await.unwrap()
}

/// Whether git finds every commit on the branch signed by the key that everybody may know.
fn all_verified(bare: &Bare, options: &[&str], home: &Path) -> bool {
    let commits = bare.run(&["rev-list", "main"]);
    let commits: Vec<&str> = commits.lines().collect();
    assert!(!commits.is_empty());
    let mut verify = git(&bare.0);
    verify.env("GNUPGHOME", home).args(options).arg("verify-commit").args(commits);
    verify.output().unwrap().status.success()
}

/// A removal, a file and two deployments: everything that makes commits.
async fn commits(repository: &ManifestRepository) {
    pushed(repository, deploy(1, "one")).await;
    pushed(repository, deploy(2, "two")).await;
    let path = RepoPath::parse("README.md").unwrap();
    for message in [CommitMessage::of_preparation(1, 0), removal()] {
        let (_, found) = repository.read_paths(vec![path.clone()]).await.unwrap();
        let edit = Edit::File(format!("{message:?}").into_bytes());
        let seen = found.into_iter().map(|found| (found.path, found.seen)).collect();
        let edits = vec![(path.clone(), edit)];
        let written = repository
            .amend(ConditionalEdit { edits, message, seen }, noon(), &Lease::without_end())
            .await
            .unwrap();
        assert!(matches!(written, PushOutcome::Pushed { .. }), "{written:?}");
    }
}

fn removal() -> CommitMessage {
    CommitMessage::of_removal(&RemovalNote {
        id: id(9),
        app: deploy(1, "").revision.app,
        target: "prod-1".parse().unwrap(),
        actor: "bob".into(),
        reason: "over".into(),
        digest: String::new(),
    })
}

#[tokio::test]
async fn every_commit_is_signed_with_an_ssh_key_as_git_wants_it() {
    if is_missing("ssh-keygen", "tests of signatures") {
        return;
    }
    for place in Place::both().await {
        commits(&open(&place, ssh()).await).await;
        let signers = place.folder.path().join("signers");
        std::fs::write(&signers, format!("deployer@example.com {SSH_PUBLIC}")).unwrap();
        let option = format!("gpg.ssh.allowedSignersFile={}", signers.display());
        let options = ["-c", "gpg.format=ssh", "-c", &option];
        assert!(all_verified(&place.bare, &options, place.folder.path()));
        assert_eq!(place.bare.commits(), 4);
        place.bare.assert_sound();

        // Not any signature will do.
        std::fs::write(&signers, "").unwrap();
        assert!(!all_verified(&place.bare, &options, place.folder.path()));
    }
}

#[tokio::test]
async fn every_commit_is_signed_with_an_openpgp_key_as_git_and_argo_cd_want_it() {
    if is_missing("gpg", "tests of signatures") {
        return;
    }
    for place in Place::both().await {
        let repository = open(&place, openpgp(PGP)).await;
        commits(&repository).await;
        let theirs = Keyring::with(PGP_PUBLIC);
        assert!(all_verified(&place.bare, &[], theirs.0.path()));
        assert!(!all_verified(&place.bare, &[], Keyring::with("").0.path()), "an unknown key");
        place.bare.assert_sound();
        let home = place.folder.path().join("gnupg");
        assert!(home.exists());
    }
}

/// A keyring of somebody who checks.
struct Keyring(TempDir);

impl Keyring {
    fn with(public: &str) -> Self {
        let ring = Self(folder::named("ring"));
        std::fs::write(ring.0.path().join("key"), public).unwrap();
        ring.gpg(&["--import", "key"]);
        ring
    }

    fn gpg(&self, arguments: &[&str]) {
        let mut gpg = Command::new("gpg");
        gpg.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        gpg.env("GNUPGHOME", self.0.path()).current_dir(self.0.path());
        gpg.args(["--quiet", "--batch"]).args(arguments).output().unwrap();
    }
}

#[tokio::test]
async fn a_repository_whose_key_cannot_sign_is_not_opened() {
    if is_missing("gpg", "tests of signatures") {
        return;
    }
    let place = Place::local();
    let error =
        ManifestRepository::open(settings(&place, openpgp(PGP_EXPIRED))).await.err().unwrap();
    assert!(matches!(error, WriteError::NotSigned { .. }), "{error}");
    assert!(error.to_string().contains("neither expired nor revoked"), "{error}");
    assert_eq!(place.bare.commits(), 0);
}

#[tokio::test]
async fn the_author_is_the_person_and_the_committer_the_service() {
    for place in Place::both().await {
        let people = "users.noreply.github.com".to_owned();
        let settings = WriterSettings { people, ..place.settings("clone") };
        let repository = ManifestRepository::open(settings).await.unwrap();
        let named = |actor: &str, n| {
            let one = deploy(n, &n.to_string());
            DeploymentChange { note: Note { actor: actor.to_owned(), ..one.note }, ..one }
        };
        let service = "the-deployer <deployer@example.com>";
        for (n, actor, author) in [
            (1, "alice", "alice <alice@users.noreply.github.com>"),
            (2, "ci[bot]", "ci[bot] <ci[bot]@users.noreply.github.com>"),
            (
                3,
                "x>\ncommitter root <root@example.com",
                "x committer root root@example.com <x-committer-root-root-example.com@localhost>",
            ),
            (4, " ", service),
            (5, "ghost", service),
        ] {
            pushed(&repository, named(actor, n)).await;
            let said = place.bare.run(&["log", "-1", "--format=%an <%ae>%n%cn <%ce>", "main"]);
            assert_eq!(said, format!("{author}\n{service}\n"));
        }
        // The name of an API token is not a login.
        let path = RepoPath::parse("README.md").unwrap();
        let (_, found) = repository.read_paths(vec![path.clone()]).await.unwrap();
        let seen = found.into_iter().map(|found| (found.path, found.seen)).collect();
        let edits = vec![(path, Edit::File(b"removed".to_vec()))];
        let conditional_edit = ConditionalEdit { edits, message: removal(), seen };
        assert!(repository.amend(conditional_edit, noon(), &Lease::without_end()).await.is_ok());
        let said = place.bare.run(&["log", "-1", "--format=%an <%ae>%n%cn <%ce>", "main"]);
        assert_eq!(said, format!("bob <bob@localhost>\n{service}\n"));
        place.bare.assert_sound();
    }
}
