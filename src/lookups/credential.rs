//! A secret that may change while we run: agents and kubelets write a new token into the same
//! file every hour, so a file is read anew for each question.

use std::path::PathBuf;

use secrecy::SecretString;
use tokio::io::AsyncReadExt as _;

use crate::lookups::NotKnown;

/// No token is longer; a path that leads to something else is a mistake.
const LARGEST: u64 = 64 * 1024;

/// A token or password.
#[derive(Debug, Clone)]
pub enum Credential {
    /// Known, and the same for ever.
    Fixed(SecretString),
    /// In a file that holds nothing else.
    File(PathBuf),
}

impl Credential {
    /// Its text now, without the newline at its end.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, or holds what no header can carry.
    pub async fn text(&self) -> Result<SecretString, NotKnown> {
        match self {
            Self::Fixed(secret) => Ok(secret.clone()),
            Self::File(path) => read(path).await,
        }
    }
}

async fn read(path: &std::path::Path) -> Result<SecretString, NotKnown> {
    let failed = |why: String| NotKnown::new(format!("our token in {}: {why}", path.display()));
    let file = tokio::fs::File::open(path).await.map_err(|error| failed(error.to_string()))?;
    let mut text = String::new();
    let read = file.take(LARGEST).read_to_string(&mut text).await;
    read.map_err(|error| failed(error.to_string()))?;
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(failed("it is empty or no token".to_owned()));
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[tokio::test]
    async fn a_file_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let credential = Credential::File(path.clone());
        let missing = credential.text().await.unwrap_err().to_string();
        assert!(missing.contains("token: No such file"), "{missing}");
        for token in ["first", "second"] {
            std::fs::write(&path, format!("{token}\n")).unwrap();
            assert_eq!(credential.text().await.unwrap().expose_secret(), token);
        }
        for bad in ["", "\n", "a\nb", "a\u{1b}b"] {
            std::fs::write(&path, bad).unwrap();
            let said = credential.text().await.unwrap_err().to_string();
            assert!(said.ends_with("it is empty or no token"), "{said}");
        }
    }
}
