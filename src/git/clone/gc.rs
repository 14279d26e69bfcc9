//! The packing of a repository of this machine, by git itself.
//!
//! libgit2 writes each object into a file of its own and never packs. `git gc --auto` does, in a process of its own, as
//! a git server does after a push. Without a git on this machine the repository works as well, and grows.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::git::PROGRAMS;

/// The number of writes between two runs; a write leaves some twenty objects, and git packs from 6,700 on.
const TURN: u32 = 100;

/// The state of git's housekeeping.
#[derive(Default)]
pub(in crate::git) struct GcState {
    writes: u32,
    running: Option<Child>,
    /// True if this machine has no git.
    without: bool,
}

impl GcState {
    /// Counts a write, and gives git its turn when it is due and none is at work.
    pub(in crate::git) fn run_if_due(&mut self, repository: &Path) {
        self.writes += 1;
        if self.writes < TURN || self.without || self.is_running() {
            return;
        }
        self.writes = 0;
        match gc(repository).spawn() {
            Ok(child) => self.running = Some(child),
            Err(error) => {
                self.without = true;
                tracing::info!(repository = %repository.display(), %error, "git gc could not start, repository is not packed");
            }
        }
    }

    fn is_running(&mut self) -> bool {
        let has_ended =
            self.running.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
        if has_ended {
            self.running = None;
        }
        !has_ended
    }
}

fn gc(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .arg("--git-dir")
        .arg(repository)
        // In the child itself, so that its end is known.
        .args(["-c", "gc.autoDetach=false", "-c", "core.hooksPath=/dev/null"])
        .args(["gc", "--auto", "--quiet"])
        // This machine's configuration of git is not meant for the service, and secrets can be variables.
        .env_clear()
        .env("PATH", PROGRAMS)
        .env("HOME", repository)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
