//! Percent-encoding (RFC 3986, 2.1): a text as a part of a URL, without effect on the rest of it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};

/// Everything but unreserved characters (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The characters that a query must encode: all but the unreserved ones and `/`, `:` and `@`.
const NOT_IN_QUERY: &AsciiSet = &RESERVED.remove(b'/').remove(b':').remove(b'@');
const NOT_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// Encodes one segment of a path, or a value of a query: all but unreserved characters is encoded.
pub fn encode_segment(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Encodes a path: all but unreserved characters and `/` is encoded.
pub fn encode_path(path: impl AsRef<[u8]>) -> String {
    percent_encode(path.as_ref(), NOT_IN_PATH).to_string()
}

/// Encodes a value of a query, with `/`, `:` and `@` as they are (RFC 3986, 3.4), so that people
/// can read it.
pub fn encode_query_value(value: &str) -> String {
    utf8_percent_encode(value, NOT_IN_QUERY).to_string()
}

/// Encodes a path below another; `None` if a segment is empty, `.` or `..`.
pub fn encode_path_below(path: &str) -> Option<String> {
    let path = path.trim_matches('/');
    let stays = !path.split('/').any(|segment| matches!(segment, "" | "." | ".."));
    stays.then(|| encode_path(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_does_not_leave_its_place() {
        assert_eq!(encode_segment("../x#y ~-._"), "..%2Fx%23y%20~-._");
        assert_eq!(encode_path("a folder/ä?#%.yaml"), "a%20folder/%C3%A4%3F%23%25.yaml");
        assert_eq!(encode_path(b"a/\xff"), "a/%FF");
        assert_eq!(encode_query_value("a/b:c@d&e=ü"), "a/b:c@d%26e%3D%C3%BC");
    }

    #[test]
    fn a_path_stays_below_where_it_is_put() {
        assert_eq!(encode_path_below("/a b/c?d/é"), Some("a%20b/c%3Fd/%C3%A9".to_owned()));
        for path in ["", "/", "a//b", "a/../b", ".", "../x"] {
            assert_eq!(encode_path_below(path), None, "{path}");
        }
    }
}
