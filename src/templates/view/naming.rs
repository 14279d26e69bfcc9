//! Names of objects that are joined from two names; also of those outside the app's namespace, in Vault and in a
//! cloud's project.

use sha2::{Digest as _, Sha256};

use crate::model::id::{AppKey, TargetName};

/// The longest name that every kind of object and every label takes.
const LONGEST: usize = 63;
/// The length of a hash, so that two names that are cut alike differ: 32 bits among an app's few.
const HASH: usize = 8;

/// The limit of a workload's name. Kubernetes makes pod names from a workload's name, a template hash and a random
/// part; a longer name is cut, and its pods can no longer be recognised by it. From `pod-template-hash` (10) and the
/// random part (5) with their hyphens.
pub(crate) const LONGEST_WORKLOAD: usize = LONGEST - 17;

/// Joins a slug and the name of a part of the app to `SLUG.PART`. A slug has no dot, so no two apps of a namespace get
/// the same name. A name that would be too long is cut, with a part of its hash at the end.
pub(crate) fn join_name(slug: &str, part: &str) -> String {
    shorten_name(&format!("{slug}.{part}"), LONGEST)
}

/// Joins two names to `SLUG-PART`, for kinds whose names have no dots.
pub(crate) fn of_two(slug: &str, part: &str) -> String {
    shorten_name(&format!("{slug}-{part}"), LONGEST)
}

/// Names the workload of an app's pods: the slug, or the beginning of a long one.
pub(crate) fn workload(slug: &str) -> String {
    shorten_name(slug, LONGEST_WORKLOAD)
}

/// Names the workload of one of an app's live versions, or of one of its processes.
pub(crate) fn version_workload(slug: &str, version: &str) -> String {
    shorten_name(&format!("{slug}-{version}"), LONGEST_WORKLOAD)
}

/// Returns the name, or its start and a part of its hash where it is longer than that.
pub(crate) fn shorten_name(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let start: String = name.chars().take(longest.saturating_sub(HASH + 1)).collect();
    format!("{}-{}", start.trim_end_matches(['-', '.']), hash(name, HASH))
}

/// Writes a host as a part of a name: `*` is none.
pub(crate) fn host_part(host: &str) -> String {
    match host.strip_prefix("*.") {
        None => host.to_owned(),
        Some(rest) => format!("wildcard-{}.{rest}", hash(host, HASH)),
    }
}

/// The number of hexadecimal digits of the hash at the end of a name outside the app's namespace. Joined with `-`,
/// `a-b` in `c` and `b` in `c-a` read alike, and a long name is cut; 64 bits keep them apart even where an attacker
/// looks for two apps of the same name, to get at the other's rights.
const UNIQUE_HASH: usize = 16;

/// Makes a name of at most so many characters that no other app, and the app on no other target,
/// has: lower-case letters, digits and `-`, beginning with a letter as the slug does.
pub(crate) fn unique(target: &TargetName, app: &AppKey, longest: usize) -> String {
    let AppKey { namespace, slug } = app;
    let readable = format!("{slug}-{namespace}");
    let shortened: String =
        readable.chars().take(longest.saturating_sub(UNIQUE_HASH + 1)).collect();
    let hash = hash(&format!("{target}/{namespace}/{slug}"), UNIQUE_HASH);
    format!("{}-{hash}", shortened.trim_end_matches('-'))
}

/// Computes the first hexadecimal digits of a text's hash.
pub(super) fn hash(text: &str, digits: usize) -> String {
    let mut hash = hex::encode(Sha256::digest(text));
    hash.truncate(digits);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{Namespace, Slug, is_rfc1123_label};

    #[test]
    fn a_short_name_can_be_read_and_a_long_one_told_apart() {
        assert_eq!(join_name("my-app", "www.example.com"), "my-app.www.example.com");
        let long = |end: &str| join_name("my-app", &format!("{}.example{end}.com", "a".repeat(60)));
        assert_ne!(long("1"), long("2"));
        for length in 40..70 {
            let name =
                join_name("my-app", &format!("{}-.b.{}", "a".repeat(length), "c".repeat(50)));
            let legal = |part: &str| is_rfc1123_label(part) || part.ends_with('-');
            assert!(name.len() <= 63 && name.split('.').all(legal), "{name}");
            assert!(name.ends_with(|c: char| c.is_ascii_alphanumeric()), "{name}");
        }
        assert_ne!(join_name("a", "b-c.d"), join_name("a-b", "c.d"));
        assert_ne!(host_part("*.a.io"), host_part("wildcard.a.io"));
    }

    #[test]
    fn a_long_slug_names_a_workload_whose_pods_can_be_told_by_it() {
        assert_eq!(workload(&"a".repeat(46)), "a".repeat(46));
        let (shorter, longer) = (workload(&"a".repeat(47)), workload(&"a".repeat(63)));
        assert_ne!(shorter, longer);
        for name in [shorter, longer] {
            assert!(is_rfc1123_label(&name) && name.len() == LONGEST_WORKLOAD, "{name}");
        }
    }

    fn app(namespace: &str, slug: &str) -> AppKey {
        AppKey { namespace: Namespace::parse(namespace).unwrap(), slug: Slug::parse(slug).unwrap() }
    }

    #[test]
    fn a_name_is_the_same_each_time_and_nobody_elses() {
        let target = |name: &str| TargetName::parse(name).unwrap();
        let unique_name = unique(&target("prod"), &app("devx", "my-app"), 30);
        assert_eq!(unique_name, "my-app-devx-e7a781e961a732ea");
        let other_names = [
            unique(&target("prod"), &app("app-devx", "my"), 30),
            unique(&target("prod"), &app("devx", "my-app-2"), 30),
            unique(&target("stage"), &app("devx", "my-app"), 30),
        ];
        assert!(!other_names.contains(&unique_name), "{other_names:?}");
    }

    #[test]
    fn a_long_name_is_cut_and_stays_legal() {
        let target = TargetName::parse("t").unwrap();
        let long = |end: &str| app("n", &format!("a-rather-lo-{}{end}", "x".repeat(40)));
        let (first, second) = (unique(&target, &long("1"), 30), unique(&target, &long("2"), 30));
        assert_ne!(first, second);
        for name in [first, second] {
            assert!(name.len() <= 30 && is_rfc1123_label(&name), "{name}");
            assert!(!name.contains("--"), "{name}");
        }
    }
}
