//! The difference between two versions of a folder, in git's format for deltas.
//!
//! Versions of a folder have a beginning and an end in common, and twenty bytes between them that do not compress. So
//! no search is needed, and the sent bytes do not grow with the folder. Pure.

/// The bytes below which a folder is sent whole: it is as small as a difference.
const SMALL: usize = 128;
/// The most bytes that one copy can name.
const COPY: usize = 0x00ff_ffff;
/// The most bytes that one insertion can hold.
const INSERT: usize = 127;

/// Returns the difference, if it is less than half of the whole.
pub(in crate::git) fn compute_delta(former: &[u8], now: &[u8]) -> Option<Vec<u8>> {
    if now.len() < SMALL {
        return None;
    }
    let start = common(former.iter(), now.iter());
    let (former_rest, now_rest) = (former.get(start..)?, now.get(start..)?);
    let end = common(former_rest.iter().rev(), now_rest.iter().rev());
    let mut delta = Vec::new();
    size(&mut delta, former.len());
    size(&mut delta, now.len());
    copy(&mut delta, 0, start);
    insert(&mut delta, now_rest.get(..now_rest.len() - end)?);
    copy(&mut delta, former.len() - end, end);
    (delta.len() < now.len() / 2).then_some(delta)
}

fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

/// Writes a size: seven bits a byte, the lowest first.
fn size(delta: &mut Vec<u8>, mut size: usize) {
    loop {
        let low = low_byte(size) & 0x7f;
        size >>= 7;
        if size == 0 {
            return delta.push(low);
        }
        delta.push(low | 0x80);
    }
}

/// Copies of the former version: offset and length, of which zero bytes are left out.
fn copy(delta: &mut Vec<u8>, mut from: usize, mut length: usize) {
    while length > 0 {
        let part = length.min(COPY);
        let at = delta.len();
        let mut word = 0x80;
        delta.push(word);
        let bytes = (0..4).map(|n| low_byte(from >> (8 * n)));
        for (n, byte) in bytes.chain((0..3).map(|n| low_byte(part >> (8 * n)))).enumerate() {
            if byte != 0 {
                word |= 1 << n;
                delta.push(byte);
            }
        }
        if let Some(first) = delta.get_mut(at) {
            *first = word;
        }
        from += part;
        length -= part;
    }
}

fn insert(delta: &mut Vec<u8>, bytes: &[u8]) {
    for part in bytes.chunks(INSERT) {
        delta.push(low_byte(part.len()));
        delta.extend_from_slice(part);
    }
}

fn low_byte(number: usize) -> u8 {
    u8::try_from(number & 0xff).expect("eight bits are a byte")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies the difference as a reader does, as the format's description says.
    fn applied(former: &[u8], delta: &[u8]) -> Vec<u8> {
        let mut rest = delta;
        let mut next = || {
            let byte = rest[0];
            rest = &rest[1..];
            byte
        };
        let mut number = || {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = next();
                value |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        };
        assert_eq!(number(), former.len());
        let length = number();
        let mut out = Vec::new();
        while out.len() < length {
            let word = next();
            if word < 0x80 {
                out.extend((0..word).map(|_| next()));
                continue;
            }
            let mut bytes = |bits: std::ops::Range<u32>| {
                let first = bits.start;
                bits.filter(|n| word & (1 << n) != 0)
                    .fold(0, |value, n| value | (usize::from(next()) << (8 * (n - first))))
            };
            let (from, size) = (bytes(0..4), bytes(4..7));
            out.extend_from_slice(&former[from..][..size]);
        }
        out
    }

    #[test]
    fn a_difference_leads_from_one_version_to_the_other() {
        let former: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        for (at, gone, new) in
            [(0, 20, 20), (100_000, 20, 20), (199_980, 20, 20), (70_000, 0, 300), (5, 400, 0)]
        {
            let mut now = former.clone();
            now.splice(at..at + gone, std::iter::repeat_n(255, new));
            let delta = compute_delta(&former, &now).unwrap();
            assert!(delta.len() < 40 + new + new / 60, "{}", delta.len());
            assert!(applied(&former, &delta) == now, "{at}");
        }
    }

    #[test]
    fn sizes_beyond_one_copy_are_copied_in_parts() {
        let former = vec![7; COPY * 2 + 5];
        let mut now = former.clone();
        now.push(8);
        assert!(applied(&former, &compute_delta(&former, &now).unwrap()) == now);
    }

    #[test]
    fn what_has_little_in_common_is_sent_whole() {
        assert_eq!(compute_delta(&[1; 300], &[2; 300]), None);
        assert_eq!(compute_delta(&[1; 100], &[1; 100]), None);
        assert!(compute_delta(&[1; 300], &[1; 300]).is_some());
    }
}
