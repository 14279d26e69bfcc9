//! Traefik's rules: the hosts and path prefixes of one.
//!
//! `Host(`a`) && (PathPrefix(`/x`) || Path(`/y`))` takes `a/x` and `a/y`. Conditions that only narrow a rule
//! (`Headers`, `Method`, `ClientIP`, a negation) are taken for met: two apps on one host and path are a clash even if
//! headers separate them. The paths of a regular expression cannot be listed, and are left out.

/// More alternatives than this are no rule of a person's; the rest is left out.
const MAX: usize = 256;
/// The depth to which parentheses and negations may nest.
const DEEPEST: usize = 32;

/// Reads the pairs of host and path; none where no host is named.
pub(super) fn routes(rule: &str) -> Vec<(String, String)> {
    let mut reader = Reader { rest: rule, depth: 0 };
    let Some(ways) = reader.parse_disjunction().filter(|_| reader.rest.trim().is_empty()) else {
        return Vec::new();
    };
    ways.into_iter().flat_map(Way::pairs).take(MAX).collect()
}

/// The condition of one alternative. `None`: anything.
#[derive(Debug, Clone, Default)]
struct Way {
    hosts: Option<Vec<String>>,
    paths: Option<Vec<String>>,
    /// True for a regular expression, whose paths cannot be listed.
    untold: bool,
}

impl Way {
    fn pairs(self) -> Vec<(String, String)> {
        let Self { hosts, paths, untold } = self;
        // A path that cannot be told is not everything under the host.
        let paths = match (paths, untold) {
            (Some(paths), _) => paths,
            (None, true) => Vec::new(),
            (None, false) => vec!["/".to_owned()],
        };
        let hosts = hosts.unwrap_or_default();
        let pairs = hosts.iter().flat_map(|h| paths.iter().map(|p| (h.clone(), p.clone())));
        pairs.take(MAX).collect()
    }

    /// Joins two alternatives that must both hold at once.
    fn and(&self, other: &Self) -> Self {
        Self {
            hosts: intersect(self.hosts.as_ref(), other.hosts.as_ref(), |a, b| {
                a.eq_ignore_ascii_case(b)
            }),
            paths: narrower(self.paths.as_ref(), other.paths.as_ref()),
            untold: self.untold || other.untold,
        }
    }
}

fn intersect(
    a: Option<&Vec<String>>,
    b: Option<&Vec<String>>,
    same: impl Fn(&str, &str) -> bool,
) -> Option<Vec<String>> {
    match (a, b) {
        (Some(a), Some(b)) => {
            Some(a.iter().filter(|x| b.iter().any(|y| same(x, y))).cloned().collect())
        }
        (value, other_value) => value.or(other_value).cloned(),
    }
}

/// Finds, of two prefixes that must both hold, the longer one.
fn narrower(a: Option<&Vec<String>>, b: Option<&Vec<String>>) -> Option<Vec<String>> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b).cloned() };
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
    let longer =
        pairs.filter_map(|(x, y)| match (x.starts_with(y.as_str()), y.starts_with(x.as_str())) {
            (true, _) => Some(x.clone()),
            (false, true) => Some(y.clone()),
            (false, false) => None,
        });
    Some(longer.take(MAX).collect())
}

struct Reader<'r> {
    rest: &'r str,
    depth: usize,
}

