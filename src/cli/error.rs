//! The error of a command: its kind, its cause and a hint.

use std::fmt::Display;
use std::path::Path;

/// An error of a command.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct CliError {
    pub(super) kind: CliErrorKind,
    message: String,
    hint: Option<String>,
}

/// The kind of a failure, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CliErrorKind {
    /// Violations were found, or a deployment failed. They are already printed. Exit code 1.
    Rejected,
    /// The service refuses. Exit code 1.
    Refused,
    /// The service refuses because the caller has no permission. Exit code 1.
    Forbidden,
    /// The service refuses because of another act or a missing login; no name is at fault. Exit code 1.
    InTheWay,
    /// The arguments are wrong. Exit code 2.
    Usage,
    /// Something could not be read, written or reached. Exit code 2.
    Io,
    /// The same, and a repeat may succeed. Exit code 2.
    Passing,
    /// The person pressed Ctrl-C. Exit code 130, as shells have it for SIGINT.
    Interrupted,
    /// A process that the command ran has ended with this exit code, or could not be started.
    Ended(u8),
    /// Nothing is printed: the reader closed the output, as `head` does, or the message was printed before. Exit code
    /// 2.
    Unread,
}

/// The result of a command.
pub(super) type CommandOutcome = Result<(), CliError>;

impl CliError {
    pub(super) fn new(kind: CliErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Makes the error for violations that are already printed.
    pub(super) fn rejected() -> Self {
        Self::new(CliErrorKind::Rejected, "")
    }

    /// Makes the error for a refusal of the service, with its reason.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Refused, message)
    }

    /// Makes the error for wrong arguments.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Usage, message)
    }

    /// Makes the error for something outside that could not be used.
    pub(super) fn io(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Io, message)
    }

    /// Does the same with the words of another error.
    pub(super) fn failed(error: impl Display) -> Self {
        Self::io(error.to_string())
    }

    /// Does the same for a file or folder that cannot be read, written or used.
    pub(super) fn file(verb: &str, path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::io(format!("cannot {verb} {}: {error}", path.display()))
    }

    /// Makes the error for Ctrl-C; the message says what has been done so far, the hint how to continue.
    pub(super) fn interrupted(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Interrupted, message)
    }

    /// Returns the same error, marked as one that may pass.
    pub(super) fn passing(self) -> Self {
        Self { kind: CliErrorKind::Passing, ..self }
    }

    /// Returns the same error with a hint.
    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the same error with another one's words before its own hint.
    pub(super) fn explained_by(self, other: &Self) -> Self {
        let hints = [Some(other.whole()), self.hint].into_iter().flatten();
        Self { hint: Some(hints.collect::<Vec<_>>().join("; ")), ..self }
    }

    /// Returns whether the service refuses.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self.kind,
            CliErrorKind::Refused | CliErrorKind::Forbidden | CliErrorKind::InTheWay
        )
    }

    /// Returns whether a mistyped name may be the reason. The service does not say whether an app exists that the
    /// caller may not see.
    pub(super) fn may_be_mistyped(&self) -> bool {
        matches!(self.kind, CliErrorKind::Refused | CliErrorKind::Forbidden)
    }

    /// Returns the message and the hint in one line.
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
            CliErrorKind::Ended(code) => code,
        }
    }
}

/// Runs a command on the async runtime.
pub(super) fn on_runtime(command: impl Future<Output = CommandOutcome>) -> CommandOutcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| CliError::io(format!("cannot start threads: {error}")))?;
    let outcome = runtime.block_on(command);
    // The command gave up on blocking threads that still run; they must not delay the end.
    runtime.shutdown_background();
    outcome
}
