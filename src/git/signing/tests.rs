//! Keys of every kind, and signatures that the programs of others check.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use secrecy::SecretString;
use tempfile::TempDir;

use super::key::{SigningKeyError, SigningPrivateKey};
use super::{CommitSigner, SigningError, SigningKey};

const SSH: &str = include_str!("tests/open");
const SSH_PUBLIC: &str = include_str!("tests/open.pub");
const SSH_LOCKED: &str = include_str!("tests/locked");
const ECDSA: &str = include_str!("tests/ecdsa");
const PGP: &str = include_str!("tests/open.asc");
const PGP_PUBLIC: &str = include_str!("tests/open.pub.asc");
const PGP_LOCKED: &str = include_str!("tests/locked.asc");
const PGP_EXPIRED: &str = include_str!("tests/expired.asc");
const PASSPHRASE: &str = "correct horse";

fn ssh(text: &str, passphrase: Option<&str>) -> Result<SigningPrivateKey, SigningKeyError> {
    SigningPrivateKey::ssh(&text.into(), passphrase.map(SecretString::from).as_ref())
}

fn openpgp(text: &str, passphrase: Option<&str>) -> Result<SigningPrivateKey, SigningKeyError> {
    SigningPrivateKey::openpgp(&text.into(), passphrase.map(SecretString::from).as_ref())
}

fn open(key: &SigningPrivateKey, home: &Path) -> Result<CommitSigner, SigningError> {
    CommitSigner::open(&SigningKey { key: key.clone(), home: home.to_owned() })
}

fn half(text: &str) -> String {
    text.lines().take(4).collect::<Vec<_>>().join("\n")
}

/// Changes a character in the middle of the third line of data.
fn with_another_bit(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(4).unwrap().0 - 20;
    bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
    String::from_utf8(bytes).unwrap()
}

#[test]
fn an_ssh_key_is_read_in_every_shape_it_comes_in() {
    ssh(SSH, None).unwrap();
    ssh(SSH.trim(), None).unwrap();
    ssh(&SSH.replace('\n', "\\n"), None).unwrap();
    ssh(&SSH.replace('\n', "\r\n"), None).unwrap();
    ssh(SSH, Some("not needed")).unwrap();
    ssh(SSH_LOCKED, Some(PASSPHRASE)).unwrap();
}

#[test]
fn what_is_no_ssh_key_is_told_apart_and_never_shown() {
    let kind = |kind: &str| SigningKeyError::OtherKind(kind.to_owned());
    for (text, passphrase, expected) in [
        (SSH_LOCKED, None, SigningKeyError::Locked),
        (SSH_LOCKED, Some("wrong"), SigningKeyError::WrongPassphrase),
        (SSH_PUBLIC, None, SigningKeyError::Public),
        (ECDSA, None, kind("ECDSA or a newer one")),
        ("-----BEGIN RSA PRIVATE KEY-----\nAAAA", None, kind("RSA PRIVATE KEY")),
        (PGP, None, SigningKeyError::OtherFormat("an OpenPGP key")),
        (&half(SSH), None, SigningKeyError::Damaged),
        (&SSH.replacen("AAAA", "AAAB", 1), None, SigningKeyError::Damaged),
    ] {
        let error = ssh(text, passphrase).unwrap_err();
        assert_eq!(error, expected, "{text}");
    }
    for text in ["", "ghp_token", "-----BEGIN CERTIFICATE-----\n"] {
        let error = ssh(text, None).unwrap_err();
        assert!(matches!(error, SigningKeyError::NoKey(_)), "{text} {error:?}");
        assert!(text.is_empty() || !error.to_string().contains(text));
    }
}

#[test]
fn what_is_no_openpgp_key_is_told_apart_and_never_shown() {
    openpgp(PGP, None).unwrap();
    openpgp(&PGP.replace('\n', "\\n"), None).unwrap();
    openpgp(&PGP.replacen("\n\n", "\nComment: made by hand\n\n", 1), None).unwrap();
    for (text, passphrase, expected) in [
        (PGP_PUBLIC, None, SigningKeyError::Public),
        (SSH, None, SigningKeyError::OtherFormat("a key of ssh or TLS")),
        (&half(PGP), None, SigningKeyError::Damaged),
        (&with_another_bit(PGP), None, SigningKeyError::Damaged),
        (&PGP_PUBLIC.replace("PUBLIC", "PRIVATE"), None, SigningKeyError::Damaged),
        (PGP_LOCKED, Some("two\nlines"), SigningKeyError::Lines),
    ] {
        assert_eq!(openpgp(text, passphrase).unwrap_err(), expected, "{text}");
    }
    assert!(matches!(openpgp("", None).unwrap_err(), SigningKeyError::NoKey(_)));
    let text = format!("{:?}", openpgp(PGP_LOCKED, Some(PASSPHRASE)).unwrap());
    assert_eq!(text, "OpenPgp(OpenPgpKey { locked: true, .. })");
}

