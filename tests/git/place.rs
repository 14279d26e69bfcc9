//! The repository of the tests: bare, reached by path or over HTTP; and their changes.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;
use the_deployer::git::transport::token::Tokens;
use the_deployer::git::writer::{
    CommitIdentity, DeploymentChange, DriftPolicy, ManifestRepository, Note, Now, PushAllowance,
    PushBy, PushOutcome, RemoteSettings, WriteError, WriterSettings,
};
use the_deployer::model::id::{AppKey, DeployId};
use the_deployer::model::revision::{Digest, ManifestFile, Revision};
use the_deployer::support::lease::{Lease, Moment};

use crate::harness::folder;
use crate::harness::git::{Bare, Files};
use crate::harness::git_host::{GitHost, TOKEN};

/// What its settings say of a token that is not accepted.
pub(crate) const HELP: &str = "put another token into /etc/token";

/// The folder of the app that most tests deploy.
pub(crate) const APP: &str = "manifests/prod-1/devx/my-app";

/// A manifest repository with everything around it.
pub(crate) struct Place {
    pub(crate) host: Option<GitHost>,
    pub(crate) bare: Bare,
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn local() -> Self {
        let folder = folder::temporary();
        let bare = Bare::create(&folder.path().join("m.git"));
        Self { host: None, bare, folder }
    }

    pub(crate) async fn http() -> Self {
        let host = GitHost::start().await;
        let bare = host.create("m.git");
        Self { host: Some(host), bare, folder: folder::temporary() }
    }

    /// The same test on both.
    pub(crate) async fn both() -> [Self; 2] {
        [Self::local(), Self::http().await]
    }

    pub(crate) fn host(&self) -> &GitHost {
        self.host.as_ref().unwrap()
    }

    pub(crate) fn settings(&self, clone: &str) -> WriterSettings {
        let url = match &self.host {
            Some(host) => host.url("m.git"),
            None => self.bare.0.to_str().unwrap().to_owned(),
        };
        settings(url, &self.folder.path().join(clone))
    }

    pub(crate) async fn open(&self) -> ManifestRepository {
        self.open_as("clone").await
    }

    /// A second name is a second clone, as another process would have.
    pub(crate) async fn open_as(&self, clone: &str) -> ManifestRepository {
        ManifestRepository::open(self.settings(clone)).await.unwrap()
    }
}

pub(crate) fn settings(url: String, clone_dir: &Path) -> WriterSettings {
    the_deployer::support::http::install_tls_provider();
    WriterSettings {
        remote: RemoteSettings {
            url,
            branch: "main".into(),
            clone_dir: clone_dir.to_owned(),
            tokens: Tokens::fixed(TOKEN.into(), HELP),
            ssh: None,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            silence: Duration::from_secs(20),
            total: Duration::from_mins(1),
        },
        alone: false,
        people: "localhost".into(),
        signing: None,
        identity: CommitIdentity {
            name: "the-deployer".into(),
            email: "deployer@example.com".into(),
        },
        budget: PushAllowance::GENEROUS,
        push: PushBy::Direct,
        now: Now::by(|| Moment { wall: noon(), monotonic: Duration::ZERO }),
    }
}

/// A deploy id; later numbers are later.
pub(crate) fn id(n: u32) -> DeployId {
    DeployId::parse(format!("20261121-{n:09}-abcdef")).unwrap()
}

/// Deployment `n` of `devx/my-app` to `prod-1`, with one file `deployment.yaml`.
pub(crate) fn deploy(n: u32, text: &str) -> DeploymentChange {
    deploy_files(n, "my-app", &[("deployment.yaml", text)])
}

pub(crate) fn deploy_files(n: u32, slug: &str, files: &[(&str, &str)]) -> DeploymentChange {
    let file = |(name, text): &(&str, &str)| ManifestFile {
        name: (*name).into(),
        bytes: text.as_bytes().to_vec(),
    };
    DeploymentChange {
        revision: Revision {
            id: id(n),
            app: AppKey { namespace: "devx".parse().unwrap(), slug: slug.parse().unwrap() },
            target: "prod-1".parse().unwrap(),
            files: files.iter().map(file).collect(),
            digest: Digest("sha256:00ff".into()),
        },
        application: Some(format!("application: {slug}\n").into_bytes()),
        project: None,
        parent: Some(b"parent: prod-1\n".to_vec()),
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
    }
}

/// The time of every commit in these tests.
pub(crate) fn noon() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

pub(crate) async fn write(
    repository: &ManifestRepository,
    write: DeploymentChange,
) -> Result<PushOutcome, WriteError> {
    repository.write(write, noon(), &Lease::without_end()).await
}

/// Writes and expects a new commit; says which.
pub(crate) async fn pushed(repository: &ManifestRepository, one: DeploymentChange) -> String {
    match write(repository, one).await.unwrap() {
        PushOutcome::Pushed { commit } => commit.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The files that a test expects.
pub(crate) fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}
