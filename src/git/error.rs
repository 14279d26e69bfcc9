//! The errors of the manifest repository, each with its disposition.
//!
//! Texts name the repository by its address without secrets; they never hold a token.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use crate::git::transport::push_rejection::PushRefusal;
use crate::model::hand_edit::HandEdit;
use crate::support::disk;
use crate::support::retry::Disposition;

/// The reason why a change is not in the manifest repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The server got the commit, checked it, and refused it.
    #[error("{repository} refused the push to {branch}: {refusal}")]
    Refused {
        /// The manifest repository.
        repository: String,
        /// The branch that was pushed to.
        branch: String,
        /// The server's words, and what to do.
        refusal: PushRefusal,
    },
    /// The token is missing, wrong, or may not write.
    #[error("{repository} does not accept the service's token (HTTP {status}): {help}")]
    Unauthorized {
        /// The manifest repository.
        repository: String,
        /// 401 or 403.
        status: u16,
        /// The way out, for this source of tokens.
        help: String,
    },
    /// The source of its token has none.
    #[error("there is no token for {repository}: {why}")]
    NoToken {
        /// The manifest repository.
        repository: String,
        /// The fault, the way out, and the disposition.
        why: TokenError,
    },
    /// The host has another key than the trusted one, or there is no trusted one.
    #[error("{repository} is not trusted: {cause}. What to do: {help}")]
    NotTrusted {
        /// The manifest repository.
        repository: String,
        /// The fault that ssh found.
        cause: String,
        /// The place for the host's key.
        help: String,
    },
    /// The host does not accept the service's key, or the key lacks the permission.
    #[error("{repository} does not accept the service's key ({said}). What to do: {help}")]
    KeyRefused {
        /// The manifest repository.
        repository: String,
        /// The words of ssh or of the host.
        said: String,
        /// The way out, for this source of the key.
        help: String,
    },
    /// The repository does not exist, or the service may not see it.
    #[error("there is no manifest repository at {repository}: {}", missing_help(repository))]
    NotFound {
        /// The address that was tried.
        repository: String,
    },
    /// The repository has branches, but not this one. It is not begun again: apps that would not be on it would be
    /// removed from the clusters.
    #[error(
        "{repository} has no branch {branch}; it has {others}: name one of them in the configuration, \
         or push {branch}"
    )]
    NoBranch {
        /// The manifest repository.
        repository: String,
        /// The branch that was looked for.
        branch: String,
        /// The names of others.
        others: String,
    },
    /// Every branch is gone from a repository that had the service's. It is not begun again: apps that would not be on
    /// it would be removed from the clusters.
    #[error(
        "{repository} has lost its branch {branch}, and has no other: push it again from a copy; \
         or, to begin anew with an empty one, {anew}"
    )]
    Emptied {
        /// The manifest repository.
        repository: String,
        /// The branch that was there.
        branch: String,
        /// The way to begin with an empty repository.
        anew: String,
    },
    /// Others of the same push were refused, each by itself, and this one was not pushed yet.
    #[error("{repository} refuses other changes to {branch} now: {refusal}")]
    NotAsked {
        /// The manifest repository.
        repository: String,
        /// The branch that was pushed to.
        branch: String,
        /// The server's words to the others.
        refusal: PushRefusal,
    },
    /// The server cannot be reached, or asks the service to wait.
    #[error("{repository} cannot be reached: {cause}")]
    Unreachable {
        /// The manifest repository.
        repository: String,
        /// The fault, in one sentence.
        cause: String,
        /// The time that the server asks the service to wait, if it did.
        wait: Option<Duration>,
    },
    /// The lease of the change has ended; it was not pushed.
    #[error("the change was not pushed to {repository}: its lease ended before its turn came")]
    LeaseOver {
        /// The manifest repository.
        repository: String,
    },
    /// Others pushed first every time.
    #[error("{repository}: others pushed to {branch} first, {tries} times in a row")]
    LostRaces {
        /// The manifest repository.
        repository: String,
        /// The branch that was pushed to.
        branch: String,
        /// The number of tries.
        tries: u32,
    },
    /// A file is where a folder must be.
    #[error(
        "{repository} has a file at {path}, where the layout needs a folder: move that file away"
    )]
    Blocked {
        /// The manifest repository.
        repository: String,
        /// The path within it.
        path: String,
    },
    /// The content that a change depends on was changed; nothing was done.
    #[error("{path} in {repository} was changed in the meantime: check it, and try again")]
    Moved {
        /// The manifest repository.
        repository: String,
        /// The path within it.
        path: String,
    },
    /// The app's files have a manual edit, and the target's policy stops a deployment for that.
    #[error(
        "{path} was edited by hand: {edit}. Take the change over into the service's \
         repository, as `bart import-edit` does, or revert it in {repository}; then deploy again"
    )]
    HandEdited {
        /// The manifest repository.
        repository: String,
        /// The folder that was edited.
        path: String,
        /// The edit and its author.
        edit: Box<HandEdit>,
    },
    /// The commit could not be signed; nothing was done.
    #[error("commits for {repository} cannot be signed: {why}")]
    NotSigned {
        /// The manifest repository.
        repository: String,
        /// The fault.
        why: SigningError,
    },
    /// Objects are missing or damaged, and making the clone again did not help.
    #[error("{repository} is damaged ({cause}): run `git fsck` there")]
    Corrupt {
        /// The manifest repository.
        repository: String,
        /// The message of git.
        cause: String,
    },
    /// The disk of this machine fails.
    #[error("cannot use the folder {folder} for {repository}: {cause}")]
    Disk {
        /// The manifest repository.
        repository: String,
        /// The folder of the clone.
        folder: String,
        /// The message of the operating system.
        cause: String,
    },
    /// A setting or an input cannot be used.
    #[error("{0}")]
    Invalid(String),
}

