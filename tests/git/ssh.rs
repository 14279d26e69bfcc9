//! Tests what is particular to ssh: keys, hosts that are not believed, and the connection that is kept.

use std::path::Path;
use std::time::Duration;

use the_deployer::git::clone::tracked_branch::{FollowError, RemoteSettings, TrackedBranch};
use the_deployer::git::error::WriteError;
use the_deployer::git::snapshot::{Content, SnapshotLimits};
use the_deployer::git::transport::ssh;
use the_deployer::git::transport::token::Tokens;

use crate::harness::folder;
use crate::harness::sshd::{Behaviour, SshHost};

const HELP: &str = "add the public half of /etc/key there";

/// A branch that is followed over ssh.
fn followed(host: &SshHost, name: &str, folder: &Path) -> RemoteSettings {
    RemoteSettings {
        url: host.url(name),
        branch: "main".to_owned(),
        clone_dir: folder.join("clone"),
        tokens: Tokens::fixed(host.key(), HELP),
        ssh: Some(access(host, folder)),
        client: reqwest::Client::builder().no_proxy().build().unwrap(),
        silence: Duration::from_secs(20),
        total: Duration::from_mins(1),
    }
}

fn access(host: &SshHost, folder: &Path) -> ssh::SshAccess {
    // Longer than the name of a socket may be, with what could be taken apart.
    let deep = format!("a folder of 100%/{}", "deep/".repeat(20));
    ssh::SshAccess { known_hosts: host.known_hosts(), folder: folder.join(deep) }
}

fn crypto() {
    the_deployer::support::http::install_tls_provider();
}

#[tokio::test]
async fn a_branch_is_followed_over_one_connection() {
    crypto();
    let Some(host) = SshHost::start().await else { return };
    let (bare, folder) = (host.create("t.git"), folder::temporary());
    for n in 0..5 {
        bare.somebody_writes("x/a", &format!("version {n}"));
    }
    let followed = TrackedBranch::open(followed(&host, "t.git", folder.path())).await.unwrap();
    assert_eq!(followed.fetch_tip().await.unwrap().as_str(), bare.tip());
    let depth = folder.path().join("clone/shallow");
    assert_eq!(std::fs::read_to_string(depth).unwrap().lines().count(), 1);
    bare.somebody_writes("x/a", "last");
    let tip = followed.fetch_tip().await.unwrap();
    let limits = SnapshotLimits { files: 3, bytes: 100, depth: 2 };
    let files = followed.folder(&tip, "x", limits).await.unwrap();
    assert!(matches!(&files[0].content, Content::File(bytes) if bytes == b"last"), "{files:?}");
    followed.fetch_tip().await.unwrap();
    assert_eq!(host.commands(), ["git-upload-pack t.git"; 3]);
    assert_eq!(host.connections(), 1, "the connection is kept");
}

#[tokio::test]
async fn a_host_that_is_not_believed_is_told_apart() {
    crypto();
    let Some(host) = SshHost::start().await else { return };
    let folder = folder::temporary();
    host.create("t.git").somebody_writes("a", "a");
    let followed = TrackedBranch::open(followed(&host, "t.git", folder.path())).await.unwrap();
    for (public, words) in
        [("none", "not among the trusted ones"), ("key.pub", "differs from the trusted one")]
    {
        host.write_known_hosts(public);
        let error = followed.fetch_tip().await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        let port = host.url("").rsplit_once(':').unwrap().1.trim_end_matches('/').to_owned();
        assert!(error.contains(&format!("`ssh-keyscan -p {port} 127.0.0.1`")), "{error}");
        assert!(error.contains(host.known_hosts().to_str().unwrap()), "{error}");
    }
    assert!(host.commands().is_empty(), "nothing was said to a host that is not believed");
    host.write_known_hosts("host.pub");
    followed.fetch_tip().await.unwrap();
}

