//! The end of a container's log, as a failure shows it.

use the_deployer::cluster::failure::{LOG_LINES, LogTail};

const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
const BODY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

fn shown(log: &str) -> String {
    LogTail::of_lines(log, LOG_LINES).lines().join("\n")
}

#[test]
fn a_secret_that_a_colour_splits_is_masked() {
    let (begin, end) = TOKEN.split_at(12);
    for split in ["\x1b[0m", "\x1b[1;31m", "\u{9b}31m", "\x08", "\0", "\u{200b}"] {
        let text = shown(&format!("token \x1b[33m{begin}{split}{end}\x1b[0m\n"));
        assert_eq!(text, format!("token {}", "*".repeat(TOKEN.len())), "{split:?}");
    }
}

#[test]
fn a_private_key_that_begins_above_the_lines_that_are_shown_is_masked() {
    let key = format!("{BODY}\n").repeat(30);
    let log = format!("start\n-----BEGIN PRIVATE KEY-----\n{key}");
    for log in [log.clone(), format!("{log}-----END PRIVATE KEY-----\npanicked\n")] {
        assert!(!shown(&log).contains("MII"), "{}", shown(&log));
    }
}

#[test]
fn a_private_key_whose_beginning_is_lost_is_masked() {
    let log =
        format!("{}-----END RSA PRIVATE KEY-----\npanicked\n", format!("{BODY}\n").repeat(300));
    let text = shown(&log);
    assert!(!text.contains("MII") && text.ends_with("\npanicked"), "{text}");
}

#[test]
fn a_secret_beyond_the_end_of_a_line_that_is_shown_is_masked_before_the_line_is_cut() {
    let text = shown(&format!("{} password={}", "x".repeat(380), "hunter2".repeat(20)));
    assert!(!text.contains("hunter"), "{text}");
    let tail = LogTail::of_lines("a\n\n b \n\t\nc\n", 2);
    assert_eq!(tail.lines(), [" b ", "c"]);
}
