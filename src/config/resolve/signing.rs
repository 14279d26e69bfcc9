//! The key that a repository's commits are signed with.

use std::path::PathBuf;

use crate::config::file;
use crate::config::file::signing::SigningFormat;
use crate::config::resolve::Resolver;
use crate::git::signing::SigningKey;
use crate::git::signing::key::{Key, KeyError};

const ONE_OF: &str = "give exactly one of `file` and `env`";

impl Resolver<'_> {
    pub(super) fn signing(
        &mut self,
        path: &str,
        signing: file::signing::Signing,
        home: PathBuf,
    ) -> Option<SigningKey> {
        let file::signing::Signing { format, key, passphrase } = signing;
        let given = |secret: &file::Secret| if secret.file.is_some() { "file" } else { "env" };
        let at_key = format!("{path}.key.{}", given(&key));
        let at_passphrase = passphrase
            .as_ref()
            .map_or_else(String::new, |secret| format!("{path}.passphrase.{}", given(secret)));
        let key = self.secret(&format!("{path}.key"), key, ONE_OF);
        let passphrase = match passphrase {
            Some(secret) => Some(self.secret(&format!("{path}.passphrase"), secret, ONE_OF)?),
            None => None,
        };
        let key = match format {
            SigningFormat::Ssh => Key::ssh(&key?, passphrase.as_ref()),
            SigningFormat::OpenPgp => Key::openpgp(&key?, passphrase.as_ref()),
        };
        match key {
            Ok(key) => Some(SigningKey { key, home }),
            Err(error) => {
                let at = if error.is_of_passphrase() { &at_passphrase } else { &at_key };
                self.report.wrong(at, error.to_string(), help(format, &error));
                None
            }
        }
    }
}

fn help(format: SigningFormat, error: &KeyError) -> &'static str {
    match (error, format) {
        (KeyError::Locked, _) => "give its `passphrase: {file: PATH}`",
        (KeyError::WrongPassphrase | KeyError::Lines, _) => {
            "put the key's own passphrase there, in one line"
        }
        (KeyError::OtherFormat(_), SigningFormat::Ssh) => {
            "write `format: openpgp`, or give a key that `ssh-keygen -t ed25519` made"
        }
        (KeyError::OtherFormat(_), SigningFormat::OpenPgp) => {
            "write `format: ssh`, or give what `gpg --armor --export-secret-keys KEY` prints"
        }
        (_, SigningFormat::Ssh) => "make one with `ssh-keygen -t ed25519 -C the-deployer -f FILE`",
        (_, SigningFormat::OpenPgp) => "export it with `gpg --armor --export-secret-keys KEY`",
    }
}
