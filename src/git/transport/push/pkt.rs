//! Lines of git's protocol: four hexadecimal digits of length, then the bytes. Pure.
//! `gitprotocol-common(5)`.

/// The limit of a server's output beside its report, in bytes.
pub(super) const PRINTED_LIMIT: usize = 16 * 1024;

/// The most bytes of a line, its length included.
const LONGEST: usize = 65_520;

/// One line of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PktLine<'a> {
    Data(&'a [u8]),
    /// `0000`: a part ends.
    Flush,
}

/// The end of a stream of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) enum StreamEnd {
    /// All lines were read.
    Whole,
    /// The stream ends within a line, or does not consist of lines.
    Broken,
}

/// Appends a line. A text longer than a line can be is a fault of the service.
pub(super) fn write(to: &mut Vec<u8>, data: &[u8]) {
    let length = data.len() + 4;
    debug_assert!(length <= LONGEST, "a line of {length} bytes");
    to.extend_from_slice(format!("{length:04x}").as_bytes());
    to.extend_from_slice(data);
}

pub(super) fn flush(to: &mut Vec<u8>) {
    to.extend_from_slice(b"0000");
}

/// The lines of an answer.
pub(super) struct Lines<'a>(pub(super) &'a [u8]);

impl<'a> Lines<'a> {
    /// Returns the next line.
    pub(super) fn next(&mut self) -> Result<PktLine<'a>, StreamEnd> {
        if self.0.is_empty() {
            return Err(StreamEnd::Whole);
        }
        let (head, rest) = self.0.split_at_checked(4).ok_or(StreamEnd::Broken)?;
        let head = std::str::from_utf8(head).map_err(|_| StreamEnd::Broken)?;
        let length = usize::from_str_radix(head, 16).map_err(|_| StreamEnd::Broken)?;
        if length < 4 {
            // `0001` and `0002` part messages of a later protocol; they end a part, too.
            self.0 = rest;
            return Ok(PktLine::Flush);
        }
        let (data, rest) = rest.split_at_checked(length - 4).ok_or(StreamEnd::Broken)?;
        self.0 = rest;
        Ok(PktLine::Data(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        write(&mut bytes, b"unpack ok\n");
        flush(&mut bytes);
        assert_eq!(bytes, b"000eunpack ok\n0000");
        let mut lines = Lines(&bytes);
        assert_eq!(lines.next(), Ok(PktLine::Data(b"unpack ok\n")));
        assert_eq!(lines.next(), Ok(PktLine::Flush));
        assert_eq!(lines.next(), Err(StreamEnd::Whole));
    }

    #[test]
    fn what_is_cut_or_foreign_is_broken() {
        for bytes in [&b"00"[..], b"000eunpack", b"<html>", b"fff\xff", b"zzzz", b"+123"] {
            assert_eq!(Lines(bytes).next(), Err(StreamEnd::Broken), "{bytes:?}");
        }
    }
}
