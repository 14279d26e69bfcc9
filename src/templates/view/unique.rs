//! Names of things that are not in the app's namespace: in Vault, in a cloud's project.

use sha2::{Digest as _, Sha256};

use crate::model::id::{AppKey, TargetName};

/// Hexadecimal digits of the hash at a name's end. Joined with `-`, `a-b` in `c` and `b` in `c-a`
/// read alike, and what is long is cut; 64 bits keep them apart even where somebody looks for two
/// apps of the same name, to get at the other's rights.
const HASH: usize = 16;

/// A name of at most so many characters that no other app, and the app on no other target, has:
/// lower-case letters, digits and `-`, beginning with a letter as the slug does.
pub(crate) fn name(target: &TargetName, app: &AppKey, longest: usize) -> String {
    let AppKey { namespace, slug } = app;
    let hash = hex::encode(Sha256::digest(format!("{target}/{namespace}/{slug}")));
    let readable = format!("{slug}-{namespace}");
    let cut: String = readable.chars().take(longest.saturating_sub(HASH + 1)).collect();
    format!("{}-{}", cut.trim_end_matches('-'), hash.get(..HASH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{Namespace, Slug};

    fn app(namespace: &str, slug: &str) -> AppKey {
        AppKey { namespace: Namespace::parse(namespace).unwrap(), slug: Slug::parse(slug).unwrap() }
    }

    #[test]
    fn a_name_is_the_same_each_time_and_nobody_elses() {
        let target = |name: &str| TargetName::parse(name).unwrap();
        let one = name(&target("prod"), &app("devx", "my-app"), 30);
        assert_eq!(one, "my-app-devx-e7a781e961a732ea");
        let others = [
            name(&target("prod"), &app("app-devx", "my"), 30),
            name(&target("prod"), &app("devx", "my-app-2"), 30),
            name(&target("stage"), &app("devx", "my-app"), 30),
        ];
        assert!(!others.contains(&one), "{others:?}");
    }

    #[test]
    fn a_long_name_is_cut_and_stays_legal() {
        let target = TargetName::parse("t").unwrap();
        let long = |end: &str| app("n", &format!("a-rather-lo-{}{end}", "x".repeat(40)));
        let (one, other) = (name(&target, &long("1"), 30), name(&target, &long("2"), 30));
        assert_ne!(one, other);
        for name in [one, other] {
            assert!(name.len() <= 30 && crate::model::id::is_rfc1123_label(&name), "{name}");
            assert!(!name.contains("--"), "{name}");
        }
    }
}
