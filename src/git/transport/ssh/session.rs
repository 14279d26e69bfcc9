//! One child `ssh` with a program of git's behind it: bytes in, bytes out. And a push over it: the server speaks first,
//! then come commands and pack, then its report.
//!
//! Every wait has a limit. The printed output is read all the time, so that the child never waits for this process, and
//! kept as far as a person would read it.

use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use git2::Oid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep, timeout};

use crate::git::transport::failure::Failure;
use crate::git::transport::push::report::{self, Transfer, TransferError};
use crate::git::transport::ssh::folder::KeyFolder;
use crate::git::transport::ssh::options::{self, GitService};
use crate::git::transport::ssh::{SshRemote, complaint};
use crate::git::writer::fence::Fence;
use crate::support::sync::lock;

/// The limit of the printed output that is kept, in bytes.
const PRINTED_LIMIT: usize = 16 * 1024;
/// A child whose answer has ended ends itself at once; then its last words are read.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Hooks of the server may still run after its answer, and print: they have so long to end well.
const LINGER: Duration = Duration::from_secs(30);
/// The exit status of git's programs after an error message.
const GIT_FAILURE: i32 = 128;
/// The server's report of a push is a few lines, and what hooks print.
const REPORT: usize = 16 * 1024 * 1024;
/// The limit up to which an answer is searched for the report about the branch. Then the client does not wait for the
/// server's later work: hooks that notify others, and its housekeeping.
const MAX_MESSAGE: usize = 64 * 1024;
/// The size of one read.
const CHUNK: usize = 16 * 1024;
/// The longest packet of git's protocol.
const PACKET: usize = 65_520;

/// A running exchange. Its calls block, and must not be made on a thread of the runtime.
pub(in crate::git) struct Session {
    ssh: Arc<SshRemote>,
    /// Gone once it was waited for, or handed on to be.
    child: Option<Child>,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    printed: Arc<Mutex<Vec<u8>>>,
    listening: JoinHandle<()>,
    deadline: Pin<Box<Sleep>>,
    fence: Fence,
    received: u64,
    limit: u64,
    failed: bool,
}

impl SshRemote {
    /// Starts a program of git's on the repository.
    pub(in crate::git) fn open(self: &Arc<Self>, program: GitService) -> Result<Session, Failure> {
        let folder = self.prepare_folder()?;
        Session::start(Arc::clone(self), &folder, program)
    }

    /// Hands a push to the server's `git receive-pack`, if the branch is at `base`. When the fence
    /// closes, it is cut.
    pub(in crate::git) fn receive_pack(
        self: &Arc<Self>,
        (base, reference): (Option<Oid>, &str),
        body: &[u8],
        fence: &Fence,
    ) -> Result<Transfer, TransferError> {
        let unsent = |failure| TransferError { failure, sent: false };
        let mut session = self.open(GitService::ReceivePack).map_err(unsent)?;
        session.within(fence);
        let advertisement = session.advertisement().map_err(unsent)?;
        let remote_tip = report::find_advertised(&advertisement, reference)
            .map_err(|no_list| unsent(Failure::NotGit(no_list.to_string())))?;
        if remote_tip != base {
            session.end_request();
            return Ok(Transfer::Moved);
        }
        let answer = session.write(body).and_then(|()| session.answer(reference));
        answer.map(Transfer::Answer).map_err(|failure| TransferError { failure, sent: true })
    }

    /// Returns the branches of the server, as `git receive-pack` advertises them.
    pub(in crate::git) fn read_advertisement(self: &Arc<Self>) -> Result<Vec<u8>, Failure> {
        let mut session = self.open(GitService::ReceivePack)?;
        let advertisement = session.advertisement()?;
        session.end_request();
        Ok(advertisement)
    }
}

impl Session {
    fn start(
        ssh: Arc<SshRemote>,
        folder: &KeyFolder,
        program: GitService,
    ) -> Result<Self, Failure> {
        let _context = ssh.runtime.enter();
        let mut child = command(&ssh, folder, program)
            .spawn()
            .map_err(|error| Failure::NoSsh(error.to_string()))?;
        let printed = Arc::default();
        let listening = tokio::spawn(listen(child.stderr.take(), Arc::clone(&printed)));
        let deadline = Box::pin(sleep(ssh.total));
        Ok(Self {
            input: child.stdin.take(),
            output: child.stdout.take(),
            child: Some(child),
            printed,
            listening,
            deadline,
            fence: Fence::none(),
            received: 0,
            limit: limit(program),
            failed: false,
            ssh,
        })
    }

