//! A signature by the system's `gpg`, as git itself gets one.
//!
//! It runs in a home of its own: the service knows one key and no other, and no person's settings, keys or agents
//! count. The home is created at each start and removed afterwards. The passphrase goes over standard input, before the
//! payload.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use secrecy::ExposeSecret;
use secrecy::zeroize::Zeroizing;

use crate::git::error::SigningError;
use crate::git::signing::key::OpenPgpKey;
use crate::git::signing::program::{self, ProgramRun};
use crate::support::sync::lock;

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
pub(super) struct GnupgHome {
    /// The folder that homes are made in.
    base: PathBuf,
    key: OpenPgpKey,
    fingerprint: String,
    /// The home in use. One program at a time: it may have to be made again.
    current: Mutex<PathBuf>,
}

impl GnupgHome {
    pub(super) fn open(key: &OpenPgpKey, base: &Path) -> Result<Self, SigningError> {
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
        prepare_home(&base)?;
        // A process that was killed may have left homes behind.
        for entry in fs::read_dir(&base).into_iter().flatten().flatten() {
            remove(&entry.path());
        }
        let (folder, fingerprint) =
            create_home(key, &base).inspect_err(|_| remove_if_empty(&base))?;
        Ok(Self { base, key: key.clone(), fingerprint, current: Mutex::new(folder) })
    }

    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Signs a payload. A home that is gone, or was emptied by a clean-up, is created again once. So is one in which no
    /// signature could be made: its agent may hang.
    pub(super) fn sign(&self, payload: &[u8]) -> Result<String, SigningError> {
        let mut folder = lock(&self.current);
        if !folder.join("pubring.kbx").exists() {
            prepare_home(&self.base)?;
            (*folder, _) = create_home(&self.key, &self.base).map_err(SigningError::of_good_key)?;
        }
        let signature = self.signature(&folder, payload);
        if signature.as_ref().is_err_and(SigningError::passes) {
            // Without a word to its agent, which ends by itself if it can.
            let _gone = fs::remove_dir_all(&*folder);
        }
        signature
    }

    /// Takes the home away; another signature makes a new one.
    pub(super) fn close(&self) {
        let folder = lock(&self.current);
        if folder.exists() {
            remove(&folder);
        }
        remove_if_empty(&self.base);
    }

    fn signature(&self, folder: &Path, payload: &[u8]) -> Result<String, SigningError> {
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
        let run = program::run("gpg", folder, &arguments, input)?;
        let text = String::from_utf8_lossy(&run.output).trim_end().to_owned();
        // git looks for the same line: gpg's exit code alone is no promise.
        let is_signed = run.status.success() && has_status(&run, "SIG_CREATED");
        if is_signed && text.starts_with("-----BEGIN PGP SIGNATURE-----") {
            Ok(text)
        } else {
            Err(classify_failure(&run))
        }
    }
}

impl Drop for GnupgHome {
    fn drop(&mut self) {
        self.close();
    }
}

/// Creates a home below `base` that has the key, and returns it with the key's fingerprint.
///
/// Never in a place where one was before: the agent of that one may be about to end, and takes the
/// sockets away by their names.
fn create_home(key: &OpenPgpKey, base: &Path) -> Result<(PathBuf, String), SigningError> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = base.join(format!("{}-{number}", std::process::id()));
    make(&folder)?;
    let fingerprint = import(&folder, key).inspect_err(|_| remove(&folder))?;
    Ok((folder, fingerprint))
}

fn prepare_home(base: &Path) -> Result<(), SigningError> {
    make_base(base).map_err(|error| unusable(base, &error))
}

/// Removes the folder of homes, if none is left there.
fn remove_if_empty(base: &Path) {
    let _ = fs::remove_dir(base);
}

/// The arguments of every run: it never prompts, neither on a terminal nor in a window, and writes its status to
/// standard error.
const ARGUMENTS: [&str; 7] =
    ["--batch", "--no-tty", "--pinentry-mode", "loopback", "--disable-dirmngr", "--status-fd", "2"];

/// Creates an empty home that only this user may read.
fn make(home: &Path) -> Result<(), SigningError> {
    let length = home.as_os_str().len();
    if length > LONGEST {
        let folder = home.display().to_string();
        return Err(SigningError::TooDeep { folder, length, longest: LONGEST });
    }
    if home.exists() {
        remove(home);
    }
    let failed = |error| unusable(home, &error);
    make_private(home).map_err(failed)?;
    fs::write(home.join("gpg-agent.conf"), AGENT).map_err(failed)
}

fn unusable(folder: &Path, error: &io::Error) -> SigningError {
    SigningError::Folder { folder: folder.display().to_string(), cause: error.to_string() }
}

/// Ends the agent, which ends by itself too when its home is gone, and removes the home.
fn remove(folder: &Path) {
    if folder.join("S.gpg-agent").exists() {
        let _ = program::run("gpgconf", folder, &["--kill", "gpg-agent"], Zeroizing::default());
    }
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "gpg home could not be removed");
    }
}

