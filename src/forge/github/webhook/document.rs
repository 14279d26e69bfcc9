//! The body of a delivery and the document in it. Pure.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use crate::forge::github::webhook::field::MalformedPayload;

/// The content type of a delivery's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// `application/json`: the body is the document.
    Json,
    /// `application/x-www-form-urlencoded`: the document is the field `payload`.
    Form,
}

impl ContentType {
    /// Returns the content type of that header value, parameters aside; `None` if GitHub never sends it.
    pub fn of(header: &str) -> Option<Self> {
        let essence = header.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/json") {
            Some(Self::Json)
        } else if essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            Some(Self::Form)
        } else {
            None
        }
    }
}

pub(super) fn document(
    content_type: ContentType,
    body: &[u8],
) -> Result<Cow<'_, [u8]>, MalformedPayload> {
    match content_type {
        ContentType::Json => Ok(Cow::Borrowed(body)),
        ContentType::Form => {
            field(body, b"payload").map(Cow::Owned).ok_or(MalformedPayload::NoPayloadField)
        }
    }
}

/// Returns the decoded value of the first field of that name.
pub fn field(body: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    body.split(|b| *b == b'&').find_map(|pair| {
        let at = pair.iter().position(|b| *b == b'=')?;
        let (key, value) = pair.split_at(at);
        (decode(key) == name).then(|| decode(value.get(1..).unwrap_or_default()))
    })
}

/// Decodes a form's text: `+` is a space and `%41` an `A`; a `%` without two digits stays, as browsers read it.
fn decode(text: &[u8]) -> Vec<u8> {
    let parts = text.split(|b| *b == b'+').enumerate();
    let bytes =
        parts.flat_map(|(n, part)| (n > 0).then_some(b' ').into_iter().chain(percent_decode(part)));
    bytes.collect()
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
