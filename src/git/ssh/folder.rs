//! The folder that `ssh` runs in: our key, the host keys that are believed, and the socket of the
//! connection that is kept. For our eyes only.
//!
//! Both are copies, made anew when their source changes: ssh refuses a key that others of the
//! machine can read, which is how an orchestrator may hand it to us.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use secrecy::{ExposeSecret as _, SecretString};

use crate::git::ssh::options::{self, KEY, KNOWN_HOSTS, SOCKET};
use crate::model::ssh::SshAddress;

/// A file of known hosts is a few lines; what is larger is another file.
const LARGEST: u64 = 1024 * 1024;

/// The folder; several repositories do not share one, because they may have other keys.
#[derive(Debug, Clone)]
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    /// Puts the key and the host keys there. When either has changed, the connection that was made
    /// with the former one is not used again.
    pub(super) fn prepare(&self, key: &SecretString, known_hosts: &Path) -> io::Result<()> {
        make(&self.0)?;
        // What was typed into a file by an editor may lack the last newline; ssh insists on it.
        let key = format!("{}\n", key.expose_secret().trim_end());
        let hosts = read(known_hosts)?;
        let other_key = self.put(KEY, key.as_bytes())?;
        let other_hosts = self.put(KNOWN_HOSTS, &hosts)?;
        if other_key || other_hosts {
            self.forget_connection();
        }
        Ok(())
    }

    /// The next child makes a connection of its own; whoever uses the former one still may end.
    pub(super) fn forget_connection(&self) {
        let _absent = fs::remove_file(self.0.join(SOCKET));
    }

    /// Has the connection that is kept end by itself, once nobody uses it any more.
    #[expect(clippy::zombie_processes, reason = "it ends at once, and so does whoever started it")]
    pub(super) fn let_go(&self, address: &SshAddress) {
        if !self.0.join(SOCKET).exists() {
            return;
        }
        let mut command = Command::new("ssh");
        command.args(options::letting_go(address)).current_dir(&self.0).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let _ended_already = command.spawn();
    }

    /// Whether the file was another one before. Written beside its place, so that ssh never reads
    /// half of it.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let path = self.0.join(name);
        if fs::read(&path).is_ok_and(|found| found == bytes) {
            return Ok(false);
        }
        let draft = self.0.join(format!("{name}.draft-{}", std::process::id()));
        let _left_by_a_crash = fs::remove_file(&draft);
        private(&draft)?.write_all(bytes)?;
        fs::rename(&draft, &path)?;
        Ok(true)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let told =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(told)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > LARGEST {
        return Err(told(io::Error::other("it is larger than a file of known hosts")));
    }
    Ok(bytes)
}

#[cfg(unix)]
fn make(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(unix)]
fn private(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn private(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn key_and_hosts_are_for_us_alone_and_a_change_forgets_the_connection() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder(temporary.path().join("a/ssh"));
        let hosts = temporary.path().join("hosts");
        fs::write(&hosts, "h ssh-ed25519 AAAA\n").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let socket = folder.0.join(SOCKET);

        folder.prepare(&"one".into(), &hosts).unwrap();
        assert_eq!(fs::read_to_string(folder.0.join(KEY)).unwrap(), "one\n");
        assert_eq!((mode(&folder.0), mode(&folder.0.join(KEY))), (0o700, 0o600));
        fs::write(&socket, "").unwrap();
        folder.prepare(&"one\n".into(), &hosts).unwrap();
        assert!(socket.exists(), "nothing has changed");
        folder.prepare(&"two".into(), &hosts).unwrap();
        assert!(!socket.exists(), "the key is another one");
        fs::write(&socket, "").unwrap();
        fs::write(&hosts, "h ssh-ed25519 BBBB\n").unwrap();
        folder.prepare(&"two".into(), &hosts).unwrap();
        assert!(!socket.exists(), "the host's key is another one");
        let error = folder.prepare(&"two".into(), Path::new("/nowhere/hosts")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/hosts"), "{error}");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "no draft is left");
    }
}
