//! Names of objects that are made of two names.

use sha2::{Digest as _, Sha256};

/// The longest name that every kind of object and every label takes.
const LONGEST: usize = 63;
/// Of a hash, so that two names that are cut alike stay apart: 32 bits among an app's few.
const HASH: usize = 8;

/// Kubernetes makes pod names from a workload's name, a template hash and a random part; a
/// longer name is cut, and its pods can no longer be told by it. From `pod-template-hash`
/// (10) and the random part (5) with their hyphens.
pub(crate) const LONGEST_WORKLOAD: usize = LONGEST - 17;

/// `SLUG.PART`: what an app has by that name. A slug has no dot, so no two apps of a namespace
/// come to the same name. Where it would be too long, it is cut, and a part of its hash put behind.
pub(crate) fn of(slug: &str, part: &str) -> String {
    shortened(&format!("{slug}.{part}"), LONGEST)
}

/// `SLUG-PART`, for kinds whose names have no dots.
pub(crate) fn of_two(slug: &str, part: &str) -> String {
    shortened(&format!("{slug}-{part}"), LONGEST)
}

/// What runs an app's pods: the slug, or what is left of a long one.
pub(crate) fn workload(slug: &str) -> String {
    shortened(slug, LONGEST_WORKLOAD)
}

/// What runs the pods of one of an app's live versions.
pub(crate) fn version_workload(slug: &str, version: &str) -> String {
    shortened(&format!("{slug}-{version}"), LONGEST_WORKLOAD)
}

/// The name, or its start and a part of its hash where it is longer than that.
pub(crate) fn shortened(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let start: String = name.chars().take(longest.saturating_sub(HASH + 1)).collect();
    let hash = hex::encode(Sha256::digest(name));
    format!("{}-{}", start.trim_end_matches(['-', '.']), hash.get(..HASH).unwrap_or_default())
}

/// A host as a part of a name: `*` is none.
pub(crate) fn host_part(host: &str) -> String {
    match host.strip_prefix("*.") {
        None => host.to_owned(),
        Some(rest) => {
            let hash = hex::encode(Sha256::digest(host));
            format!("wildcard-{}.{rest}", hash.get(..HASH).unwrap_or_default())
        }
    }
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
        assert_ne!(host_part("*.a.io"), host_part("wildcard.a.io"));
    }

    #[test]
    fn a_long_slug_names_a_workload_whose_pods_can_be_told_by_it() {
        assert_eq!(workload(&"a".repeat(46)), "a".repeat(46));
        let (one, other) = (workload(&"a".repeat(47)), workload(&"a".repeat(63)));
        assert_ne!(one, other);
        for name in [one, other] {
            assert!(is_rfc1123_label(&name) && name.len() == LONGEST_WORKLOAD, "{name}");
        }
    }
}
