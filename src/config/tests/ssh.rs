//! Repositories behind ssh: keys, and whom we believe to be the host.

use super::*;
use crate::config::settings::{GitAccess, SshAccess};

/// Made for this test, and let in nowhere. Its comment and public half say nothing of anybody.
const OPEN: &str = include_str!("open.key");
/// The same with the passphrase `secret`.
const LOCKED: &str = include_str!("locked.key");

const KEY: &str = "ssh: {key: {env: OPEN}, known_hosts: HOSTS}";

/// What becomes of a manifest repository, with a file of known hosts in place of `HOSTS`.
fn with(repository: &str) -> Result<Loaded, Rejection> {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "# ours\ngithub.com,[git.example.com]:2222 ssh-ed25519 AAAA\n").unwrap();
    let repository = repository.replace("HOSTS", hosts.to_str().unwrap());
    let text = format!("manifests: {{repositories: [{{name: m, {repository}}}]}}\n");
    let keys = [SECRETS[0], ("OPEN", OPEN), ("LOCKED", LOCKED)];
    sources(Some(&text), &keys).load()
}

#[test]
fn a_key_and_the_hosts_that_are_believed_are_what_ssh_needs() {
    for url in ["git@github.com:o/n.git", "ssh://git@git.example.com:2222/o/n.git"] {
        let loaded = with(&format!("url: '{url}', {KEY}")).unwrap();
        assert_eq!(loaded.warnings, [], "{url}");
        let one = &loaded.settings.manifests[0];
        let GitAccess::Ssh(SshAccess { key, known_hosts, folder }) = &one.access else {
            panic!("{one:?}")
        };
        assert_eq!(key.secret.expose_secret(), OPEN.trim_end());
        assert!(known_hosts.ends_with("hosts"));
        assert_eq!(folder, Path::new(".the-deployer/ssh/manifests-m"));
    }
}

#[test]
fn templates_are_reached_in_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "|1|hashed|hashed ssh-ed25519 AAAA\n").unwrap();
    let text = format!(
        "templates: {{repository: {{url: 'git@h:t.git', ssh: {{key: {{env: OPEN}}, known_hosts: {}}}}}}}\n",
        hosts.display()
    );
    let loaded = sources(Some(&text), &[("OPEN", OPEN)]).load().unwrap();
    let Templates::Repository(one) = loaded.settings.templates else { panic!("repository") };
    let GitAccess::Ssh(access) = one.access else { panic!("{one:?}") };
    assert_eq!(access.folder, Path::new(".the-deployer/ssh/templates"));
    assert_eq!(loaded.warnings, []);
}

#[test]
fn what_keeps_us_out_is_told_at_its_place() {
    let url = "url: 'git@github.com:o/n.git'";
    for (repository, words) in [
        (url.to_owned(), "there is no key to come in with"),
        (format!("{url}, token: {{env: TOKEN}}, {KEY}"), "`token` is given, and the repository is"),
        (format!("{url}, auth: none, {KEY}"), "`auth` is given, and the repository is"),
        (format!("url: 'https://h/n', {KEY}"), "the repository is not reached over ssh"),
        (format!("url: /srv/n.git, {KEY}"), "the repository is not reached over ssh"),
        (format!("url: 'github.com:o/n', {KEY}"), "as which user to come"),
        (format!("url: 'ssh://git:hunter2@h/n', {KEY}"), "which ends in logs"),
        (format!("{url}, ssh: {{key: {{env: TOKEN}}, known_hosts: HOSTS}}"), "no private key"),
        (format!("{url}, ssh: {{key: {{env: LOCKED}}, known_hosts: HOSTS}}"), "has a passphrase"),
        (format!("{url}, ssh: {{key: {{env: OPEN}}, known_hosts: /no}}"), "/no cannot be read"),
        (format!("{url}, ssh: {{key: {{env: OPEN}}}}"), "`known_hosts` is missing"),
        (format!("{url}, ssh: {{key: abc, known_hosts: HOSTS}}"), "holds a secret itself"),
        (format!("{url}, {KEY}, signing: {{format: ssh, key: abc}}"), "holds a secret itself"),
    ] {
        let lines = lines(with(&repository).map(|loaded| loaded.settings));
        assert!(lines.contains(words), "{words} in\n{lines}");
        assert!(!lines.contains("hunter2") && !lines.contains("OPENSSH"), "{lines}");
    }
}

#[test]
fn a_file_that_does_not_name_the_host_is_doubtful() {
    let warnings = with(&format!("url: 'git@elsewhere.com:o/n.git', {KEY}")).unwrap().warnings;
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.to_string().contains("has no key of elsewhere.com"), "{warning}");
    assert!(warning.help.as_deref().unwrap().contains("`ssh-keyscan elsewhere.com`"));
}
