//! A clone with its work tree that is kept, and git's command line: copy, add, commit, push.
//!
//! In its favour: it is alone, so that it need not fetch before it writes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::generate::git;
use crate::host::Host;
use crate::shape::{Deployment, REVISIONS};
use crate::ways::{REPOSITORY, Way};

pub struct CommandLine {
    clone: PathBuf,
}

impl CommandLine {
    pub fn ready(host: &Host, clone: &Path) -> Self {
        let (url, to) = (host.url_with_token(REPOSITORY), clone.display().to_string());
        git(Path::new("."), &["clone", "-q", "--depth=1", "--branch=git", &url, &to]);
        Self { clone: clone.to_owned() }
    }
}

impl Way for CommandLine {
    fn write(&mut self, deployment: &Deployment) -> Duration {
        let begun = Instant::now();
        let folder = deployment.folder();
        let app = self.clone.join(&folder);
        prune(&app);
        for place in [deployment.id.as_str(), "latest"] {
            let _absent = std::fs::remove_dir_all(app.join(place));
            std::fs::create_dir_all(app.join(place)).expect("a folder");
            for (name, text) in &deployment.files {
                std::fs::write(app.join(place).join(name), text).expect("a file");
            }
        }
        git(&self.clone, &["add", "-A", &folder]);
        git(&self.clone, &["commit", "-q", "-m", &deployment.message()]);
        git(&self.clone, &["push", "-q", "origin", "HEAD:refs/heads/git"]);
        begun.elapsed()
    }
}

fn prune(app: &Path) {
    let entries = std::fs::read_dir(app).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.retain(|name| name != "latest");
    names.sort();
    let too_many = (names.len() + 1).saturating_sub(REVISIONS);
    for name in names.into_iter().take(too_many) {
        std::fs::remove_dir_all(app.join(name)).expect("a revision");
    }
}
