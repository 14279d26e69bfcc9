//! The answer of `git receive-pack`, and the branch in its advertisement. Pure. `gitprotocol-pack(5)`, "Report Status"
//! and "Reference Discovery".

use git2::Oid;

use crate::git::transport::failure::Failure;
use crate::git::transport::push::pkt::{Lines, PRINTED_LIMIT, PktLine, StreamEnd};

/// The result of a push that was carried to the server.
#[derive(Debug)]
pub(in crate::git) enum Transfer {
    /// The server's answer, from its first byte.
    Answer(Vec<u8>),
    /// The server said before anything was sent that the branch has moved. Only a server that speaks first can say so.
    Moved,
}

/// A push without an answer.
#[derive(Debug)]
pub(in crate::git) struct TransferError {
    pub(in crate::git) failure: Failure,
    /// True if the pack had begun to go out: the server may have accepted it.
    pub(in crate::git) sent: bool,
}

/// The server's answer to a push of one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PushReport {
    pub(super) word: RefStatus,
    /// The output of hooks and of the server.
    pub(super) printed: Vec<u8>,
}

/// The report about the branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum RefStatus {
    /// The branch was moved.
    Done,
    /// The objects were not taken; why. Nothing was moved.
    NotUnpacked(String),
    /// The branch was not moved; with the reason.
    Not(String),
    /// The answer does not say, or ends before it does.
    #[default]
    None,
}

/// Reads the answer to a push of `reference`.
pub(super) fn read(answer: &[u8], reference: &str) -> PushReport {
    let (status, mut printed) = bands(answer);
    let word = word(&status, reference);
    if word == RefStatus::None {
        let room = PRINTED_LIMIT.saturating_sub(printed.len());
        printed.extend(errors(&status).into_iter().take(room));
    }
    PushReport { word, printed }
}

/// Returns the server's error, if the answer has no report about the branch.
pub(in crate::git) fn words_without_a_report(answer: &[u8], reference: &str) -> Option<String> {
    let PushReport { word, printed } = read(answer, reference);
    let words = String::from_utf8_lossy(&printed);
    (word == RefStatus::None && !words.trim().is_empty()).then(|| words.trim().to_owned())
}

/// Writes the error lines that come in place of an answer. `gitprotocol-pack(5)`, "pkt-line Format".
fn errors(status: &[u8]) -> Vec<u8> {
    let (mut lines, mut texts) = (Lines(status), Vec::new());
    while let Ok(line) = lines.next() {
        if let PktLine::Data(data) = line {
            texts.extend_from_slice(error(data).unwrap_or_default());
        }
    }
    texts
}

fn error(data: &[u8]) -> Option<&[u8]> {
    data.strip_prefix(b"ERR ")
}

/// Returns true if the answer has the report about the branch already, though more of it may come.
pub(in crate::git) fn is_told(answer: &[u8], reference: &str) -> bool {
    read(answer, reference).word != RefStatus::None
}

/// Returns the status and the printed text: on two bands of one stream, or the status alone. The first line decides
/// which, so that no later line changes the meaning of what was read before it.
fn bands(answer: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut status, mut printed) = (Vec::new(), Vec::new());
    let print = |printed: &mut Vec<u8>, text: &[u8]| {
        let room = PRINTED_LIMIT.saturating_sub(printed.len());
        printed.extend(text.iter().take(room));
    };
    let (mut lines, mut banded) = (Lines(answer), false);
    while let Ok(line) = lines.next() {
        let PktLine::Data(data) = line else { continue };
        match data.split_first() {
            Some((1, data)) => status.extend_from_slice(data),
            Some((2 | 3, text)) => print(&mut printed, text),
            // A line of no band: the server gave up, and may say why.
            _ if banded => print(&mut printed, error(data).unwrap_or_default()),
            _ => return (answer.to_vec(), printed),
        }
        banded = true;
    }
    (status, printed)
}

fn word(status: &[u8], reference: &str) -> RefStatus {
    let mut lines = Lines(status);
    let mut unpacked = false;
    loop {
        let text = match lines.next() {
            Ok(PktLine::Data(data)) => String::from_utf8_lossy(data).trim_end().to_owned(),
            Ok(PktLine::Flush) => continue,
            Err(StreamEnd::Whole | StreamEnd::Broken) => return RefStatus::None,
        };
        match text.split_once(' ') {
            Some(("unpack", "ok")) => unpacked = true,
            Some(("unpack", why)) => return RefStatus::NotUnpacked(why.to_owned()),
            Some(("ok", name)) if name == reference && unpacked => return RefStatus::Done,
            Some(("ng", rest)) => match rest.split_once(' ') {
                Some((name, why)) if name == reference => return RefStatus::Not(why.to_owned()),
                _ => {}
            },
            _ => {}
        }
    }
}

/// The reason why an answer is no list of branches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::git) enum InvalidBranchList {
    #[error("no list of branches")]
    Broken,
    /// The server says why.
    #[error("{0}")]
    Said(String),
}

/// Finds the commit of a branch in an advertisement of `receive-pack`, which may begin with a line
/// of its service.
pub(in crate::git) fn find_advertised(
    answer: &[u8],
    reference: &str,
) -> Result<Option<Oid>, InvalidBranchList> {
    let mut lines = Lines(answer);
    let mut has_lines = false;
    loop {
        let data = match lines.next() {
            Ok(PktLine::Data(data)) => data,
            Ok(PktLine::Flush) => continue,
            Err(StreamEnd::Whole) if has_lines => return Ok(None),
            Err(_) => return Err(InvalidBranchList::Broken),
        };
        if let Some(text) = error(data) {
            return Err(InvalidBranchList::Said(String::from_utf8_lossy(text).trim().to_owned()));
        }
        let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        has_lines = true;
        if let Some((id, name)) = text.trim_end().split_once(' ')
            && name == reference
        {
            return Oid::from_str(id).map(Some).map_err(|_| InvalidBranchList::Broken);
        }
    }
}

