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
    /// The arguments are wrong. Exit code 2.
    Usage,
    /// Something could not be read, written or reached. Exit code 2.
    Io,
    /// The same, and it may pass by itself. Exit code 2.
    Passing,
    /// Who reads what we print has enough, as `head` has. Nothing is said. Exit code 2.
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
            Kind::Refused | Kind::Usage | Kind::Io | Kind::Passing => {
                super::output::error(&self.message, self.hint.as_deref());
                ExitCode::from(if matches!(self.kind, Kind::Refused) { 1 } else { 2 })
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
