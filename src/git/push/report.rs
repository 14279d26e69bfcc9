//! What `git receive-pack` answers, and where a branch is by its advertisement. Pure.
//! `gitprotocol-pack(5)`, "Report Status" and "Reference Discovery".

use git2::Oid;

use crate::git::push::PRINTED_LIMIT;
use crate::git::push::pkt::{End, Line, Lines};

/// The server's answer to a push of one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) word: Word,
    /// What hooks and the server printed.
    pub(super) printed: Vec<u8>,
}

/// What became of the branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// It was moved.
    Done,
    /// The objects were not taken; why. Nothing was moved.
    NotUnpacked(String),
    /// It was not moved; why.
    Not(String),
    /// The answer does not say, or ends before it does.
    None,
}

/// Reads the answer to a push of `reference`.
pub(super) fn read(answer: &[u8], reference: &str) -> Report {
    let (status, printed) = bands(answer);
    Report { word: word(&status, reference), printed }
}

/// Whether the answer says already what became of the branch, though more of it may come.
pub(in crate::git) fn is_told(answer: &[u8], reference: &str) -> bool {
    read(answer, reference).word != Word::None
}

/// Status and printed text: on two bands of one stream, or the status alone.
fn bands(answer: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut status, mut printed) = (Vec::new(), Vec::new());
    let mut lines = Lines(answer);
    while let Ok(line) = lines.next() {
        let Line::Data(data) = line else { continue };
        match data.split_first() {
            Some((1, data)) => status.extend_from_slice(data),
            Some((2 | 3, text)) => {
                let room = PRINTED_LIMIT.saturating_sub(printed.len());
                printed.extend(text.iter().take(room));
            }
            _ => return (answer.to_vec(), printed),
        }
    }
    (status, printed)
}

fn word(status: &[u8], reference: &str) -> Word {
    let mut lines = Lines(status);
    let mut unpacked = false;
    loop {
        let text = match lines.next() {
            Ok(Line::Data(data)) => String::from_utf8_lossy(data).trim_end().to_owned(),
            Ok(Line::Flush) => continue,
            Err(End::Whole | End::Broken) => return Word::None,
        };
        match text.split_once(' ') {
            Some(("unpack", "ok")) => unpacked = true,
            Some(("unpack", why)) => return Word::NotUnpacked(why.to_owned()),
            Some(("ok", name)) if name == reference && unpacked => return Word::Done,
            Some(("ng", rest)) => match rest.split_once(' ') {
                Some((name, why)) if name == reference => return Word::Not(why.to_owned()),
                _ => {}
            },
            _ => {}
        }
    }
}

/// Where a branch is by an advertisement of `receive-pack`, which may begin with a line of its
/// service; `Err` where it is none.
pub(in crate::git) fn advertised(answer: &[u8], reference: &str) -> Result<Option<Oid>, End> {
    let mut lines = Lines(answer);
    let mut any = false;
    loop {
        let data = match lines.next() {
            Ok(Line::Data(data)) => data,
            Ok(Line::Flush) => continue,
            Err(End::Whole) if any => return Ok(None),
            Err(_) => return Err(End::Broken),
        };
        let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        any = true;
        if let Some((id, name)) = text.trim_end().split_once(' ')
            && name == reference
        {
            return Oid::from_str(id).map(Some).map_err(|_| End::Broken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::push::pkt;

    const MAIN: &str = "refs/heads/main";

    fn lines(texts: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for text in texts {
            pkt::write(&mut bytes, format!("{text}\n").as_bytes());
        }
        pkt::flush(&mut bytes);
        bytes
    }

    /// The status on the first band, cut where a server may cut it; the text on the second.
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
        let cases: [(&[&str], Word); 6] = [
            (&["unpack ok", "ok refs/heads/main"], Word::Done),
            (&["unpack ok", "ok refs/heads/main", "option refname refs/heads/x"], Word::Done),
            (&["unpack ok", "ng refs/heads/main hook declined"], Word::Not("hook declined".into())),
            (
                &["unpack unpacker error", "ng refs/heads/main unpacker error"],
                Word::NotUnpacked("unpacker error".into()),
            ),
            (&["unpack ok", "ok refs/heads/other"], Word::None),
            (&["ok refs/heads/main"], Word::None),
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
        let whole = banded(&lines(&["unpack ok", "ok refs/heads/main"]), "hello");
        let words = (0..whole.len()).map(|end| read(&whole[..end], MAIN).word);
        assert!(words.filter(|word| *word == Word::Done).count() <= 8, "only its last bytes");
        assert_eq!(read(&whole[..30], MAIN).word, Word::None);
        assert!(!is_told(&whole[..30], MAIN) && is_told(&whole, MAIN));
        assert_eq!(read(b"<html>", MAIN).word, Word::None);
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
        assert_eq!(advertised(&bytes, "refs/heads/a"), Ok(Some(Oid::from_str(&id).unwrap())));
        assert_eq!(advertised(&bytes, MAIN).unwrap().unwrap().to_string(), "2".repeat(40));
        assert_eq!(advertised(&bytes, "refs/heads/none"), Ok(None));
        assert_eq!(advertised(b"<html>", MAIN), Err(End::Broken));
        assert_eq!(advertised(b"", MAIN), Err(End::Broken));
    }
}
