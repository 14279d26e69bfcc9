use tempfile::TempDir;

use super::*;
use crate::git::drift::DriftPolicy;
use crate::git::signing::SigningKey;
use crate::git::signing::key::SigningPrivateKey;
use crate::git::signing::tests::is_missing;
use crate::git::writer::{DeploymentChange, Note};
use crate::model::id::{AppKey, DeployId};
use crate::model::revision::{Digest, ManifestFile, Revision};
use crate::support::lease::Lease;

const PGP: &str = include_str!("../../signing/tests/open.asc");

fn job(n: u32) -> Job {
    let slug = format!("app-{n}").parse().unwrap();
    let write = DeploymentChange {
        revision: Revision {
            id: DeployId::parse(format!("20261121-{n:09}-abcdef")).unwrap(),
            app: AppKey { namespace: "devx".parse().unwrap(), slug },
            target: "prod-1".parse().unwrap(),
            files: vec![ManifestFile { name: "a.yaml".into(), bytes: b"a".to_vec() }],
            digest: Digest("sha256:00ff".into()),
        },
        application: None,
        project: None,
        parent: None,
        note: Note {
            tag: "1.10".parse().unwrap(),
            repository: "weave-lab/my-app".parse().unwrap(),
            repository_number: None,
            app_name: None,
            commit: "a".repeat(40).parse().unwrap(),
            actor: "alice".into(),
            templates_commit: None,
            template: "backend-default@latest".into(),
            reason: String::new(),
            fleet: None,
        },
        hand_edits: DriftPolicy::default(),
    };
    let (answer, _) = tokio::sync::oneshot::channel();
    Job {
        changes: vec![ManifestChange::Deploy(Box::new(write))],
        at: Timestamp::UNIX_EPOCH,
        lease: Lease::without_end(),
        answer,
        lost: 0,
        tried_on: None,
        pending: None,
    }
}

/// A home whose agent has lost the key, once: the next one is sound.
#[test]
fn after_a_fault_of_gpg_nobody_else_of_the_batch_is_signed_and_the_next_batch_is() {
    if is_missing("gpg", "--version") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let repo = Repository::init_bare(folder.path().join("m.git")).unwrap();
    let home = folder.path().join("home");
    let key = SigningPrivateKey::openpgp(&PGP.into(), None).unwrap();
    let signing = CommitSigner::open(&SigningKey { key, home: home.clone() }).unwrap();
    let gpg_home = std::fs::read_dir(&home).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_dir_all(gpg_home.join("private-keys-v1.d")).unwrap();
    let identity = CommitIdentity { name: "d".into(), email: "d@localhost".into() };
    let people = "localhost".to_owned();
    let committer = Committer { identity, people, signing: Some(Arc::new(signing)) };
    let jobs: Vec<Job> = (0..4).map(job).collect();

    let built = build((&repo, "m.git"), None, &jobs, &HashSet::new(), &committer).unwrap();
    assert!(built.is_unsigned() && built.tip.is_none());
    assert_eq!(built.outcomes.len(), 4);

    let built = build((&repo, "m.git"), None, &jobs, &HashSet::new(), &committer).unwrap();
    assert!(
        built
            .outcomes
            .iter()
            .all(|outcome| matches!(outcome.as_deref(), Ok([ChangeOutcome::Commit(_)]))),
        "{:?}",
        built.outcomes
    );
}
