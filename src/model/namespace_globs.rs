//! Globs of namespaces, which the service and Argo CD read alike.

/// Checks that the service and Argo CD read a glob alike.
pub fn is_glob(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-*?".contains(&b);
    (1..=63).contains(&text.len()) && text.bytes().all(legal)
}

/// Checks that a glob matches a namespace: `*` is any number of characters, `?` is one.
pub fn matches(glob: &str, namespace: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), namespace.as_bytes());
    // The last star, and how far the text was when it was met: it takes one more each time.
    let (mut at, mut read_at, mut star) = (0, 0, None);
    while read_at < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, read_at));
                at += 1;
            }
            Some(&pattern_byte)
                if pattern_byte == b'?' || text.get(read_at) == Some(&pattern_byte) =>
            {
                at += 1;
                read_at += 1;
            }
            _ => match star {
                Some((star_at, star_read)) => {
                    star = Some((star_at, star_read + 1));
                    (at, read_at) = (star_at + 1, star_read + 1);
                }
                None => return false,
            },
        }
    }
    glob.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

/// Checks that two such globs certainly have no namespace in common: they begin or end differently.
pub fn are_disjoint(one: &str, other: &str) -> bool {
    let is_plain = |glob: &str| !glob.contains(['*', '?']);
    match (is_plain(one), is_plain(other)) {
        (true, _) => !matches(other, one),
        (_, true) => !matches(one, other),
        (false, false) => {
            let wild = ['*', '?'];
            let begin = |glob: &str| glob.split(wild).next().unwrap_or_default().to_owned();
            let end = |glob: &str| glob.rsplit(wild).next().unwrap_or_default().to_owned();
            let (a, b) = (begin(one), begin(other));
            let (y, z) = (end(one), end(other));
            !(a.starts_with(&b) || b.starts_with(&a)) || !(y.ends_with(&z) || z.ends_with(&y))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_characters() {
        for (glob, namespace, expected) in [
            ("kube-*", "kube-system", true),
            ("kube-*", "kubed", false),
            ("*", "a", true),
            ("team-?", "team-1", true),
            ("team-?", "team-12", false),
            ("*-prod", "shop-prod", true),
            ("*-prod", "shop-prod-2", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("devx", "devx", true),
            ("devx", "devx2", false),
        ] {
            assert_eq!(matches(glob, namespace), expected, "{glob} {namespace}");
        }
    }

    #[test]
    fn globs_are_disjoint_where_they_begin_or_end_differently() {
        for (one, other, expected) in [
            ("staging-*", "prod-*", true),
            ("*-staging", "*-prod", true),
            ("prod-*", "prod-*", false),
            ("prod-*", "prod-eu-*", false),
            ("*", "prod", false),
            ("a*", "*b", false),
            ("shop", "cart", true),
            ("shop", "shop", false),
            ("shop", "sh*", false),
            ("team-?", "team-12", true),
        ] {
            assert_eq!(are_disjoint(one, other), expected, "{one} {other}");
            assert_eq!(are_disjoint(other, one), expected, "{other} {one}");
        }
    }
}
