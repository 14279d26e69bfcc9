//! The commands, as a person runs them.

mod bart;
mod builds;
mod deploying;
mod logins;
mod demo;
mod import; // documents of other systems
mod init;
mod named;
mod operator;
mod platform; // what targets offer
mod readme;
mod recording;
mod run; // the app on a developer's machine
mod secrets; // secrets of an app, with a person's own login
mod several_apps; // repositories with several apps
mod signing;
mod strangers; // answers that are too long, texts that are not what they look like
mod validators;
mod version;
mod templates;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::folder;

/// The folder of the programs under test, first on the path.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_bart")).parent().unwrap().to_owned()
}

fn path() -> std::ffi::OsString {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(programs()).chain(std::env::split_paths(&inherited));
    std::env::join_paths(all).unwrap()
}

/// A program in a folder of its own, without colour and without anybody's settings.
pub(crate) fn program(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(programs().join(name));
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", path())
        .env("NO_COLOR", "1")
        .env("HOME", folder);
    command
}

fn bart(folder: &Path, arguments: &[&str]) -> Output {
    program("bart", folder).args(arguments).output().unwrap()
}

fn the_deployer(folder: &Path, arguments: &[&str]) -> Output {
    program("the-deployer", folder).args(arguments).output().unwrap()
}

/// What was printed, on both streams, standard output first.
pub(crate) fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A folder with the example's `.weave.yaml`.
fn example() -> tempfile::TempDir {
    let folder = folder::temporary();
    std::fs::write(
        folder.path().join(".weave.yaml"),
        include_str!("../pipeline/example/waml.yaml"),
    )
    .unwrap();
    cloned(folder.path(), "weave-lab/my-app");
    folder
}

/// Makes the folder a clone of that repository.
fn cloned(folder: &Path, repository: &str) {
    let git = git2::Repository::init(folder).unwrap();
    git.remote("origin", &format!("git@github.example.com:{repository}.git")).unwrap();
}
