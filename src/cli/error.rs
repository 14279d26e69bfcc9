//! What a command ends with when it does not succeed: a kind, a cause and a next step.

use std::process::ExitCode;

/// Why a command did not succeed.
#[derive(Debug)]
pub struct CliError {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

/// What kind of failure it is; decides the exit code.
#[derive(Debug, Clone, Copy)]
enum Kind {
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

impl CliError {
    /// Violations were found and printed.
    pub fn rejected() -> Self {
        Self { kind: Kind::Rejected, message: String::new(), hint: None }
    }

    /// The service will not do it, and says why.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { kind: Kind::Refused, message: message.into(), hint: None }
    }

    /// The arguments do not go together.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into(), hint: None }
    }

    /// Something outside could not be used.
    pub fn io(message: impl Into<String>) -> Self {
        Self { kind: Kind::Io, message: message.into(), hint: None }
    }

    /// Somebody pressed Ctrl-C; the message says what has been done until then, the hint how to go on.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self { kind: Kind::Interrupted, message: message.into(), hint: None }
    }

    /// Nobody reads on.
    pub fn unread() -> Self {
        Self { kind: Kind::Unread, message: String::new(), hint: None }
    }

    /// The same, where it may pass by itself.
    #[must_use]
    pub fn passing(self) -> Self {
        Self { kind: Kind::Passing, ..self }
    }

    /// Whether it may pass by itself.
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, Kind::Passing)
    }

    /// Whether it is that violations were found, or a deployment failed.
    pub fn is_rejection(&self) -> bool {
        matches!(self.kind, Kind::Rejected)
    }

    /// The same refusal, because the caller may not.
    #[must_use]
    pub fn forbidden(self) -> Self {
        Self { kind: Kind::Forbidden, ..self }
    }

    /// The same refusal, whose reason is no mistyped name.
    #[must_use]
    pub fn whatever_the_names(self) -> Self {
        Self { kind: Kind::InTheWay, ..self }
    }

    /// Whether it is that the service will not do it.
    pub fn is_refusal(&self) -> bool {
        matches!(self.kind, Kind::Refused | Kind::Forbidden | Kind::InTheWay)
    }

    /// Whether a mistyped name may be the reason. A caller who may not see an app is not told whether there is one.
    pub fn may_be_mistyped(&self) -> bool {
        matches!(self.kind, Kind::Refused | Kind::Forbidden)
    }

    /// Whether it is that the caller may not.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.kind, Kind::Forbidden)
    }

    /// The same with another one's words as the next step, before its own.
    #[must_use]
    pub fn explained_by(self, other: &Self) -> Self {
        let hints = [Some(other.whole()), self.hint].into_iter().flatten();
        Self { hint: Some(hints.collect::<Vec<_>>().join("; ")), ..self }
    }

    /// Prints it now, because there is more to come; the same without words, for the exit code.
    #[must_use]
    pub fn told(&self) -> Self {
        let _later = self.report();
        match self.kind {
            Kind::Rejected | Kind::Refused | Kind::Forbidden | Kind::InTheWay => Self::rejected(),
            Kind::Usage | Kind::Io | Kind::Passing | Kind::Interrupted | Kind::Unread => {
                Self::unread()
            }
        }
    }

    /// What is wrong and what to do, in one line.
    pub fn whole(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// The same with what to do next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Prints the error for people on standard error, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self.kind {
            Kind::Rejected => ExitCode::from(1),
            Kind::Unread => ExitCode::from(2),
            Kind::Interrupted => {
                super::output::stopped(&self.message, self.hint.as_deref());
                ExitCode::from(130)
            }
            Kind::Refused
            | Kind::Forbidden
            | Kind::InTheWay
            | Kind::Usage
            | Kind::Io
            | Kind::Passing => {
                super::output::error(&self.message, self.hint.as_deref());
                ExitCode::from(if self.is_refusal() { 1 } else { 2 })
            }
        }
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// What a command returns.
pub type Outcome = Result<(), CliError>;
