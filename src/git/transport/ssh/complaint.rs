//! The meaning of the output of `ssh` and of the program behind it. Pure: words in, a kind out.
//!
//! Neither has another way to report an error. The samples in the tests are the output of OpenSSH 9 and the code hosts.

/// ssh's own exit status when it, and not the program behind it, has failed.
const SSH_FAILURE: i32 = 255;
/// The limit of characters that are kept for people.
const WORDS_LIMIT: usize = 300;

/// The kind of a complaint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) enum ComplaintKind {
    /// The host's key is in no known hosts file.
    HostUnknown,
    /// The host has another key than the file of known hosts says, or a revoked one.
    HostChanged,
    /// The host does not accept the service's key, or ssh cannot use it.
    KeyRefused,
    /// The key may read and not write.
    ReadOnly,
    /// The repository does not exist, or the key may not see it.
    NoRepository,
    /// The host cannot be reached, or the connection was cut.
    NoConnection,
    /// Another message of the host.
    Other,
}

/// Reads the output of a child that ended with `status`; without one it was killed.
pub(super) fn classify(printed: &str, status: Option<i32>) -> ComplaintKind {
    let text = printed.to_lowercase();
    let contains_any = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let row = TABLE.iter().find(|(_, words)| contains_any(words));
    match row {
        Some((kind, _)) => *kind,
        None if status.is_none_or(|status| status == SSH_FAILURE) => ComplaintKind::NoConnection,
        None => ComplaintKind::Other,
    }
}

/// The words of each kind, in this order: a changed host key is also one whose verification failed; a host that knows
/// the key says more by it than that the connection ended.
const TABLE: [(ComplaintKind, &[&str]); 7] = [
    (ComplaintKind::HostChanged, &["host identification has changed", "revoked host key"]),
    (ComplaintKind::HostUnknown, &["host key verification failed", "host key is known for"]),
    (
        ComplaintKind::ReadOnly,
        &[
            "marked as read only",
            "read-only",
            "does not have write access",
            "not allowed to push",
            "not authorized to write",
            "write access to repository not granted",
            "denied to deploy key",
            " denied to ",
        ],
    ),
    (
        ComplaintKind::NoRepository,
        &[
            "repository not found",
            "does not appear to be a git repository",
            "project you were looking for could not be found",
            "cannot find repository",
            "repository does not exist",
            "does not exist or you do not have permission",
            "repository access denied",
        ],
    ),
    // A code host that is not well says so, and gets over it.
    (
        ComplaintKind::NoConnection,
        &[
            "internal server",
            "internal error",
            "internal api",
            "is not accessible",
            "unavailable",
            "unable to handle this request",
            "try again",
            "rate limit",
        ],
    ),
    (
        ComplaintKind::KeyRefused,
        &[
            "permission denied (",
            "load key \"",
            "too many authentication failures",
            "no such identity",
        ],
    ),
    (
        ComplaintKind::NoConnection,
        &[
            "ssh: connect to host",
            "could not resolve hostname",
            "timed out",
            "kex_exchange_identification",
            "ssh_exchange_identification",
            "closed by remote host",
            "connection reset",
            "connection closed",
            "broken pipe",
            "mux_client",
        ],
    ),
];

/// Returns one line of the output, for a person: without frames, control characters and repetition.
pub(super) fn words(printed: &str) -> String {
    let clean = |line: &str| {
        let text: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let has_text = |line: &String| line.chars().any(char::is_alphanumeric);
    let lines: Vec<String> = printed.lines().map(clean).filter(has_text).collect();
    lines.join("; ").chars().take(WORDS_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGED: &str = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r\n\
        @    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n\
        @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r\n\
        IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r\n\
        Host key for [127.0.0.1]:2299 has changed and you have requested strict checking.\r\n\
        Host key verification failed.\r\n";

    #[test]
    fn what_ssh_prints_is_told_apart() {
        for (printed, kind) in [
            (CHANGED, ComplaintKind::HostChanged),
            (
                "No ED25519 host key is known for [127.0.0.1]:2299 and you have requested strict \
                 checking.\r\nHost key verification failed.\r\n",
                ComplaintKind::HostUnknown,
            ),
            ("git@127.0.0.1: Permission denied (publickey).\r\n", ComplaintKind::KeyRefused),
            (
                "Load key \"key\": error in libcrypto\r\nx: Permission denied (publickey).",
                ComplaintKind::KeyRefused,
            ),
            (
                "ssh: connect to host 127.0.0.1 port 1: Connection refused\r\n",
                ComplaintKind::NoConnection,
            ),
            (
                "ssh: Could not resolve hostname nowhere.invalid: Name or service not known\r\n",
                ComplaintKind::NoConnection,
            ),
            ("Connection timed out during banner exchange\r\n", ComplaintKind::NoConnection),
            (
                "kex_exchange_identification: read: Connection reset by peer\r\n",
                ComplaintKind::NoConnection,
            ),
            ("Connection to 127.0.0.1 closed by remote host.\r\n", ComplaintKind::NoConnection),
            ("", ComplaintKind::NoConnection),
        ] {
            assert_eq!(classify(printed, Some(255)), kind, "{printed}");
        }
        assert_eq!(classify("", None), ComplaintKind::NoConnection);
    }

    #[test]
    fn what_code_hosts_print_is_told_apart() {
        let after = "fatal: Could not read from remote repository.";
        for (printed, kind) in [
            ("ERROR: Repository not found.", ComplaintKind::NoRepository),
            (
                "ERROR: The key you are authenticating with has been marked as read only.",
                ComplaintKind::ReadOnly,
            ),
            ("ERROR: Permission to o/n.git denied to alice.", ComplaintKind::ReadOnly),
            ("ERROR: Write access to repository not granted.", ComplaintKind::ReadOnly),
            (
                "ERROR: The project you were looking for could not be found or you don't have \
                 permission to view it.",
                ComplaintKind::NoRepository,
            ),
            (
                "ERROR: This deploy key does not have write access to this project.",
                ComplaintKind::ReadOnly,
            ),
            (
                "Forgejo: User: 1:a with Key: 2:b is not authorized to write to o/n.",
                ComplaintKind::ReadOnly,
            ),
            (
                "fatal: '/srv/n.git' does not appear to be a git repository",
                ComplaintKind::NoRepository,
            ),
            ("ERROR: Internal server error. Please try again later.", ComplaintKind::NoConnection),
            (
                "ERROR: GitLab: Failed to authorize your Git request: internal API unreachable",
                ComplaintKind::NoConnection,
            ),
            ("ERROR: Your account is suspended.", ComplaintKind::Other),
            ("sh: git-receive-pack: not found", ComplaintKind::Other),
        ] {
            assert_eq!(classify(&format!("{printed}\n{after}"), Some(128)), kind, "{printed}");
        }
    }

    #[test]
    fn words_for_people_are_one_bounded_line() {
        let line = words(CHANGED);
        assert!(line.starts_with("@ WARNING: REMOTE HOST"), "{line}");
        assert!(!line.contains("@@") && !line.contains('\r'), "{line}");
        assert_eq!(words(&"x".repeat(9_000)).len(), WORDS_LIMIT);
        assert_eq!(words("\r\n"), "");
    }
}
