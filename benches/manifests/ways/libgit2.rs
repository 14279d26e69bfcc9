//! A bare clone that is kept, and libgit2 as it comes: its own HTTP, its own way to find out what
//! is new to the server.

use std::path::Path;
use std::time::{Duration, Instant};

use git2::{Cred, Oid, PushOptions, RemoteCallbacks, Repository};

use crate::host::{Host, TOKEN};
use crate::shape::Deployment;
use crate::ways::{REPOSITORY, Way, objects};

pub struct LibGit2 {
    repository: Repository,
    url: String,
    tip: Oid,
}

impl LibGit2 {
    pub fn ready(host: &Host, folder: &Path) -> Self {
        let (repository, tip) = objects::clone(host, folder, "git2");
        Self { repository, url: host.url(REPOSITORY), tip }
    }
}

impl Way for LibGit2 {
    fn write(&mut self, deployment: &Deployment) -> Duration {
        let begun = Instant::now();
        let commit = objects::commit(&self.repository, self.tip, deployment);
        let mut remote = self.repository.remote_anonymous(&self.url).expect("a remote");
        let mut callbacks = RemoteCallbacks::new();
        callbacks.credentials(|_, _, _| Cred::userpass_plaintext("x-access-token", TOKEN));
        callbacks.push_update_reference(|_, refused| {
            assert_eq!(refused, None, "the host refuses git2's push");
            Ok(())
        });
        let mut options = PushOptions::new();
        options.remote_callbacks(callbacks);
        let refspec = format!("{commit}:refs/heads/git2");
        remote.push(&[refspec], Some(&mut options)).expect("git2's push");
        self.repository.reference("refs/heads/git2", commit, true, "pushed").expect("a reference");
        self.tip = commit;
        begun.elapsed()
    }
}