impl WriteError {
    /// Builds the error of a server that cannot be reached, without a wait.
    pub(super) fn unreachable(repository: impl Display, cause: impl Into<String>) -> Self {
        let repository = repository.to_string();
        Self::Unreachable { repository, cause: cause.into(), wait: None }
    }

    /// Builds the error of a disk that fails in that folder.
    pub(super) fn disk(repository: impl Display, folder: &Path, cause: impl Display) -> Self {
        let (repository, cause) = (repository.to_string(), cause.to_string());
        Self::Disk { repository, folder: folder.display().to_string(), cause }
    }

    /// Builds the error of a failure of git on this machine. A disk without room, or a process with too many open
    /// files, is no damage: it passes.
    pub(super) fn of_git(repository: String, folder: &Path, error: &git2::Error) -> Self {
        let cause = error.message().to_owned();
        if repository == folder.display().to_string() && !folder.exists() {
            return Self::NotFound { repository };
        }
        match (disk::shortage(folder, &cause), error.class()) {
            (Some(cause), _) => Self::disk(repository, folder, cause),
            (None, git2::ErrorClass::Net) => Self::unreachable(repository, cause),
            (None, git2::ErrorClass::Os) => Self::disk(repository, folder, cause),
            (None, _) => Self::Corrupt { repository, cause },
        }
    }

    /// Says whether trying again can help. The only place that decides it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Unreachable { wait, .. } => Disposition::Retry { after: *wait },
            Self::NoToken { why, .. } => why.next,
            Self::LostRaces { .. }
            | Self::LeaseOver { .. }
            | Self::Disk { .. }
            | Self::NotAsked { .. } => Disposition::Retry { after: None },
            Self::NotSigned { why, .. } if why.passes() => Disposition::Retry { after: None },
            Self::Refused { refusal, .. } if refusal.passes() => Disposition::Retry { after: None },
            Self::Unauthorized { status: 403, .. } => Disposition::Doubt,
            Self::Refused { .. }
            | Self::Unauthorized { .. }
            | Self::NotTrusted { .. }
            | Self::KeyRefused { .. }
            | Self::NotFound { .. }
            | Self::NoBranch { .. }
            | Self::Emptied { .. }
            | Self::Blocked { .. }
            | Self::Moved { .. }
            | Self::HandEdited { .. }
            | Self::NotSigned { .. }
            | Self::Corrupt { .. }
            | Self::Invalid(_) => Disposition::Stop,
        }
    }
}

