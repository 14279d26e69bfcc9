//! A signature by the system's `gpg`, as git itself gets one.
//!
//! In a home of its own: the service knows one key and no other, and nobody's own settings, keys or
//! agents count. The home is made anew at each start and is gone afterwards. The passphrase goes over
//! standard input, before what is signed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use secrecy::ExposeSecret;
use secrecy::zeroize::Zeroizing;

use crate::git::signing::SigningError;
use crate::git::signing::key::OpenPgpKey;
use crate::git::signing::program::{self, Ran};

/// The longest path of a home: the agent's sockets are in it, and a socket's path has 107 bytes at
/// most, of which `/S.gpg-agent.browser` takes 20.
const LONGEST: usize = 87;

/// The agent remembers no passphrase: it gets one each time, so that a wrong one is never passed
/// by. It unlocks the key for each signature, so that must not be made slow on purpose: who has the
/// home has the passphrase beside it.
const AGENT: &str =
    "allow-loopback-pinentry\ndefault-cache-ttl 0\nmax-cache-ttl 0\ns2k-count 65536\n";

/// A home of `gpg` with one secret key in it.
#[derive(Debug)]
pub(super) struct Home {
    folder: PathBuf,
    key: OpenPgpKey,
    fingerprint: String,
    /// One program at a time: the home may have to be made again.
    turn: Mutex<()>,
}

impl Home {
    pub(super) fn open(key: &OpenPgpKey, folder: &Path) -> Result<Self, SigningError> {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        make(&folder)?;
        let fingerprint = import(&folder, key).inspect_err(|_| remove(&folder))?;
        Ok(Self { folder, key: key.clone(), fingerprint, turn: Mutex::new(()) })
    }

    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// A home that is gone, or was emptied by somebody who cleans up, is made again once.
    pub(super) fn sign(&self, payload: &[u8]) -> Result<String, SigningError> {
        let _turn = self.turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !self.folder.join("pubring.kbx").exists() {
            make(&self.folder)?;
            import(&self.folder, &self.key)?;
        }
        self.signature(payload)
    }

    fn signature(&self, payload: &[u8]) -> Result<String, SigningError> {
        let mut arguments = ARGUMENTS.to_vec();
        let mut input = Zeroizing::new(Vec::with_capacity(payload.len() + 256));
        if let Some(passphrase) = &self.key.passphrase {
            // gpg reads the first line as the passphrase, byte by byte, and what follows is signed.
            arguments.extend(["--passphrase-fd", "0"]);
            input.extend_from_slice(passphrase.expose_secret().as_bytes());
            input.push(b'\n');
        }
        input.extend_from_slice(payload);
        arguments.extend(["--local-user", &self.fingerprint, "--armor", "--detach-sign"]);
        let ran = program::run("gpg", &self.folder, &arguments, input)?;
        let text = String::from_utf8_lossy(&ran.output).trim_end().to_owned();
        // git looks for the same line: gpg's exit code alone is no promise.
        let signed = ran.status.success() && has(&ran, "SIG_CREATED");
        if signed && text.starts_with("-----BEGIN PGP SIGNATURE-----") {
            Ok(text)
        } else {
            Err(SigningError::NotSigned(why(&ran)))
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Never asks, neither on a terminal nor in a window; says on standard error what it does.
const ARGUMENTS: [&str; 7] =
    ["--batch", "--no-tty", "--pinentry-mode", "loopback", "--disable-dirmngr", "--status-fd", "2"];

/// Makes an empty home that nobody else may look into.
fn make(folder: &Path) -> Result<(), SigningError> {
    let unusable =
        |cause: String| SigningError::Folder { folder: folder.display().to_string(), cause };
    let length = folder.as_os_str().len();
    if length > LONGEST {
        return Err(unusable(format!(
            "its path has {length} bytes, and the sockets of gpg-agent allow {LONGEST}: choose a shorter `storage.folder`"
        )));
    }
    if folder.exists() {
        remove(folder);
    }
    let failed = |error: std::io::Error| unusable(error.to_string());
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    private(folder).map_err(failed)?;
    fs::write(folder.join("gpg-agent.conf"), AGENT).map_err(failed)
}

#[cfg(unix)]
fn private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn private(folder: &Path) -> std::io::Result<()> {
    fs::create_dir(folder)
}

/// Ends the agent, which ends by itself too when its home is gone, and removes the home.
fn remove(folder: &Path) {
    if folder.join("S.gpg-agent").exists() {
        let _ = program::run("gpgconf", folder, &["--kill", "gpg-agent"], Zeroizing::default());
    }
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "the home of gpg cannot be removed");
    }
}

/// Takes the key in; its fingerprint.
fn import(folder: &Path, key: &OpenPgpKey) -> Result<String, SigningError> {
    let mut arguments = ARGUMENTS.to_vec();
    arguments.push("--import");
    let input = Zeroizing::new(key.armored.expose_secret().as_bytes().to_vec());
    let ran = program::run("gpg", folder, &arguments, input)?;
    match &*secret_keys(&ran.said) {
        [one] => Ok(one.clone()),
        [] => Err(SigningError::BadKey(why(&ran))),
        _ => Err(SigningError::BadKey("it holds several secret keys: export one alone".to_owned())),
    }
}

/// The fingerprints that gpg imported with their secret half: `[GNUPG:] IMPORT_OK 17 FPR`, where 16
/// stands for that half (GnuPG's doc/DETAILS).
fn secret_keys(said: &str) -> Vec<String> {
    let lines = said.lines().filter_map(|line| line.strip_prefix("[GNUPG:] IMPORT_OK "));
    let secret = lines.filter_map(|line| {
        let (flags, fingerprint) = line.split_once(' ')?;
        let legal = fingerprint.bytes().all(|b| b.is_ascii_hexdigit());
        (flags.parse::<u32>().ok()? & 16 != 0 && legal).then(|| fingerprint.to_owned())
    });
    let mut found: Vec<String> = secret.collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn has(ran: &Ran, status: &str) -> bool {
    ran.said.lines().any(|line| {
        line.strip_prefix("[GNUPG:] ").is_some_and(|rest| rest.split(' ').next() == Some(status))
    })
}

/// What gpg says for people, in one line, and what to do about it.
fn why(ran: &Ran) -> String {
    let said = ran.said.lines().filter_map(|line| line.strip_prefix("gpg: "));
    let said =
        said.filter(|line| !line.contains("created")).next_back().unwrap_or("it says nothing");
    let said: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("{said}{}", help(&ran.said))
}

fn help(said: &str) -> &'static str {
    let says = |what: &str| said.to_ascii_lowercase().contains(what);
    if says("bad passphrase") {
        " (correct `passphrase`)"
    } else if says("no passphrase given") || says("can't get input") {
        " (the key is locked: give its `passphrase`)"
    } else if says("keyexpired") || says("expired") {
        " (the key has expired: prolong it, or give another)"
    } else if says("keyrevoked") || says("revoked") {
        " (the key is revoked: give another)"
    } else if says("unusable secret key") || says("no secret key") {
        " (the key cannot sign: export one whose secret half is there, neither expired nor revoked, and may sign)"
    } else {
        ""
    }
}
