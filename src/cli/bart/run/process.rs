//! Runs a process to its end: signals are passed on, its exit code is the command's.

use std::process::ExitStatus;

use tokio::process::{Child, Command};

use crate::cli::error::{CliError, CliErrorKind, CommandOutcome};

/// Runs it; an exit code other than 0 is an error without words.
pub(super) async fn run(mut command: Command) -> CommandOutcome {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.kill_on_drop(true);
    // Before it starts: a signal that comes at once is passed on, too.
    let unheard = |error| CliError::io(format!("cannot listen for signals: {error}"));
    let signals = Signals::listen().map_err(unheard)?;
    let mut child = command.spawn().map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        CliError::new(CliErrorKind::Ended(code), format!("cannot start {program}: {error}"))
    })?;
    let status = signals.pass_on(&mut child).await;
    let status = status.map_err(|error| CliError::io(format!("{program} was lost: {error}")))?;
    match exit_code(status) {
        0 => Ok(()),
        code => Err(CliError::new(CliErrorKind::Ended(code), "")),
    }
}

/// The signals that end a process.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the end of the process, and passes signals on.
    async fn pass_on(self, child: &mut Child) -> std::io::Result<ExitStatus> {
        use std::io::IsTerminal as _;
        let Self { mut interrupt, mut terminate, mut hangup } = self;
        // A terminal sends Ctrl-C to all processes of the foreground itself.
        let is_terminal = std::io::stdin().is_terminal();
        loop {
            let name = tokio::select! {
                status = child.wait() => return status,
                _ = interrupt.recv() => if is_terminal { continue } else { "INT" },
                _ = terminate.recv() => "TERM",
                _ = hangup.recv() => "HUP",
            };
            if let Some(id) = child.id() {
                // A process that has just ended gets none.
                let mut kill = Command::new("kill");
                let _has_ended = kill.args(["-s", name, &id.to_string()]).status().await;
            }
        }
    }
}

/// Ctrl-C, which the system sends to the process, too.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn pass_on(self, child: &mut Child) -> std::io::Result<ExitStatus> {
        tokio::select! {
            status = child.wait() => status,
            _ = tokio::signal::ctrl_c() => child.wait().await,
        }
    }
}

/// Returns the exit code as shells have it: 128 and the signal, where a signal ended it.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(signal) = status.signal() {
            return u8::try_from(128 + signal).unwrap_or(u8::MAX);
        }
    }
    u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)
}
