//! Unit tests of the index of a target: its limit on apps.

use std::path::Path;
use std::time::Duration;

use git2::{Repository, Signature};
use jiff::Timestamp;

use super::*;
use crate::git::transport::token::Tokens;
use crate::git::writer::{
    CommitIdentity, Now, PushAllowance, PushBy, RemoteSettings, WriterSettings,
};
use crate::support::clock::Clock;

async fn opened(folder: &Path) -> ManifestRepository {
    crate::support::http::install_tls_provider();
    let settings = WriterSettings {
        remote: RemoteSettings {
            url: folder.display().to_string(),
            branch: "main".to_owned(),
            clone_dir: folder.join("unused"),
            tokens: Tokens::fixed("unused".into(), "unused"),
            ssh: None,
            client: reqwest::Client::new(),
            silence: Duration::from_secs(1),
            total: Duration::from_secs(1),
        },
        alone: false,
        identity: CommitIdentity { name: "we".to_owned(), email: "we@example.com".to_owned() },
        people: "example.com".to_owned(),
        signing: None,
        budget: PushAllowance::GENEROUS,
        push: PushBy::Direct,
        now: Now::by(|| Clock::manual(Timestamp::UNIX_EPOCH).moment()),
    };
    ManifestRepository::open(settings).await.unwrap()
}

/// Commits a tree that has these apps on the target, and nothing else there.
fn commit_apps(repo: &Repository, target: &str, apps: &[&str]) {
    let file = |name: &str, id, mode| {
        let mut tree = repo.treebuilder(None).unwrap();
        tree.insert(name, id, mode).unwrap();
        tree.write().unwrap()
    };
    let latest = file("ingress.yaml", repo.blob(b"kind: Ingress\n").unwrap(), 0o100_644);
    let mut namespace = repo.treebuilder(None).unwrap();
    for app in apps {
        namespace.insert(app, file("latest", latest, 0o40_000), 0o40_000).unwrap();
    }
    let namespace = file("devx", namespace.write().unwrap(), 0o40_000);
    let tip = repo.refname_to_id("refs/heads/main").ok().map(|id| repo.find_commit(id).unwrap());
    let root = tip.as_ref().map(|tip| tip.tree().unwrap());
    let manifests = root.as_ref().and_then(|root| root.get_name("manifests"));
    let manifests = manifests.map(|entry| repo.find_tree(entry.id()).unwrap());
    let mut targets = repo.treebuilder(manifests.as_ref()).unwrap();
    targets.insert(target, namespace, 0o40_000).unwrap();
    let root = file("manifests", targets.write().unwrap(), 0o40_000);
    let signature = Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
    let root = repo.find_tree(root).unwrap();
    let parents: Vec<_> = tip.iter().collect();
    repo.commit(Some("refs/heads/main"), &signature, &signature, "x", &root, &parents).unwrap();
}

#[tokio::test]
async fn more_apps_than_are_kept_are_refused_before_one_is_read_and_others_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    commit_apps(&repo, "prod-1", &["a", "b"]);
    commit_apps(&repo, "prod-2", &["c", "d"]);
    let repository = opened(folder.path()).await;
    let count = Arc::new(Count::within(3));
    let [mut first, mut second] = ["prod-1", "prod-2"].map(|target| {
        Index::new(&repository, &TargetName::parse(target).unwrap(), Arc::clone(&count))
    });
    assert_eq!(first.update(), Ok(()));
    let FactUnavailable(why) = second.update().unwrap_err();
    assert!(why.contains("with prod-2") && why.contains("more than 3 apps"), "{why}");
    assert_eq!((second.apps.len(), second.follower.files_read(), count.apps()), (0, 0, 2));
    assert_eq!(first.page(None, None, 9).unwrap().len(), 2, "nobody else is refused");
    commit_apps(&repo, "prod-1", &["a", "b", "c"]);
    assert_eq!((first.update(), count.apps()), (Ok(()), 3), "its own count for what they are");
    commit_apps(&repo, "prod-1", &["a", "b", "c", "d"]);
    let files = first.follower.files_read();
    assert!(first.page(None, None, 9).is_err(), "half an index is none");
    assert_eq!((first.apps.len(), first.follower.files_read(), count.apps()), (3, files, 3));
    commit_apps(&repo, "prod-1", &["a"]);
    assert_eq!(first.update(), Ok(()));
    assert_eq!((second.update(), count.apps()), (Ok(()), 3), "there is room again");
    drop(first);
    assert_eq!(count.apps(), 2);
}
