//! What a command ends with when it does not succeed: a kind, a cause and a next step.

use std::fmt::Display;
use std::path::Path;

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct CliError {
    pub(super) kind: CliErrorKind,
    message: String,
    hint: Option<String>,
}

/// What kind of failure it is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CliErrorKind {
    /// Violations were found, or a deployment failed. They are already printed. Exit code 1.
    Rejected,
    /// The service will not do it. Exit code 1.
    Refused,
    /// The same, because the caller may not. Exit code 1.
    Forbidden,
    /// The same, for a reason that lies in no name: something is in the way. Exit code 1.
    InTheWay,
    /// The arguments are wrong. Exit code 2.
    Usage,
    /// Something could not be read, written or reached. Exit code 2.
    Io,
    /// The same, and it may pass by itself. Exit code 2.
    Passing,
    /// Somebody pressed Ctrl-C. Exit code 130, as shells have it for SIGINT.
    Interrupted,
    /// Nothing more is said: who reads what we print has enough, as `head` has, or has been told. Exit code 2.
    Unread,
}

/// What a command returns.
pub(super) type CommandOutcome = Result<(), CliError>;

impl CliError {
    pub(super) fn new(kind: CliErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Violations were found and printed.
    pub(super) fn rejected() -> Self {
        Self::new(CliErrorKind::Rejected, "")
    }

    /// The service will not do it, and says why.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Refused, message)
    }

    /// The arguments do not go together.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Usage, message)
    }

    /// Something outside could not be used.
    pub(super) fn io(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Io, message)
    }

    /// The same, in the words of its own error.
    pub(super) fn failed(error: impl Display) -> Self {
        Self::io(error.to_string())
    }

    /// The same of a file or folder that cannot be read, written or used.
    pub(super) fn file(verb: &str, path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::io(format!("cannot {verb} {}: {error}", path.display()))
    }

    /// Somebody pressed Ctrl-C; the message says what has been done until then, the hint how to go on.
    pub(super) fn interrupted(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Interrupted, message)
    }

    /// The same error, which may pass by itself.
    pub(super) fn passing(self) -> Self {
        Self { kind: CliErrorKind::Passing, ..self }
    }

    /// The same with what to do next.
    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same with another one's words as the next step, before its own.
    pub(super) fn explained_by(self, other: &Self) -> Self {
        let hints = [Some(other.whole()), self.hint].into_iter().flatten();
        Self { hint: Some(hints.collect::<Vec<_>>().join("; ")), ..self }
    }

    /// Returns whether the service will not do it.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self.kind,
            CliErrorKind::Refused | CliErrorKind::Forbidden | CliErrorKind::InTheWay
        )
    }

    /// Returns whether a mistyped name may be the reason. A caller who may not see an app is not told whether there
    /// is one.
    pub(super) fn may_be_mistyped(&self) -> bool {
        matches!(self.kind, CliErrorKind::Refused | CliErrorKind::Forbidden)
    }

    /// Returns what is wrong and what to do, in one line.
    pub(super) fn whole(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    pub(super) fn next_step(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self.kind {
            CliErrorKind::Rejected
            | CliErrorKind::Refused
            | CliErrorKind::Forbidden
            | CliErrorKind::InTheWay => 1,
            CliErrorKind::Usage
            | CliErrorKind::Io
            | CliErrorKind::Passing
            | CliErrorKind::Unread => 2,
            CliErrorKind::Interrupted => 130,
        }
    }
}

/// Runs a command that waits for the world.
pub(super) fn on_runtime(command: impl Future<Output = CommandOutcome>) -> CommandOutcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| CliError::io(format!("cannot start threads: {error}")))?;
    let outcome = runtime.block_on(command);
    // What is still on a blocking thread was given up on; it must not hold up the end.
    runtime.shutdown_background();
    outcome
}
