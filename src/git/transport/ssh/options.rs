//! The command line of `ssh`. Pure.
//!
//! Nothing is read from the machine's configuration, no prompt is shown, and only the hosts that the operator has named
//! are trusted. Paths are names in the folder that ssh runs in, so that none can be taken apart at a space or a `%`,
//! and the socket's is not too long for the system.

use std::time::Duration;

use crate::model::ssh::SshAddress;

/// The name of the private key.
pub(super) const KEY: &str = "key";
/// The host keys that are believed.
pub(super) const KNOWN_HOSTS: &str = "known_hosts";
/// The name of the connection's socket, which is shared by pushes.
pub(super) const SOCKET: &str = "connection";
/// The time for which a connection is kept after its last use: most deployments of a day come in such a time one after
/// the other, and a process that was killed leaves none behind for longer.
const PERSIST: Duration = Duration::from_mins(10);
/// The interval of keep-alive checks. Three without an answer end the connection.
const ALIVE: Duration = Duration::from_secs(15);

/// The program of git behind ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) enum GitService {
    /// The program for a fetch.
    UploadPack,
    /// The program for a push.
    ReceivePack,
}

/// Returns the arguments of `ssh` that run a program on a repository; `patience` is for the connection.
pub(super) fn arguments(
    address: &SshAddress,
    program: GitService,
    patience: Duration,
) -> Vec<String> {
    let seconds = |time: Duration| time.as_secs().max(1);
    let options = [
        // A terminal, a prompt or an agent would wait for a person.
        "BatchMode=yes".to_owned(),
        "RequestTTY=no".to_owned(),
        // This key and no other: a host counts how many were tried.
        "IdentitiesOnly=yes".to_owned(),
        "IdentityAgent=none".to_owned(),
        format!("IdentityFile={KEY}"),
        "PreferredAuthentications=publickey".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
        format!("UserKnownHostsFile={KNOWN_HOSTS}"),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        "UpdateHostKeys=no".to_owned(),
        "CanonicalizeHostname=no".to_owned(),
        "ClearAllForwardings=yes".to_owned(),
        "ForwardAgent=no".to_owned(),
        "ForwardX11=no".to_owned(),
        "PermitLocalCommand=no".to_owned(),
        format!("ConnectTimeout={}", seconds(patience)),
        "ConnectionAttempts=1".to_owned(),
        format!("ServerAliveInterval={}", seconds(ALIVE)),
        "ServerAliveCountMax=3".to_owned(),
        // The first child makes the connection and leaves it behind; the next ones go through it.
        "ControlMaster=auto".to_owned(),
        format!("ControlPath={SOCKET}"),
        format!("ControlPersist={}", seconds(PERSIST)),
        // A banner is not an error.
        "LogLevel=ERROR".to_owned(),
    ];
    let mut arguments = vec!["-F".to_owned(), "none".to_owned()];
    arguments.extend(options.into_iter().flat_map(|option| ["-o".to_owned(), option]));
    if let Some(port) = address.port() {
        arguments.extend(["-p".to_owned(), port.to_string()]);
    }
    arguments.extend(["-l".to_owned(), address.user().to_owned(), "--".to_owned()]);
    arguments.extend([address.host().to_owned(), command(program, address.path())]);
    arguments
}

/// Returns the arguments that close the shared connection, once no process uses it any more.
pub(super) fn close_arguments(address: &SshAddress) -> Vec<String> {
    let socket = format!("ControlPath={SOCKET}");
    let arguments = ["-F", "none", "-O", "stop", "-o", &socket, "--", address.host()];
    arguments.map(str::to_owned).to_vec()
}

/// Writes the command as git does: code hosts take it apart by these very quotes.
fn command(program: GitService, path: &str) -> String {
    let program = match program {
        GitService::UploadPack => "git-upload-pack",
        GitService::ReceivePack => "git-receive-pack",
    };
    let quoted = path.replace('\'', r"'\''").replace('!', r"'\!'");
    format!("{program} '{quoted}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_command_come_last_and_cannot_be_options() {
        let address = SshAddress::parse("ssh://git@[::1]:2222/o/it's.git").unwrap();
        let arguments = arguments(&address, GitService::ReceivePack, Duration::from_millis(1_500));
        let tail: Vec<&str> = arguments.iter().rev().take(7).rev().map(String::as_str).collect();
        let command = r"git-receive-pack '/o/it'\''s.git'";
        assert_eq!(tail, ["-p", "2222", "-l", "git", "--", "::1", command]);
        for option in ["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=1"] {
            assert!(arguments.iter().any(|argument| argument == option), "{option}");
        }
    }

    #[test]
    fn a_path_is_quoted_as_git_does() {
        let quoted = |path| command(GitService::UploadPack, path);
        assert_eq!(quoted("o/n.git"), "git-upload-pack 'o/n.git'");
        assert_eq!(quoted("a!b; rm -rf $HOME"), r"git-upload-pack 'a'\!'b; rm -rf $HOME'");
    }
}
