//! The demo: the main job from a signed event to the commit, in one command.

use super::{program, said};

use crate::harness::folder;

#[test]
fn the_demo_shows_three_deployments_and_leaves_them_to_be_looked_at() {
    let folder = folder::temporary();
    let output = program("the-deployer", folder.path()).args(["demo", "--exit"]).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "1. A deployment",
        "  page    http://127.0.0.1:",
        "✓ queue",
        "✓ fetch",
        "✓ merge",
        "✓ default",
        "✓ validate",
        "✓ render",
        "✓ push",
        "A apps/\n      prod-cluster-1.yaml",
        "A apps/prod-cluster-1/\n      devx.my-app.yaml",
        "A manifests/prod-cluster-1/devx/my-app/latest/\n      cachedcertificate.yaml  deployment.yaml",
        "M manifests/prod-cluster-1/devx/my-app/latest/\n      cachedcertificate.yaml  deployment.yaml",
        // What the source document says that its small WAML yields.
        "iamserviceaccount.yaml",
        "kubernetesauthenginerole.yaml",
        "policy.yaml",
        "prometheusrule-my-app.slo.yaml",
        "error[unknown-key]: `deploy.prod-cluster-1` has no key `slos`",
        "5 violations",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(text.matches("  succeeded in ").count(), 2, "{text}");
    let counted = text.matches("; 1 warning").count();
    assert!(text.matches("\nwarning[").count() >= counted, "warnings are named: {text}");
    assert_eq!(text.matches("  failed in ").count(), 1, "{text}");
    assert!(!text.contains('\u{1b}'), "no terminal, no colour");
    let log = std::process::Command::new("git")
        .args(["-C", "demo/manifests.git", "log", "--format=%s"])
        .current_dir(folder.path())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "deploy devx/my-app 1.1.202206161102-sha.0c1d2e3f to prod-cluster-1",
            "deploy devx/my-app 1.0.202206151506-sha.649008fb to prod-cluster-1"
        ]
    );
    let sample = lines[2..].iter().all(|line| line.contains("sample/"));
    assert!(sample && lines.len() > 40, "the week before is marked as a sample: {log}");
}

#[test]
fn the_demo_is_made_anew_but_never_over_somebodys_files() {
    let folder = folder::temporary();
    std::fs::create_dir(folder.path().join("mine")).unwrap();
    std::fs::write(folder.path().join("mine/file"), "precious").unwrap();
    let refused = program("the-deployer", folder.path())
        .args(["demo", "--exit", "--dir", "mine"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("is not empty"), "{}", said(&refused));
    assert_eq!(std::fs::read_to_string(folder.path().join("mine/file")).unwrap(), "precious");
    for _ in 0..2 {
        let output = program("the-deployer", folder.path())
            .args(["demo", "--exit", "--no-week", "--dir", "d"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
}

/// What the demo in that program says when it leaves the service running; then it is ended.
fn last_words(program: &std::path::Path, folder: &std::path::Path) -> String {
    use std::io::BufRead as _;
    let mut command = std::process::Command::new(program);
    command.args(["demo", "--no-week"]).current_dir(folder).env_clear().env("PATH", super::path());
    command.env("NO_COLOR", "1").env("HOME", folder).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let found = lines.map_while(Result::ok).find(|line| line.contains("still running"));
    child.kill().unwrap();
    child.wait().unwrap();
    found.expect("it says that it is still running")
}

#[test]
fn the_demo_names_bart_only_where_it_is() {
    let folder = folder::temporary();
    let both = std::path::Path::new(env!("CARGO_BIN_EXE_the-deployer"));
    let said = last_words(both, folder.path());
    let bart = both.with_file_name("bart");
    assert!(said.contains(&format!("{} status --all --server http://", bart.display())), "{said}");
    let alone = folder.path().join("the-deployer");
    if std::fs::hard_link(both, &alone).is_err() {
        std::fs::copy(both, &alone).unwrap();
    }
    let said = last_words(&alone, folder.path());
    assert!(said.contains("Look at it: http://") && !said.contains("bart"), "{said}");
}
