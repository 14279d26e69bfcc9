//! Texts as GitHub takes them. Pure.

/// As GitHub counts a description; a longer one is refused with 422.
pub(super) const DESCRIPTION: usize = 140;

/// At most so many characters, with an ellipsis where something is missing.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// At most so many bytes, with an ellipsis where something is missing.
pub(super) fn cut_bytes(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// A path for a URL: everything but unreserved characters and `/` is escaped.
pub(super) fn escaped(path: &str) -> String {
    path.split('/').map(escaped_part).collect::<Vec<_>>().join("/")
}

/// One part of a path, or a value in a query: everything but unreserved characters is escaped.
pub(super) fn escaped_part(part: &str) -> String {
    use std::fmt::Write as _;
    part.bytes().fold(String::with_capacity(part.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_by_characters_or_by_bytes() {
        assert_eq!(cut("üüü", 3), "üüü");
        assert_eq!(cut("ü üü", 3), "ü…");
        assert_eq!(cut_bytes("üü", 4), "üü");
        let cut = cut_bytes(&"ü".repeat(100), 20);
        assert_eq!(cut, format!("{}…", "ü".repeat(8)));
    }

    #[test]
    fn nothing_in_a_name_gets_out_of_its_place() {
        assert_eq!(escaped("a folder/ä?.yaml"), "a%20folder/%C3%A4%3F.yaml");
        assert_eq!(escaped_part("../x#y"), "..%2Fx%23y");
    }
}
