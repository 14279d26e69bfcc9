//! A secret in the configuration, and the credential made from it.

use std::path::Path;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::config::resolver::Resolver;
use crate::config::secret::{self, SecretSource};
use crate::support::credential::Credential;

/// The help for a secret that is not given in exactly one way.
pub(super) const ONE_OF: &str = "give exactly one of `file` and `env`";

/// A secret: exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Secret {
    /// A file with the secret and nothing else.
    pub(super) file: Option<String>,
    /// An environment variable with the secret.
    pub(super) env: Option<String>,
}

impl Resolver<'_> {
    /// Reads a secret.
    pub(super) fn secret(
        &mut self,
        path: &str,
        secret: Secret,
        help: &str,
    ) -> Option<SecretString> {
        let Secret { file, env } = secret;
        let (source, key) = match (file, env) {
            (Some(file), None) => {
                (SecretSource::File(secret::locate(Path::new(&file), self.variables)), "file")
            }
            (None, Some(name)) => (SecretSource::Variable(name), "env"),
            (Some(_), Some(_)) => {
                self.report.error(path, "this secret is given twice", help);
                return None;
            }
            (None, None) => {
                self.report.error(path, "this secret is not given", help);
                return None;
            }
        };
        let path = format!("{path}.{key}");
        match secret::read(&source, self.variables) {
            Ok(content) => {
                if let Some(warning) = content.warning {
                    self.report.warning(
                        &path,
                        warning,
                        "only its owner may read a file with a secret",
                    );
                }
                Some(content.secret)
            }
            Err(error) => {
                let help = "put the secret there, or name another place";
                self.report.error(&path, error.to_string(), help);
                None
            }
        }
    }

    pub(super) fn credential(&mut self, path: &str, secret: Secret) -> Option<Credential> {
        let file = secret.file.as_deref();
        let file = file.map(|file| secret::locate(Path::new(file), self.variables));
        self.secret(path, secret, ONE_OF).map(|secret| Credential { secret, file })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{SECRETS, loaded, refused, sources};

    #[cfg(unix)]
    #[test]
    fn a_secret_that_others_can_read_is_a_warning() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "abc\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let loaded = loaded(&format!("auth: {{tokens: [{{name: a, file: {}}}]}}", path.display()));
        assert_eq!(loaded.warnings.len(), 1);
        let warning = &loaded.warnings[0];
        assert!(warning.message.starts_with("other users of this machine can read /"), "{warning}");
        assert_eq!(warning.path, "auth.tokens[0].file");
    }

    #[test]
    fn a_secret_in_the_file_itself_is_refused_and_not_shown() {
        let text = "forge:\n  github:\n    token: ghp_plain\n    webhook_secret: {env: HOOK}\n    passwort: hunter2\n";
        let lines = refused(text);
        assert!(
            lines.contains("config.yaml:3:12: `forge.github.token` holds a secret itself"),
            "{lines}"
        );
        assert_eq!(lines.lines().count(), 2, "{lines}");
        let texts = sources(Some(text), &SECRETS).texts();
        let output = format!("{lines}{texts:?}");
        assert!(
            !output.contains("ghp_plain") && texts[0].1.contains("token: *********\n"),
            "{output}"
        );
    }
}
