//! Secrets: read from the configured file or variable, or made at first start. Their text is never shown, not even in
//! part.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::support::ownership;

/// The largest secret, in bytes; a path to a log file is a mistake.
const LARGEST: u64 = 64 * 1024;
/// The length of a random secret in bytes: the HMAC's digest; more adds nothing.
const RANDOM_BYTES: usize = 32;

/// The location of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A file with nothing else in it.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
}

/// A secret that was read.
#[derive(Debug)]
pub struct SecretValue {
    /// Its text, without the newline at its end.
    pub secret: SecretString,
    /// A warning about its location: other users can read it, too.
    pub warning: Option<String>,
}

/// The reason why a secret cannot be read or made.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable is not set.
    #[error("the variable {0} is not set")]
    NoVariable(String),
    /// The file or variable is empty.
    #[error("the secret in {0} is empty")]
    Empty(String),
    /// The content is too large or not text.
    #[error("{0} is larger than 64 KiB or not text, so it cannot be a secret")]
    NoText(PathBuf),
    /// The file cannot be read.
    #[error("{path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file cannot be made.
    #[error("{path} cannot be made: {source}")]
    NotMade {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Reads a secret.
///
/// # Errors
/// [`SecretError`]
pub fn read(
    source: &SecretSource,
    variables: &BTreeMap<String, String>,
) -> Result<SecretValue, SecretError> {
    match source {
        SecretSource::File(path) => from_file(path),
        SecretSource::Variable(name) => {
            let text = variables.get(name).ok_or_else(|| SecretError::NoVariable(name.clone()))?;
            Ok(SecretValue { secret: trim_line_end(text, name)?, warning: None })
        }
    }
}

/// The folder of systemd's credentials, as a configuration names them: it has a folder for each unit.
const CREDENTIALS: &str = "/run/credentials";
/// The variable with the credentials folder of this process.
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// Returns the path of a secret's file. A credential of a systemd unit exists only while that unit runs; another
/// process has it in the folder that `CREDENTIALS_DIRECTORY` names.
pub fn locate(path: &Path, variables: &BTreeMap<String, String>) -> PathBuf {
    let below = path.strip_prefix(CREDENTIALS).ok();
    let name = below.filter(|below| below.components().count() == 2).and_then(Path::file_name);
    match (name, variables.get(CREDENTIALS_DIRECTORY)) {
        (Some(name), Some(folder)) if !folder.is_empty() => Path::new(folder).join(name),
        _ => path.to_owned(),
    }
}

/// Reads the secret in that file; makes it, readable by its owner only, if it is missing.
///
/// # Errors
/// [`SecretError`]
pub fn load_or_create(path: &Path) -> Result<SecretValue, SecretError> {
    if !path.exists() {
        make(path).map_err(|source| SecretError::NotMade { path: path.to_owned(), source })?;
    }
    from_file(path)
}

/// A new token for the API.
pub struct NewToken {
    /// Its text, which is shown once.
    pub text: String,
    /// The SHA-256 of its text, in hexadecimal, for the configuration.
    pub sha256: String,
}

/// Makes a token. Its prefix tells people who find one what it is.
///
/// # Errors
/// When the system has no random numbers.
pub fn token() -> io::Result<NewToken> {
    use sha2::{Digest, Sha256};
    let text = format!("tdp_{}", random_text()?.trim_end());
    let sha256 = hex::encode(Sha256::digest(&text));
    Ok(NewToken { text, sha256 })
}

fn from_file(path: &Path) -> Result<SecretValue, SecretError> {
    let unreadable = |source| SecretError::Unreadable { path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(unreadable)?;
    let warning = others_can_read(&file.metadata().map_err(unreadable)?).then(|| {
        let path = path.display();
        format!("other users of this machine can read {path}: remove that right with `chmod o-r`")
    });
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let no_text = || SecretError::NoText(path.to_owned());
    if bytes.len() as u64 > LARGEST {
        return Err(no_text());
    }
    let text = String::from_utf8(bytes).map_err(|_| no_text())?;
    Ok(SecretValue { secret: trim_line_end(&text, &path.display().to_string())?, warning })
}

/// Removes the newline that editors and `echo` add at the end of a file.
fn trim_line_end(text: &str, place: &str) -> Result<SecretString, SecretError> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(SecretError::Empty(place.to_owned()));
    }
    Ok(text.into())
}

