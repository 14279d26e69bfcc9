//! The ways to a server, and what the same trouble is on each.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;
use the_deployer::git::transport::ssh;
use the_deployer::git::transport::token::Tokens;
use the_deployer::git::writer::{
    DeploymentChange, ManifestRepository, PushBy, PushOutcome, RemoteSettings, WriteError,
    WriterSettings,
};
use the_deployer::support::retry::Disposition;

use crate::git::place::{self, deploy, id};
use crate::harness::folder;
use crate::harness::git::Bare;
use crate::harness::git_host::{self, Access, GitHost};
use crate::harness::sshd::{self, SshHost};

/// What the settings say of a key or token that is not accepted.
pub(super) const HELP: &str = "put another one there";

/// What may happen again by itself.
pub(super) const RETRY: Disposition = Disposition::Retry { after: None };

pub(super) enum Host {
    Http(GitHost),
    Ssh(SshHost),
}

/// What a host does to who comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// We may read and not write.
    ReadOnly,
    /// A push lands, and the connection is cut before the answer.
    AnswerLost,
    /// The connection is cut in the middle of a push.
    CutInPush,
    /// The connection is cut in the middle of what is fetched.
    CutInFetch,
}

/// A manifest repository behind a host, and one way to push to it.
pub(super) struct Place {
    pub(super) host: Host,
    pub(super) bare: Bare,
    pub(super) folder: TempDir,
    push: PushBy,
}

/// Runs a test on every way there is. Where no sshd is installed, those over ssh are left out, and
/// said to be.
pub(super) async fn on_each(test: impl AsyncFn(&mut Place)) {
    for push in [PushBy::Direct, PushBy::Libgit2] {
        eprintln!("over http, {push:?}");
        let host = GitHost::start().await;
        let bare = host.create("m.git");
        test(&mut Place::of(Host::Http(host), bare, push)).await;
        let Some(host) = SshHost::start().await else { continue };
        eprintln!("over ssh, {push:?}");
        let bare = host.create("m.git");
        test(&mut Place::of(Host::Ssh(host), bare, push)).await;
    }
}

impl Place {
    fn of(host: Host, bare: Bare, push: PushBy) -> Self {
        Self { host, bare, folder: folder::temporary(), push }
    }

    pub(super) fn settings(&self, clone: &str) -> WriterSettings {
        let clone_dir = self.folder.path().join(clone);
        let push = self.push;
        match &self.host {
            Host::Http(host) => {
                let tokens = Tokens::fixed(git_host::TOKEN.into(), HELP);
                let settings = place::settings(host.url("m.git"), &clone_dir);
                let remote = RemoteSettings { tokens, ..settings.remote };
                WriterSettings { push, remote, ..settings }
            }
            Host::Ssh(host) => {
                let folder = self.folder.path().join(format!("{clone}-ssh"));
                let ssh = Some(ssh::SshAccess { known_hosts: host.known_hosts(), folder });
                let tokens = Tokens::fixed(host.key(), HELP);
                let settings = place::settings(host.url("m.git"), &clone_dir);
                let remote = RemoteSettings { ssh, tokens, ..settings.remote };
                WriterSettings { push, remote, ..settings }
            }
        }
    }

    pub(super) async fn open(&self) -> ManifestRepository {
        self.open_as("clone").await
    }

    /// A second name is a second clone, as another process would have.
    pub(super) async fn open_as(&self, clone: &str) -> ManifestRepository {
        ManifestRepository::open(self.settings(clone)).await.unwrap()
    }

    pub(super) fn behave(&self, trouble: Trouble) {
        match &self.host {
            Host::Http(host) => {
                let read_only = trouble == Trouble::ReadOnly;
                let status =
                    move |wanted| if read_only && wanted == Access::Push { 403 } else { 200 };
                host.guarded_by(move |_, _, wanted| status(wanted));
                host.behave(match trouble {
                    Trouble::None | Trouble::ReadOnly => git_host::Behaviour::Good,
                    Trouble::AnswerLost => git_host::Behaviour::CutAfterPush,
                    Trouble::CutInPush => git_host::Behaviour::CutDuringPush,
                    Trouble::CutInFetch => git_host::Behaviour::CutDuringFetch,
                });
            }
            Host::Ssh(host) => host.behave(match trouble {
                Trouble::None => sshd::Behaviour::Good,
                Trouble::ReadOnly => sshd::Behaviour::ReadOnly,
                Trouble::AnswerLost => sshd::Behaviour::CutAfterPush,
                Trouble::CutInPush => sshd::Behaviour::CutDuringPush,
                Trouble::CutInFetch => sshd::Behaviour::CutDuringFetch,
            }),
        }
    }

    /// The same hook as a person at the server would install, which also counts how often it ran.
    pub(super) fn hook(&self, name: &str, script: &str) {
        self.bare.hook(name, &format!("echo x >>ran\n{script}"));
    }

    /// How often the hook ran since the last call.
    pub(super) fn tries(&self) -> usize {
        let file = self.bare.0.join("ran");
        let ran = fs::read_to_string(&file).unwrap_or_default().lines().count();
        // One that is empty is about to be written to.
        if ran > 0 {
            fs::remove_file(file).unwrap();
        }
        ran
    }

    /// Until the hook runs.
    pub(super) async fn tried(&self) {
        until("a hook runs", || self.tries() > 0).await;
    }

    pub(super) fn without_hook(&self, name: &str) {
        fs::remove_file(self.bare.0.join("hooks").join(name)).unwrap();
    }

    /// Each of those deployments is in the history once, in this order, and the server's repository
    /// is sound. This is what nothing that happens may change.
    pub(super) fn holds(&self, deployments: &[u32]) {
        let format = "--format=%(trailers:key=Deploy-Id,valueonly,separator=)";
        let log = self.bare.run(&["log", "--reverse", format, "main"]);
        let found: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
        let expected: Vec<String> = deployments.iter().map(|n| id(*n).to_string()).collect();
        assert_eq!(found, expected);
        self.bare.assert_sound();
    }
}

/// Until something is so that nobody announces.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), looking).await.expect(what);
}

/// The error of a write that must not succeed.
pub(super) async fn refused(repository: &ManifestRepository, one: DeploymentChange) -> WriteError {
    place::write(repository, one).await.unwrap_err()
}

/// A second try of a deployment, as a job makes it: it may find what the first one did.
pub(super) async fn tried_again(repository: &ManifestRepository, n: u32) -> String {
    match place::write(repository, deploy(n, &text(n))).await.unwrap() {
        PushOutcome::Pushed { commit } | PushOutcome::AlreadyPushed { commit } => {
            commit.to_string()
        }
        other @ PushOutcome::Unchanged { .. } => panic!("{other:?}"),
    }
}

/// What deployment `n` deploys.
pub(super) fn text(n: u32) -> String {
    format!("text {n}")
}

/// Deployment `n` is written, with a commit of its own.
pub(super) async fn deployed(repository: &ManifestRepository, n: u32) -> String {
    place::pushed(repository, deploy(n, &text(n))).await
}
