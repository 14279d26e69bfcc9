//! The folder that `ssh` runs in: the key, the trusted host keys, and the socket of the shared connection. Only this
//! user may read it.
//!
//! Key and host keys are copies, written again when their source changes: ssh refuses a key that others of the machine
//! can read, which is how an orchestrator may deliver it. The last process to leave the folder removes them: `init` may
//! work beside a service, with the same folder.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use crate::git::transport::ssh::options::{self, KEY, KNOWN_HOSTS, SOCKET};
use crate::model::ssh::SshAddress;

/// The largest file of known hosts: one has a few lines; a larger file is another one.
const LARGEST: u64 = 1024 * 1024;
/// The file that every user of the folder locks.
const IN_USE: &str = "in-use";
/// The number of checks that the connection has ended. A connection that is told to end does so at once; after these
/// checks, with a pause between, it is left alone.
const LOOKS: u32 = 400;
const REST: Duration = Duration::from_millis(5);

/// The folder; several repositories do not share one, because they may have other keys.
#[derive(Debug)]
pub(super) struct KeyFolder {
    pub(super) path: PathBuf,
    address: SshAddress,
    /// The lock of this process from the first use until it leaves.
    in_use: Option<File>,
}

impl KeyFolder {
    pub(super) fn new(path: PathBuf, address: SshAddress) -> Self {
        Self { path, address, in_use: None }
    }

    /// Puts the key and the host keys there. When either has changed, the connection that was made
    /// with the former one is not used again.
    pub(super) fn prepare(&mut self, key: &SecretString, known_hosts: &Path) -> io::Result<()> {
        make(&self.path)?;
        self.enter()?;
        // A key that an editor saved may lack the last newline, on which ssh insists.
        let key = format!("{}\n", key.expose_secret().trim_end());
        let hosts = read(known_hosts)?;
        let other_key = self.put(KEY, key.as_bytes())?;
        let other_hosts = self.put(KNOWN_HOSTS, &hosts)?;
        if other_key || other_hosts {
            self.forget_connection();
        }
        Ok(())
    }

    fn enter(&mut self) -> io::Result<()> {
        if self.in_use.is_none() {
            let file = self.in_use_file(true)?;
            file.lock_shared()?;
            self.in_use = Some(file);
        }
        Ok(())
    }

    fn in_use_file(&self, create: bool) -> io::Result<File> {
        let mut options = File::options();
        options.create(create).truncate(false).read(true).write(true);
        options.open(self.path.join(IN_USE))
    }

    /// Removes the copies, if no other process uses them, and ends the connection; also the files of a process that was
    /// killed. The next use brings the copies back.
    pub(super) fn leave(&mut self) -> Option<LastExit> {
        let in_use = self.in_use.take().or_else(|| self.in_use_file(false).ok())?;
        if in_use.unlock().is_err() || in_use.try_lock().is_err() {
            return None;
        }
        for name in [KEY, KNOWN_HOSTS] {
            let _absent = fs::remove_file(self.path.join(name));
        }
        let (socket, stopping) = (self.path.join(SOCKET), self.stop_connection());
        Some(LastExit { socket, stopping, _in_use: in_use })
    }

    /// Forgets the connection, so that the next child opens its own. The users of the former one may finish, and it ends with
    /// them: without its socket no process could tell it to.
    pub(super) fn forget_connection(&self) {
        if let Some(stopping) = self.stop_connection() {
            finish(stopping);
        }
        let _absent = fs::remove_file(self.path.join(SOCKET));
    }

    /// Tells the connection to accept no new user, and to end with its last one.
    fn stop_connection(&self) -> Option<Child> {
        if !self.path.join(SOCKET).exists() {
            return None;
        }
        let mut command = Command::new("ssh");
        command.args(options::close_arguments(&self.address)).current_dir(&self.path).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok()
    }

