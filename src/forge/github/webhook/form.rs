//! `application/x-www-form-urlencoded`, as far as a webhook needs it. Pure.

/// The decoded value of the first field of that name.
pub(super) fn field(body: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    body.split(|b| *b == b'&').find_map(|pair| {
        let at = pair.iter().position(|b| *b == b'=')?;
        let (key, value) = pair.split_at(at);
        (decoded(key) == name).then(|| decoded(value.get(1..).unwrap_or_default()))
    })
}

/// `+` is a space and `%41` an `A`; a `%` without two digits stays, as browsers read it.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let (byte, after) = match (first, tail) {
            (b'%', [high, low, after @ ..]) => match byte_of(*high, *low) {
                Some(byte) => (byte, after),
                None => (b'%', tail),
            },
            (b'+', _) => (b' ', tail),
            (other, _) => (*other, tail),
        };
        out.push(byte);
        rest = after;
    }
    out
}

fn byte_of(high: u8, low: u8) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_field_is_found_and_decoded() {
        let body = b"a=1&payload=%7B%22x%22%3A+%22%C3%A4%26%22%7D&payload=2";
        assert_eq!(field(body, b"payload").unwrap(), "{\"x\": \"ä&\"}".as_bytes());
        assert_eq!(field(b"payload=", b"payload").unwrap(), b"");
        assert_eq!(field(b"p%61yload=x", b"payload").unwrap(), b"x");
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(field(b"payload=%&%zz=%", b"payload").unwrap(), b"%");
        assert_eq!(field(b"payload=100%zz", b"payload").unwrap(), b"100%zz");
        assert_eq!(field(b"payload", b"payload"), None);
        assert_eq!(field(b"", b"payload"), None);
    }
}