/// The reason why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TokenError {
    /// The fault and the way out, in one sentence without a secret.
    pub why: String,
    /// The disposition: a later request may help or not.
    pub next: Disposition,
}

/// The reason why there is no signature. Nothing of a key is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// `gpg` cannot be started.
    #[error(
        "the program gpg cannot be started ({0}): install GnuPG 2.2 or newer (`gpg` and `gpg-agent`)"
    )]
    NoProgram(String),
    /// Gpg did not end in time.
    #[error("gpg did not end within {0} seconds")]
    TimedOut(u64),
    /// Gpg's home cannot be created or used.
    #[error("the folder {folder} cannot be used for signing: {cause}")]
    Folder {
        /// The path of the home.
        folder: String,
        /// The fault and the way out.
        cause: String,
    },
    /// The path of gpg's home is too long for a socket.
    #[error(
        "the folder {folder} cannot be used for signing: its path has {length} bytes, and the sockets of gpg-agent allow {longest}: choose a shorter `storage.folder`"
    )]
    TooDeep {
        /// The path of the home.
        folder: String,
        /// The length of its path in bytes.
        length: usize,
        /// The allowed length.
        longest: usize,
    },
    /// Gpg cannot use the key.
    #[error("gpg cannot use the key under `signing`: {0}")]
    BadKey(String),
    /// Gpg made no signature, and will not before a person has fixed the key.
    #[error("gpg made no signature: {0}")]
    Unusable(String),
    /// Gpg made no signature.
    #[error("gpg made no signature: {0}")]
    NotSigned(String),
    /// The ssh key made none.
    #[error("no signature can be made with this ssh key")]
    Ssh,
}

impl SigningError {
    /// Returns true if a retry can help. A machine without memory, a full disk, an agent that is away: all that passes.
    /// Only known causes are final.
    pub fn passes(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::Folder { .. } | Self::NotSigned(_))
    }

    /// Converts the error for a key that has signed before: the key is not at fault.
    pub(super) fn of_good_key(self) -> Self {
        match self {
            Self::BadKey(why) => Self::NotSigned(why),
            other => other,
        }
    }
}

/// The reason why a step failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum StepError {
    /// A known error, final for this write.
    Error(#[from] WriteError),
    /// Git itself failed on this machine: the clone may be damaged.
    Damaged(#[from] git2::Error),
}

/// Says what to do about a repository that is not there.
fn missing_help(repository: &str) -> &'static str {
    if Path::new(repository).is_absolute() {
        "the folder is gone. Put it back from a backup, or correct its path in the configuration. Do not start the \
         service without it: the built-in repository would be created again, and empty, and Argo CD would take every app \
         off its clusters"
    } else {
        "create it, correct its address in the configuration, or let the service's token or key see it"
    }
}

#[cfg(test)]
mod tests {
    use git2::{ErrorClass, ErrorCode};

    use super::*;

    fn of_git(class: ErrorClass, words: &str) -> WriteError {
        let folder = tempfile::tempdir().unwrap();
        let error = git2::Error::new(ErrorCode::GenericError, class, words);
        WriteError::of_git("fleet".to_owned(), folder.path(), &error)
    }

    #[test]
    fn a_machine_that_has_nothing_left_is_no_damaged_repository() {
        for (class, words) in [
            (ErrorClass::Os, "failed to write: No space left on device"),
            (ErrorClass::Filesystem, "failed to write: No space left on device"),
            (ErrorClass::Odb, "could not open a pack: Too many open files"),
            (ErrorClass::Repository, "failed to make a lock: Read-only file system"),
        ] {
            let error = of_git(class, words);
            assert!(matches!(error, WriteError::Disk { .. }), "{error}");
            assert_eq!(error.disposition(), Disposition::Retry { after: None });
        }
    }

    #[test]
    fn what_is_missing_is_damage() {
        let error = of_git(ErrorClass::Odb, "object not found - no match for id");
        assert!(matches!(error, WriteError::Corrupt { .. }), "{error}");
    }
}