#[test]
fn a_key_shows_no_more_than_its_fingerprint() {
    let text = format!("{:?}", ssh(SSH, None).unwrap());
    assert!(text.starts_with("Ssh(SshKey(\"SHA256:") && text.len() < 80, "{text}");
}

#[test]
fn what_an_ssh_key_signs_is_good_to_ssh_keygen() {
    if is_missing("ssh-keygen", "-?") {
        return;
    }
    let folder = TempDir::new().unwrap();
    for (text, passphrase) in [(SSH, None), (SSH_LOCKED, Some(PASSPHRASE))] {
        let key = ssh(text, passphrase).unwrap();
        let SigningPrivateKey::Ssh(half) = &key else { unreachable!("an ssh key") };
        let signers = format!("deployer {}\n", half.public());
        let signing = open(&key, folder.path()).unwrap();
        let signature = signing.sign(b"tree 1\n\nwords\n").unwrap();
        assert!(is_good(folder.path(), &signers, &signature, b"tree 1\n\nwords\n"));
        assert!(!is_good(folder.path(), &signers, &signature, b"tree 2\n\nwords\n"));
        assert!(!signature.ends_with('\n') && !signature.contains('\r'));
    }
    assert!(SSH_PUBLIC.contains(&match ssh(SSH, None).unwrap() {
        SigningPrivateKey::Ssh(key) => key.public(),
        SigningPrivateKey::OpenPgp(_) => unreachable!("an ssh key"),
    }));
}

fn is_good(folder: &Path, signers: &str, signature: &str, payload: &[u8]) -> bool {
    fs::write(folder.join("signers"), signers).unwrap();
    fs::write(folder.join("signature"), format!("{signature}\n")).unwrap();
    fs::write(folder.join("payload"), payload).unwrap();
    let mut verify = command("ssh-keygen");
    verify.args([
        "-Y",
        "verify",
        "-f",
        "signers",
        "-I",
        "deployer",
        "-n",
        "git",
        "-s",
        "signature",
    ]);
    verify.current_dir(folder).stdin(fs::File::open(folder.join("payload")).unwrap());
    verify.output().unwrap().status.success()
}

fn mode(folder: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::symlink_metadata(folder).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_home_of_gpg_signs_is_nobody_elses_and_is_gone_afterwards() {
    if is_missing("gpg", "--version") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let home = folder.path().join("deep/home");
    for (text, passphrase) in [(PGP, None), (PGP_LOCKED, Some(PASSPHRASE))] {
        let signing = open(&openpgp(text, passphrase).unwrap(), &home).unwrap();
        let gpg_home = fs::read_dir(&home).unwrap().next().unwrap().unwrap().path();
        assert_eq!([&home, &gpg_home].map(|folder| mode(folder)), [0o700, 0o700]);
        let signature = signing.sign(b"payload").unwrap();
        assert!(signature.ends_with("-----END PGP SIGNATURE-----"), "{signature}");
        assert_eq!(signing.fingerprint().len(), 40);
        signing.close();
        assert!(!home.exists());
        signing.sign(b"a late one").unwrap();
        drop(signing);
        assert!(!home.exists());
    }
}

#[test]
fn a_home_that_somebody_swept_away_is_made_again() {
    if is_missing("gpg", "--version") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let home = folder.path().join("home");
    let signing = open(&openpgp(PGP, None).unwrap(), &home).unwrap();
    fs::remove_dir_all(&home).unwrap();
    signing.sign(b"payload").unwrap();
    // As after a crash: what is left is no hindrance.
    std::mem::forget(signing);
    open(&openpgp(PGP, None).unwrap(), &home).unwrap();
}

#[test]
fn a_key_that_cannot_sign_is_found_when_it_is_taken_in_with_what_to_do() {
    if is_missing("gpg", "--version") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let several = format!("{PGP}{PGP_LOCKED}");
    for (text, passphrase, expected) in [
        (PGP_LOCKED, None, "give its `passphrase`"),
        (PGP_LOCKED, Some("wrong"), "correct `passphrase`"),
        (PGP_EXPIRED, None, "neither expired nor revoked"),
        (&several, None, "export one alone"),
    ] {
        let home = folder.path().join("home");
        let error = open(&openpgp(text, passphrase).unwrap(), &home).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.passes() && !home.exists());
    }
}