    /// Binds the session to a fence: when the fence closes, the session is cut.
    pub(in crate::git) fn within(&mut self, fence: &Fence) {
        self.fence = fence.clone();
    }

    /// Sends all of it.
    pub(in crate::git) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let runtime = self.ssh.runtime.clone();
        let result = runtime.block_on(self.send(bytes));
        self.mark_failed(result)
    }

    async fn send(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let Some(input) = &mut self.input else { return Err(self.exit_failure().await) };
            match within(&self.ssh, &self.fence, &mut self.deadline, input.write(bytes)).await? {
                Ok(n) if n > 0 => bytes = bytes.get(n..).unwrap_or_default(),
                // Whoever reads no more has said why.
                Ok(_) | Err(_) => return Err(self.exit_failure().await),
            }
        }
        Ok(())
    }

    /// Reads some of the answer; nothing once it has ended well.
    pub(in crate::git) fn read(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        let runtime = self.ssh.runtime.clone();
        let received = runtime.block_on(self.receive(into));
        self.mark_failed(received)
    }

    async fn receive(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        let Some(output) = &mut self.output else { return Ok(0) };
        match within(&self.ssh, &self.fence, &mut self.deadline, output.read(into)).await? {
            Ok(n) if n > 0 || into.is_empty() => self.count(n),
            Ok(_) | Err(_) => self.end().await.map(|()| 0),
        }
    }

    fn count(&mut self, n: usize) -> Result<usize, Failure> {
        self.received = self.received.saturating_add(n as u64);
        if self.received > self.limit { Err(Failure::TooLarge(self.limit)) } else { Ok(n) }
    }

    /// Returns the packets that the server begins with, as far as its first flush.
    fn advertisement(&mut self) -> Result<Vec<u8>, Failure> {
        let mut lines = Vec::new();
        loop {
            let start = lines.len();
            self.read_exactly(4, &mut lines)?;
            match length(lines.get(start..).unwrap_or_default()) {
                Some(0) => return Ok(lines),
                Some(length) if (4..=PACKET).contains(&length) => {
                    self.read_exactly(length.saturating_sub(4), &mut lines)?;
                    self.no_error(lines.get(start..).unwrap_or_default())?;
                }
                _ => {
                    return self
                        .mark_failed(Err(Failure::NotGit(complaint::words(&lossy(&lines)))));
                }
            }
        }
    }

    /// Checks for an error message, which a server may send in place of its branches.
    fn no_error(&mut self, packet: &[u8]) -> Result<(), Failure> {
        let text = packet.get(4..).and_then(|data| data.strip_prefix(b"ERR "));
        let Some(text) = text.map(lossy) else { return Ok(()) };
        let kind = complaint::classify(&text, Some(GIT_FAILURE));
        let failure = self.build_failure(kind, complaint::words(&text));
        self.mark_failed(Err(failure))
    }

    fn read_exactly(&mut self, n: usize, lines: &mut Vec<u8>) -> Result<(), Failure> {
        let mut packet = vec![0; n];
        let mut length = 0;
        while let Some(rest) = packet.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match self.read(rest)? {
                0 => {
                    return self.mark_failed(Err(Failure::NotGit("it ended too early".to_owned())));
                }
                n => length = length.saturating_add(n),
            }
        }
        lines.append(&mut packet);
        Ok(())
    }

    /// Tells the server that no more is wanted. It may have ended already, which is fine.
    pub(in crate::git) fn end_request(&mut self) {
        let runtime = self.ssh.runtime.clone();
        let _heard = runtime.block_on(self.send(b"0000"));
        self.input = None;
    }

    /// Reads the answer to a push, as far as it has the report about the branch. An answer before the child failed is
    /// an answer, too.
    fn answer(&mut self, reference: &str) -> Result<Vec<u8>, Failure> {
        self.input = None;
        let (mut answer, mut chunk) = (Vec::new(), vec![0; CHUNK]);
        loop {
            match self.read(&mut chunk) {
                Ok(0) => return Ok(answer),
                Ok(n) => answer.extend(chunk.iter().take(n)),
                Err(Failure::Said { .. }) if !answer.is_empty() => return Ok(answer),
                Err(failure) => return Err(failure),
            }
            if answer.len() > REPORT {
                return self.mark_failed(Err(Failure::TooLarge(REPORT as u64)));
            }
            if answer.len() <= MAX_MESSAGE && report::is_told(&answer, reference) {
                return Ok(answer);
            }
        }
    }

    /// Returns how the answer ended: without a fault, or with which.
    async fn end(&mut self) -> Result<(), Failure> {
        self.output = None;
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let status = timeout(LAST_WORDS, child.wait()).await.ok().and_then(Result::ok);
        if status.is_some_and(|status| status.success()) {
            return Ok(());
        }
        Err(self.complaint(status.and_then(|status| status.code())).await)
    }

    /// Returns why the program at the other end reads no more.
    async fn exit_failure(&mut self) -> Failure {
        self.end().await.err().unwrap_or_else(|| {
            let words = "the program behind ssh ended before all was sent".to_owned();
            self.build_failure(complaint::ComplaintKind::NoConnection, words)
        })
    }

    async fn complaint(&mut self, status: Option<i32>) -> Failure {
        // A connection that is kept may hold the pipe open.
        let _all_of_it = timeout(LAST_WORDS, &mut self.listening).await;
        let printed = self.stderr_text();
        let words = match complaint::words(&printed) {
            words if words.is_empty() => "the connection ended without a word".to_owned(),
            words => words,
        };
        self.build_failure(complaint::classify(&printed, status), words)
    }

    fn build_failure(&self, kind: complaint::ComplaintKind, words: String) -> Failure {
        Failure::Said { kind, words, trust: self.ssh.trust() }
    }

    /// Returns the output beside the answer so far.
    fn stderr_text(&self) -> String {
        lossy(&lock(&self.printed))
    }

    /// Marks the connection after a failure: it is not used again.
    fn mark_failed<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        if result.is_err() {
            self.failed = true;
            self.ssh.forget_connection();
        }
        result
    }
}

