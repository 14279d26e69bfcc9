//! Runs `gpg`, and nothing else: with a deadline, deaf to everything but its home, and with no more
//! of its words kept than a person reads.

use std::io::{ErrorKind, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use secrecy::zeroize::Zeroizing;

use crate::git::signing::SigningError;

/// Ten times what the first use of a key takes whose passphrase is slow to check on purpose.
const LIMIT: Duration = Duration::from_secs(30);
/// More than any signature, and more than a person reads.
const LARGEST: u64 = 64 * 1024;
/// Where programs are. The path of our own process is not handed on, as nothing of it is.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin";

/// What the program did.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) output: Vec<u8>,
    /// What it says for people, and between that its lines for programs, `[GNUPG:] …`.
    pub(super) said: String,
}

/// Runs `program` with that home and those bytes as its standard input.
pub(super) fn run(
    program: &str,
    home: &Path,
    arguments: &[&str],
    input: Zeroizing<Vec<u8>>,
) -> Result<Ran, SigningError> {
    let mut child = command(program, home, arguments).spawn().map_err(|e| not_begun(&e, home))?;
    let output = reader(child.stdout.take());
    let said = reader(child.stderr.take());
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends before it has read all says why; that it did not read is no news.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let (output, said) = (within(&output), within(&said));
    let (Some(output), Some(said)) = (output, said) else {
        let _ = child.kill().and_then(|()| child.wait());
        return Err(SigningError::TimedOut(LIMIT.as_secs()));
    };
    let status = ended(&mut child)?;
    Ok(Ran { status, output, said: String::from_utf8_lossy(&said).into_owned() })
}

/// A home that is gone is no missing program, and neither is a machine that can start none just now.
fn not_begun(error: &std::io::Error, home: &Path) -> SigningError {
    if error.kind() == ErrorKind::NotFound && home.is_dir() {
        SigningError::NoProgram(error.to_string())
    } else {
        SigningError::NotSigned(format!("it cannot be started now ({error})"))
    }
}

fn command(program: &str, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C").env("GNUPGHOME", home);
    command.args(arguments).current_dir(home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Reads to the end beside us; one that says too much is cut off, and ends of it.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What came before a failure is better than nothing.
            let _ = pipe.take(LARGEST).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

fn within(receiver: &Receiver<Vec<u8>>) -> Option<Vec<u8>> {
    match receiver.recv_timeout(LIMIT) {
        Ok(bytes) => Some(bytes),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
    }
}

/// It has closed its outputs, so it is about to end; one that does not is ended.
fn ended(child: &mut Child) -> Result<ExitStatus, SigningError> {
    let mut waited = Duration::ZERO;
    let mut pause = Duration::from_micros(50);
    loop {
        let status = child.try_wait().map_err(|e| SigningError::NotSigned(e.to_string()))?;
        if let Some(status) = status {
            return Ok(status);
        }
        if waited > LIMIT {
            let _ = child.kill().and_then(|()| child.wait());
            return Err(SigningError::TimedOut(LIMIT.as_secs()));
        }
        thread::sleep(pause);
        waited += pause;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
