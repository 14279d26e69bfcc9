//! A repository behind ssh: the system's `ssh` as a child, and git's program behind it.
//!
//! ```text
//! options     pure: the command line
//! complaint   pure: the output of ssh and the server, as a kind of error
//! folder      the key, the trusted host keys, the shared connection
//! session     one child: bytes in, bytes out, each with a limit; a push over it
//! ```
//!
//! The system's `ssh` is used so that its own keys, certificates of hosts and ciphers hold, for which companies set
//! rules. The module moves bytes only; the protocols of a fetch and a push are known elsewhere. This file has the
//! connection to one repository: its key, the trusted host keys, the folder of both.

pub(in crate::git) mod complaint;
mod folder;
pub(in crate::git) mod options;
pub(in crate::git) mod session;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::SecretString;

use crate::git::error::TokenError;
use crate::git::transport::failure::Failure;
use crate::git::transport::ssh::folder::KeyFolder;
use crate::git::transport::token::Tokens;
use crate::model::ssh::SshAddress;
use crate::support::retry::Disposition;
use crate::support::sync::lock;

/// The access over ssh. The private key itself comes from the token's source.
#[derive(Debug, Clone)]
pub struct SshAccess {
    /// The file with the host keys that are believed, as `ssh-keyscan` writes it.
    pub known_hosts: PathBuf,
    /// The folder of ssh, which only this user may read. No other repository may use it.
    pub folder: PathBuf,
}

/// The connection to one repository over ssh.
#[derive(Debug)]
pub(in crate::git) struct SshRemote {
    pub(in crate::git) address: SshAddress,
    keys: Tokens,
    known_hosts: PathBuf,
    /// Locked while it is made ready, so that two children do not both.
    folder: Mutex<KeyFolder>,
    /// The longest silence of a server before the exchange is cut.
    silence: Duration,
    /// The longest a whole exchange may take.
    total: Duration,
    runtime: tokio::runtime::Handle,
}

impl SshRemote {
    /// Builds the remote. Must be called in a runtime, whose threads then wait for the children. The error names the
    /// missing setting.
    pub(in crate::git) fn new(
        address: SshAddress,
        access: Option<SshAccess>,
        keys: Tokens,
        (silence, total): (Duration, Duration),
    ) -> Result<Self, String> {
        let missing = || format!("{address} needs a key and trusted host keys: set `ssh`");
        let SshAccess { known_hosts, folder } = access.ok_or_else(missing)?;
        let folder = Mutex::new(KeyFolder::new(folder, address.clone()));
        let runtime = tokio::runtime::Handle::current();
        Ok(Self { address, keys, known_hosts, folder, silence, total, runtime })
    }

    /// Returns the folder with the key and the host keys in it, for one child at a time.
    fn prepare_folder(&self) -> Result<MutexGuard<'_, KeyFolder>, Failure> {
        let key = self.key()?;
        let mut folder = lock(&self.folder);
        folder.prepare(&key, &self.known_hosts).map_err(|error| Failure::OnDisk {
            folder: folder.path.display().to_string(),
            cause: error.to_string(),
        })?;
        Ok(folder)
    }

    /// Says what to do about a host that is not believed.
    fn trust(&self) -> String {
        let port = self.address.port().map_or_else(String::new, |port| format!("-p {port} "));
        let (host, file) = (self.address.host(), self.known_hosts.display());
        format!(
            "compare what `ssh-keyscan {port}{host}` shows with what the host makes public, and \
             put it into {file}"
        )
    }

    /// Says what to do about a key that is not accepted.
    pub(in crate::git) fn help(&self) -> &str {
        self.keys.help()
    }

    /// Waits for the source of keys, no longer than for the host itself.
    fn key(&self) -> Result<SecretString, Failure> {
        let bounded = async { tokio::time::timeout(self.silence, self.keys.any()).await };
        let answer = self.runtime.block_on(bounded).unwrap_or_else(|_| {
            let why = format!("no key could be got for {} s", self.silence.as_secs_f32());
            Err(TokenError { why, next: Disposition::Retry { after: None } })
        });
        let no_token = || TokenError { why: self.keys.help().to_owned(), next: Disposition::Stop };
        Ok(answer?.ok_or_else(no_token)?)
    }

    /// Removes the key from the disk and closes the connection; the next exchange brings both back. Blocks for a
    /// moment.
    pub(in crate::git) fn close(&self) {
        // Nobody waits for the lock while the connection ends.
        let leaving = lock(&self.folder).leave();
        if let Some(leaving) = leaving {
            leaving.end();
        }
    }

    /// Forgets the connection, so that the next exchange opens its own.
    fn forget_connection(&self) {
        lock(&self.folder).forget_connection();
    }
}

/// Leaves neither the key nor a connection behind; does not wait for the connection to end.
impl Drop for SshRemote {
    fn drop(&mut self) {
        let folder = self.folder.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaving) = folder.leave() {
            leaving.end_beside();
        }
    }
}
