//! How we come to a git repository over ssh: the key, and whom we believe to be the host.

use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use secrecy::ExposeSecret as _;

use crate::config::file::access::Ssh;
use crate::config::resolve::Resolver;
use crate::config::resolve::access::Given;
use crate::config::settings::{GitAccess, SshAccess};
use crate::model::ssh::SshAddress;

impl Resolver<'_> {
    /// Over ssh there is a key and no token; without host keys anybody on the way could be the host.
    pub(super) fn over_ssh(
        &mut self,
        path: &str,
        url: &str,
        (token, auth, ssh): Given,
        folder: PathBuf,
    ) -> GitAccess {
        for (key, given) in [("token", token.is_some()), ("auth", auth.is_some())] {
            if given {
                let message = format!("`{key}` is given, and the repository is reached over ssh");
                let help = "give a key under `ssh`, or write an https:// address";
                self.report.wrong(&format!("{path}.{key}"), message, help);
            }
        }
        let Some(Ssh { key, known_hosts }) = ssh else {
            let help = "add `ssh: {key: {file: PATH}, known_hosts: PATH}` beside `url`";
            self.report.wrong(&format!("{path}.url"), "there is no key to come in with", help);
            return GitAccess::Anybody;
        };
        let known_hosts = PathBuf::from(known_hosts);
        self.known_hosts(&format!("{path}.ssh.known_hosts"), &known_hosts, url);
        let key_path = format!("{path}.ssh.key");
        let Some(key) = self.credential(&key_path, key) else { return GitAccess::Anybody };
        if let Some((message, help)) = problem_of_key(key.secret.expose_secret()) {
            self.report.wrong(&key_path, message, help);
        }
        GitAccess::Ssh(SshAccess { key, known_hosts, folder })
    }

    fn known_hosts(&mut self, path: &str, file: &Path, url: &str) {
        let Ok(address) = SshAddress::parse(url) else { return };
        let port = address.port().map_or_else(String::new, |port| format!("-p {port} "));
        let scan = format!(
            "put there what `ssh-keyscan {port}{}` shows, once it is what the host makes public",
            address.host()
        );
        match std::fs::read_to_string(file) {
            Err(error) => {
                let message = format!("{} cannot be read: {error}", file.display());
                self.report.wrong(path, message, &scan);
            }
            Ok(text) if !may_name(&text, &address.known_as()) => {
                let message = format!("{} has no key of {}", file.display(), address.known_as());
                self.report.doubtful(path, message, &scan);
            }
            Ok(_) => {}
        }
    }
}

/// What keeps a key from being used, and what to do; its text is not shown.
fn problem_of_key(text: &str) -> Option<(&'static str, &'static str)> {
    if !text.contains("PRIVATE KEY-----") {
        return Some((
            "this is no private key",
            "give the private half, as `ssh-keygen -t ed25519` writes it",
        ));
    }
    has_passphrase(text).then_some((
        "this key has a passphrase, and nobody is there to type it",
        "take it away (`ssh-keygen -p`), or make a key for this service alone",
    ))
}

/// An OpenSSH key names its cipher after its magic; a PEM says it in words.
fn has_passphrase(text: &str) -> bool {
    const MAGIC: &[u8] = b"openssh-key-v1\0";
    let lines = text.lines().map(str::trim);
    let body: String = lines.filter(|line| !line.starts_with("-----")).collect();
    let decoded = BASE64_STANDARD.decode(body).unwrap_or_default();
    let cipher = decoded.strip_prefix(MAGIC).and_then(|rest| rest.get(4..));
    text.contains("ENCRYPTED") || cipher.is_some_and(|cipher| !cipher.starts_with(b"none"))
}

/// Whether a line of the file may be of that host: by its name, by a pattern or hashed.
fn may_name(text: &str, host: &str) -> bool {
    text.lines().map(str::trim).filter(|line| !line.starts_with('#')).any(|line| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with('@'));
        let names = words.next().unwrap_or_default();
        names.split(',').any(|name| {
            name.eq_ignore_ascii_case(host) || name.starts_with('|') || name.contains(['*', '?'])
        })
    })
}