/// Writes the file under another name and links it to its place, so that nobody reads half of it, and of two processes
/// that start together one wins.
fn make(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        ownership::create_folders(folder)?;
    }
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let text = random_text()?;
    let written = private(&draft).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        ownership::give_to_folder_owner(&draft)
    });
    let linked = written.and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    fs::remove_file(&draft).and(linked)
}

fn random_text() -> io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(format!("{}\n", hex::encode(bytes)))
}

#[cfg(unix)]
fn private(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn private(path: &Path) -> io::Result<fs::File> {
    fs::File::create(path)
}

/// Returns whether other users can read the file; the group may, because an orchestrator hands secrets to a process by
/// its group.
#[cfg(unix)]
fn others_can_read(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o004 != 0
}

#[cfg(not(unix))]
fn others_can_read(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    use secrecy::ExposeSecret;

    fn file(text: &[u8]) -> (tempfile::TempDir, SecretSource) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, text).unwrap();
        (folder, SecretSource::File(path))
    }

    fn text_of(source: &SecretSource) -> Result<String, SecretError> {
        let variables = BTreeMap::from([("TOKEN".to_owned(), "abc\n".to_owned())]);
        read(source, &variables).map(|content| content.secret.expose_secret().to_owned())
    }

    #[test]
    fn one_newline_at_the_end_is_not_part_of_a_secret() {
        for (text, secret) in
            [("abc", "abc"), ("abc\n", "abc"), ("abc\r\n", "abc"), ("a b\n\n", "a b\n")]
        {
            let (_folder, source) = file(text.as_bytes());
            assert_eq!(text_of(&source).unwrap(), secret);
        }
        assert_eq!(text_of(&SecretSource::Variable("TOKEN".to_owned())).unwrap(), "abc");
    }

    #[test]
    fn what_is_no_secret_is_refused_by_its_place() {
        for text in [&b""[..], b"\n", b" \n", b"\xff\xfe", &vec![b'x'; 70_000]] {
            let (_folder, source) = file(text);
            let error = text_of(&source).unwrap_err().to_string();
            assert!(error.contains("/secret"), "{error}");
        }
        let none = text_of(&SecretSource::Variable("NONE".to_owned())).unwrap_err().to_string();
        assert_eq!(none, "the variable NONE is not set");
    }

    #[test]
    fn a_units_credential_is_found_where_this_process_has_it() {
        let variables =
            BTreeMap::from([("CREDENTIALS_DIRECTORY".to_owned(), "/etc/the-deployer".to_owned())]);
        let locate_text = |path: &str| locate(Path::new(path), &variables).display().to_string();
        assert_eq!(
            locate_text("/run/credentials/the-deployer.service/key.pem"),
            "/etc/the-deployer/key.pem"
        );
        for elsewhere in ["/run/secrets/key.pem", "/run/credentials/x", "/run/credentials/a/b/c"] {
            assert_eq!(locate_text(elsewhere), elsewhere);
        }
        let path = Path::new("/run/credentials/the-deployer.service/key.pem");
        assert_eq!(locate(path, &BTreeMap::new()), path);
    }

    #[test]
    fn a_new_token_is_another_each_time_and_its_hash_is_its_own() {
        use sha2::{Digest, Sha256};
        let (first, second) = (token().unwrap(), token().unwrap());
        assert!(
            first.text.starts_with("tdp_") && first.text.len() == 68 && first.text != second.text
        );
        assert_eq!(hex::encode(Sha256::digest(first.text.as_bytes())), first.sha256);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_noticed() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, source) = file(b"abc");
        let SecretSource::File(path) = &source else { panic!("a file") };
        for (mode, exposed) in [(0o600, false), (0o640, false), (0o644, true)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            let content = read(&source, &BTreeMap::new()).unwrap();
            assert_eq!(content.warning.is_some(), exposed, "{mode:o}");
        }
    }

    #[test]
    fn a_kept_secret_is_made_once_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/webhook-secret");
        let first = load_or_create(&path).unwrap();
        assert_eq!(first.secret.expose_secret().len(), 2 * RANDOM_BYTES);
        assert_eq!(first.warning, None);
        let again = load_or_create(&path).unwrap();
        assert_eq!(again.secret.expose_secret(), first.secret.expose_secret());
        let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "no draft is left");
        let other = load_or_create(&folder.path().join("other")).unwrap();
        assert_ne!(other.secret.expose_secret(), first.secret.expose_secret());
    }
}