#[tokio::test]
async fn a_key_that_is_refused_is_told_apart_and_never_shown() {
    crypto();
    let Some(host) = SshHost::start().await else { return };
    let folder = folder::temporary();
    host.create("t.git").somebody_writes("a", "a");
    host.refuse_the_key();
    let settings = followed(&host, "t.git", folder.path());
    assert!(!format!("{settings:?}").contains("PRIVATE KEY"));
    let followed = TrackedBranch::open(settings).await.unwrap();
    let error = followed.fetch_tip().await.unwrap_err();
    assert!(error.to_string().contains("Permission denied (publickey)"), "{error}");
    assert!(error.to_string().ends_with(HELP), "{error}");
    host.accept_the_key();
    followed.fetch_tip().await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_and_what_is_cut_is_told_apart() {
    crypto();
    let Some(mut host) = SshHost::start().await else { return };
    let folder = folder::temporary();
    let open = |name| TrackedBranch::open(followed(&host, name, folder.path()));
    let (missing, present) = (open("nowhere.git").await.unwrap(), open("t.git").await.unwrap());
    let error = missing.fetch_tip().await.unwrap_err();
    assert!(matches!(error, FollowError::NotFound { .. }), "{error}");

    let bare = host.create("t.git");
    let error = present.fetch_tip().await.unwrap_err();
    assert!(matches!(error, FollowError::NoBranch { .. }), "{error}");
    bare.somebody_writes("a", "a");
    host.behave(Behaviour::CutDuringFetch);
    let error = present.fetch_tip().await.unwrap_err();
    assert!(matches!(error, FollowError::Remote(WriteError::Unreachable { .. })), "{error}");
    host.behave(Behaviour::Good);
    present.fetch_tip().await.unwrap();
    // Idle, and cut.
    host.cut();
    bare.somebody_writes("a", "b");
    assert_eq!(present.fetch_tip().await.unwrap().as_str(), bare.tip());

    host.stop().await;
    let error = present.fetch_tip().await.unwrap_err();
    assert!(matches!(error, FollowError::Remote(WriteError::Unreachable { .. })), "{error}");
    assert!(error.to_string().contains("Connection refused"), "{error}");
}

#[tokio::test]
async fn a_host_that_says_nothing_is_left() {
    crypto();
    let Some(host) = SshHost::start().await else { return };
    let folder = folder::temporary();
    host.create("t.git").somebody_writes("a", "a");
    host.behave(Behaviour::Silent);
    let settings = RemoteSettings {
        silence: Duration::from_secs(2),
        ..followed(&host, "t.git", folder.path())
    };
    let followed = TrackedBranch::open(settings).await.unwrap();
    let error = followed.fetch_tip().await.unwrap_err();
    assert!(error.to_string().ends_with("the server said nothing for 2 s"), "{error}");
    host.behave(Behaviour::Good);
    followed.fetch_tip().await.unwrap();
}

#[tokio::test]
async fn connections_over_which_something_failed_end() {
    crypto();
    let Some(host) = SshHost::start().await else { return };
    let folder = folder::temporary();
    let missing = TrackedBranch::open(followed(&host, "nowhere.git", folder.path())).await.unwrap();
    for _ in 0..3 {
        missing.fetch_tip().await.unwrap_err();
    }
    assert_eq!(host.connections(), 3);
    until_none_is_open(&host).await;
}

#[tokio::test]
async fn the_copy_of_the_key_is_there_only_as_long_as_somebody_looks() {
    crypto();
    let Some(host) = SshHost::start().await else { return };
    let folder = folder::temporary();
    host.create("t.git").somebody_writes("a", "a");
    let followed = TrackedBranch::open(followed(&host, "t.git", folder.path())).await.unwrap();
    let ours = access(&host, folder.path()).folder;
    for _ in 0..2 {
        followed.fetch_tip().await.unwrap();
        assert!(ours.join("key").exists());
        followed.close().await;
        assert!(!ours.join("key").exists() && !ours.join("connection").exists());
    }
    until_none_is_open(&host).await;
    followed.fetch_tip().await.unwrap();
    drop(followed);
    assert!(!ours.join("key").exists());
}

async fn until_none_is_open(host: &SshHost) {
    let ended = async {
        while host.open() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("one is still open");
}

#[tokio::test]
async fn who_needs_the_connection_no_more_lets_it_go() {
    crypto();
    let Some(host) = SshHost::start().await else { return };
    let folder = folder::temporary();
    host.create("t.git").somebody_writes("a", "a");
    let followed = TrackedBranch::open(followed(&host, "t.git", folder.path())).await.unwrap();
    followed.fetch_tip().await.unwrap();
    let socket = access(&host, folder.path()).folder.join("connection");
    assert!(socket.exists());
    drop(followed);
    let gone = async {
        while socket.exists() || host.open() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it is still open");
}