/// Checks that any answer is read, and that later bytes do not change an outcome that was read before.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    const REFERENCE: &str = "refs/heads/main";
    let Some((cut_at, answer)) = data.split_first() else { return };
    let full_report = read(answer, REFERENCE);
    assert!(
        full_report.printed.len() <= PRINTED_LIMIT,
        "{} bytes printed",
        full_report.printed.len()
    );
    let end = answer.len() * usize::from(*cut_at) / 255;
    let part = answer.get(..end).unwrap_or_default();
    if is_told(part, REFERENCE) {
        assert_eq!(read(part, REFERENCE).word, full_report.word, "told after {end} bytes");
    }
    let _ = words_without_a_report(answer, REFERENCE);
    let _ = find_advertised(answer, REFERENCE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::transport::push::pkt;

    const MAIN: &str = "refs/heads/main";

    fn lines(texts: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for text in texts {
            pkt::write(&mut bytes, format!("{text}\n").as_bytes());
        }
        pkt::flush(&mut bytes);
        bytes
    }

    /// Builds an answer: the status on the first band, cut where a server may cut it; the text on the second.
    fn banded(status: &[u8], text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        pkt::write(&mut bytes, &[&[2], text.as_bytes()].concat());
        for part in status.chunks(7) {
            pkt::write(&mut bytes, &[&[1], part].concat());
        }
        pkt::flush(&mut bytes);
        bytes
    }

    #[test]
    fn the_word_on_our_branch_counts() {
        let cases: [(&[&str], RefStatus); 6] = [
            (&["unpack ok", "ok refs/heads/main"], RefStatus::Done),
            (&["unpack ok", "ok refs/heads/main", "option refname refs/heads/x"], RefStatus::Done),
            (
                &["unpack ok", "ng refs/heads/main hook declined"],
                RefStatus::Not("hook declined".into()),
            ),
            (
                &["unpack unpacker error", "ng refs/heads/main unpacker error"],
                RefStatus::NotUnpacked("unpacker error".into()),
            ),
            (&["unpack ok", "ok refs/heads/other"], RefStatus::None),
            (&["ok refs/heads/main"], RefStatus::None),
        ];
        for (texts, word) in cases {
            let status = lines(texts);
            assert_eq!(read(&status, MAIN).word, word, "{texts:?}");
            let report = read(&banded(&status, "remote: no"), MAIN);
            assert_eq!((report.word, report.printed), (word, b"remote: no".to_vec()), "{texts:?}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_says_nothing() {
        let report = banded(&lines(&["unpack ok", "ok refs/heads/main"]), "hello");
        let words = (0..report.len()).map(|end| read(&report[..end], MAIN).word);
        assert!(words.filter(|word| *word == RefStatus::Done).count() <= 8, "only its last bytes");
        assert_eq!(read(&report[..30], MAIN).word, RefStatus::None);
        assert!(!is_told(&report[..30], MAIN) && is_told(&report, MAIN));
        assert_eq!(read(b"<html>", MAIN).word, RefStatus::None);
    }

    #[test]
    fn what_is_said_in_place_of_a_report_is_kept() {
        let mut dead = Vec::new();
        pkt::write(&mut dead, b"\x03fatal: no space\n");
        let after = [dead.clone(), lines(&["ERR gone"])].concat();
        for (answer, words) in [
            (lines(&["ERR closed for today"]), Some("closed for today")),
            (dead, Some("fatal: no space")),
            (after, Some("fatal: no space\ngone")),
            (banded(&lines(&["unpack ok", "ok refs/heads/main"]), "hello"), None),
            (lines(&["unpack ok"]), None),
        ] {
            assert_eq!(words_without_a_report(&answer, MAIN).as_deref(), words);
        }
    }

    #[test]
    fn what_is_printed_is_bounded() {
        let mut bytes = Vec::new();
        for _ in 0..1000 {
            pkt::write(&mut bytes, &[&[2], "x".repeat(60_000).as_bytes()].concat());
        }
        assert_eq!(read(&bytes, MAIN).printed.len(), PRINTED_LIMIT);
    }

    #[test]
    fn an_advertisement_says_where_the_branch_is() {
        let id = "1".repeat(40);
        let mut bytes = lines(&["# service=git-receive-pack"]);
        bytes.extend(lines(&[
            &format!("{id} refs/heads/a\0report-status delete-refs"),
            &format!("{} {MAIN}", "2".repeat(40)),
        ]));
        assert_eq!(find_advertised(&bytes, "refs/heads/a"), Ok(Some(Oid::from_str(&id).unwrap())));
        assert_eq!(find_advertised(&bytes, MAIN).unwrap().unwrap().to_string(), "2".repeat(40));
        assert_eq!(find_advertised(&bytes, "refs/heads/none"), Ok(None));
        assert_eq!(find_advertised(b"<html>", MAIN), Err(InvalidBranchList::Broken));
        assert_eq!(find_advertised(b"", MAIN), Err(InvalidBranchList::Broken));
        let error = InvalidBranchList::Said("closed for today".to_owned());
        assert_eq!(find_advertised(&lines(&["ERR closed for today"]), MAIN), Err(error));
    }
}