/// Takes the key in; its fingerprint.
fn import(folder: &Path, key: &OpenPgpKey) -> Result<String, SigningError> {
    let mut arguments = ARGUMENTS.to_vec();
    arguments.push("--import");
    let input = Zeroizing::new(key.armored.expose_secret().as_bytes().to_vec());
    let run = program::run("gpg", folder, &arguments, input)?;
    match &*secret_keys(&run.messages) {
        [fingerprint] => Ok(fingerprint.clone()),
        [] => Err(SigningError::BadKey(describe_failure(&run))),
        _ => Err(SigningError::BadKey("it holds several secret keys: export one alone".to_owned())),
    }
}

/// Returns the fingerprints that gpg imported with their secret half: `[GNUPG:] IMPORT_OK 17 FPR`, where 16 stands for
/// that half (GnuPG's doc/DETAILS).
fn secret_keys(output: &str) -> Vec<String> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("[GNUPG:] IMPORT_OK "));
    let secret = lines.filter_map(|line| {
        let (flags, fingerprint) = line.split_once(' ')?;
        let legal = fingerprint.bytes().all(|b| b.is_ascii_hexdigit());
        (flags.parse::<u32>().ok()? & 16 != 0 && legal).then(|| fingerprint.to_owned())
    });
    let mut fingerprints: Vec<String> = secret.collect();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    fingerprints
}

fn has_status(run: &ProgramRun, status: &str) -> bool {
    run.messages.lines().any(|line| {
        line.strip_prefix("[GNUPG:] ").is_some_and(|rest| rest.split(' ').next() == Some(status))
    })
}

/// Returns the error of a run without a signature. If gpg's words tell a person what to do, a retry will not help. `No
/// secret key` is the exception: gpg says so of a home that was emptied, too.
fn classify_failure(run: &ProgramRun) -> SigningError {
    let is_key_missing = contains_words(&run.messages, NO_SECRET_KEY);
    if is_key_missing || help(&run.messages).is_empty() {
        SigningError::NotSigned(describe_failure(run))
    } else {
        SigningError::Unusable(describe_failure(run))
    }
}

/// Formats what gpg says for people, in one line, and what to do about it.
fn describe_failure(run: &ProgramRun) -> String {
    let mut lines = run.messages.lines().filter_map(|line| line.strip_prefix("gpg: "));
    let line = lines.rfind(|line| !line.contains("created")).unwrap_or("it says nothing");
    let message: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("{message}{}", help(&run.messages))
}

const NO_SECRET_KEY: &str = "no secret key";

fn contains_words(text: &str, words: &str) -> bool {
    text.to_ascii_lowercase().contains(words)
}

/// Returns the way out for a person, by gpg's words.
fn help(text: &str) -> &'static str {
    let has_any = |phrases: &[&str]| phrases.iter().any(|phrase| contains_words(text, phrase));
    if has_any(&["bad passphrase"]) {
        " (correct `passphrase`)"
    } else if has_any(&["no passphrase given", "can't get input"]) {
        " (the key is locked: give its `passphrase`)"
    } else if has_any(&["keyexpired", "key_expired", "key expired", "key has expired"]) {
        " (the key has expired: prolong it, or give another)"
    } else if has_any(&["keyrevoked", "key_revoked", "key revoked", "has been revoked"]) {
        " (the key is revoked: give another)"
    } else if has_any(&["unusable secret key", NO_SECRET_KEY]) {
        " (the key cannot sign: export one whose secret half is there, neither expired nor revoked, and may sign)"
    } else {
        ""
    }
}

/// Makes a folder that folders for keys are made in, with those above it.
///
/// # Errors
/// One that is there and is a link, or another user's, is not used: its owner could look into what is
/// made in it, or put something else there.
pub(super) fn make_base(folder: &Path) -> io::Result<()> {
    builder().recursive(true).create(folder)?;
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Err(io::Error::other("it is a link, and must be a folder: remove it"));
    }
    if !is_ours(folder)? {
        return Err(io::Error::other("it is another user's: remove it"));
    }
    // An orchestrator may let a group into all that is on a volume.
    restrict_to_owner(folder)
}

/// Makes a folder that was not there.
fn make_private(folder: &Path) -> io::Result<()> {
    builder().create(folder)?;
    restrict_to_owner(folder)
}

fn builder() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn restrict_to_owner(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

/// Returns true if a folder belongs to this process's user: the owner of a folder that it creates in it.
fn is_ours(folder: &Path) -> io::Result<bool> {
    let probe = folder.join(format!("{}-whose", std::process::id()));
    let _left_by_a_crash = fs::remove_dir(&probe);
    make_private(&probe)?;
    let own_uid = fs::symlink_metadata(&probe).map(|probe| probe.uid());
    fs::remove_dir(&probe)?;
    Ok(own_uid? == fs::symlink_metadata(folder)?.uid())
}