#[test]
fn a_home_too_deep_for_sockets_is_refused_with_what_to_do() {
    let folder = TempDir::new().unwrap();
    let home = folder.path().join("x".repeat(90));
    let error = open(&openpgp(PGP, None).unwrap(), &home).unwrap_err();
    assert!(matches!(error, SigningError::TooDeep { .. }) && !error.passes(), "{error}");
    assert!(error.to_string().contains("storage.folder"), "{error}");
}

#[test]
fn a_folder_for_homes_that_is_open_to_others_is_closed() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = TempDir::new().unwrap();
    let base = folder.path().join("deep/home");
    super::openpgp::make_base(&base).unwrap();
    assert_eq!(mode(&base), 0o700);
    fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
    super::openpgp::make_base(&base).unwrap();
    assert_eq!((mode(&base), fs::read_dir(&base).unwrap().count()), (0o700, 0));
}

#[test]
fn a_folder_for_homes_that_is_not_ours_is_refused_and_nothing_in_it_is_touched() {
    let folder = TempDir::new().unwrap();
    let foreign_folder = folder.path().join("theirs");
    fs::create_dir(&foreign_folder).unwrap();
    fs::write(foreign_folder.join("file"), "theirs").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&foreign_folder, &link).unwrap();
    // Only root can give a folder away; to anybody else the root of all files is another user's.
    let chown_result = std::os::unix::fs::chown(&foreign_folder, Some(4711), None);
    let not_ours = if chown_result.is_ok() { foreign_folder.as_path() } else { Path::new("/") };
    for base in [&link, not_ours] {
        let error = open(&openpgp(PGP, None).unwrap(), base).unwrap_err();
        assert!(matches!(error, SigningError::Folder { .. }), "{error}");
    }
    let files: Vec<_> =
        fs::read_dir(&foreign_folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [foreign_folder.join("file")]);
}

#[test]
fn a_fault_that_passes_is_no_end_and_the_next_signature_is_made() {
    if is_missing("gpg", "--version") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let home = folder.path().join("home");
    let signing = open(&openpgp(PGP, None).unwrap(), &home).unwrap();
    let gpg_home = fs::read_dir(&home).unwrap().next().unwrap().unwrap().path();
    fs::remove_dir_all(gpg_home.join("private-keys-v1.d")).unwrap();
    let error = signing.sign(b"payload").unwrap_err();
    assert!(matches!(error, SigningError::NotSigned(_)) && error.passes(), "{error}");
    signing.sign(b"payload").unwrap();

    // As where the disk is away.
    fs::remove_dir_all(&home).unwrap();
    fs::write(&home, "").unwrap();
    let error = signing.sign(b"payload").unwrap_err();
    assert!(matches!(error, SigningError::Folder { .. }) && error.passes(), "{error}");
    fs::remove_file(&home).unwrap();
    signing.sign(b"payload").unwrap();
}

#[test]
fn a_program_that_hangs_is_ended_whatever_it_has_closed() {
    let folder = TempDir::new().unwrap();
    for closing in ["", "exec >&-;", "exec 2>&-;", "exec >&- 2>&-;"] {
        let script = format!("echo $$ > pid; {closing} exec sleep 600");
        let limit = std::time::Duration::from_millis(500);
        let input = secrecy::zeroize::Zeroizing::default();
        let result =
            super::program::run_within(limit, "sh", folder.path(), &["-c", &script], input);
        assert_eq!(result.unwrap_err(), SigningError::TimedOut(0));
        let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
        let alive = command("sh").args(["-c", &format!("kill -0 {pid}")]).output().unwrap();
        assert!(!alive.status.success(), "{closing} {pid}");
    }
}

#[test]
fn a_program_that_is_missing_is_told_from_one_that_cannot_begin() {
    let folder = TempDir::new().unwrap();
    let run = |program: &str, home: &Path| {
        super::program::run(program, home, &[], secrecy::zeroize::Zeroizing::default()).unwrap_err()
    };
    let error = run("no-such-program", folder.path());
    assert!(matches!(error, SigningError::NoProgram(_)) && !error.passes(), "{error}");
    let error = run("sh", &folder.path().join("swept"));
    assert!(matches!(error, SigningError::NotSigned(_)) && error.passes(), "{error}");
}

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::null());
    command
}

/// Says so where a program is missing; where all tests are required, that is a failure.
#[expect(clippy::disallowed_methods, reason = "as the harness of the other tests asks")]
pub(in crate::git) fn is_missing(program: &str, argument: &str) -> bool {
    let is_installed = command(program).arg(argument).output().is_ok();
    let required = std::env::var("THE_DEPLOYER_TEST_REQUIRE_ALL").is_ok_and(|v| v == "1");
    assert!(is_installed || !required, "{program} is not installed, and all tests are required");
    if !is_installed {
        eprintln!("SKIPPED: a test of signing, because {program} is not installed");
    }
    !is_installed
}
