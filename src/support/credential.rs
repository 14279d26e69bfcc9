//! A secret that may change at run time: agents and kubelets write a new token into the same file every hour.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::AsyncReadExt as _;

/// The largest secret, in bytes; a path to something else is a mistake.
const LARGEST: u64 = 64 * 1024;

/// A secret that was read once, and the file that it may be read from again.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The text as it was when the settings were made.
    pub secret: SecretString,
    /// The file in which it may change, and which has nothing else in it.
    pub file: Option<PathBuf>,
}

impl Credential {
    /// Reads the text, without the newline at its end: a file is read anew.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, or has characters that no header can carry.
    pub async fn text(&self) -> Result<SecretString, String> {
        let Some(path) = &self.file else { return Ok(self.secret.clone()) };
        let failed = |why: String| format!("the service's token in {}: {why}", path.display());
        let content = self.content().await.map_err(|error| failed(error.to_string()))?;
        let text = content.expose_secret().trim_end_matches(['\n', '\r']);
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(failed("it is empty or not a token".to_owned()));
        }
        Ok(text.into())
    }

    /// Reads the whole content: a file is read anew, as far as it is no mistake.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn content(&self) -> std::io::Result<SecretString> {
        let Some(path) = &self.file else { return Ok(self.secret.clone()) };
        let mut content = String::new();
        tokio::fs::File::open(path).await?.take(LARGEST).read_to_string(&mut content).await?;
        Ok(content.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let credential = Credential { secret: "zeroth".into(), file: Some(path.clone()) };
        let missing = credential.text().await.unwrap_err();
        assert!(missing.contains("token: No such file"), "{missing}");
        for token in ["first", "second"] {
            std::fs::write(&path, format!("{token}\n")).unwrap();
            assert_eq!(credential.text().await.unwrap().expose_secret(), token);
        }
        for bad in ["", "\n", "a\nb", "a\u{1b}b"] {
            std::fs::write(&path, bad).unwrap();
            let message = credential.text().await.unwrap_err();
            assert!(message.ends_with("it is empty or not a token"), "{message}");
        }
    }
}
