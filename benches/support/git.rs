//! The git program, and the repository of an app.

use std::path::Path;
use std::process::Command;

/// Runs git in a folder; its output.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=b", "-c", "user.email=b@example.com"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Makes the bare repository of an app with that WAML; its commit.
pub(crate) fn service_repository(path: &Path, waml: &str) -> String {
    let work = path.with_extension("work");
    std::fs::create_dir_all(&work).expect("a folder");
    git(&work, &["init", "-q", "-b", "main"]);
    std::fs::write(work.join(".weave.yaml"), waml).expect("a file");
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "first"]);
    git(&work, &["clone", "-q", "--bare", ".", &path.display().to_string()]);
    git(&work, &["rev-parse", "HEAD"])
}
