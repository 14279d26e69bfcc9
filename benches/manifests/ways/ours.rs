//! The product's own writer, as the service uses it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use the_deployer::git::transport::token::Tokens;
use the_deployer::git::writer::{
    CommitIdentity, ManifestRepository, Now, PushAllowance, PushBy, PushOutcome, RemoteSettings,
    WriterSettings,
};
use the_deployer::support::clock::Clock;
use the_deployer::support::lease::Lease;
use tokio::runtime::Runtime;

use crate::host::{Host, TOKEN};
use crate::shape::{self, Deployment};
use crate::ways::{REPOSITORY, Way};

pub struct Ours {
    runtime: Runtime,
    repository: ManifestRepository,
}

impl Ours {
    pub fn ready(host: &Host, folder: &Path, branch: &str, push: PushBy) -> Self {
        let runtime = Runtime::new().expect("threads");
        let settings = settings(host, folder.to_owned(), branch, push);
        let repository = runtime.block_on(async {
            let repository = ManifestRepository::open(settings).await.expect("the writer");
            repository.tip().await.expect("the branch");
            repository
        });
        Self { runtime, repository }
    }
}

fn settings(host: &Host, clone_dir: PathBuf, branch: &str, push: PushBy) -> WriterSettings {
    let clock = Clock::system();
    WriterSettings {
        remote: RemoteSettings {
            url: host.url(REPOSITORY),
            branch: branch.to_owned(),
            clone_dir,
            ssh: None,
            tokens: Tokens::fixed(SecretString::from(TOKEN), "see deploy/load"),
            client: reqwest::Client::new(),
            silence: Duration::from_mins(1),
            total: Duration::from_mins(10),
        },
        alone: false,
        identity: CommitIdentity { name: "load".to_owned(), email: "load@example.com".to_owned() },
        people: "users.noreply.example.com".to_owned(),
        signing: None,
        // No way waits for a budget here.
        budget: PushAllowance { burst: 100_000, per_minute: 100_000 },
        push,
        now: Now::by(move || clock.moment()),
    }
}

impl Ours {
    /// Writes them at once; how long it took until all were answered.
    pub fn write_together(&self, deployments: &[Deployment]) -> Duration {
        let now = shape::now();
        let lease = Lease::without_end();
        let writes = deployments.iter().map(|one| self.repository.write(one.write(), now, &lease));
        let writes = futures::future::join_all(writes.collect::<Vec<_>>());
        let begun = Instant::now();
        let written = self.runtime.block_on(writes);
        let took = begun.elapsed();
        for written in written {
            assert!(matches!(written, Ok(PushOutcome::Pushed { .. })), "{written:?}");
        }
        took
    }
}

impl Way for Ours {
    fn write(&mut self, deployment: &Deployment) -> Duration {
        self.write_together(std::slice::from_ref(deployment))
    }
}