/// Ends the session: after an answer the server may finish its work; after a failure the child is killed at once.
impl Drop for Session {
    fn drop(&mut self) {
        self.listening.abort();
        let Some(mut child) = self.child.take() else { return };
        self.input = None;
        let output = self.output.take();
        if self.failed {
            return;
        }
        self.ssh.runtime.spawn(async move {
            let ending = async {
                if let Some(mut output) = output {
                    let _rest = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
                }
                child.wait().await
            };
            let _killed_if_late = timeout(LINGER, ending).await;
        });
    }
}

/// Waits for the result of the work, unless the fence closes, or the server is silent or at it for
/// too long.
async fn within<T>(
    ssh: &SshRemote,
    fence: &Fence,
    deadline: &mut Pin<Box<Sleep>>,
    work: impl Future<Output = std::io::Result<T>>,
) -> Result<std::io::Result<T>, Failure> {
    tokio::select! {
        biased;
        () = fence.closed() => Err(Failure::LeaseOver),
        done = timeout(ssh.silence, work) => done.map_err(|_| Failure::silent(ssh.silence)),
        () = deadline => Err(Failure::late(ssh.total)),
    }
}

fn command(ssh: &SshRemote, folder: &KeyFolder, program: GitService) -> Command {
    let mut command = Command::new("ssh");
    command
        .args(options::arguments(&ssh.address, program, ssh.silence))
        .current_dir(&folder.path)
        .env_clear()
        // Its words are read.
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Returns the limit of an answer, as over HTTP: a pack can be a whole repository's tip, the report of a push is a few
/// lines, and an advertisement has a line a branch.
fn limit(program: GitService) -> u64 {
    const MIB: u64 = 1024 * 1024;
    match program {
        GitService::UploadPack => 2048 * MIB,
        GitService::ReceivePack => 80 * MIB,
    }
}

async fn listen(printed: Option<ChildStderr>, output: Arc<Mutex<Vec<u8>>>) {
    let Some(mut printed) = printed else { return };
    let mut chunk = [0; 1024];
    while let Ok(n) = printed.read(&mut chunk).await
        && n > 0
    {
        let mut output = lock(&output);
        let room = PRINTED_LIMIT.saturating_sub(output.len());
        output.extend(chunk.iter().take(n.min(room)));
    }
}

/// Returns the length that a packet begins with, itself included; 0 is a flush.
fn length(head: &[u8]) -> Option<usize> {
    usize::from_str_radix(std::str::from_utf8(head).ok()?, 16).ok()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
