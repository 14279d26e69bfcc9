//! Paths in Vault's key-value engine, as a policy writes them, and the check of the ones that an app may read.
//!
//! A path becomes part of a policy (HCL), of a template of the Vault agent and of requests to
//! Vault. Its alphabet has nothing that means something in any of them but Vault's own two
//! wildcards: `+` for one whole segment, `*` at the very end for whatever follows.

/// A path that has the form of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultPath<'a>(&'a str);

/// The longest path that is taken; Vault's storage takes longer ones, people do not.
const LONGEST: usize = 500;

impl<'a> VaultPath<'a> {
    /// Reads a path, wildcards included.
    ///
    /// # Errors
    /// The rule of form that it breaks, in one sentence.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.is_empty() || text.len() > LONGEST {
            return Err("a path has 1 to 500 characters");
        }
        if text.starts_with('/') || text.ends_with('/') {
            return Err("a path neither begins nor ends with `/`");
        }
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"-_./+*".contains(&b);
        if !text.bytes().all(legal) {
            return Err("a path has letters, digits, `-`, `_`, `.` and `/`");
        }
        if text.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err("a path has no empty part, no `.` and no `..`");
        }
        wildcards(text).map(|()| Self(text))
    }

    /// Checks that the path names one secret.
    pub fn is_plain(self) -> bool {
        !self.0.contains(['+', '*'])
    }

    /// Checks that everything that the other one matches, this one matches too.
    pub fn covers(self, other: VaultPath<'_>) -> bool {
        let (mut own_segments, mut other_segments) = (self.segments(), other.segments());
        loop {
            match (own_segments.next(), other_segments.next()) {
                (None, None) => return true,
                (Some(our), Some(their)) => match our.strip_suffix('*') {
                    Some(start) => return begins(their, start),
                    None if their.ends_with('*') => return false,
                    None if our != "+" && our != their => return false,
                    None => {}
                },
                _ => return false,
            }
        }
    }

    fn segments(self) -> impl Iterator<Item = &'a str> {
        self.0.split('/')
    }
}

/// Checks that all that a segment can be begins so.
fn begins(segment: &str, start: &str) -> bool {
    let literal = if segment == "+" { "" } else { segment.trim_end_matches('*') };
    literal.starts_with(start)
}

fn wildcards(text: &str) -> Result<(), &'static str> {
    let inner = text.strip_suffix('*').unwrap_or(text);
    if inner.contains('*') {
        return Err("`*` stands only at the very end");
    }
    if text.split('/').any(|segment| segment.contains('+') && segment != "+") {
        return Err("`+` stands only for a whole part: `devx/+/public`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mean_something_elsewhere_is_no_path() {
        for text in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            "a/../b",
            "..",
            "a/.",
            "a b",
            "a\"b",
            "a\nb",
            "a\\b",
            "a${b}",
            "a{{b}}",
            "{{identity.entity.id}}",
            "a#b",
            "a%2fb",
            "a?b",
            "ä",
            "a\0",
            "a*b",
            "*/b",
            "a/*/b",
            "a**",
            "a+/b",
            "a/+b",
            "++",
        ] {
            assert!(VaultPath::parse(text).is_err(), "{text:?}");
        }
        assert!(VaultPath::parse(&"a".repeat(501)).is_err());
    }

    #[test]
    fn vaults_own_wildcards_are_known() {
        for text in ["a", "a/b", "a/*", "a/b*", "a/+/b", "+/b", "*", "a/+", "a.b/c_d-e"] {
            assert!(VaultPath::parse(text).is_ok(), "{text}");
        }
        assert!(VaultPath::parse("a/b").unwrap().is_plain());
        assert!(!VaultPath::parse("a/+").unwrap().is_plain());
    }

    #[test]
    fn a_pattern_covers_another_when_nothing_is_left_over() {
        let covers = |ours, theirs| {
            VaultPath::parse(ours).unwrap().covers(VaultPath::parse(theirs).unwrap())
        };
        for (ours, theirs) in [
            ("devx/*", "devx/a"),
            ("devx/*", "devx/a/b"),
            ("devx/*", "devx/*"),
            ("devx/*", "devx/+/x"),
            ("devx/*", "devx/+"),
            ("*", "a/b"),
            ("*", "+/x"),
            ("+/public/*", "a/public/b"),
            ("+/public/*", "+/public/*"),
            ("a/b*", "a/bc/d"),
            ("a/b*", "a/bc*"),
            ("a/b", "a/b"),
            ("+", "a"),
        ] {
            assert!(covers(ours, theirs), "{ours} covers {theirs}");
        }
        for (ours, theirs) in [
            ("devx/*", "devx"),
            ("devx/*", "devx*"),
            ("devx/*", "devxx/a"),
            ("devx/*", "+/a"),
            ("devx/*", "*"),
            ("+/public/*", "a/private/b"),
            ("+/public/*", "+/*"),
            ("+", "a*"),
            ("+", "a/b"),
            ("a/b", "a/+"),
            ("a/b", "a/b*"),
            ("a/b*", "a/+"),
            ("+/b", "*"),
            ("a/+/c", "a/b*"),
        ] {
            assert!(!covers(ours, theirs), "{ours} does not cover {theirs}");
        }
    }
}
