//! Signed commits, by the real program.

use crate::harness::events::Event;
use crate::harness::git::{Bare, git};
use crate::harness::is_missing;
use crate::harness::process::Home;

const SSH: &str = include_str!("../../src/git/signing/tests/open");
const SSH_PUBLIC: &str = include_str!("../../src/git/signing/tests/open.pub");
const LOCKED: &str = include_str!("../../src/git/signing/tests/locked.asc");
const PASSPHRASE: &str = "correct horse";

/// A home whose manifests are in `m.git` beside it, signed with that key.
fn home(signing: &str, key: &str, passphrase: &str) -> (Home, Bare) {
    let home = Home::configured(&format!(
        "manifests:\n  repositories:\n  - {{name: fleet, url: m.git, signing: {{{signing}}}}}\n"
    ));
    std::fs::write(home.path("key"), key).unwrap();
    std::fs::write(home.path("passphrase"), passphrase).unwrap();
    let bare = Bare::create(&home.path("m.git"));
    (home, bare)
}

#[tokio::test]
async fn a_deployments_commit_is_signed_and_names_the_person() {
    if is_missing("ssh-keygen", "tests of signatures") {
        return;
    }
    let (home, bare) = home("format: ssh, key: {file: key}", SSH, "");
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    assert_eq!(process.ended(&id).await["state"], "succeeded", "{}", process.log());
    let signers = home.path("signers");
    std::fs::write(&signers, format!("the-deployer@localhost {SSH_PUBLIC}")).unwrap();
    let mut verify = git(&bare.0);
    verify.arg("-c").arg(format!("gpg.ssh.allowedSignersFile={}", signers.display()));
    let verified = verify.args(["verify-commit", "main"]).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let said = bare.run(&["log", "-1", "--format=%an <%ae>, %cn <%ce>", "main"]);
    assert_eq!(said, "octocat <octocat@localhost>, the-deployer <the-deployer@localhost>\n");
    assert!(process.log().contains("commits are signed") && process.log().contains("SHA256:"));
}

#[tokio::test]
async fn a_locked_key_signs_and_its_passphrase_is_nowhere() {
    if is_missing("gpg", "tests of signatures") {
        return;
    }
    let signing = "format: openpgp, key: {file: key}, passphrase: {file: passphrase}";
    let (home, bare) = home(signing, LOCKED, PASSPHRASE);
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    assert_eq!(process.ended(&id).await["state"], "succeeded", "{}", process.log());
    assert!(bare.run(&["cat-file", "commit", "main"]).contains("-----BEGIN PGP SIGNATURE-----"));
    assert!(!process.log().contains(PASSPHRASE));
    assert!(home.state("gnupg/fleet").exists());
    process.terminate();
    assert!(process.end().await.0.success());
    assert!(!home.state("gnupg/fleet").exists(), "nothing of the key is left");
}

#[tokio::test]
async fn with_a_wrong_passphrase_it_does_not_start_and_says_why() {
    if is_missing("gpg", "tests of signatures") {
        return;
    }
    let signing = "format: openpgp, key: {file: key}, passphrase: {file: passphrase}";
    let (home, bare) = home(signing, LOCKED, "another one");
    let output = home.start_in_vain(&[]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("Bad passphrase (correct `passphrase`)"), "{said}");
    assert!(!said.contains("another one"), "{said}");
    assert_eq!(bare.commits(), 0);
    let left = std::fs::read_dir(home.state("gnupg")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing of the key is left");
}
