//! A developer: a clone of a service's repository, and bart in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::harness::folder;
use crate::harness::git::{git, hermetic};

/// A working folder, with a home of its own beside it.
pub(crate) struct Developer {
    folder: TempDir,
}

impl Developer {
    /// Who has cloned that repository.
    pub(crate) fn cloned(from: &Path) -> Self {
        let this = Self { folder: folder::temporary() };
        run(this.folder.path(), &["clone", "--quiet", from.to_str().unwrap(), "work"]);
        this
    }

    /// Who has a repository with that WAML, committed on `main`, and that remote.
    pub(crate) fn of(remote: &str, waml: &str) -> Self {
        let this = Self { folder: folder::temporary() };
        run(this.folder.path(), &["init", "--quiet", "--initial-branch=main", "work"]);
        run(&this.work(), &["remote", "add", "origin", remote]);
        this.commits(waml);
        this
    }

    /// Writes the WAML and commits it; it is not pushed.
    pub(crate) fn commits(&self, waml: &str) {
        std::fs::write(self.work().join(".weave.yaml"), waml).unwrap();
        run(&self.work(), &["add", "."]);
        run(&self.work(), &["commit", "--quiet", "-m", "a release"]);
    }

    pub(crate) fn pushes(&self) {
        run(&self.work(), &["push", "--quiet", "origin", "main"]);
    }

    /// The working folder.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A file in the developer's home.
    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.folder.path().join("home").join(name)
    }

    /// bart with these variables and nobody else's.
    pub(crate) fn bart(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bart"));
        command.args(arguments).current_dir(self.work()).env_clear().envs(hermetic());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder.path().join("home")).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub(crate) fn runs(
        &self,
        variables: &[(&str, &str)],
        arguments: &[&str],
    ) -> impl Future<Output = Said> + use<> {
        let mut command = self.bart(variables, arguments);
        async move {
            let output = tokio::task::spawn_blocking(move || command.output().unwrap());
            Said::of(&output.await.unwrap())
        }
    }
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// What a child says until its end.
    pub(crate) async fn until_the_end_of(child: Child) -> Self {
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        Self::of(&ended.await.unwrap())
    }

    /// Its result, as a program reads it.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Ended so, and said all of these on one of the streams.
    #[track_caller]
    pub(crate) fn ended(&self, code: i32, says: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        for part in says {
            assert!(self.out.contains(part) || self.err.contains(part), "{part}: {self:?}");
        }
        self
    }
}

/// Git, which must do it.
fn run(folder: &Path, arguments: &[&str]) {
    let done = git(folder).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
