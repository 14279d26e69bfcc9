//! The signatures of commits.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::credential::{ONE_OF, Secret};
use crate::config::resolver::Resolver;
use crate::git::signing::SigningKey;
use crate::git::signing::key::{SigningKeyError, SigningPrivateKey};

/// The key that signs commits.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Signing {
    /// `ssh`, or `openpgp` by the program `gpg`, which Argo CD can check.
    format: SigningFormat,
    /// The private key: an Ed25519 one that `ssh-keygen` made, or what `gpg --armor
    /// --export-secret-keys` prints. It is read at start.
    key: Secret,
    /// The passphrase of the key, if it has one.
    #[serde(default)]
    passphrase: Option<Secret>,
}

/// The format of signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SigningFormat {
    /// An ssh signature.
    Ssh,
    /// An OpenPGP signature.
    OpenPgp,
}

impl Resolver<'_> {
    pub(super) fn signing(
        &mut self,
        path: &str,
        signing: Signing,
        home: PathBuf,
    ) -> Option<SigningKey> {
        let Signing { format, key, passphrase } = signing;
        let source_key = |secret: &Secret| if secret.file.is_some() { "file" } else { "env" };
        let at_key = format!("{path}.key.{}", source_key(&key));
        let at_passphrase = passphrase
            .as_ref()
            .map_or_else(String::new, |secret| format!("{path}.passphrase.{}", source_key(secret)));
        let key = self.secret(&format!("{path}.key"), key, ONE_OF);
        let passphrase = match passphrase {
            Some(secret) => Some(self.secret(&format!("{path}.passphrase"), secret, ONE_OF)?),
            None => None,
        };
        let key = match format {
            SigningFormat::Ssh => SigningPrivateKey::ssh(&key?, passphrase.as_ref()),
            SigningFormat::OpenPgp => SigningPrivateKey::openpgp(&key?, passphrase.as_ref()),
        };
        match key {
            Ok(key) => Some(SigningKey { key, home }),
            Err(error) => {
                let at = if error.is_of_passphrase() { &at_passphrase } else { &at_key };
                self.report.error(at, error.to_string(), help(format, &error));
                None
            }
        }
    }
}

fn help(format: SigningFormat, error: &SigningKeyError) -> &'static str {
    match (error, format) {
        (SigningKeyError::Locked, _) => "give its `passphrase: {file: PATH}`",
        (SigningKeyError::WrongPassphrase | SigningKeyError::Lines, _) => {
            "put the key's own passphrase there, in one line"
        }
        (SigningKeyError::OtherFormat(_), SigningFormat::Ssh) => {
            "write `format: openpgp`, or give a key that `ssh-keygen -t ed25519` made"
        }
        (SigningKeyError::OtherFormat(_), SigningFormat::OpenPgp) => {
            "write `format: ssh`, or give what `gpg --armor --export-secret-keys KEY` prints"
        }
        (_, SigningFormat::Ssh) => "make one with `ssh-keygen -t ed25519 -C the-deployer -f FILE`",
        (_, SigningFormat::OpenPgp) => "export it with `gpg --armor --export-secret-keys KEY`",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::settings::Settings;
    use crate::config::tests::{lines, loaded, sources};
    use crate::model::violation::Rejection;

    const KEYS: [(&str, &str); 5] = [
        ("SSH", include_str!("../git/signing/tests/open")),
        ("LOCKED", include_str!("../git/signing/tests/locked")),
        ("PGP", include_str!("../git/signing/tests/open.asc")),
        ("PASSPHRASE", "correct horse\n"),
        ("OTHER", "other"),
    ];

    fn with(signing: &str) -> Result<Settings, Rejection> {
        let text = format!(
            "manifests: {{repositories: [{{name: fleet, url: /srv/m.git, signing: {{{signing}}}}}]}}\n"
        );
        sources(Some(&text), &KEYS).load().map(|loaded| loaded.settings)
    }

    #[test]
    fn a_key_of_either_format_is_read_at_once() {
        let signing = |text: &str| {
            let settings = with(text).unwrap_or_else(|rejection| panic!("{rejection:#?}"));
            settings.manifests[0].signing.clone().unwrap()
        };
        let ssh = signing("format: ssh, key: {env: SSH}");
        assert!(matches!(ssh.key, SigningPrivateKey::Ssh(_)));
        let locked = signing("format: ssh, key: {env: LOCKED}, passphrase: {env: PASSPHRASE}");
        assert!(matches!(locked.key, SigningPrivateKey::Ssh(_)));
        let openpgp = signing("format: openpgp, key: {env: PGP}");
        assert!(matches!(openpgp.key, SigningPrivateKey::OpenPgp(_)));
        assert_eq!(openpgp.home, Path::new(".the-deployer/gnupg/fleet"));
        let none = loaded("").settings.manifests[0].signing.clone();
        assert!(none.is_none());
    }

    #[test]
    fn a_key_that_cannot_sign_is_told_at_its_place_with_a_way_out() {
        let refused = |text: &str| lines(with(text));
        insta::assert_snapshot!(refused("format: ssh, key: {env: PGP}"), @"config.yaml:1:93: this is an OpenPGP key, which another `format` is for [configuration]; write `format: openpgp`, or give a key that `ssh-keygen -t ed25519` made");
        insta::assert_snapshot!(refused("format: openpgp, key: {env: SSH}"), @"config.yaml:1:97: this is a key of ssh or TLS, which another `format` is for [configuration]; write `format: ssh`, or give what `gpg --armor --export-secret-keys KEY` prints");
        insta::assert_snapshot!(refused("format: ssh, key: {env: OTHER}"), @"config.yaml:1:93: this is no private ssh key: one begins with -----BEGIN OPENSSH PRIVATE KEY----- [configuration]; make one with `ssh-keygen -t ed25519 -C the-deployer -f FILE`");
        insta::assert_snapshot!(refused("format: ssh, key: {env: LOCKED}"), @"config.yaml:1:93: this key is locked with a passphrase, and `passphrase` is not given [configuration]; give its `passphrase: {file: PATH}`");
        let wrong = "format: ssh, key: {env: LOCKED}, passphrase: {env: OTHER}";
        insta::assert_snapshot!(refused(wrong), @"config.yaml:1:120: the passphrase does not unlock this key [configuration]; put the key's own passphrase there, in one line");
        insta::assert_snapshot!(refused("format: gpg, key: {env: SSH}"), @"config.yaml:1:77: `manifests.repositories[0].signing.format` must be one of `ssh` and `openpgp`, but `gpg` is not one of the allowed words [schema]; use one of `ssh` and `openpgp`");
        insta::assert_snapshot!(refused("format: ssh, key: {file: a, env: SSH}"), @"config.yaml:1:82: this secret is given twice [configuration]; give exactly one of `file` and `env`");
    }
}
