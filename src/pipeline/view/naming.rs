//! Names of objects that are made of two names.

use sha2::{Digest as _, Sha256};

/// The longest name that every kind of object and every label takes.
const LONGEST: usize = 63;
/// Of a hash, so that two names that are cut alike stay apart: 32 bits among an app's few.
const HASH: usize = 8;

/// `SLUG.PART`: what an app has by that name. A slug has no dot, so no two apps of a namespace
/// come to the same name. Where it would be too long, it is cut, and a part of its hash put behind.
pub(crate) fn of(slug: &str, part: &str) -> String {
    let whole = format!("{slug}.{part}");
    if whole.len() <= LONGEST {
        return whole;
    }
    let start: String = whole.chars().take(LONGEST - HASH - 1).collect();
    let hash = hex::encode(Sha256::digest(&whole));
    format!("{}-{}", start.trim_end_matches(['-', '.']), hash.get(..HASH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::is_rfc1123_label;

    #[test]
    fn a_short_name_can_be_read_and_a_long_one_told_apart() {
        assert_eq!(of("my-app", "www.example.com"), "my-app.www.example.com");
        let long = |end: &str| of("my-app", &format!("{}.example{end}.com", "a".repeat(60)));
        assert_ne!(long("1"), long("2"));
        for cut in 40..70 {
            let name = of("my-app", &format!("{}-.b.{}", "a".repeat(cut), "c".repeat(50)));
            let legal = |part: &str| is_rfc1123_label(part) || part.ends_with('-');
            assert!(name.len() <= 63 && name.split('.').all(legal), "{name}");
            assert!(name.ends_with(|c: char| c.is_ascii_alphanumeric()), "{name}");
        }
        assert_ne!(of("a", "b-c.d"), of("a-b", "c.d"));
    }
}