impl Reader<'_> {
    /// Parses `a || b`.
    fn parse_disjunction(&mut self) -> Option<Vec<Way>> {
        let mut ways = self.parse_conjunction()?;
        while self.take("||") {
            ways.extend(self.parse_conjunction()?);
        }
        ways.truncate(MAX);
        Some(ways)
    }

    /// Parses `a && b`: each alternative of one with each of the other.
    fn parse_conjunction(&mut self) -> Option<Vec<Way>> {
        let mut ways = self.parse_term()?;
        while self.take("&&") {
            let next_ways = self.parse_term()?;
            let pairs = ways.iter().flat_map(|a| next_ways.iter().map(|b| a.and(b)));
            ways = pairs.take(MAX).collect();
        }
        Some(ways)
    }

    /// Parses `!a`, `(a)`, or a matcher.
    fn parse_term(&mut self) -> Option<Vec<Way>> {
        self.depth += 1;
        let ways = if self.depth > DEEPEST { None } else { self.inner() };
        self.depth -= 1;
        ways
    }

    fn inner(&mut self) -> Option<Vec<Way>> {
        if self.take("!") {
            self.parse_term()?;
            return Some(vec![Way::default()]);
        }
        if !self.take("(") {
            return self.matcher();
        }
        let inner = self.parse_disjunction();
        inner.filter(|_| self.take(")"))
    }

    /// Parses ``Name(`value`, `value`)``.
    fn matcher(&mut self) -> Option<Vec<Way>> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric())?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let values = self.values()?;
        let way = match name {
            "Host" | "HostHeader" => Way { hosts: Some(values), ..Way::default() },
            "PathPrefix" | "Path" => Way { paths: Some(values), ..Way::default() },
            "HostRegexp" => match values.iter().map(|value| wildcard(value)).collect() {
                Some(hosts) => Way { hosts: Some(hosts), ..Way::default() },
                None => Way { untold: true, ..Way::default() },
            },
            "PathRegexp" => Way { untold: true, ..Way::default() },
            "" => return None,
            _ => Way::default(),
        };
        Some(vec![way])
    }

    fn values(&mut self) -> Option<Vec<String>> {
        let mut values = Vec::new();
        if !self.take("(") {
            return None;
        }
        while !self.take(")") {
            values.push(self.value()?);
            if !self.take(",") {
                return self.take(")").then_some(values);
            }
        }
        Some(values)
    }

    /// Parses a text in backticks or quotes; in quotes a backslash keeps the next character.
    fn value(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        let quote = self.rest.chars().next().filter(|c| matches!(c, '`' | '"' | '\''))?;
        let inner = self.rest.get(1..)?;
        let mut value = String::new();
        let mut chars = inner.char_indices();
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.rest = inner.get(at + 1..)?;
                return Some(value);
            }
            match c {
                '\\' if quote != '`' => value.extend(chars.next().map(|(_, escaped)| escaped)),
                c => value.push(c),
            }
        }
        None
    }

    fn take(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

/// Reads `*.example.com` from the expression that the service writes for it; `None` for any other.
fn wildcard(expression: &str) -> Option<String> {
    let rest = expression.strip_prefix(r"^[^.]+\.")?.strip_suffix('$')?;
    let host = rest.replace(r"\.", ".");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    host.chars().all(is_plain).then(|| format!("*.{host}"))
}

/// Checks that any rule is read, and gives no more pairs than [`MAX`].
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    let Ok(rule) = std::str::from_utf8(data) else { return };
    let pairs = routes(rule);
    assert!(pairs.len() <= MAX, "{} pairs", pairs.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_pairs(rule: &str) -> String {
        let pairs = routes(rule).into_iter().map(|(host, path)| format!("{host}{path}"));
        pairs.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn hosts_and_paths_are_multiplied_out() {
        for (rule, expected) in [
            ("Host(`a`)", "a/"),
            ("Host(`a`) && PathPrefix(`/x`)", "a/x"),
            ("Host(`a`) || Host(`b`) && PathPrefix(`/x`)", "a/ b/x"),
            ("(Host(`a`) || Host(`b`)) && PathPrefix(`/x`)", "a/x b/x"),
            ("Host(`a`, `b`)&&(PathPrefix(`/x`)||Path(`/y`))", "a/x b/x a/y b/y"),
            ("PathPrefix(\"/x\") && Host('a')", "a/x"),
            ("Host(`a`) && PathPrefix(`/x`) && PathPrefix(`/x/y`)", "a/x/y"),
            ("Host(`a`) && PathPrefix(`/x`) && PathPrefix(`/y`)", ""),
            ("Host(`a`) && Host(`b`)", ""),
            ("Host(`a`) && Headers(`X-A`, `b`)", "a/"),
            ("Host(`a`) && Method(`GET`) && !PathPrefix(`/private`)", "a/"),
            ("!Host(`a`)", ""),
            ("PathPrefix(`/x`)", ""),
            ("HostRegexp(`.+`)", ""),
            (r"HostRegexp(`^[^.]+\.b\.io$`) && PathPrefix(`/x`)", "*.b.io/x"),
            (r"HostRegexp(`^[^.]+\.b(c|d)$`)", ""),
            ("Host(`a`) && PathRegexp(`^/x`)", ""),
        ] {
            assert_eq!(format_pairs(rule), expected, "{rule}");
        }
    }

    #[test]
    fn what_is_no_rule_takes_nothing() {
        for rule in [
            "",
            "Host",
            "Host(",
            "Host(`a`",
            "Host(a)",
            "Host(`a`) &&",
            "Host(`a`))",
            "&& Host(`a`)",
            "Host(`a`) Host(`b`)",
            "(Host(`a`)",
            "(`a`)",
            &"(".repeat(10_000),
            &"!".repeat(1_000_000),
        ] {
            assert_eq!(format_pairs(rule), "", "{rule}");
        }
        let many = vec!["(Host(`a`)||Host(`b`))"; 20].join("&&");
        assert!(routes(&many).len() <= MAX);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(Host|PathPrefix|\\(|\\)|`a`|é|&&|\\|\\||!|,| |\"\\\\){0,30}") {
            let _ = routes(&text);
        }
    }
}
