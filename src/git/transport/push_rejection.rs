//! The meaning of a git server's answer when it does not move the branch. Pure: words in, a decision out.
//!
//! Servers differ in wording and not in kind, so this reads words. An unknown text is a refusal: it is shown to a
//! person and not retried for ever.

use std::fmt;

/// The limit of characters of a server's message; enough for GitHub's longest rule list.
const MESSAGE_LIMIT: usize = 1_000;

/// The outcome of a push, by the server's status line for the branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushVerdict {
    /// Another process moved the branch first: fetch again, and apply the change to the new tip.
    LostRace,
    /// The server does not want this push.
    Refused(PushRefusal),
}

/// The server's no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushRefusal {
    /// The kind of the rule, as far as the words say.
    pub kind: RefusalKind,
    /// The server's words, cleaned and cut.
    pub message: String,
}

/// The kinds of refusal that need different help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// Branch protection or a repository rule.
    Protected,
    /// Too big, or no space left by quota.
    Quota,
    /// A hook of that server.
    Hook,
    /// The server failed to store the objects; no rule forbade anything.
    ServerFault,
    /// Another kind.
    Other,
}

impl PushRefusal {
    /// Returns whether the refusal may pass by itself.
    pub fn passes(&self) -> bool {
        self.kind == RefusalKind::ServerFault
    }

    /// Says what to do about the refusal.
    pub fn help(&self) -> &'static str {
        match self.kind {
            RefusalKind::Protected => {
                "let this service's account bypass the rule, or name a branch without it"
            }
            RefusalKind::Quota => "make room on the server, or raise its limit",
            RefusalKind::Hook => "ask who runs that hook to let this service's commits through",
            RefusalKind::ServerFault => {
                "it is tried again; if it stays, look at the server's disk and log"
            }
            RefusalKind::Other => "settle it on the server, then redeploy",
        }
    }
}

impl fmt::Display for PushRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. What to do: {}", self.message, self.help())
    }
}

/// Reads the server's status for the branch, with its output.
pub fn classify(status: &str, printed: &str) -> PushVerdict {
    if is_lost_race(status) {
        return PushVerdict::LostRace;
    }
    let text = format!("{status}\n{printed}").to_lowercase();
    PushVerdict::Refused(PushRefusal { kind: kind(&text), message: message(status, printed) })
}

/// Checks for the words of git, libgit2, Gitea, GitLab and GitHub for a branch that moved meanwhile.
///
/// Only the status line counts: the output of a hook is free text, and could say anything.
fn is_lost_race(status: &str) -> bool {
    const WORDS: [&str; 10] = [
        "cannot lock ref",
        "failed to lock",
        "incorrect old value",
        "fetch first",
        "failed to update ref",
        "non-fast-forward",
        "reference already exists",
        "reference does not exist",
        "old reference value does not match",
        "stale info",
    ];
    let status = status.to_lowercase();
    WORDS.iter().any(|words| status.contains(words))
}

fn kind(text: &str) -> RefusalKind {
    // A pack that is too large fails at being unpacked, too, and stays too large.
    const TABLE: [(RefusalKind, &[&str]); 4] = [
        (
            RefusalKind::Quota,
            &["quota", "exceeds", "too large", "that large", "large files detected", "gh001"],
        ),
        (
            RefusalKind::ServerFault,
            &[
                "unpacker error",
                "unpack failed",
                "abnormal exit",
                "internal error",
                "no space left",
            ],
        ),
        (
            RefusalKind::Protected,
            &["protected", "gh006", "gh013", "rule violation", "not allowed to push"],
        ),
        (RefusalKind::Hook, &["hook declined", "hook"]),
    ];
    let row = TABLE.iter().find(|(_, words)| words.iter().any(|word| text.contains(word)));
    row.map_or(RefusalKind::Other, |(kind, _)| *kind)
}

/// Returns one line: the status, then the printed text, without control characters.
fn message(status: &str, printed: &str) -> String {
    let text = if printed.trim().is_empty() {
        status.to_owned()
    } else {
        format!("{status} ({})", printed.trim())
    };
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<&str> = clean.split_whitespace().collect();
    words.join(" ").chars().take(MESSAGE_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(status: &str, printed: &str) -> Option<RefusalKind> {
        match classify(status, printed) {
            PushVerdict::LostRace => None,
            PushVerdict::Refused(refusal) => Some(refusal.kind),
        }
    }

    #[test]
    fn a_branch_that_moved_first_is_a_lost_race() {
        for status in [
            "cannot lock ref 'refs/heads/main': is at 1a2b but expected 3c4d",
            "incorrect old value provided",
            "fetch first",
            "failed to update ref",
            "reference already exists",
        ] {
            assert_eq!(classify(status, ""), PushVerdict::LostRace, "{status}");
        }
    }

    #[test]
    fn a_hook_that_prints_the_words_of_a_lost_race_is_still_a_refusal() {
        assert_eq!(
            kind_of("pre-receive hook declined", "please fetch first"),
            Some(RefusalKind::Hook)
        );
    }

    #[test]
    fn the_kinds_are_told_apart() {
        let gh006 = "error: GH006: Protected branch update failed for refs/heads/main.";
        assert_eq!(kind_of("protected branch hook declined", gh006), Some(RefusalKind::Protected));
        assert_eq!(kind_of("pre-receive hook declined", "no"), Some(RefusalKind::Hook));
        assert_eq!(kind_of("pre-receive hook declined", "over quota"), Some(RefusalKind::Quota));
        assert_eq!(kind_of("unpacker error", ""), Some(RefusalKind::ServerFault));
        assert_eq!(
            kind_of("unpacker error", "fatal: pack exceeds maximum"),
            Some(RefusalKind::Quota)
        );
        assert_eq!(kind_of("shallow update not allowed", ""), Some(RefusalKind::Other));
    }

    #[test]
    fn a_message_is_one_bounded_line_with_the_servers_words_and_a_way_out() {
        let printed = format!("\u{1b}[31mGH006\r\nno{}", "x".repeat(5_000));
        let PushVerdict::Refused(refusal) = classify("declined", &printed) else { panic!() };
        assert!(refusal.message.starts_with("declined ( [31mGH006 no"), "{}", refusal.message);
        assert!(refusal.message.len() <= MESSAGE_LIMIT);
        assert!(refusal.to_string().contains("What to do: let this service's account"));
    }
}