    /// Writes a file, and returns whether it was another one before. It is written beside its
    /// place, so that ssh never reads half of it.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let path = self.path.join(name);
        if fs::read(&path).is_ok_and(|content| content == bytes) {
            // Somebody may have let others read it since.
            keep_private(&path)?;
            return Ok(false);
        }
        let draft = self.path.join(format!("{name}.draft-{}", std::process::id()));
        let _left_by_a_crash = fs::remove_file(&draft);
        private(&draft)?.write_all(bytes)?;
        fs::rename(&draft, &path)?;
        Ok(true)
    }
}

/// The end of the last process in the folder: no other enters before the connection has let go of its socket, because
/// it would remove the next one's.
pub(super) struct LastExit {
    socket: PathBuf,
    stopping: Option<Child>,
    _in_use: File,
}

impl LastExit {
    /// Waits for it; a moment.
    pub(super) fn end(self) {
        if let Some(stopping) = self.stopping {
            finish(stopping);
        }
        let _absent = fs::remove_file(self.socket);
    }

    /// Ends the connection without waiting for it.
    pub(super) fn end_beside(self) {
        let thread = thread::Builder::new().name("ssh-leaves".to_owned());
        let _ended_with_the_process = thread.spawn(move || self.end());
    }
}

/// Waits a moment for a child that ends by itself; one that does not, is killed.
fn finish(mut child: Child) {
    for _ in 0..LOOKS {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(REST);
    }
    let _ended = child.kill();
    let _status = child.wait();
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let with_path =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(with_path)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(with_path)?;
    if bytes.len() as u64 > LARGEST {
        return Err(with_path(io::Error::other("it is larger than a file of known hosts")));
    }
    Ok(bytes)
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

fn keep_private(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

fn private(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_hosts_are_for_us_alone_and_a_change_forgets_the_connection() {
        let temporary = tempfile::tempdir().unwrap();
        let mut folder = folder_in(temporary.path());
        let hosts = temporary.path().join("hosts");
        fs::write(&hosts, "h ssh-ed25519 AAAA\n").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let socket = folder.path.join(SOCKET);

        folder.prepare(&"one".into(), &hosts).unwrap();
        assert_eq!(fs::read_to_string(folder.path.join(KEY)).unwrap(), "one\n");
        assert_eq!((mode(&folder.path), mode(&folder.path.join(KEY))), (0o700, 0o600));
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
        assert_eq!(fs::read_dir(&folder.path).unwrap().count(), 3, "no draft is left");
    }

    #[test]
    fn a_copy_that_others_may_read_is_ours_alone_again() {
        let temporary = tempfile::tempdir().unwrap();
        let (mut folder, hosts) = (folder_in(temporary.path()), temporary.path().join("hosts"));
        fs::write(&hosts, "").unwrap();
        folder.prepare(&"one".into(), &hosts).unwrap();
        let key = folder.path.join(KEY);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        folder.prepare(&"one".into(), &hosts).unwrap();
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn who_leaves_last_takes_the_copies_away() {
        let temporary = tempfile::tempdir().unwrap();
        let hosts = temporary.path().join("hosts");
        fs::write(&hosts, "").unwrap();
        let [mut first, mut second] = [folder_in(temporary.path()), folder_in(temporary.path())];
        let key = first.path.join(KEY);
        first.prepare(&"one".into(), &hosts).unwrap();
        second.prepare(&"one".into(), &hosts).unwrap();
        assert!(first.leave().is_none() && key.exists(), "somebody else needs it");
        second.leave().unwrap().end();
        assert!(!key.exists() && !first.path.join(KNOWN_HOSTS).exists());
        // A late one, and one that was killed.
        first.prepare(&"one".into(), &hosts).unwrap();
        assert!(key.exists());
        drop(first);
        second.leave().unwrap().end();
        assert!(!key.exists());
    }

    fn folder_in(temporary: &Path) -> KeyFolder {
        let address = SshAddress::parse("git@127.0.0.1:m.git").expect("an address");
        KeyFolder::new(temporary.join("a/ssh"), address)
    }
}
