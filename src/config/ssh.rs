//! Git over ssh: the key, and the accepted host keys.

use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use schemars::JsonSchema;
use secrecy::ExposeSecret as _;
use serde::Deserialize;

use crate::config::credential::Secret;
use crate::config::resolver::Resolver;
use crate::git::transport::ssh;
use crate::model::ssh::SshAddress;
use crate::support::credential::Credential;

/// The credentials of git over ssh.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ssh {
    /// The private key, without a passphrase, as `ssh-keygen` writes it. A file is read for each exchange, so that it
    /// may be renewed.
    key: Secret,
    /// The file with the accepted host keys, as `ssh-keyscan` writes it. No other host is accepted.
    known_hosts: String,
}

impl Resolver<'_> {
    /// Reads the key and the host keys: without host keys anybody on the way could pose as the host.
    pub(super) fn over_ssh(
        &mut self,
        path: &str,
        url: &str,
        ssh: Option<Ssh>,
        folder: PathBuf,
    ) -> Option<(Credential, ssh::SshAccess)> {
        let Some(Ssh { key, known_hosts }) = ssh else {
            let help = "add `ssh: {key: {file: PATH}, known_hosts: PATH}` beside `url`";
            self.report.error(
                &format!("{path}.url"),
                "there is no ssh key to authenticate with",
                help,
            );
            return None;
        };
        let known_hosts = PathBuf::from(known_hosts);
        self.known_hosts(&format!("{path}.ssh.known_hosts"), &known_hosts, url);
        let key_path = format!("{path}.ssh.key");
        let key = self.credential(&key_path, key)?;
        if let Some((message, help)) = problem_of_key(key.secret.expose_secret()) {
            self.report.error(&key_path, message, help);
        }
        Some((key, ssh::SshAccess { known_hosts, folder }))
    }

    fn known_hosts(&mut self, path: &str, file: &Path, url: &str) {
        let Ok(address) = SshAddress::parse(url) else { return };
        let port = address.port().map_or_else(String::new, |port| format!("-p {port} "));
        let scan = format!(
            "put the output of `ssh-keyscan {port}{}` there, after comparing it with the keys that \
             the host publishes",
            address.host()
        );
        match std::fs::read_to_string(file) {
            Err(error) => {
                let message = format!("{} cannot be read: {error}", file.display());
                self.report.error(path, message, &scan);
            }
            Ok(text) if !may_name(&text, &address.known_as()) => {
                let message = format!("{} has no key of {}", file.display(), address.known_as());
                self.report.warning(path, message, &scan);
            }
            Ok(_) => {}
        }
    }
}

/// Finds the problem of a key that cannot be used, with its help; the key's text is not shown.
fn problem_of_key(text: &str) -> Option<(&'static str, &'static str)> {
    if !text.contains("PRIVATE KEY-----") {
        return Some((
            "this is no private key",
            "give the private half, as `ssh-keygen -t ed25519` writes it",
        ));
    }
    has_passphrase(text).then_some((
        "this key has a passphrase, which the service cannot enter",
        "remove it (`ssh-keygen -p`), or make a key for this service alone",
    ))
}

/// Returns whether the key has a passphrase: an OpenSSH key names its cipher after its magic, a PEM says it in words.
fn has_passphrase(text: &str) -> bool {
    const MAGIC: &[u8] = b"openssh-key-v1\0";
    let lines = text.lines().map(str::trim);
    let body: String = lines.filter(|line| !line.starts_with("-----")).collect();
    let decoded = BASE64_STANDARD.decode(body).unwrap_or_default();
    let cipher = decoded.strip_prefix(MAGIC).and_then(|rest| rest.get(4..));
    text.contains("ENCRYPTED") || cipher.is_some_and(|cipher| !cipher.starts_with(b"none"))
}

/// Returns whether a line of the file may name that host: by its name, by a pattern or hashed.
fn may_name(text: &str, host: &str) -> bool {
    text.lines().map(str::trim).filter(|line| !line.starts_with('#')).any(|line| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with('@'));
        let names = words.next().unwrap_or_default();
        names.split(',').any(|name| {
            name.eq_ignore_ascii_case(host) || name.starts_with('|') || name.contains(['*', '?'])
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LoadedConfig;
    use crate::config::access::GitAccess;
    use crate::config::templates::TemplatesSettings;
    use crate::config::tests::{SECRETS, lines, sources};
    use crate::model::violation::Rejection;

    /// Made for this test, and let in nowhere. Its comment and public half say nothing of anybody.
    const OPEN: &str = include_str!("tests/open.key");

    /// The same with the passphrase `secret`.
    const LOCKED: &str = include_str!("tests/locked.key");

    const KEY: &str = "ssh: {key: {env: OPEN}, known_hosts: HOSTS}";

    /// Loads the settings of a manifest repository, with a file of known hosts in place of `HOSTS`.
    fn with(repository: &str) -> Result<LoadedConfig, Rejection> {
        let folder = tempfile::tempdir().unwrap();
        let hosts = folder.path().join("hosts");
        std::fs::write(&hosts, "# ours\ngithub.com,[git.example.com]:2222 ssh-ed25519 AAAA\n")
            .unwrap();
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
            let repository = &loaded.settings.manifests[0];
            let GitAccess::Ssh { key, access: ssh::SshAccess { known_hosts, folder } } =
                &repository.access
            else {
                panic!("{repository:?}")
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
        let TemplatesSettings::Repository(repository) = loaded.settings.templates else {
            panic!("repository")
        };
        let GitAccess::Ssh { access, .. } = repository.access else { panic!("{repository:?}") };
        assert_eq!(access.folder, Path::new(".the-deployer/ssh/templates"));
        assert_eq!(loaded.warnings, []);
    }

    #[test]
    fn what_keeps_us_out_is_told_at_its_place() {
        let url = "url: 'git@github.com:o/n.git'";
        for (repository, words) in [
            (url.to_owned(), "there is no ssh key to authenticate with"),
            (
                format!("{url}, token: {{env: TOKEN}}, {KEY}"),
                "`token` is given, and the repository is",
            ),
            (format!("{url}, auth: none, {KEY}"), "`auth` is given, and the repository is"),
            (format!("url: 'https://h/n', {KEY}"), "the repository is not reached over ssh"),
            (format!("url: /srv/n.git, {KEY}"), "the repository is not reached over ssh"),
            (format!("url: 'github.com:o/n', {KEY}"), "as which user to come"),
            (format!("url: 'ssh://git:hunter2@h/n', {KEY}"), "which ends in logs"),
            (format!("{url}, ssh: {{key: {{env: TOKEN}}, known_hosts: HOSTS}}"), "no private key"),
            (
                format!("{url}, ssh: {{key: {{env: LOCKED}}, known_hosts: HOSTS}}"),
                "has a passphrase",
            ),
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
}
